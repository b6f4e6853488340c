//! Publishes a group of commits: flushes it, then moves the branch.
//!
//! ```text
//! pack, index, branch.lock written ── flushed ── pack named, its folder flushed ── index ahead ── branch moved
//!                                                                              (`index::rollback`) (`repo::refs`)
//! ```
//!
//! `disk::barrier` says what is flushed when, and why that is enough.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::domain::Revision;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::disk::failpoint::{Failpoint, stop_at};
use crate::store::git::disk::lock::LockDraft;
use crate::store::git::packs::store::{KeepFile, Packs};
use crate::store::git::read::trees::Trees;
use crate::store::git::repo::refs::branch::Branch;
use crate::store::git::repo::refs::branch_move::BranchMove;
use crate::store::git::write::append::Committer;
use crate::store::git::write::append::{CommitGroup, build};
use crate::store::{Committed, Draft, StoreError};

pub(crate) struct Writer {
    pub(crate) branch: Branch,
    pub(crate) committer: Committer,
    /// How long to wait for a lock of another git process.
    pub(crate) lock_wait: Duration,
    pub(crate) barrier: Barrier,
    pub(crate) packs: Arc<Packs>,
    // The revision up to which everything is on disk; `None` while that is unknown.
    durable: Cell<Option<Option<Revision>>>,
}

impl Writer {
    pub(crate) const fn new(
        branch: Branch,
        committer: Committer,
        lock_wait: Duration,
        barrier: Barrier,
        packs: Arc<Packs>,
    ) -> Self {
        Self { branch, committer, lock_wait, barrier, packs, durable: Cell::new(None) }
    }

    pub(crate) fn forget(&self) {
        self.durable.set(None);
    }

    /// See [`Journal::make_durable`](crate::store::Journal::make_durable).
    pub(crate) fn make_durable(&self, head: Option<Revision>) -> Result<(), StoreError> {
        if self.durable.get() != Some(head) {
            self.barrier.file_system(&self.branch.layout.common_dir)?;
            self.durable.set(Some(head));
        }
        Ok(())
    }

    /// Builds a group on top of `trees`; see [`build`].
    pub(crate) fn build(
        &self,
        trees: Trees,
        joined: Option<Revision>,
        drafts: &[Draft],
    ) -> Result<CommitGroup, StoreError> {
        build(&self.branch.layout, trees, joined, drafts, &self.committer)
    }

    /// Writes a group to disk and moves the branch to it. Calls `prepare` with the keep file of the pack right before
    /// the branch moves, when git can read the new objects already.
    pub(crate) fn publish(
        &self,
        before: Option<Revision>,
        group: &CommitGroup,
        drafts: &[Draft],
        prepare: impl FnOnce(KeepFile) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let steps: Vec<_> = group.committed.iter().zip(drafts).map(step).collect();
        let at = drafts.last().expect("a group has commits").at;
        let step = self.step(before, &steps, at);
        self.begin(before)?;
        let draft = step.draft(&self.branch.layout)?;
        let keep_file = self.packs.write(&group.pack, &[draft.content()])?;
        prepare(keep_file).and_then(|()| self.move_branch(&step, draft))?;
        self.durable.set(Some(group.trees.revision));
        Ok(())
    }

    /// Writes a group to disk without moving the branch.
    pub(crate) fn put(&self, before: Option<Revision>, group: &CommitGroup) -> Result<(), StoreError> {
        self.begin(before)?;
        drop(self.packs.write(&group.pack, &[])?);
        self.durable.set(Some(group.trees.revision));
        Ok(())
    }

    /// Moves the branch to an existing commit, durably.
    pub(crate) fn advance(
        &self,
        expected: Option<Revision>,
        to: Revision,
        why: &str,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let steps = [(to, format!("collectory: {why}"))];
        let step = self.step(expected, &steps, at);
        self.begin(Some(to))?;
        let draft = step.draft(&self.branch.layout)?;
        self.barrier.files(&[draft.content()])?;
        self.move_branch(&step, draft)?;
        self.durable.set(Some(Some(to)));
        Ok(())
    }

    /// Returns whether the branch has moved to a group although publishing it failed, because the last flush comes
    /// after the move. Files and index must then be updated.
    pub(crate) fn has_moved_to(&self, group: &CommitGroup) -> bool {
        self.branch.tip().is_ok_and(|tip| tip == group.trees.revision)
    }

    /// Makes existing objects durable; from then on, until the next success, nothing is known to be on disk.
    fn begin(&self, head: Option<Revision>) -> Result<(), StoreError> {
        self.make_durable(head).map(|()| self.forget())
    }

    fn step<'a>(
        &'a self,
        expected: Option<Revision>,
        steps: &'a [(Revision, String)],
        at: DateTime<Utc>,
    ) -> BranchMove<'a> {
        BranchMove {
            branch: &self.branch.name,
            expected,
            commits: steps,
            actor: &self.committer.actor,
            at,
            wait: self.lock_wait,
        }
    }

    fn move_branch(&self, step: &BranchMove<'_>, draft: LockDraft) -> Result<(), StoreError> {
        stop_at(Failpoint::MoveBranch, &self.branch.layout.common_dir)?;
        step.make(&self.branch.layout, draft, &self.barrier)
    }
}

/// Returns a commit's part of the move: its id and its reflog message.
fn step((committed, draft): (&Committed, &Draft)) -> (Revision, String) {
    let subject = draft.message.lines().next().unwrap_or_default();
    (committed.revision, format!("collectory: {subject}"))
}
