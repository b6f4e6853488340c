//! Compares the work tree with the head.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustix::fs::{FileType, Stat};

use crate::domain::file_name::is_collection_file;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::disk::stamp::kind;
use crate::store::git::index::file;
use crate::store::git::index::git_index::UnreadableIndex;
use crate::store::git::object::tree::RawTree;
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::refs::GitHead;
use crate::store::git::repo::refs::branch::{Branch, DETACHED};
use crate::store::git::worktree::scan::conversion::{is_checkout, may_be_converted};
use crate::store::git::worktree::scan::folder::{Folder, FoundFolder, is_shortage, is_unread};
use crate::store::git::worktree::scan::listing::{ListedName, list};
use crate::store::git::worktree::scan::open_writers::OpenWriters;
use crate::store::git::worktree::scan::stat_cache::StatCache;
use crate::store::{
    Edit, FILE_BYTES_KEPT_MAX, GitLocks, Paths, Special, StoreError, WorkTree, WorkTreeEntry,
};

/// How long git may take from the index to `HEAD` or the branch; both are flushed in between.
const CHECKOUT_TIME_MAX: Duration = Duration::from_millis(100);

/// The settings and caches of scans of the work tree.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) stat_cache: StatCache,
    // `None` if the repository is only read.
    pub(crate) open_writers: Option<OpenWriters>,
    /// How long a fresh index may be half of a checkout.
    pub(crate) checkout_time_max: Duration,
}

impl Scan {
    /// Creates a scan with empty caches; `writes` says whether the repository is served.
    pub(crate) fn new(writes: bool) -> Self {
        Self {
            stat_cache: StatCache::default(),
            open_writers: writes.then(OpenWriters::default),
            checkout_time_max: CHECKOUT_TIME_MAX,
        }
    }

    pub(crate) fn compare(
        &mut self,
        branch: &Branch,
        head: &RawTree,
        paths: Paths<'_>,
        locks: GitLocks,
    ) -> Result<WorkTree, StoreError> {
        let layout = &branch.layout;
        if let Some(why) = unavailable_reason(branch)? {
            return Ok(WorkTree::Unavailable(why));
        }
        let is_in_the_way = || locks == GitLocks::Respect && is_busy(layout);
        if is_in_the_way() {
            return Ok(WorkTree::Busy);
        }
        let (mut edits, unfinished) = match Folder::collections(layout, false)? {
            FoundFolder::Folder(folder) => {
                let (mut edits, unfinished) = self.edits(&folder, head, paths)?;
                self.forget_converted(layout, &folder, head, &mut edits)?;
                (edits, unfinished)
            }
            FoundFolder::Nothing => (all_gone(head, paths), BTreeMap::new()),
            FoundFolder::Obstacle(path) => {
                let root = layout.work_tree.as_deref().unwrap_or(&path);
                let inside = path.strip_prefix(root).unwrap_or(&path);
                return Ok(WorkTree::Unavailable(format!(
                    "`{}` is no folder, and links are not followed",
                    inside.display()
                )));
            }
        };
        if edits.iter().any(|edit| edit.current == WorkTreeEntry::Deleted)
            && let Some(why) = forget_skipped(layout, &mut edits)?
        {
            return Ok(WorkTree::Unavailable(why));
        }
        // A checkout that has begun meanwhile has changed files in a way that the head does not explain.
        if is_in_the_way() || unavailable_reason(branch)?.is_some() {
            return Ok(WorkTree::Busy);
        }
        Ok(WorkTree::Available { edits, unfinished, operation_in_progress: operation_in_progress(layout) })
    }

