//! Repairs a write that a kill or a power cut has interrupted.
//!
//! The pack of a group has a keep file (see `packs::keep_files`) from before it gets its name until everything is in
//! place: the branch, the index, the files. So a start finds what was under way by the keep files that are left. That
//! holds after a power cut too: keep file and pack are in the folder that is flushed before anything refers to the
//! objects of the pack.

use std::collections::BTreeSet;

use crate::domain::Revision;
use crate::store::git::disk::lock::{self, HeldLock};
use crate::store::git::index::file;
use crate::store::git::object::id::{ObjectKind, Oid};
use crate::store::git::object::tree::PathChanges;
use crate::store::git::odb::objects::Objects;
use crate::store::git::read::reader::Reader;
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::apply::update::UpdateReason;
use crate::store::git::worktree::replace::staging;
use crate::store::{Commits as _, StoreError};

impl Checkout {
    /// Repairs a write that a kill has interrupted, whose objects are in one of the `kept` packs; see `catch_up`.
    /// Until then the lock that was left protects the index: to a commit by hand, files that are not there yet would
    /// be deletions.
    pub(crate) fn recover_write(&mut self, reader: &mut Reader, kept: &[Vec<Oid>]) -> Result<(), StoreError> {
        let lock = self.take_over_index(reader, kept)?;
        // Before files are made, because a draft may be what a person saved last.
        let swept = staging::remove_left(&self.layout, &mut reader.objects)
            .and_then(|()| file::remove_left(&self.layout.work_tree_state()));
        if swept.is_err() {
            lock.into_iter().for_each(HeldLock::leave);
            return swept;
        }
        if let Err(error) = self.put_in_order(reader, lock) {
            tracing::warn!(%error, cause = error.cause(), "the work tree is not up to date yet after a kill");
        }
        Ok(())
    }

    /// Repairs a write of this process that failed and could not be undone (the disk was read-only or the repository
    /// missing at that moment), and removes its locks. Call it only while this process holds no lock.
    pub(crate) fn recover_locks(
        &mut self,
        reader: &mut Reader,
        kept: impl FnOnce() -> Result<Vec<Vec<Oid>>, StoreError>,
    ) -> Result<(), StoreError> {
        let state = self.layout.work_tree_state();
        lock::release_left(&state, &self.layout.git_dir.join("HEAD"))?;
        lock::release_left(&self.layout.state(), &self.layout.common_dir.join(&self.branch.name))?;
        if !lock::is_own_lock(&state, &self.index.path)? {
            return Ok(());
        }
        tracing::info!("making good a write that could not be taken back when it failed");
        let lock = self.take_over_index(reader, &kept()?)?;
        self.put_in_order(reader, lock)
    }

    /// Finds what was under way, and takes over the index lock that was left. While damage hides what is to be done,
    /// the lock stays: without it, files that are behind would look like edits.
    fn take_over_index(
        &mut self,
        reader: &mut Reader,
        kept: &[Vec<Oid>],
    ) -> Result<Option<HeldLock>, StoreError> {
        if self.layout.work_tree.is_none() {
            return Ok(None);
        }
        let state = self.layout.work_tree_state();
        self.find_under_way(reader, kept, lock::is_own_lock(&state, &self.index.path)?)?;
        if self.is_ahead() && self.is_shown()? {
            let head = self.branch.tip()?;
            self.changes_due(reader, self.known(head)?, head)?;
        }
        HeldLock::take_over(&state, &self.index.path)
    }

    /// Returns whether files or index may be those of a write that was interrupted or failed.
    pub(crate) const fn is_ahead(&self) -> bool {
        self.is_index_ahead || !self.interrupted_commits.is_empty()
    }

    fn put_in_order(&mut self, reader: &mut Reader, lock: Option<HeldLock>) -> Result<(), StoreError> {
        let Some(lock) = lock.filter(|_| self.is_ahead()) else { return Ok(()) };
        let none = PathChanges::new();
        let done = self.is_shown().and_then(|is_shown| match is_shown {
            true => self.catch_up_under(reader, &lock),
            // HEAD has moved to another branch meanwhile; only the entries are reverted.
            false => self.update_found(reader, &lock, [&none, &none], UpdateReason::BranchMoved),
        });
        self.release(lock, done)
    }

    /// Finds the newest commits that were under way, and whether the branch has reached them. A kill also leaves the
    /// index lock, unless the old index was restored.
    pub(crate) fn find_under_way(
        &mut self,
        reader: &mut Reader,
        kept: &[Vec<Oid>],
        is_locked: bool,
    ) -> Result<(), StoreError> {
        let commits = newest_commits(&mut reader.objects, kept)?;
        if commits.is_empty() {
            return Ok(());
        }
        let head = self.branch.tip()?;
        let known = self.checkpoint.read()?.and_then(|known| known.revision);
        for commit in commits {
            let mut is_in = |revision: Option<Revision>| match revision {
                Some(revision) => reader.descends(revision, commit),
                None => Ok(false),
            };
            match (is_in(known)?, is_in(head)?) {
                (true, _) => (),
                (false, true) => self.is_index_ahead |= is_locked,
                (false, false) => self.interrupted_commits.push(commit),
            }
        }
        Ok(())
    }
}

/// Returns the commits in these packs that have no child there.
fn newest_commits(objects: &mut Objects, packs: &[Vec<Oid>]) -> Result<BTreeSet<Revision>, StoreError> {
    let (mut newest, mut followed) = (BTreeSet::new(), BTreeSet::new());
    for oid in packs.iter().flatten() {
        if objects.kind(oid)? == Some(ObjectKind::Commit) {
            let revision = Revision::new(*oid);
            followed.extend(objects.commit(revision, |commit| commit.parents.clone())?);
            newest.insert(revision);
        }
    }
    Ok(&newest - &followed)
}
