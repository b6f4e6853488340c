//! Brings forward a work tree that is behind its branch.
//!
//! One rule covers everything that may come between a commit and the work tree: a kill, a power cut, a move of the
//! branch that was not ours.
//!
//! 1. A file or an index entry may be ours if it has what any commit has between the revision that the work tree is
//!    known to have (after a restart of the system: to have on disk) and the head. An entry may also have what a
//!    commit has that was under way to the branch.
//! 2. What may be ours becomes what the head has. So does what was not flushed and makes no sense after a restart of
//!    the system: an index that can't be read, a file that is not text.
//! 3. Anything else is a person's and stays.
//!
//! Files outside the collections folder are brought forward if the branch is shared with a remote (see `other_files`).
//!
//! The checkpoint (`repo::checkpoint`) records the known revision, and the keep files of packs show which commits were
//! under way (see `interrupted`). The checkpoint may be older than the truth, because a person's own commit or
//! checkout brings the work tree forward without us: then files and entries have what the *new* head has, and nothing
//! is to be done. While the system runs, order is evidence too: we always change the file first and the index after
//! it, so a new entry beside an old file is a person's edit and stays. The exception is a kill while the index was
//! ahead: then only the file counts, whatever is staged.

use std::time::Duration;

use crate::domain::Revision;
use crate::store::git::disk::failpoint::{Failpoint, stop_at};
use crate::store::git::disk::lock::{HeldLock, lock_file_path};
use crate::store::git::object::tree::PathChanges;
use crate::store::git::read::reader::Reader;
use crate::store::git::repo::checkpoint::CheckpointRecord;
use crate::store::git::worktree::apply::changes::{all_changes_since, changes_between, others_between};
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::apply::update::{UpdateReason, is_outdated};
use crate::store::git::worktree::replace::staging::NewFile;
use crate::store::git::worktree::replace::swap::Replacer;
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::git::worktree::scan::status;
use crate::store::{Commits as _, StoreError};

impl Checkout {
    /// Brings forward a work tree that is behind, waiting up to `wait` for the lock of another process; see
    /// [`Journal::catch_up`](crate::store::Journal::catch_up).
    pub(crate) fn catch_up(&mut self, reader: &mut Reader, wait: Duration) -> Result<(), StoreError> {
        if status::unavailable_reason(&self.branch)?.is_some() {
            return Ok(());
        }
        let head = self.branch.tip()?;
        let known = self.known(head)?;
        if self.is_done(known, head) {
            return Ok(());
        }
        // `git commit` moves the branch before the index, whose lock it holds. If it is still at work it updates the
        // index itself, and the person's next command must not meet a lock of ours.
        let index_lock = lock_file_path(&self.index.path);
        let is_being_brought = wait.is_zero() && index_lock.symlink_metadata().is_ok();
        if self.was_brought_along(reader, known, head)? {
            return self.checkpoint.write(head);
        }
        stop_at(Failpoint::LockIndex, &self.layout.git_dir)?;
        if is_being_brought {
            return Err(StoreError::Locked { path: index_lock });
        }
        match self.lock_index(wait)? {
            Some(lock) => {
                let done = self.catch_up_under(reader, &lock);
                self.release(lock, done)
            }
            None => Ok(()),
        }
    }

    /// Announces that we move the branch to a revision that does not descend from the old one, if the work tree is at
    /// the old one; then [`catch_up`](Self::catch_up) brings it along, after a kill too. Returns whether it did.
    pub(crate) fn note_move(
        &self,
        reader: &mut Reader,
        from: Option<Revision>,
        to: Revision,
    ) -> Result<bool, StoreError> {
        let Some(old) = from else { return Ok(false) };
        let is_there = self.known(from)?.revision == from && self.is_shown()?;
        if !is_there || reader.descends(to, old)? {
            return Ok(false);
        }
        self.checkpoint.note_move(old, to).map(|()| true)
    }

    /// [`catch_up`](Self::catch_up) for a caller with the index lock, while the work tree shows the branch.
    pub(crate) fn catch_up_under(&mut self, reader: &mut Reader, lock: &HeldLock) -> Result<(), StoreError> {
        let head = self.branch.tip()?;
        let known = self.known(head)?;
        if !self.is_done(known, head) {
            let [changes, others] = self.changes_due(reader, known, head)?;
            let reason = match (known.after_reboot, self.is_index_ahead) {
                (true, _) => UpdateReason::PowerCut,
                (false, true) => UpdateReason::OwnWrite,
                (false, false) => UpdateReason::BranchMoved,
            };
            self.update_found(reader, lock, [&changes, &others], reason)?;
        }
        self.checkpoint.write(head)?;
        self.is_index_ahead = false;
        self.checkpoint.forget_move()
    }

    /// Releases the index lock, unless a write that was interrupted or failed is still not mended: then the lock tells
    /// of it, after a kill too.
    pub(crate) fn release(&self, lock: HeldLock, done: Result<(), StoreError>) -> Result<(), StoreError> {
        if done.is_err() && self.is_ahead() {
            lock.leave();
        }
        done
    }

