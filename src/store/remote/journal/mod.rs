//! The journal of a branch that is shared through a remote, wrapped around a journal of the repository.

pub(crate) mod decision;
mod follow;
pub(crate) mod merge;
mod push;
mod push_turns;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::git::GitJournal;
use crate::store::remote::error::RemoteError;
use crate::store::remote::journal::push_turns::PushTurns;
use crate::store::remote::link::{Ack, DecisionCallback, Link};
use crate::store::remote::transport::folder::PrivateRef;
use crate::store::{
    BlobId, Commits, Committed, Draft, GitLocks, Journal, KeptHead, Paths, StoreError, WorkTree,
};

/// A journal whose branch is shared through a remote; except in mode `local` it advances only to what the remote has.
pub struct RemoteJournal {
    pub(crate) inner: GitJournal,
    pub(crate) link: Arc<Link>,
    /// The head of the remote that the local branch contains.
    base: Option<Revision>,
    turn: PushTurns,
    /// How often an operator's decision is retried when others were faster.
    races_max: usize,
    /// The former head that an operator has let go, until the engine finds it missing.
    pub(crate) accepted: Option<Revision>,
    /// The heads, local and remote, whose distance was recorded last.
    distance_of: (Option<Revision>, Option<Revision>),
    /// Callbacks of decisions that were carried out, for when the result can be read.
    decided: Vec<DecisionCallback>,
    /// The lock of another git process that, at the last look, kept the branch from advancing to what the remote has.
    held_by: Option<PathBuf>,
}

impl RemoteJournal {
    /// Creates a journal that shares its branch through a link.
    pub fn new(inner: GitJournal, link: Arc<Link>, races_max: usize) -> Self {
        let base = link.git.noted(PrivateRef::Base);
        let (turn, distance_of) = (PushTurns::default(), (None, None));
        let (accepted, decided, held_by) = (None, Vec::new(), None);
        let mut journal =
            Self { inner, link, base, turn, races_max, accepted, distance_of, decided, held_by };
        journal.read_base();
        journal
    }

    /// Catches up on the base, if the service ended after the branch had advanced and before that was recorded.
    fn read_base(&mut self) {
        let Some(coming) = self.link.git.noted(PrivateRef::Coming) else { return };
        // An unreadable head is reported by the first look.
        let Ok(Some(local)) = self.inner.head() else { return };
        if self.inner.commits().descends(local, coming).unwrap_or(false) {
            self.note_base(coming);
        }
    }

    pub(crate) fn note_base(&mut self, base: Revision) {
        if self.base == Some(base) {
            return;
        }
        self.base = Some(base);
        if let Err(error) = self.link.git.note_base(base) {
            tracing::warn!(%error, "up to where the remote is known could not be noted");
        }
    }

    /// Records how many commits only the remote has and, except in mode `local`, how many only this repository has.
    fn note_distance(&mut self, here: Option<Revision>) -> Result<(), StoreError> {
        // Until the remote is seen, it is assumed to be at the base.
        let there = self.link.known().seen_heads.head().or(self.base);
        if self.distance_of == (here, there) {
            return Ok(());
        }
        let is_local = self.link.is_local();
        let (behind, ahead) = match (here, there) {
            (Some(here), Some(there)) if here != there => {
                let behind = self.inner.commits().commits_beyond(there, here)?.len();
                // In mode `local` the push queue counts them, and there may be thousands.
                let ahead =
                    if is_local { 0 } else { self.inner.commits().commits_beyond(here, there)?.len() };
                (behind, ahead)
            }
            _ => (0, 0),
        };
        let mut known = self.link.known();
        known.behind = behind;
        if !is_local {
            known.ahead = ahead;
        }
        drop(known);
        self.distance_of = (here, there);
        Ok(())
    }

    /// Mode `local`: commits can be answered once they are here, and are pushed in the background.
    fn append_here(
        &mut self,
        expected: Option<Revision>,
        drafts: &[Draft],
        ahead_max: usize,
    ) -> Result<Vec<Committed>, StoreError> {
        if self.link.is_stopped() {
            self.link.check_writable()?;
        }
        let waiting = self.link.ahead();
        if waiting + drafts.len() > ahead_max {
            return Err(RemoteError::FarAhead { waiting, ahead_max }.into());
        }
        let committed = self.inner.append(expected, drafts)?;
        if let Some(tip) = committed.last() {
            self.link.extend_queued_push(self.base, tip.revision, committed.len());
        }
        Ok(committed)
    }
}

impl Journal for RemoteJournal {
    fn head(&mut self) -> Result<Option<Revision>, StoreError> {
        self.peek();
        let local = self.inner.head()?;
        let held_before = self.held_by.take();
        let found = self.follow(local)?;
        if let Some(lock) = self.held_by.as_ref().filter(|lock| held_before.as_ref() != Some(*lock)) {
            let lock = lock.display();
            tracing::warn!(%lock, "another git process holds a lock, so what the remote has is not followed here");
        }
        self.note_distance(found)?;
        Ok(found)
    }