    /// Removes what is not an edit: files that git converted when it checked them out, and files that are too large to
    /// be read whole and are checkouts by the index.
    fn forget_converted(
        &mut self,
        layout: &Layout,
        folder: &Folder,
        head: &RawTree,
        edits: &mut Vec<Edit>,
    ) -> Result<(), StoreError> {
        let is_candidate = |edit: &Edit| match &edit.current {
            WorkTreeEntry::File { bytes, .. } => {
                let may_be_unread = bytes.len() == FILE_BYTES_KEPT_MAX;
                head.get(edit.name.as_bytes()).is_some() && (may_be_unread || may_be_converted(bytes))
            }
            WorkTreeEntry::Deleted | WorkTreeEntry::Special(_) => false,
        };
        if !edits.iter().any(is_candidate) {
            return Ok(());
        }
        let Some(index) = file::read(&layout.git_dir.join("index"))? else { return Ok(()) };
        let mut kept = Vec::with_capacity(edits.len());
        for edit in edits.drain(..) {
            let committed = head.get(edit.name.as_bytes()).filter(|pointer| pointer.is_file());
            let converted = match (&edit.current, committed, folder.stat(&edit.name)?) {
                (WorkTreeEntry::File { blob, bytes }, Some(committed), Some(stat)) => {
                    let path = layout.path_in_repository(&edit.name);
                    let is_checkout = if is_unread(&stat) {
                        index.is_checkout(&path, committed.blob(), &stat)
                    } else {
                        is_checkout(&index, &path, committed.blob(), &stat, bytes)?
                    };
                    is_checkout.then(|| (committed.blob(), *blob))
                }
                _ => None,
            };
            match converted {
                Some((oid, bytes)) => self.stat_cache.note_converted(&edit.name, oid, bytes),
                None => kept.push(edit),
            }
        }
        *edits = kept;
        Ok(())
    }

    /// Returns what differs from the head, and which files were being written.
    fn edits(
        &mut self,
        folder: &Folder,
        head: &RawTree,
        paths: Paths<'_>,
    ) -> Result<(Vec<Edit>, BTreeMap<String, Duration>), StoreError> {
        let names = match paths {
            Paths::All => list(folder)?,
            // Only names of the folder itself are looked at, whatever the caller asks for.
            Paths::Only(names) => {
                let own = names.iter().filter(|name| is_collection_file(name) && !name.contains(['/', '\0']));
                let own: BTreeSet<_> = own.collect();
                own.into_iter().map(|name| ListedName::find(folder, head, name)).collect::<Result<_, _>>()?
            }
        };
        if let Some(open_writers) = &mut self.open_writers {
            open_writers.begin(folder);
        }
        let mut edits = Vec::new();
        for name in &names {
            if let Some(now) = self.edit(folder, head, name)? {
                edits.push(Edit { name: name.shown.clone(), current: now });
            }
        }
        let unfinished = self.unfinished(folder, &names, &edits);
        if matches!(paths, Paths::All) {
            let is_there =
                |name: &str| names.binary_search_by(|there| there.shown.as_str().cmp(name)).is_ok();
            self.stat_cache.retain(is_there);
            let gone = collection_files(head).filter(|name| !is_there(name));
            edits.extend(gone.map(|name| Edit { name, current: WorkTreeEntry::Deleted }));
            edits.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
        Ok((edits, unfinished))
    }

    /// Returns which of the files that were just read were being written, and for how long. Names and edits are in the
    /// same order.
    fn unfinished(
        &mut self,
        folder: &Folder,
        names: &[ListedName],
        edits: &[Edit],
    ) -> BTreeMap<String, Duration> {
        let Some(open_writers) = &mut self.open_writers else { return BTreeMap::new() };
        open_writers.end();
        let is_edit = |name: &ListedName| edits.binary_search_by(|edit| edit.name.cmp(&name.shown)).is_ok();
        let unfinished = |name: &ListedName| {
            Some((name.shown.clone(), open_writers.unfinished(folder, name, || is_edit(name))?))
        };
        names.iter().filter_map(unfinished).collect()
    }

    fn edit(
        &mut self,
        folder: &Folder,
        head: &RawTree,
        name: &ListedName,
    ) -> Result<Option<WorkTreeEntry>, StoreError> {
        let committed = name.in_head(head);
        let Some(stat) = folder.stat(name.os())? else {
            self.stat_cache.forget(&name.shown);
            return Ok(committed.map(|_| WorkTreeEntry::Deleted));
        };
        let unexpected = |what| {
            // What is not a file in the head either is not an edit.
            let expected = committed.is_some_and(|pointer| !pointer.is_file());
            (!expected).then_some(WorkTreeEntry::Special(what))
        };
        if let Some(what) = special(&stat) {
            return Ok(unexpected(what));
        }
        let committed = committed.filter(|pointer| pointer.is_file()).map(|pointer| pointer.blob());
        if committed.is_some() && self.stat_cache.find(&name.shown, &stat) == committed {
            return Ok(None);
        }
        // If it can't be read, nothing is known of it.
        self.stat_cache.forget(&name.shown);
        let content = match folder.read(name.os()) {
            Ok(Some(content)) => content,
            Err(error) if is_shortage(&error) => return Err(error),
            // A file that the disk has lost affects only itself.
            Ok(None) | Err(_) => return vanished(folder, head, name, unexpected),
        };
        self.stat_cache.keep(&name.shown, &content);
        let is_edit = committed != Some(content.oid);
        Ok(is_edit.then_some(WorkTreeEntry::File { blob: content.oid, bytes: content.bytes }))
    }
}

/// Removes deletions of files that git was told to leave out of the work tree: by `git update-index --skip-worktree`,
/// or by `git sparse-checkout` while the service runs, which refuses to start then. Returns the reason if the index is
/// of an unsupported kind, so that they are unknown.
fn forget_skipped(layout: &Layout, edits: &mut Vec<Edit>) -> Result<Option<String>, StoreError> {
    let path = layout.git_dir.join("index");
    match file::parse(&path, read_if_there(&path)?) {
        Ok(index) => {
            edits.retain(|edit| {
                edit.current != WorkTreeEntry::Deleted
                    || !index.is_skipped(&layout.path_in_repository(&edit.name))
            });
            Ok(None)
        }
        Err(error @ UnreadableIndex::Variant(_)) => Ok(Some(error.to_string())),
        Err(UnreadableIndex::Damaged) => Ok(None),
    }
}

/// Returns why the work tree does not show the branch; `None` if it does.
pub(crate) fn unavailable_reason(branch: &Branch) -> Result<Option<String>, StoreError> {
    let layout = &branch.layout;
    if layout.work_tree.is_none() {
        return Ok(Some("the repository is bare".to_owned()));
    }
    Ok(match layout.head()? {
        GitHead::Ref(name) if name == branch.name => None,
        GitHead::Ref(name) => {
            Some(format!("the branch `{}` is checked out", name.strip_prefix("refs/heads/").unwrap_or(&name)))
        }
        GitHead::Detached(_) if branch.name == DETACHED => None,
        GitHead::Detached(_) => Some(match operation_in_progress(layout) {
            Some(what) => format!("HEAD is detached in the middle of {what}"),
            None => "HEAD is detached".to_owned(),
        }),
    })
}

fn is_busy(layout: &Layout) -> bool {
    ["index.lock", "HEAD.lock"].iter().any(|lock| layout.git_dir.join(lock).symlink_metadata().is_ok())
}

/// The files that git keeps beside the index during an operation, with the name of the operation
/// (`wt_status_get_state` in git's `wt-status.c`).
pub(crate) const OPERATION_FILES: [(&str, &str); 6] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
];

