//! Brings files and index of the checked-out branch up to a new head.
//!
//! Two occasions, one routine: after our own commits (design section 6 step 6), and whenever the work tree
//! may be behind (see `catch_up`, which has the rule). In both, only paths that a commit between the old and
//! the new head has changed are looked at, and of each the file and the index entry are judged apart:
//!
//! * A **file** that is what the old head had, or what a commit between the two had (an edit that we
//!   committed for a person), becomes what the new head has; any other is a person's and stays.
//! * An **index entry** that is what one of those had becomes what the new head has, also where the
//!   file was edited and stays: a stale entry would make the person's next commit revert the new
//!   head. One that is staged or in conflict stays.
//!
//! After a power cut the order in which we changed things proves nothing, and a file or the index may be
//! empty or have zeros or the bytes of another one, for neither is flushed at once. Then, and only for paths
//! that were changed since the last flush, a file that is no text counts as old, and an index that can't be
//! read is made anew from the head. Unless they are blank, the bytes are kept in our own folder.
//!
//! All this happens under `index.lock`.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use rustix::fs::Stat;

use crate::domain::Revision;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::disk::lock::HeldLock;
use crate::store::git::disk::stamp::index_stat;
use crate::store::git::index::file::Purpose;
use crate::store::git::index::git_index::{GitIndex, Staged};
use crate::store::git::index::rollback::AheadIndex;
use crate::store::git::journal::GitJournal;
use crate::store::git::object::id::{Kind, Oid};
use crate::store::git::object::path_change::{PathChange, PathChanges};
use crate::store::git::object::tree::FOLDER;
use crate::store::git::read::objects::corrupt;
use crate::store::git::repo::checkpoint::UNBORN;
use crate::store::git::repo::refs;
use crate::store::git::worktree::apply::replace::{Bench, New};
use crate::store::git::worktree::apply::staging::{is_blank, keep_aside};
use crate::store::git::worktree::scan::folder::{Folder, Found};
use crate::store::git::worktree::scan::line_ends;
use crate::store::git::worktree::scan::open_writers::OpenWriters;
use crate::store::git::worktree::scan::status;
use crate::store::{StoreError, TreeId};

/// What is done about files whose index entry is new already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// We moved the branch ourselves, and have held `index.lock` since before.
    Ours,
    /// The branch was moved, and the work tree may have been brought along since.
    Found,
    /// We moved the branch and brought the index along, and got no further.
    Interrupted,
    /// The same, and not everything that was written reached the disk.
    PowerCut,
}

impl GitJournal {
    /// Takes `index.lock` when the served branch is checked out; `wait` is how long to wait for
    /// someone else.
    pub(crate) fn lock_index(&self, wait: Duration) -> Result<Option<HeldLock>, StoreError> {
        let shown = || status::away(&self.place, &self.branch).map(|away| away.is_none());
        if !shown()? {
            return Ok(None);
        }
        let index = self.place.git_dir.join("index");
        let desk = self.place.work_tree_desk();
        let lock = HeldLock::take(&desk, &index, wait)?;
        // Whoever held it may have checked out another branch.
        Ok(shown()?.then_some(lock))
    }

    /// The index with the new entries, to be [put](Self::put_index_ahead) before the branch moves.
    pub(crate) fn index_ahead(&mut self, changes: &PathChanges) -> Result<GitIndex, StoreError> {
        let path = self.place.git_dir.join("index");
        let is_ours = self.is_index_as_we_left_it(&path);
        let mut index = match self.recent.take_index().filter(|_| is_ours) {
            Some(index) => index,
            None => {
                let parsed = read_if_there(&path)?.map_or_else(|| Ok(GitIndex::empty()), GitIndex::parse);
                // Without its index a commit of a person's would revert what we write, so we do not write.
                parsed.map_err(|error| {
                    self.place.unsuitable(format!("{}: {error}; make it an ordinary index", path.display()))
                })?
            }
        };
        if !is_ours {
            self.mend(&mut index)?;
        }
        for (name, change) in changes {
            let path = self.place.inside(name);
            if is_known(&index.get(&path), change) {
                match change.after {
                    Some(after) => index.set(&path, after.canonical_mode(), &after.oid, [0; 10]),
                    None => index.remove(&path),
                }
            }
        }
        Ok(index)
    }