    fn commits(&mut self) -> &mut dyn Commits {
        self.inner.commits()
    }

    fn wait_for_git(&mut self) -> Result<(), StoreError> {
        self.inner.wait_for_git()
    }

    fn paused_until(&self) -> Option<Instant> {
        // A write that can't be accepted fails immediately.
        if self.link.is_local() || !self.link.is_up() || self.link.is_hurried() {
            return None;
        }
        let now = Instant::now();
        self.link.push_at().into_iter().chain(self.turn.next_turn_at()).filter(|at| *at > now).max()
    }

    fn append(&mut self, expected: Option<Revision>, drafts: &[Draft]) -> Result<Vec<Committed>, StoreError> {
        self.note_late();
        let found = self.head()?;
        if found != expected {
            return Err(StoreError::HeadMoved { expected, found });
        }
        if let Ack::Local { ahead_max } = self.link.settings.ack {
            return self.append_here(expected, drafts, ahead_max);
        }
        if let Some(path) = self.held_by.clone() {
            // A write decided on the local head would lose the race against what the remote already has.
            return Err(StoreError::Locked { path });
        }
        self.link.check_writable()?;
        let began = Instant::now();
        let committed = self.inner.prepare(expected, drafts)?;
        let Some(tip) = committed.last().map(|it| it.revision) else { return Ok(committed) };
        self.push(expected, tip)?;
        self.turn.pushed(Instant::now(), began.elapsed());
        if let Err(error) = self.inner.advance(expected, tip, "pushed to the remote", self.link.now()) {
            tracing::warn!(%error, %tip, "the remote has a write that the branch here could not go on to yet");
            return Err(RemoteError::OutcomeUnknown.into());
        }
        self.note_base(tip);
        if let Err(error) = self.inner.catch_up() {
            tracing::debug!(%error, "the work tree is brought forward later");
        }
        Ok(committed)
    }

    fn make_durable(&mut self, head: Option<Revision>) -> Result<(), StoreError> {
        self.inner.make_durable(head)?;
        self.confirm_head(head)
    }

    fn confirm_head(&mut self, head: Option<Revision>) -> Result<(), StoreError> {
        if self.link.is_local() { Ok(()) } else { self.confirm(head) }
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        self.inner.catch_up()
    }

    fn work_tree_content(&mut self, name: &str, blob: BlobId) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.work_tree_content(name, blob)
    }

    fn is_converted(&mut self, name: &str, content: &[u8]) -> bool {
        self.inner.is_converted(name, content)
    }

    fn work_tree(
        &mut self,
        head: Option<Revision>,
        paths: Paths<'_>,
        locks: GitLocks,
    ) -> Result<WorkTree, StoreError> {
        self.inner.work_tree(head, paths, locks)
    }

    fn last_served(&mut self) -> Result<Option<Revision>, StoreError> {
        self.inner.last_served()
    }

    fn note_served(&mut self, head: Revision) {
        self.inner.note_served(head);
    }

    fn keep(&mut self, revision: Revision, now: DateTime<Utc>) -> Result<KeptHead, StoreError> {
        let kept = self.inner.keep(revision, now)?;
        if self.accepted.take() == Some(revision) {
            self.inner.remove_kept(std::slice::from_ref(&kept))?;
        }
        Ok(kept)
    }

    fn kept(&mut self, now: DateTime<Utc>) -> Result<Vec<KeptHead>, StoreError> {
        self.inner.kept(now)
    }

    fn remove_kept(&mut self, kept: &[KeptHead]) -> Result<(), StoreError> {
        self.inner.remove_kept(kept)
    }

    fn carry_out_decision(&mut self) -> bool {
        let Some((decision, callback)) = self.link.take_decision() else { return false };
        match self.decide(decision) {
            Ok(_) => self.decided.push(callback),
            Err(StoreError::Remote(error)) => callback(Err(error)),
            Err(error) => callback(Err(RemoteError::Stopped(error.to_string()))),
        }
        true
    }

    fn note_readable(&mut self, head: Option<Revision>) {
        let (found, _) = self.distance_of;
        if let Some(head) = head.filter(|head| found == Some(*head)) {
            self.decided.drain(..).for_each(|callback| callback(Ok(head)));
        }
    }

    fn has_merges(&self) -> bool {
        true
    }

    fn saved_at(&self, name: &str) -> Option<DateTime<Utc>> {
        self.inner.saved_at(name)
    }

    fn hand_edit_author(&mut self) -> Actor {
        self.inner.hand_edit_author()
    }

    fn start_maintenance(&mut self) -> Result<(), StoreError> {
        self.inner.start_maintenance()
    }
}