/// Returns the operation that `git status` would report.
fn operation_in_progress(layout: &Layout) -> Option<&'static str> {
    OPERATION_FILES.iter().find(|(file, _)| layout.git_dir.join(file).exists()).map(|(_, what)| *what)
}

fn all_gone(head: &RawTree, paths: Paths<'_>) -> Vec<Edit> {
    let names: Vec<String> = match paths {
        Paths::All => collection_files(head).collect(),
        Paths::Only(names) => {
            let wanted: BTreeSet<_> = names.iter().collect();
            collection_files(head).filter(|name| wanted.contains(name)).collect()
        }
    };
    names.into_iter().map(|name| Edit { name, current: WorkTreeEntry::Deleted }).collect()
}

fn collection_files(head: &RawTree) -> impl Iterator<Item = String> {
    head.iter()
        .map(|entry| String::from_utf8_lossy(entry.name).into_owned())
        .filter(|name| is_collection_file(name))
}

/// Describes a file that existed and could not be opened.
fn vanished(
    folder: &Folder,
    head: &RawTree,
    name: &ListedName,
    unexpected: impl Fn(Special) -> Option<WorkTreeEntry>,
) -> Result<Option<WorkTreeEntry>, StoreError> {
    Ok(match folder.stat(name.os())? {
        None => name.in_head(head).map(|_| WorkTreeEntry::Deleted),
        Some(stat) => unexpected(special(&stat).unwrap_or(Special::Unreadable)),
    })
}

fn special(stat: &Stat) -> Option<Special> {
    match kind(stat) {
        FileType::RegularFile => None,
        FileType::Directory => Some(Special::Folder),
        FileType::Symlink => Some(Special::Link),
        FileType::Fifo => Some(Special::Pipe),
        FileType::Socket => Some(Special::Socket),
        _ => Some(Special::Device),
    }
}
