//! A work tree that is behind its branch: whether it is, and what is done about it.
//!
//! This is the one rule for whatever may have come between a commit and the work tree: a kill, a power
//! cut, a move of the branch that was not ours.
//!
//! 1. What we made of a file or an index entry is what any commit has between the revision that the work
//!    tree is known to have, after a restart of the system on disk, and the head; and for an entry also what
//!    a commit has that was under way to the branch.
//! 2. Whatever is what we made of it becomes what the head has, and so does what was not flushed and makes
//!    no sense after a restart of the system: an index that can't be read, a file without text.
//! 3. Anything else is a person's and stays.
//!
//! Which revision is known the checkpoint (`repo::checkpoint`) says, and which commits were under way the marks of
//! their packs do (see `journal::interrupted`). The note may be older than the truth, since a person's own commit or
//! checkout brings the work tree forward without us: then files and entries are what the *new* head has,
//! and nothing is to be done. As long as the system runs, order proves something as well: we always change
//! the file first and the index after it, so an entry that is new beside a file that is old is a person's
//! edit and stays, unless we were killed while the index was ahead.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::time::Duration;

use crate::domain::Revision;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::disk::lock::{HeldLock, lock_of};
use crate::store::git::index::git_index::GitIndex;
use crate::store::git::journal::GitJournal;
use crate::store::git::object::id::Oid;
use crate::store::git::object::path_change::{PathChange, PathChanges};
use crate::store::git::object::tree::{Pointer, differences};
use crate::store::git::read::diff;
use crate::store::git::read::trees::Trees;
use crate::store::git::read::walk;
use crate::store::git::repo::checkpoint::{Noted, UNBORN};
use crate::store::git::repo::refs;
use crate::store::git::worktree::apply::update::{Occasion, is_known};
use crate::store::git::worktree::scan::status;
use crate::store::{FileChange, StoreError, TreeEntry};

/// How many commits are looked through for what we made of a file. Everything is flushed every few dozen
/// commits, so there are that many only when others moved the branch; what is older is kept as if a person
/// had edited it.
const JUDGED_COMMITS_MAX: usize = 100_000;

impl GitJournal {
    /// Brings a work tree forward that is behind; see
    /// [`Journal::catch_up`](crate::store::Journal::catch_up). `wait` is how long to wait for
    /// someone else's lock.
    pub(crate) fn bring_forward(&mut self, wait: Duration) -> Result<(), StoreError> {
        if status::away(&self.place, &self.branch)?.is_some() {
            return Ok(());
        }
        let head = refs::read(&self.place.common_dir, &self.branch)?.unwrap_or(UNBORN);
        let noted = self.noted(&head);
        if self.is_done(noted, head) {
            return Ok(());
        }
        // `git commit` moves the branch before the index that it holds the lock of: who is still at it
        // brings the index along, and the next command of theirs must find no lock of ours.
        let index_lock = lock_of(&self.place.git_dir.join("index"));
        let is_being_brought = wait.is_zero() && index_lock.symlink_metadata().is_ok();
        if self.was_brought_along(noted, &head)? {
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
        let noted = self.noted(&head);
        if !self.is_done(noted, head) {
            let changes = match self.is_ahead(&head, &noted.revision)? {
                true => self.changes_since(&noted.revision, &head)?,
                false => PathChanges::new(),
            };
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

    /// What is known of the work tree; without a note, that nobody knows whether the system was started
    /// anew since it was brought to the head.
    fn noted(&self, head: &Oid) -> Noted {
        self.note.read().unwrap_or(Noted { revision: *head, flushed: *head, after_restart: true })
    }

    fn is_done(&self, noted: Noted, head: Oid) -> bool {
        noted.revision == head && !noted.after_restart && self.under_way.is_empty()
    }

    /// Whether nothing is to be done because whoever moved the branch has brought the index along,
    /// as an ordinary `git commit` does. Found out without the lock, which would be in the way of
    /// the person's next command, and without writing an index that may be large.
    fn was_brought_along(&mut self, noted: Noted, head: &Oid) -> Result<bool, StoreError> {
        if noted.after_restart || self.is_index_ahead || !self.under_way.is_empty() {
            return Ok(false);
        }
        if !self.is_ahead(head, &noted.revision)? {
            return Ok(true);
        }
        let changes = self.changes_since(&noted.revision, head)?;
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
        let old = Trees::load(&mut self.objects, &self.place, born(old))?;
        let new = Trees::load(&mut self.objects, &self.place, born(new))?;
        let found = differences(old.folder().bytes(), new.folder().bytes())
            .map_err(|error| self.place.unsuitable(error.to_string()))?;
        let mut changes = PathChanges::new();
        for (name, before, after) in found {
            let Ok(name) = String::from_utf8(name) else { continue };
            if let Some(change) = self.change(before, after)? {
                changes.insert(name, change);
            }
        }
        Ok(changes)
    }

    /// The same, and every file that is what it was and was something else in a commit between the two.
    fn changes_since(&mut self, old: &Oid, new: &Oid) -> Result<PathChanges, StoreError> {
        let mut changes = self.changes_between(old, new)?;
        let trees = Trees::load(&mut self.objects, &self.place, born(new))?;
        let (objects, place) = (&mut self.objects, &self.place);
        for commit in walk::between(objects, place, born(old), *new, JUDGED_COMMITS_MAX)? {
            for passed in self.changes_of(commit)? {
                let there = match changes.entry(passed.name) {
                    Entry::Occupied(there) => there.into_mut(),
                    Entry::Vacant(slot) => {
                        let pointer = trees.folder().get(slot.key().as_bytes());
                        let Some(change) = self.change(pointer, pointer)? else { continue };
                        slot.insert(change)
                    }
                };
                there.passed.insert(match passed.before {
                    Some(TreeEntry::File(blob)) => Some(*blob.as_bytes()),
                    Some(TreeEntry::Special(_)) | None => None,
                });
            }
        }
        Ok(changes)
    }

    /// What a commit did.
    fn changes_of(&mut self, commit: Revision) -> Result<Vec<FileChange>, StoreError> {
        let parent = self.objects.commit(commit, |commit| commit.parents.first().copied())?;
        diff::changes(&mut self.objects, &self.place, None, [parent, Some(commit)])
    }

    /// A change of a file; what is or was none is a person's to check out.
    fn change(
        &mut self,
        before: Option<Pointer>,
        after: Option<Pointer>,
    ) -> Result<Option<PathChange>, StoreError> {
        if [before, after].into_iter().flatten().any(|pointer| !pointer.is_file()) {
            return Ok(None);
        }
        let content = match after.map(|pointer| self.objects.blob(&pointer.oid)).transpose() {
            // The file is behind then, and the others need not be.
            Err(StoreError::Damaged { .. }) => None,
            content => content?,
        };
        Ok(Some(PathChange { before, passed: BTreeSet::new(), after, content }))
    }
}

fn born(revision: &Oid) -> Option<Oid> {
    (*revision != UNBORN).then_some(*revision)
}