    /// Puts the index with the new entries in its place; see `index::rollback`.
    pub(crate) fn put_index_ahead<M>(
        &mut self,
        next: &GitIndex,
        mark: Option<M>,
    ) -> Result<AheadIndex<M>, StoreError> {
        let (index, desk) = (self.place.git_dir.join("index"), self.place.work_tree_desk());
        let draft = self.new_index(Purpose::Ahead)?.write(&index, &next.encode(&mut self.index_hash))?;
        AheadIndex::put([&index, &desk], draft, mark)
    }

    /// Brings the work tree up to the group that was just committed, whose last commit is `new`; `next` is
    /// the index that was put ahead. The commits stand, so trouble is only told;
    /// [`catch_up`](crate::store::Journal::catch_up) makes it good.
    pub(crate) fn bring_up(&mut self, lock: HeldLock, next: GitIndex, changes: &PathChanges, new: &Oid) {
        let applied = self.apply(lock, Some(next), changes, Occasion::Ours);
        let noted = applied.and_then(|()| self.note.write(new));
        self.is_index_ahead = noted.is_err();
        if let Err(error) = noted {
            tracing::warn!(%error, cause = error.cause(), "committed, but the work tree is not up to date yet");
        }
    }

    /// A new index with everything that the head has, for git to look into.
    fn index_of_head(&mut self) -> Result<GitIndex, StoreError> {
        tracing::warn!(
            "the index did not survive a power cut; it is made anew, so nothing is staged any more"
        );
        let mut index = GitIndex::empty();
        if let Some(head) = refs::read(&self.place.common_dir, &self.branch)? {
            let root = self.objects.commit(Revision::new(head), |commit| commit.tree)?;
            self.add_all(&mut index, "", root)?;
        }
        Ok(index)
    }

    fn add_all(&mut self, index: &mut GitIndex, above: &str, tree: TreeId) -> Result<(), StoreError> {
        for entry in self.objects.tree(tree)?.iter() {
            let Ok(name) = std::str::from_utf8(entry.name) else { continue };
            let path = format!("{above}{name}");
            match entry.pointer.canonical_mode() {
                FOLDER => self.add_all(index, &format!("{path}/"), TreeId::new(entry.pointer.oid))?,
                mode => index.set(&path, mode, &entry.pointer.oid, [0; 10]),
            }
        }
        Ok(())
    }

    /// Changes files and index of a branch that has moved, and releases the lock.
    pub(crate) fn bring_along(
        &mut self,
        lock: HeldLock,
        changes: &PathChanges,
        occasion: Occasion,
    ) -> Result<(), StoreError> {
        let path = self.place.git_dir.join("index");
        let bytes = read_if_there(&path)?;
        let is_lost = match &bytes {
            Some(bytes) => GitIndex::is_torn(bytes),
            // Whoever has a note has an index.
            None => self.note.read().is_some(),
        };
        let mut index = if occasion == Occasion::PowerCut && is_lost {
            if bytes.is_some_and(|bytes| !is_blank(&bytes)) {
                keep_aside(&path, &self.place.work_tree_desk())?;
            }
            Some(self.index_of_head()?)
        } else {
            parse_index(&path, bytes)
        };
        if let Some(index) = &mut index {
            self.take_back(index)?;
        }
        self.apply(lock, index, changes, occasion)?;
        self.under_way.clear();
        Ok(())
    }

