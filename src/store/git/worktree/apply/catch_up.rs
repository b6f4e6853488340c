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
//! Files outside the collections folder are brought forward where the branch is shared with a remote (see `others`).
//!
//! Which revision is known the checkpoint (`repo::checkpoint`) says, and which commits were under way the marks of
//! their packs do (see `interrupted`). The checkpoint may be older than the truth, since a person's own commit or
//! checkout brings the work tree forward without us: then files and entries are what the *new* head has,
//! and nothing is to be done. As long as the system runs, order proves something as well: we always change
//! the file first and the index after it, so an entry that is new beside a file that is old is a person's
//! edit and stays, unless we were killed while the index was ahead: then the file alone counts, whatever is staged.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::time::Duration;

use crate::domain::Revision;
use crate::store::git::disk::failpoint::{Failpoint, stop_at};
use crate::store::git::disk::lock::{HeldLock, lock_of};
use crate::store::git::object::path_change::{PathChange, PathChanges};
use crate::store::git::object::tree::{Pointer, differences};
use crate::store::git::read::reader::Reader;
use crate::store::git::repo::checkpoint::Checkpointed;
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::apply::others::others_between;
use crate::store::git::worktree::apply::update::{Occasion, is_known};
use crate::store::git::worktree::scan::status;
use crate::store::{Commits as _, StoreError, TreeEntry};

/// How many commits are looked through for what we made of a file. Everything is flushed every few dozen
/// commits, so there are that many only when others moved the branch; what is older is kept as if a person
/// had edited it.
const JUDGED_COMMITS_MAX: usize = 100_000;

impl Checkout {
    /// Brings a work tree forward that is behind; see
    /// [`Journal::catch_up`](crate::store::Journal::catch_up). `wait` is how long to wait for
    /// someone else's lock.
    pub(crate) fn catch_up(&mut self, reader: &mut Reader, wait: Duration) -> Result<(), StoreError> {
        if status::away(&self.branch)?.is_some() {
            return Ok(());
        }
        let head = self.branch.tip()?;
        let known = self.known(head);
        if self.is_done(known, head) {
            return Ok(());
        }
        // `git commit` moves the branch before the index that it holds the lock of: who is still at it
        // brings the index along, and the next command of theirs must find no lock of ours.
        let index_lock = lock_of(&self.index.path);
        let is_being_brought = wait.is_zero() && index_lock.symlink_metadata().is_ok();
        if self.was_brought_along(reader, known, head)? {
            return self.checkpoint.write(head);
        }
        stop_at(Failpoint::LockIndex, &self.layout.git_dir)?;
        if is_being_brought {
            return Err(StoreError::Locked { path: index_lock });
        }
        match self.lock_index(wait)? {
            Some(lock) => self.catch_up_under(reader, lock),
            None => Ok(()),
        }
    }

    /// Brings it along where we have moved the branch to what does not descend from where it was, if it was brought to
    /// there; a step forward is left to [`catch_up`](Self::catch_up).
    pub(crate) fn follow(
        &mut self,
        reader: &mut Reader,
        from: Option<Revision>,
        to: Revision,
        wait: Duration,
    ) -> Result<(), StoreError> {
        let is_there = self.known(from).revision == from && status::away(&self.branch)?.is_none();
        if !is_there || is_ahead(reader, Some(to), from)?.is_some() {
            return Ok(());
        }
        let Some(lock) = self.lock_index(wait)? else { return Ok(()) };
        let changes = changes_between(reader, from, Some(to))?;
        let others = others_between(reader, from, Some(to))?;
        self.update_found(reader, lock, [&changes, &others], Occasion::Found)?;
        self.checkpoint.write(Some(to))
    }

    /// [`catch_up`](Self::catch_up) for who has the lock of the index already, while the work tree shows the branch.
    pub(crate) fn catch_up_under(&mut self, reader: &mut Reader, lock: HeldLock) -> Result<(), StoreError> {
        let head = self.branch.tip()?;
        let known = self.known(head);
        if !self.is_done(known, head) {
            let [changes, others] = match is_ahead(reader, head, known.revision)? {
                Some(head) => [
                    changes_since(reader, known.revision, head)?,
                    others_between(reader, known.revision, Some(head))?,
                ],
                None => [PathChanges::new(), PathChanges::new()],
            };
            let occasion = match (known.after_restart, self.is_index_ahead) {
                (true, _) => Occasion::PowerCut,
                (false, true) => Occasion::Ours,
                (false, false) => Occasion::Found,
            };
            self.update_found(reader, lock, [&changes, &others], occasion)?;
        }
        self.checkpoint.write(head)?;
        self.is_index_ahead = false;
        Ok(())
    }

