//! Brings files and index of the checked-out branch up to a new head, under `index.lock`: after our own commits, and
//! whenever the work tree may be behind (`catch_up` has the rule). Only paths that a commit between the old and the
//! new head has changed are looked at, and the file and the index entry of each are judged separately:
//!
//! * A **file** that has what the old head had, or what a commit between the two had (an edit that we committed for a
//!   person), becomes what the new head has; any other is a person's and stays.
//! * An **index entry** that has what one of those had becomes what the new head has, even if the file was edited and
//!   stays: a stale entry would make the person's next commit revert the new head. A staged or conflicting one stays.
//!
//! Neither is flushed at once, so after a power cut a file or the index may be empty, or have zeros or the bytes of
//! another file. Then, and only for paths that changed since the last flush, a file that is not text counts as old,
//! and an index that can't be read is rebuilt from the head. Unless they are blank, the bytes are kept in the state
//! folder.

use std::borrow::Cow;
use std::path::Path;

use crate::domain::Revision;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::disk::lock::HeldLock;
use crate::store::git::disk::stamp::index_stat;
use crate::store::git::index::file;
use crate::store::git::index::git_index::{GitIndex, StagedEntry, UnreadableIndex};
use crate::store::git::index::rollback::HeldWrite;
use crate::store::git::object::id::ObjectKind;
use crate::store::git::object::tree::{PathChange, PathChanges};
use crate::store::git::odb::objects::{Objects, corrupt};
use crate::store::git::read::reader::Reader;
use crate::store::git::worktree::apply::changes::changes_between;
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::replace::staging::NewFile;
use crate::store::git::worktree::replace::staging::{is_blank, keep_aside};
use crate::store::git::worktree::replace::swap::Replacer;
use crate::store::git::worktree::scan::conversion;
use crate::store::git::worktree::scan::folder::FoundFolder;
use crate::store::{StoreError, TreeId};

/// The reason for an update: it decides about files whose index entry is new already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateReason {
    /// We moved the branch and updated the index; the files are being updated, or that was interrupted.
    OwnWrite,
    /// The branch has moved, and the work tree may have been brought along since.
    BranchMoved,
    /// Like [`BranchMoved`](UpdateReason::BranchMoved), but a power cut may have taken what was written.
    PowerCut,
}

impl Checkout {
    /// Returns the index with the new entries, to be put in place before the branch moves.
    pub(crate) fn index_ahead(
        &mut self,
        objects: &mut Objects,
        changes: &PathChanges,
    ) -> Result<GitIndex, StoreError> {
        // Without an index a person's next commit would revert what we write, so we do not write.
        let path = &self.index.path;
        let is_unchanged = self.index.is_unchanged();
        let mut index = match read_if_there(path)? {
            None => self.index_of_head(objects)?,
            bytes => if is_unchanged { file::parse(path, bytes) } else { file::parse_verified(path, bytes) }
                .map_err(|error| self.layout.unsuitable(error.to_string()))?,
        };
        if !is_unchanged {
            self.repair(&mut index)?;
        }
        for (name, change) in changes {
            let path = self.layout.path_in_repository(name);
            if is_outdated(&index.get(&path), change) {
                index.put(&path, change.after, [0; 10]);
            }
        }
        Ok(index)
    }

    /// Brings the work tree up to the group that was just committed, whose last commit is `new`; `next` is the index
    /// that was put in place before. Failures are only logged, because the commits are made;
    /// [`catch_up`](Self::catch_up) repairs them. Until then what is `held` is left, so that a kill makes no edits of them.
    pub(crate) fn update<G>(
        &mut self,
        held: HeldWrite<G>,
        next: GitIndex,
        changes: &PathChanges,
        new: Revision,
    ) {
        let applied = self.apply(&held.lock, Some(next), changes, UpdateReason::OwnWrite);
        let noted = applied.and_then(|()| self.checkpoint.write(Some(new)));
        self.is_index_ahead = noted.is_err();
        if let Err(error) = noted {
            tracing::warn!(%error, cause = error.cause(), "committed, but the work tree is not up to date yet");
            held.leave();
        }
        self.recent.note(changes, new);
    }

