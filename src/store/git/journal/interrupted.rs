//! A write that a kill or a power cut has cut short.
//!
//! The pack of a group has a mark (see `packs::keep_files`) from before it gets its name until everything is
//! where it belongs: the branch, the index, the files. So a start finds what was under way by the marks that
//! are left. That holds after a power cut, too: mark and pack are in the folder that is flushed before
//! anything names what is in the pack.

use std::collections::BTreeSet;

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::disk::lock::{self, HeldLock};
use crate::store::git::index::file;
use crate::store::git::journal::GitJournal;
use crate::store::git::object::id::{Kind, Oid};
use crate::store::git::object::path_change::PathChanges;
use crate::store::git::read::objects::Objects;
use crate::store::git::read::walk;
use crate::store::git::repo::checkpoint::UNBORN;
use crate::store::git::repo::layout::Place;
use crate::store::git::repo::refs;
use crate::store::git::worktree::apply::staging;
use crate::store::git::worktree::apply::update::Occasion;

impl GitJournal {
    /// Makes good a write that a kill has cut short; see `worktree::apply::catch_up`. All that time the lock
    /// that was left keeps everybody else from the index, since a commit by hand would take files that are not
    /// there yet for deleted.
    pub(super) fn recover_write(&mut self) -> Result<(), StoreError> {
        let lock = self.take_over_index()?;
        // Before files are made: a draft may be what a person saved last.
        staging::remove_left(&self.place, &mut self.objects)?;
        file::remove_left(&self.place.work_tree_desk())?;
        if let Err(error) = self.put_in_order(lock) {
            tracing::warn!(%error, cause = error.cause(), "the work tree is not up to date yet after a kill");
        }
        self.recall_recent()
    }

    /// Makes good what a write of this process has left because it could not be taken back when it failed
    /// (the disk was read-only or the repository away just then), and removes its locks. None is held now.
    pub(crate) fn recover_locks(&mut self) -> Result<(), StoreError> {
        let Place { git_dir, common_dir, .. } = &self.place;
        let (index, head) = (git_dir.join("index"), git_dir.join("HEAD"));
        let branch = common_dir.join(&self.branch);
        let desk = self.place.work_tree_desk();
        lock::release_left(&desk, &head)?;
        lock::release_left(&self.place.desk(), &branch)?;
        if !lock::is_left(&desk, &index) {
            return Ok(());
        }
        tracing::info!("making good a write that could not be taken back when it failed");
        let lock = self.take_over_index()?;
        self.put_in_order(lock)
    }

    /// Takes over the lock of the index that was left, and finds what was under way.
    fn take_over_index(&mut self) -> Result<Option<HeldLock>, StoreError> {
        let lock = HeldLock::take_over(&self.place.work_tree_desk(), &self.place.git_dir.join("index"))?;
        self.find_under_way(lock.is_some())?;
        Ok(lock)
    }

    fn put_in_order(&mut self, lock: Option<HeldLock>) -> Result<(), StoreError> {
        let is_ahead = self.is_index_ahead || !self.under_way.is_empty();
        match lock.filter(|_| is_ahead) {
            Some(lock) if self.is_shown() => self.bring_forward_under(lock),
            // HEAD has turned away meanwhile; only the entries go back.
            Some(lock) => self.bring_along(lock, &PathChanges::new(), Occasion::Found),
            None => Ok(()),
        }
    }

    /// Finds the newest commits that were under way, and whether the branch has come to them. A kill leaves the
    /// lock of the index as well, unless the old index was put back.
    fn find_under_way(&mut self, is_locked: bool) -> Result<(), StoreError> {
        let head = refs::read(&self.place.common_dir, &self.branch)?;
        let noted = self.note.read().map(|noted| noted.revision).filter(|noted| *noted != UNBORN);
        for commit in newest_commits(&mut self.objects, &self.packs.marked_objects()?)? {
            let mut is_in = |revision: Option<Oid>| match revision {
                Some(revision) => walk::descends(&mut self.objects, &self.place, revision, commit),
                None => Ok(false),
            };
            match (is_in(noted)?, is_in(head)?) {
                (true, _) => (),
                (false, true) => self.is_index_ahead |= is_locked,
                (false, false) => self.under_way.push(commit),
            }
        }
        Ok(())
    }
}

/// The commits in packs that no other one there follows.
fn newest_commits(objects: &mut Objects, packs: &[Vec<Oid>]) -> Result<BTreeSet<Oid>, StoreError> {
    let (mut newest, mut followed) = (BTreeSet::new(), BTreeSet::new());
    for oid in packs.iter().flatten() {
        if objects.kind(oid)? == Some(Kind::Commit) {
            let parents = objects.commit(Revision::new(*oid), |commit| commit.parents.clone())?;
            followed.extend(parents.iter().map(|parent| *parent.as_bytes()));
            newest.insert(*oid);
        }
    }
    Ok(&newest - &followed)
}