    /// What is known of the work tree; without a checkpoint, that nobody knows whether the system was started
    /// anew since it was brought to the head.
    pub(crate) fn known(&self, head: Option<Revision>) -> Checkpointed {
        let unknown = Checkpointed { revision: head, flushed: head, after_restart: true };
        self.checkpoint.read().unwrap_or(unknown)
    }

    fn is_done(&self, known: Checkpointed, head: Option<Revision>) -> bool {
        known.revision == head && !known.after_restart && self.under_way.is_empty()
    }

    /// Whether nothing is to be done because whoever moved the branch has brought the index along,
    /// as an ordinary `git commit` does. Found out without the lock, which would be in the way of
    /// the person's next command, and without writing an index that may be large.
    fn was_brought_along(
        &self,
        reader: &mut Reader,
        known: Checkpointed,
        head: Option<Revision>,
    ) -> Result<bool, StoreError> {
        if known.after_restart || self.is_index_ahead || !self.under_way.is_empty() {
            return Ok(false);
        }
        let Some(head) = is_ahead(reader, head, known.revision)? else { return Ok(true) };
        let changes = changes_since(reader, known.revision, head)?;
        let others = others_between(reader, known.revision, Some(head))?;
        let Some(index) = self.index.read()? else { return Ok(false) };
        let is_old = |(name, change): (&String, _)| is_known(&index.get(&self.layout.inside(name)), change);
        let is_old_other = |(path, change): (&String, _)| is_known(&index.get(path), change);
        Ok(!changes.iter().any(is_old) && !others.iter().any(is_old_other))
    }
}

/// The head, if it descends from what the work tree has.
pub(crate) fn is_ahead(
    reader: &mut Reader,
    head: Option<Revision>,
    old: Option<Revision>,
) -> Result<Option<Revision>, StoreError> {
    let (Some(new), Some(old)) = (head, old) else { return Ok(head) };
    Ok(reader.descends(new, old)?.then_some(new))
}

/// What differs in the collections folder between two revisions.
pub(crate) fn changes_between(
    reader: &mut Reader,
    old: Option<Revision>,
    new: Option<Revision>,
) -> Result<PathChanges, StoreError> {
    let (old, new) = (reader.load_trees(old)?, reader.load_trees(new)?);
    let found = differences(old.folder().bytes(), new.folder().bytes())
        .map_err(|error| reader.layout.unsuitable(error.to_string()))?;
    let mut changes = PathChanges::new();
    for (name, before, after) in found {
        let Ok(name) = String::from_utf8(name) else { continue };
        if let Some(change) = change_of(reader, before, after)? {
            changes.insert(name, change);
        }
    }
    Ok(changes)
}

/// What differs in the collections folder between two revisions, and every file that is what it was and was something
/// else in a commit between the two.
pub(crate) fn changes_since(
    reader: &mut Reader,
    old: Option<Revision>,
    new: Revision,
) -> Result<PathChanges, StoreError> {
    let mut changes = changes_between(reader, old, Some(new))?;
    let trees = reader.load_trees(Some(new))?;
    for commit in reader.between(old, new, JUDGED_COMMITS_MAX)? {
        let parent = reader.objects.commit(commit, |commit| commit.parents.first().copied())?;
        for passed in reader.differences(parent, Some(commit))? {
            let there = match changes.entry(passed.name) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(slot) => {
                    let pointer = trees.folder().get(slot.key().as_bytes());
                    let Some(change) = change_of(reader, pointer, pointer)? else { continue };
                    slot.insert(change)
                }
            };
            there.passed.insert(passed.before.and_then(TreeEntry::blob));
        }
    }
    Ok(changes)
}

/// A change of a file; what is or was none is a person's to check out.
fn change_of(
    reader: &mut Reader,
    before: Option<Pointer>,
    after: Option<Pointer>,
) -> Result<Option<PathChange>, StoreError> {
    if [before, after].into_iter().flatten().any(|pointer| !pointer.is_file()) {
        return Ok(None);
    }
    let content = match after.map(|pointer| reader.objects.blob(pointer.blob())).transpose() {
        // The file is behind then, and the others need not be.
        Err(StoreError::Damaged { .. }) => None,
        content => content?,
    };
    Ok(Some(PathChange { before, passed: BTreeSet::new(), after, content }))
}