    /// Takes entries back that were put ahead of a branch that has not moved.
    fn take_back(&mut self, index: &mut GitIndex) -> Result<(), StoreError> {
        let head = refs::read(&self.place.common_dir, &self.branch)?.unwrap_or(UNBORN);
        for commit in self.under_way.clone() {
            for (name, change) in self.changes_between(&head, &commit)? {
                let path = self.place.inside(&name);
                match change.before {
                    _ if !is_after(&index.get(&path), &change) => (),
                    Some(before) => index.set(&path, before.canonical_mode(), &before.oid, [0; 10]),
                    None => index.remove(&path),
                }
            }
        }
        Ok(())
    }

    /// Changes files, then the index, unless it can't be edited, and releases its lock.
    fn apply(
        &mut self,
        lock: HeldLock,
        index: Option<GitIndex>,
        changes: &PathChanges,
        occasion: Occasion,
    ) -> Result<(), StoreError> {
        self.is_work_tree_dirty = true;
        // Made now: whether there is room shows before any file is changed.
        let drafted = |index| self.new_index(Purpose::Last).map(|draft| (index, draft));
        let mut index = index.map(drafted).transpose()?;
        let folder = self.open_folder(changes)?;
        let bench = folder.as_ref().map(|folder| Bench::new(&self.place, folder)).transpose()?;
        let bench = bench.map(|bench| bench.knowing(&self.stats));
        let mut placed = Vec::new();
        for (name, change) in changes {
            let path = self.place.inside(name);
            let left = self.behind.take(name);
            let was_behind = !left.is_empty();
            let mut change = Cow::Borrowed(change);
            if was_behind {
                change.to_mut().passed.extend(left);
            }
            let entries = index.as_mut().map(|(entries, _)| entries);
            match apply_one(bench.as_ref(), entries, [name, &path], &change, occasion) {
                Ok(now) => {
                    let ours = now.filter(|stat| bench.as_ref().is_some_and(|bench| bench.has_made(stat)));
                    placed.extend(ours.zip(change.after).map(|(stat, after)| (name, stat, after.oid)));
                }
                Err(error) => {
                    let before = change.before.map(|pointer| pointer.oid);
                    self.behind.put(name, change.passed.iter().copied().chain([before]));
                    tell_behind(&error, was_behind);
                }
            }
        }
        drop(bench);
        let no_writer = self.open_writers.as_ref().and_then(OpenWriters::no_writer);
        placed.into_iter().for_each(|(name, stat, oid)| self.stats.put(name, &stat, oid, no_writer));
        let kept = self.behind.keep();
        let Some((mut index, draft)) = index else { return kept };
        // Before a write of ours that was done, or need not be.
        if occasion != Occasion::Ours {
            self.mend(&mut index)?;
        }
        self.leave_index(lock, draft, index)?;
        kept
    }

    /// Opens the collections folder, and makes it when there are new files for it.
    pub(crate) fn open_folder(&self, changes: &PathChanges) -> Result<Option<Folder>, StoreError> {
        let has_new = changes.values().any(|change| change.before.is_none() && change.after.is_some());
        Ok(match Folder::collections(&self.place, has_new)? {
            Found::Folder(folder) => Some(folder),
            Found::Nothing => None,
            Found::Obstacle(path) => {
                tracing::warn!(path = %path.display(), "no folder, so no file there is brought up to date");
                None
            }
        })
    }
}

/// Tells that a file is behind, loudly only for the first time.
fn tell_behind(error: &StoreError, again: bool) {
    if again {
        tracing::debug!(%error, cause = error.cause(), "a file of the work tree is still behind");
    } else {
        tracing::warn!(%error, cause = error.cause(), "a file of the work tree could not be brought up to date; it is tried again");
    }
}

/// The index in memory; `None`, and a warning, when it can't be edited.
fn parse_index(path: &Path, bytes: Option<Vec<u8>>) -> Option<GitIndex> {
    match bytes.map_or_else(|| Ok(GitIndex::empty()), GitIndex::parse) {
        Ok(index) => Some(index),
        Err(error) => {
            let path = path.display();
            tracing::warn!(%path, "{error}; the next `git commit` there may revert what the API wrote");
            None
        }
    }
}