    /// Builds an index that is gone or damaged, with everything that the head has, without stats, so that git looks into
    /// the files. Git takes a missing index for an empty one, and the next commit would remove all files.
    fn index_of_head(&self, objects: &mut Objects) -> Result<GitIndex, StoreError> {
        let mut index = GitIndex::empty();
        if let Some(head) = self.branch.tip()? {
            tracing::warn!("the index is lost; it is rebuilt, so nothing is staged any more");
            let root = objects.commit(head, |commit| commit.tree)?;
            add_all(objects, &mut index, "", root)?;
        }
        Ok(index)
    }

    /// Updates files and index after the branch has moved.
    pub(crate) fn update_found(
        &mut self,
        reader: &mut Reader,
        lock: &HeldLock,
        [changes, others]: [&PathChanges; 2],
        reason: UpdateReason,
    ) -> Result<(), StoreError> {
        let bytes = read_if_there(&self.index.path)?;
        let is_lost = match &bytes {
            Some(bytes) => reason == UpdateReason::PowerCut && GitIndex::is_torn(bytes),
            // A work tree with a checkpoint has had an index.
            None => self.checkpoint.read()?.is_some(),
        };
        let mut index = if is_lost {
            if bytes.is_some_and(|bytes| !is_blank(&bytes)) {
                keep_aside(&self.index.path, &self.layout.work_tree_state())?;
            }
            Some(self.index_of_head(&mut reader.objects)?)
        } else {
            editable(&self.index.path, bytes)
        };
        if let Some(index) = &mut index {
            self.take_back(reader, index)?;
            self.repair(index)?;
            self.bring_others(reader, index, others);
        }
        // The new index has what the head has, and tells nothing of the files.
        let reason =
            if is_lost && reason == UpdateReason::BranchMoved { UpdateReason::OwnWrite } else { reason };
        self.apply(lock, index, changes, reason)?;
        self.interrupted_commits.clear();
        Ok(())
    }

    /// Reverts entries that were written ahead of a branch that has not moved.
    fn take_back(&self, reader: &mut Reader, index: &mut GitIndex) -> Result<(), StoreError> {
        let head = self.branch.tip()?;
        for commit in &self.interrupted_commits {
            for (name, change) in changes_between(reader, head, Some(*commit))? {
                let path = self.layout.path_in_repository(&name);
                if is_up_to_date(&index.get(&path), &change) {
                    index.put(&path, change.before, [0; 10]);
                }
            }
        }
        Ok(())
    }

    /// Updates files, then the index if it can be edited.
    fn apply(
        &mut self,
        lock: &HeldLock,
        mut index: Option<GitIndex>,
        changes: &PathChanges,
        reason: UpdateReason,
    ) -> Result<(), StoreError> {
        self.mark_dirty();
        let found = self.find_folder(changes)?;
        let is_hidden = matches!(found, FoundFolder::Obstacle(_));
        let folder = found.or_warn();
        let replacer = folder.as_ref().map(|folder| Replacer::new(&self.layout, folder)).transpose()?;
        for (name, change) in changes {
            let path = self.layout.path_in_repository(name);
            let left = self.lagging.take(name);
            let was_lagging = !left.is_empty();
            let mut change = Cow::Borrowed(change);
            if was_lagging {
                change.to_mut().intermediate_blobs.extend(left);
            }
            let applied = apply_one(replacer.as_ref(), index.as_mut(), [name, &path], &change, reason);
            if let Err(error) = &applied {
                log_lagging(error, was_lagging);
            }
            // The obstacle in place of the folder may be removed, and the folder come back as it was.
            if applied.is_err() || is_hidden {
                self.lagging.put(name, change.olds());
            }
        }
        let kept = self.lagging.keep();
        index.map_or(Ok(()), |index| self.index.commit(lock, &index))?;
        kept
    }
}

fn add_all(objects: &mut Objects, index: &mut GitIndex, above: &str, tree: TreeId) -> Result<(), StoreError> {
    for entry in objects.tree(tree)?.iter() {
        let Ok(name) = std::str::from_utf8(entry.name) else { continue };
        let path = format!("{above}{name}");
        if entry.pointer.is_folder() {
            add_all(objects, index, &format!("{path}/"), TreeId::new(entry.pointer.oid))?;
        } else {
            index.put(&path, Some(entry.pointer), [0; 10]);
        }
    }
    Ok(())
}

