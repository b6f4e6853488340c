//! Commits in two steps: made and flushed first, on the branch later or never. A caller consults a remote in between.

use std::slice;

use chrono::{DateTime, Utc};

use crate::domain::Revision;
use crate::store::git::journal::GitJournal;
use crate::store::{Committed, Draft, Journal as _, StoreError, TreeId};

impl GitJournal {
    /// Makes a chain of commits on top of `expected`, durably, without moving the branch. Commits that the branch
    /// never reaches are unreachable objects, which `git gc` removes.
    ///
    /// # Errors
    ///
    /// As [`append`](crate::store::Journal::append).
    pub(crate) fn prepare(
        &mut self,
        expected: Option<Revision>,
        drafts: &[Draft],
    ) -> Result<Vec<Committed>, StoreError> {
        self.check_writable()?;
        let found = self.head()?;
        if found != expected {
            return Err(StoreError::HeadMoved { expected, found });
        }
        let trees = self.reader.take_trees(expected)?;
        let group = self.writer.build(trees, None, drafts)?;
        self.writer.put(expected, &group)?;
        self.reader.recent_commits.remember(group.steps);
        self.reader.recent_commits.keep(group.changes);
        self.reader.keep_trees(group.trees);
        Ok(group.committed)
    }

    /// Makes a merge commit of these two parents, durably, without moving the branch. Its tree is `tree` with the
    /// files of the draft put into it.
    ///
    /// # Errors
    ///
    /// As [`append`](crate::store::Journal::append).
    pub(crate) fn prepare_merge(
        &mut self,
        parents: [Revision; 2],
        tree: TreeId,
        draft: &Draft,
    ) -> Result<Revision, StoreError> {
        self.check_writable()?;
        let found = self.head()?;
        // Both parents are here with everything that they reach.
        let trees = self.reader.load_trees_below(parents[0], tree)?;
        let group = self.writer.build(trees, Some(parents[1]), slice::from_ref(draft))?;
        self.writer.put(found, &group)?;
        Ok(group.tip())
    }

    /// Moves the branch, durably, from `expected` to a commit that exists here with everything that it reaches; `why`
    /// is recorded in the reflog. The next [`catch_up`](crate::store::Journal::catch_up) brings the work tree forward.
    ///
    /// # Errors
    ///
    /// [`StoreError::HeadMoved`] when the branch is not at `expected`; otherwise as [`append`](crate::store::Journal::append).
    pub(crate) fn advance(
        &mut self,
        expected: Option<Revision>,
        to: Revision,
        why: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        self.check_writable()?;
        self.recover_locks()?;
        self.branch.check_other_work_trees()?;
        let is_noted = self.checkout.note_move(&mut self.reader, expected, to)?;
        self.writer.advance(expected, to, why, now)?;
        if is_noted && let Err(error) = self.checkout.catch_up(&mut self.reader, self.writer.lock_wait) {
            tracing::warn!(%error, "the work tree does not follow yet to where the branch was moved");
        }
        Ok(())
    }

    /// Fails with [`StoreError::Unsuitable`] if a revision has something else in place of the collections folder.
    pub(crate) fn check_folder(&mut self, revision: Revision) -> Result<(), StoreError> {
        self.reader.check_folder(revision)
    }
}