/// Changes a file and its index entry, each if it is what the old head had; returns what the file is in the
/// file system if it has what the new head has.
fn apply_one(
    bench: Option<&Bench<'_>>,
    index: Option<&mut GitIndex>,
    [name, path]: [&str; 2],
    change: &PathChange,
    occasion: Occasion,
) -> Result<Option<Stat>, StoreError> {
    let staged = index.as_ref().map(|index| index.get(path));
    let is_old = staged.is_some_and(|staged| is_known(&staged, change));
    let may_touch = match occasion {
        Occasion::Ours => true,
        Occasion::Found => is_old,
        Occasion::Interrupted | Occasion::PowerCut => {
            is_old || staged.is_some_and(|staged| is_after(&staged, change))
        }
    };
    let mut change = Cow::Borrowed(change);
    if let (Some(bench), Some(index), Some(before), true, Occasion::Found | Occasion::PowerCut) =
        (bench, index.as_deref(), change.before, is_old, occasion)
    {
        let converted = line_ends::checked_out(bench.folder(), index, [name, path], &before.oid)?;
        change.to_mut().passed.extend(converted.map(Some));
    }
    let change = &*change;
    let is_new = match bench.filter(|_| may_touch) {
        Some(bench) => change_file(bench, name, change, occasion),
        None => Ok(false),
    };
    // Our own entries are in the index already, without the stat of their files.
    let is_ours = matches!(occasion, Occasion::Ours | Occasion::Interrupted);
    let is_ahead = is_ours && staged.is_some_and(|staged| is_after(&staged, change));
    let stat = match (bench, &is_new) {
        (Some(bench), Ok(true)) => bench.folder().stat(name)?,
        _ => None,
    };
    if let Some(index) = index.filter(|_| is_old || is_ahead) {
        // Zeros make git look into the file.
        let stat = stat.as_ref().map(index_stat).unwrap_or_default();
        match change.after {
            Some(after) => index.set(path, after.canonical_mode(), &after.oid, stat),
            None => index.remove(path),
        }
    }
    is_new.map(|_| stat)
}

fn change_file(
    bench: &Bench<'_>,
    name: &str,
    change: &PathChange,
    occasion: Occasion,
) -> Result<bool, StoreError> {
    if let (Some(after), None) = (change.after, &change.content) {
        return Err(corrupt(Kind::Blob, &after.oid, "so its file stays as it is"));
    }
    let old = change.before.map(|pointer| pointer.oid);
    let torn = match occasion {
        Occasion::PowerCut => bench.torn(name)?,
        Occasion::Ours | Occasion::Found | Occasion::Interrupted => None,
    };
    let olds = std::iter::once(old).chain(torn.map(Some)).chain(change.passed.iter().copied());
    bench.change_any(name, olds, New::of(change.after, change.content.as_deref()))
}

/// Whether an index entry is what the new head has.
pub(crate) fn is_after(staged: &Staged, change: &PathChange) -> bool {
    match (staged, change.after) {
        (Staged::File { mode, oid }, Some(after)) => after.oid == *oid && after.canonical_mode() == *mode,
        (Staged::Nothing, after) => after.is_none(),
        (Staged::File { .. } | Staged::Conflict, _) => false,
    }
}

/// Whether an index entry is what a revision before the new head had, and not what the new head has.
pub(crate) fn is_known(staged: &Staged, change: &PathChange) -> bool {
    let (before, passed) = (change.before, &change.passed);
    match staged {
        _ if is_after(staged, change) => false,
        Staged::Nothing => before.is_none() || passed.contains(&None),
        Staged::File { mode, oid } => {
            before.is_some_and(|pointer| pointer.oid == *oid && pointer.canonical_mode() == *mode)
                || passed.contains(&Some(*oid))
        }
        Staged::Conflict => false,
    }
}
