//! A work tree that is behind its branch: whether it is, and what differs.
//!
//! The checkpoint (`repo::checkpoint`) holds the revision that the work tree was last brought to. It is
//! needed only here, and made with each of our own moves, so that after a kill it names what the work tree
//! has. It may be older than the truth, since a person's own commit or checkout brings the work tree
//! forward without us: then files and entries are what the *new* head has, and nothing is to be
//! done. An entry that is new beside a file that is old is a person's edit and stays; we always
//! change the file first and the index after it.

use std::time::Duration;

use crate::domain::Revision;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::disk::lock::{HeldLock, lock_of};
use crate::store::git::index::git_index::GitIndex;
use crate::store::git::journal::GitJournal;
use crate::store::git::object::id::Oid;
use crate::store::git::object::path_change::{PathChange, PathChanges};
use crate::store::git::object::tree::differences;
use crate::store::git::read::trees::Trees;
use crate::store::git::read::walk;
use crate::store::git::repo::checkpoint::{Noted, UNBORN};
use crate::store::git::repo::refs;
use crate::store::git::worktree::apply::update::{Occasion, is_known};
use crate::store::git::worktree::scan::status;
use crate::store::{StoreError, TreeEntry};

/// How many commits are looked through for what a file was in between; a file that was older than
/// that when we were killed is kept as if a person had edited it.
const PASSED_COMMITS_MAX: usize = 1_000;

fn is_done(noted: Noted, head: Oid) -> bool {
    noted.revision == head && !noted.after_restart
}

impl GitJournal {
    /// Brings a work tree forward that is behind; see
    /// [`Journal::catch_up`](crate::store::Journal::catch_up). `wait` is how long to wait for
    /// someone else's lock.
    pub(crate) fn bring_forward(&mut self, wait: Duration) -> Result<(), StoreError> {
        let noted = self.note.read();
        if status::away(&self.place, &self.branch)?.is_some() {
            return Ok(());
        }
        let head = refs::read(&self.place.common_dir, &self.branch)?.unwrap_or(UNBORN);
        if noted.is_some_and(|noted| is_done(noted, head)) {
            return Ok(());
        }
        // `git commit` moves the branch before the index that it holds the lock of: who is still at it
        // brings the index along, and the next command of theirs must find no lock of ours.
        let index_lock = lock_of(&self.place.git_dir.join("index"));
        let is_being_brought = wait.is_zero() && index_lock.symlink_metadata().is_ok();
        if let Some(noted) = noted
            && self.was_brought_along(noted, &head)?
        {
            return self.note.write(&head);
        }
        #[cfg(test)]
        self.stop_at(crate::store::git::journal::fault::Fault::BeforeTheIndexIsLocked)?;
        if is_being_brought {
            return Err(StoreError::Locked { path: index_lock });
        }
        match self.lock_index(wait)? {
            Some(lock) => self.bring_forward_under(lock),
            None => Ok(()),
        }
    }

    /// The same for who has the lock of the index already, while the work tree shows the branch.
    pub(crate) fn bring_forward_under(&mut self, lock: HeldLock) -> Result<(), StoreError> {
        let head = refs::read(&self.place.common_dir, &self.branch)?.unwrap_or(UNBORN);
        if let Some(noted) = self.note.read().filter(|noted| !is_done(*noted, head))
            && self.is_ahead(&head, &noted.revision)?
        {
            let mut changes = self.changes_between(&noted.revision, &head)?;
            self.add_passed(&mut changes, &noted.revision, &head)?;
            let occasion = match (noted.after_restart, self.is_index_ahead) {
                (true, _) => Occasion::PowerCut,
                (false, true) => Occasion::Interrupted,
                (false, false) => Occasion::Found,
            };
            self.bring_along(lock, &changes, occasion)?;
        }
        self.note.write(&head)?;
        self.is_index_ahead = false;
        Ok(())
    }

    /// Whether nothing is to be done because whoever moved the branch has brought the index along,
    /// as an ordinary `git commit` does. Found out without the lock, which would be in the way of
    /// the person's next command, and without writing an index that may be large.
    fn was_brought_along(&mut self, noted: Noted, head: &Oid) -> Result<bool, StoreError> {
        if noted.after_restart || self.is_index_ahead {
            return Ok(false);
        }
        if !self.is_ahead(head, &noted.revision)? {
            return Ok(true);
        }
        let mut changes = self.changes_between(&noted.revision, head)?;
        self.add_passed(&mut changes, &noted.revision, head)?;
        let bytes = read_if_there(&self.place.git_dir.join("index"))?;
        let Some(Ok(index)) = bytes.map(GitIndex::parse) else { return Ok(false) };
        let is_old = |(name, change): (&String, _)| is_known(&index.get(&self.place.inside(name)), change);
        Ok(!changes.iter().any(is_old))
    }

    fn is_ahead(&mut self, head: &Oid, old: &Oid) -> Result<bool, StoreError> {
        match (*head == UNBORN, *old == UNBORN) {
            (true, _) => Ok(false),
            (false, true) => Ok(true),
            (false, false) => walk::descends(&mut self.objects, &self.place, *head, *old),
        }
    }

    /// What differs in the collections folder between two revisions.
    pub(crate) fn changes_between(&mut self, old: &Oid, new: &Oid) -> Result<PathChanges, StoreError> {
        let born = (*old != UNBORN).then_some(*old);
        let old = Trees::load(&mut self.objects, &self.place, born)?;
        let new = Trees::load(&mut self.objects, &self.place, Some(*new))?;
        let found = differences(old.folder().bytes(), new.folder().bytes())
            .map_err(|error| self.place.unsuitable(error.to_string()))?;
        let mut changes = PathChanges::new();
        for (name, before, after) in found {
            let Ok(name) = String::from_utf8(name) else { continue };
            // What is or was no file is a person's to check out.
            if [before, after].into_iter().flatten().any(|pointer| !pointer.is_file()) {
                continue;
            }
            let content = match after.map(|pointer| self.objects.blob(&pointer.oid)).transpose() {
                // The file is behind then, and the others need not be.
                Err(StoreError::Damaged { .. }) => None,
                content => content?,
            };
            changes.insert(name, PathChange { before, passed: Vec::new(), after, content });
        }
        Ok(changes)
    }

    /// Adds what the commits between the two revisions had.
    fn add_passed(
        &mut self,
        changes: &mut PathChanges,
        old: &[u8; 20],
        new: &[u8; 20],
    ) -> Result<(), StoreError> {
        let mut left = PASSED_COMMITS_MAX;
        walk::walk(&mut self.objects, &self.place, Revision::new(*new), &mut |commit, made| {
            for change in made {
                if let Some(known) = changes.get_mut(&change.name) {
                    known.passed.push(match change.before {
                        Some(TreeEntry::File(blob)) => Some(*blob.as_bytes()),
                        Some(TreeEntry::Special(_)) | None => None,
                    });
                }
            }
            left -= 1;
            left > 0 && commit.parents.first().is_some_and(|parent| parent.as_bytes() != old)
        })
    }
}