    /// Returns what is known of the work tree. Without a checkpoint that is the head, possibly before a restart of the
    /// system.
    pub(crate) fn known(&self, head: Option<Revision>) -> Result<CheckpointRecord, StoreError> {
        let unknown = CheckpointRecord { revision: head, flushed: head, after_reboot: true };
        Ok(self.checkpoint.read()?.unwrap_or(unknown))
    }

    fn is_done(&self, known: CheckpointRecord, head: Option<Revision>) -> bool {
        known.revision == head && !known.after_reboot && self.interrupted_commits.is_empty()
    }

    /// Returns whether nothing is to be done because the process that moved the branch has updated the index, as an
    /// ordinary `git commit` does. Needs no lock, which would hinder the person's next command, and writes no index,
    /// which may be large.
    fn was_brought_along(
        &self,
        reader: &mut Reader,
        known: CheckpointRecord,
        head: Option<Revision>,
    ) -> Result<bool, StoreError> {
        if known.after_reboot || self.is_index_ahead || !self.interrupted_commits.is_empty() {
            return Ok(false);
        }
        let [changes, others] = self.changes_due(reader, known, head)?;
        if changes.is_empty() && others.is_empty() {
            return Ok(true);
        }
        let Some(index) = self.index.read()? else { return Ok(false) };
        let is_old = |(name, change): (&String, _)| {
            is_outdated(&index.get(&self.layout.path_in_repository(name)), change)
        };
        let is_old_other = |(path, change): (&String, _)| is_outdated(&index.get(path), change);
        Ok(!changes.iter().any(is_old) && !others.iter().any(is_old_other))
    }

    /// Returns what the work tree lacks: nothing if the head does not descend from what it has, unless we moved the
    /// branch there.
    ///
    /// # Errors
    ///
    /// Fails if damage hides what the work tree has. That must not be forgotten then, because files that a kill left
    /// behind would be edits for good, and the next write would revert the head in a person's name.
    pub(crate) fn changes_due(
        &self,
        reader: &mut Reader,
        known: CheckpointRecord,
        head: Option<Revision>,
    ) -> Result<[PathChanges; 2], StoreError> {
        let due = match fast_forward_target(reader, head, known.revision) {
            Ok(Some(head)) => all_changes_since(reader, known.revision, head),
            Ok(None) => self.changes_of_move(reader, known, head),
            Err(error) => Err(error),
        };
        due.map_err(|error| match error {
            StoreError::Damaged { .. } => self.layout.unsuitable(format!(
                "{error}, so nobody can tell edits from files that are behind; bring back what is missing (`git fsck \
                 --full` names it), or set the files right by hand and remove `collectory/work-tree` from the git folder"
            )),
            error => error,
        })
    }

    /// Returns what a move of the branch by us has changed, if the work tree has to follow one.
    fn changes_of_move(
        &self,
        reader: &mut Reader,
        known: CheckpointRecord,
        head: Option<Revision>,
    ) -> Result<[PathChanges; 2], StoreError> {
        if self
            .checkpoint
            .noted_move()?
            .is_none_or(|(old, new)| (known.revision, head) != (Some(old), Some(new)))
        {
            return Ok(Default::default());
        }
        let old = known.revision;
        Ok([changes_between(reader, old, head)?, others_between(reader, old, head)?])
    }

    /// Tries again to bring the files that lag up to the branch, under `index.lock`.
    pub(crate) fn retry_lagging(&mut self, reader: &mut Reader, _lock: &HeldLock) -> Result<(), StoreError> {
        if self.lagging.is_empty() {
            return Ok(());
        }
        let Some(folder) = Folder::collections(&self.layout, false)?.folder() else { return Ok(()) };
        let replacer = Replacer::new(&self.layout, &folder)?;
        let head = self.branch.tip()?;
        for name in self.lagging.names() {
            let after = reader.trees(head)?.folder().get(name.as_bytes()).filter(|pointer| pointer.is_file());
            let content = match after.map(|after| reader.objects.blob(after.blob())).transpose() {
                Err(StoreError::Damaged { .. }) => continue,
                content => content?,
            };
            let new = NewFile::of(None, after, content.as_deref());
            let ids = Vec::from_iter(self.lagging.take(&name));
            match replacer.compare_and_replace(&name, &ids, new) {
                Ok(true) => tracing::info!(
                    path = self.layout.path_in_repository(&name),
                    "the file is up to date again"
                ),
                // It is a person's by now.
                Ok(false) => (),
                Err(error) => {
                    tracing::debug!(%error, "a file of the work tree is still behind");
                    self.lagging.put(&name, ids);
                }
            }
        }
        self.lagging.keep()
    }

    /// Retries the files that lag, under `index.lock`; fails at once if another process holds that.
    pub(crate) fn retry_if_lagging(&mut self, reader: &mut Reader) -> Result<(), StoreError> {
        if self.lagging.is_empty() {
            return Ok(());
        }
        match self.lock_index(Duration::ZERO)? {
            Some(lock) => self.retry_lagging(reader, &lock),
            None => Ok(()),
        }
    }
}

/// Returns the head if it descends from what the work tree has.
fn fast_forward_target(
    reader: &mut Reader,
    head: Option<Revision>,
    old: Option<Revision>,
) -> Result<Option<Revision>, StoreError> {
    let (Some(new), Some(old)) = (head, old) else { return Ok(head) };
    Ok(reader.descends_for_certain(new, old)?.then_some(new))
}
