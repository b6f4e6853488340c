//! A write that raced with a checkout of another branch, taken back out of the work tree.
//!
//! `git checkout other` writes files and index, releases `index.lock`, and only then makes `HEAD`
//! name the other branch (`switch_branches` in git's `builtin/checkout.c`). A write that comes in
//! between still finds the served branch checked out, and puts its files and entries where the other
//! branch's are by now: the person's next commit there would take them along. No lock that git takes
//! could tell, so we look afterwards: if `HEAD` names something else and the index is still the very
//! file that we left, nobody has checked anything out since, and what we put there goes back to what
//! `HEAD` has.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use crate::store::StoreError;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::disk::lock::HeldLock;
use crate::store::git::disk::stamp::index_stat;
use crate::store::git::index::file::{IndexDraft, Purpose};
use crate::store::git::index::git_index::GitIndex;
use crate::store::git::journal::GitJournal;
use crate::store::git::object::hash_midstates::INDEX_BYTES_KEPT_MAX;
use crate::store::git::object::id::Oid;
use crate::store::git::object::path_change::PathChange;
use crate::store::git::object::tree::Pointer;
use crate::store::git::read::trees::Trees;
use crate::store::git::repo::refs::{self, Head};
use crate::store::git::worktree::apply::replace::{Bench, New};
use crate::store::git::worktree::apply::update::is_after;
use crate::store::git::worktree::scan::folder::{Folder, Found};

/// What goes back: a name, what we made of it, and what `HEAD` has there.
type Return = (String, PathChange, Option<Pointer>);

impl GitJournal {
    /// Takes recent writes out of the work tree if `HEAD` turned away while they were made. A lock
    /// that somebody holds is no trouble: whoever writes the index knows what `HEAD` has.
    pub(crate) fn step_aside(&mut self) -> Result<(), StoreError> {
        let path = self.place.git_dir.join("index");
        if self.recent.is_empty() || !self.is_index_as_we_left_it(&path) {
            return Ok(());
        }
        let Some(shown) = self.shown_instead()? else { return Ok(()) };
        let desk = self.place.work_tree_desk();
        let lock = match HeldLock::take(&desk, &path, Duration::ZERO) {
            Err(StoreError::Locked { .. }) => return Ok(()),
            taken => taken?,
        };
        if !self.is_index_as_we_left_it(&path) || self.shown_instead()? != Some(shown) {
            return Ok(());
        }
        // What has no such folder has no place for what we wrote.
        let Ok(trees) = Trees::load(&mut self.objects, &self.place, Some(shown)) else { return Ok(()) };
        let bytes = read_if_there(&path)?.unwrap_or_default();
        let Ok(mut index) = GitIndex::parse(bytes) else { return Ok(()) };
        let returns = self.returns(&index, &trees);
        if returns.is_empty() {
            return Ok(());
        }
        tracing::info!("another branch was checked out during a write; its work tree is as it was");
        for (name, change, there) in &returns {
            self.put_back(&mut index, name, change, *there)?;
        }
        self.leave_index(lock, self.new_index(Purpose::Last)?, index)
    }

    /// The same after a write, whose answer does not hang on it.
    pub(crate) fn step_aside_if_need_be(&mut self) {
        if let Err(error) = self.step_aside() {
            tracing::debug!(%error, "cannot tell yet whether another branch was checked out meanwhile");
        }
    }

    pub(crate) fn is_index_as_we_left_it(&self, path: &Path) -> bool {
        let left = self.recent.index.as_ref();
        left.is_some_and(|left| fs::symlink_metadata(path).is_ok_and(|there| left.is(&there)))
    }

    /// The commit that is checked out when it is not the served branch.
    fn shown_instead(&self) -> Result<Option<Oid>, StoreError> {
        match self.place.head.read()? {
            Head::Ref(name) if name == self.branch => Ok(None),
            Head::Ref(name) => refs::read(&self.place.common_dir, &name),
            Head::Detached(oid) => Ok(Some(oid)),
        }
    }

    fn returns(&self, index: &GitIndex, trees: &Trees) -> Vec<Return> {
        let mut recent = self.recent.get();
        recent.retain(|name, change| is_after(&index.get(&self.place.inside(name)), change));
        let there = recent.into_iter().map(|(name, change)| {
            let there = trees.folder().get(name.as_bytes());
            (name, change, there)
        });
        let is_ours = |change: &PathChange, there: Option<Pointer>| {
            there.is_none_or(|there| there.is_file())
                && there.map(|it| it.oid) != change.after.map(|it| it.oid)
        };
        there.filter(|(_, change, there)| is_ours(change, *there)).collect()
    }

    /// Puts back a file that is still what we made of it, and its entry.
    fn put_back(
        &mut self,
        index: &mut GitIndex,
        name: &str,
        change: &PathChange,
        there: Option<Pointer>,
    ) -> Result<(), StoreError> {
        let read = |pointer: Pointer| {
            let bytes = self.objects.blob(&pointer.oid)?;
            Ok::<_, StoreError>((pointer, bytes))
        };
        let content = there.map(read).transpose()?;
        let new =
            content.as_ref().map(|(pointer, bytes)| New { oid: pointer.oid, mode: pointer.mode, bytes });
        let path = self.place.inside(name);
        let mut stat = None;
        if let Found::Folder(folder) = Folder::collections(&self.place, there.is_some())? {
            let bench = Bench::new(&self.place, &folder)?;
            if bench.change(name, change.after.map(|after| after.oid), new)? {
                stat = folder.stat(name)?.as_ref().map(index_stat);
            }
        }
        match there {
            Some(there) => index.set(&path, there.canonical_mode(), &there.oid, stat.unwrap_or_default()),
            None => index.remove(&path),
        }
        Ok(())
    }

    /// A draft of the index.
    pub(crate) fn new_index(&self, purpose: Purpose) -> Result<IndexDraft, StoreError> {
        IndexDraft::make(&self.place.work_tree_desk(), purpose)
    }

    /// Puts a new index in place, releases its lock, and remembers that it is ours.
    pub(crate) fn leave_index(
        &mut self,
        lock: HeldLock,
        draft: IndexDraft,
        index: GitIndex,
    ) -> Result<(), StoreError> {
        let path = self.place.git_dir.join("index");
        let draft = draft.write(&path, &index.encode(&mut self.index_hash))?;
        lock.check()?;
        let file = draft.put(&path)?;
        self.recent.index = LeftIndex::of(file, index);
        Ok(())
    }
}

/// The index file that we wrote last.
#[derive(Debug)]
pub(crate) struct LeftIndex {
    written: Metadata,
    // Held open, so that its number can't become another file's.
    _open: File,
    /// What is in it, unless that is much.
    content: Option<GitIndex>,
}

impl LeftIndex {
    fn of(file: File, content: GitIndex) -> Option<Self> {
        let content = Some(content).filter(|content| content.read_len() <= INDEX_BYTES_KEPT_MAX);
        Some(Self { written: file.metadata().ok()?, _open: file, content })
    }

    /// Takes what is in it, to change it.
    pub(crate) fn take(&mut self) -> Option<GitIndex> {
        self.content.take()
    }

    /// Whether this is it, and nobody has written into it.
    fn is(&self, there: &Metadata) -> bool {
        let look = |it: &Metadata| (it.dev(), it.ino(), it.len(), it.mtime(), it.mtime_nsec());
        look(&self.written) == look(there)
    }
}
