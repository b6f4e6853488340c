//! A group of commits made visible: on disk, and then the branch.
//!
//! ```text
//! pack, index, branch.lock written ── flushed ── pack named, its folder flushed ── index ahead ── branch moved
//!                                                                                  (`ahead`)      (`refs`)
//! ```
//!
//! What is flushed when, and why that is enough, `barrier` says.

use crate::domain::Revision;
use crate::store::git::disk::lock::LockDraft;
use crate::store::git::journal::GitJournal;
use crate::store::git::object::id::Oid;
use crate::store::git::packs::store::{Mark, PackDraft};
use crate::store::git::repo::branch;
use crate::store::git::repo::refs::Move;
use crate::store::git::write::append::Group;
use crate::store::{Committed, Draft, Journal as _, StoreError};

impl GitJournal {
    /// Puts a group on disk and moves the branch to it. `prepare` is called right before the branch moves, when
    /// git can read the new objects; it gets the mark of their pack.
    pub(crate) fn publish(
        &mut self,
        before: Option<Oid>,
        group: &Group,
        drafts: &[Draft],
        prepare: impl FnOnce(&mut Self, Mark) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.make_durable(before.map(Revision::new))?;
        // After trouble nothing is known of the disk.
        self.durable = None;
        let steps: Vec<_> = group.committed.iter().zip(drafts).map(step).collect();
        let (branch, actor) = (self.branch.clone(), self.committer.actor.clone());
        let step = Move {
            branch: &branch,
            expected: before,
            steps: &steps,
            actor: &actor,
            at: drafts.last().expect("a group has commits").at,
            wait: self.lock_wait,
        };
        let pack = self.packs.draft(&group.pack, &self.barrier)?;
        let name = pack.name().to_owned();
        let draft = self.put_contents(pack, &step).inspect_err(|_| self.packs.abandon(&name))?;
        prepare(self, Mark::of(&self.packs, &name)).and_then(|()| self.move_branch(&step, draft))?;
        self.durable = Some(group.trees.revision);
        Ok(())
    }

    /// Whether the branch has moved to a group though its publication failed, since the last flush
    /// comes after the move. Then files and index must not be left behind.
    pub(crate) fn has_come_to(&self, group: &Group) -> bool {
        branch::tip(&self.place, &self.branch).is_ok_and(|tip| tip == group.trees.revision)
    }

    /// Flushes the contents of everything new, and gives the pack its name, durably: only what can be found
    /// after a power cut may be named by what may survive one.
    fn put_contents(&mut self, pack: PackDraft, step: &Move<'_>) -> Result<LockDraft, StoreError> {
        let draft = step.draft(&self.place)?;
        let [content, index] = pack.files();
        self.barrier.files(&[content, index, draft.content()])?;
        self.packs.finish(pack)?;
        self.barrier.folder(self.packs.folder())?;
        Ok(draft)
    }

    fn move_branch(&mut self, step: &Move<'_>, draft: LockDraft) -> Result<(), StoreError> {
        #[cfg(test)]
        self.stop_at(crate::store::git::journal::fault::Fault::BeforeTheBranch)?;
        step.make(&self.place, draft, &self.barrier)
    }
}

/// A commit's part of the move: its name and its reflog message.
fn step((committed, draft): (&Committed, &Draft)) -> (Oid, String) {
    let subject = draft.message.lines().next().unwrap_or_default();
    (*committed.revision.as_bytes(), format!("collectory: {subject}"))
}