/// Logs that a file lags, as a warning only the first time.
fn log_lagging(error: &StoreError, again: bool) {
    if again {
        tracing::debug!(%error, cause = error.cause(), "a file of the work tree is still behind");
    } else {
        tracing::warn!(%error, cause = error.cause(), "a file of the work tree could not be brought up to date; it is tried again");
    }
}

/// Parses the index; logs a warning and returns `None` if it can't be edited.
fn editable(path: &Path, bytes: Option<Vec<u8>>) -> Option<GitIndex> {
    let warn = |error: &UnreadableIndex| {
        let path = path.display();
        tracing::warn!(%path, "{error}; the next `git commit` there may revert what the API wrote");
    };
    file::parse_verified(path, bytes).inspect_err(warn).ok()
}

/// Updates a file and its index entry, each only if it has what the old head had.
pub(crate) fn apply_one(
    replacer: Option<&Replacer<'_>>,
    index: Option<&mut GitIndex>,
    [name, path]: [&str; 2],
    change: &PathChange,
    reason: UpdateReason,
) -> Result<(), StoreError> {
    let staged = index.as_ref().map(|index| index.get(path));
    let is_old = staged.is_some_and(|staged| is_outdated(&staged, change));
    let may_touch = match reason {
        // We were updating it, whatever is staged by now: only the content of the file shows whether it is ours.
        UpdateReason::OwnWrite => true,
        UpdateReason::BranchMoved => is_old,
        UpdateReason::PowerCut => is_old || staged.is_some_and(|staged| is_up_to_date(&staged, change)),
    };
    let mut change = Cow::Borrowed(change);
    if let (Some(replacer), Some(index), Some(before)) = (replacer, index.as_deref(), change.before)
        && is_old
        && reason != UpdateReason::OwnWrite
    {
        let converted = conversion::checked_out(replacer.folder(), index, name, path, before.blob())?;
        change.to_mut().intermediate_blobs.extend(converted.map(Some));
    }
    let change = &*change;
    let is_new = match replacer.filter(|_| may_touch) {
        Some(replacer) => change_file(replacer, name, change, reason),
        None => Ok(false),
    };
    // Our own entries are in the index already, without the stats of their files.
    let is_ahead =
        reason == UpdateReason::OwnWrite && staged.is_some_and(|staged| is_up_to_date(&staged, change));
    let stat = match (replacer, &is_new) {
        (Some(replacer), Ok(true)) => replacer.folder().stat(name)?,
        _ => None,
    };
    if let Some(index) = index.filter(|_| is_old || is_ahead) {
        // Zeros make git look into the file.
        let stat = stat.as_ref().map(index_stat).unwrap_or_default();
        index.put(path, change.after, stat);
    }
    is_new.map(drop)
}

fn change_file(
    replacer: &Replacer<'_>,
    name: &str,
    change: &PathChange,
    reason: UpdateReason,
) -> Result<bool, StoreError> {
    if let (Some(after), None) = (change.after, &change.content) {
        return Err(corrupt(ObjectKind::Blob, &after.oid, "so its file stays as it is"));
    }
    let torn = match reason {
        UpdateReason::PowerCut => replacer.torn(name)?,
        UpdateReason::OwnWrite | UpdateReason::BranchMoved => None,
    };
    let olds = change.olds().chain(torn.map(Some));
    let new = NewFile::of(change.before, change.after, change.content.as_deref());
    replacer.compare_and_replace(name, &olds.collect::<Vec<_>>(), new)
}

pub(crate) fn is_up_to_date(staged: &StagedEntry, change: &PathChange) -> bool {
    *staged == StagedEntry::of(change.after)
}

/// Returns whether an index entry has what a revision before the new head had, and not what the new head has.
pub(crate) fn is_outdated(staged: &StagedEntry, change: &PathChange) -> bool {
    let is_passed = || staged.blob().is_some_and(|blob| change.intermediate_blobs.contains(&blob));
    !is_up_to_date(staged, change) && (*staged == StagedEntry::of(change.before) || is_passed())
}
