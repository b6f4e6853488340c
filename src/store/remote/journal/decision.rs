//! What an operator decides about a remote that was rewritten: it is right as it is, or what it has lost comes back.

use crate::domain::Revision;
use crate::store::remote::RemoteError;
use crate::store::remote::journal::RemoteJournal;
use crate::store::remote::journal::merge::Join;
use crate::store::remote::transport::git::Note;
use crate::store::remote::transport::pushed::Pushed;
use crate::store::{Kept, StoreError, TwoPhase};

/// What an operator decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The remote is right: the branch here follows it, and what it has lost is let go.
    Accept,
    /// What the remote has lost comes back.
    Restore {
        /// In place of what the remote has now, which is kept here; otherwise both are merged.
        force: bool,
    },
}

impl<J: TwoPhase> RemoteJournal<J> {
    /// Does what was decided, and answers where the branch is then.
    ///
    /// # Errors
    ///
    /// Says why it could not be done; nothing has changed then.
    pub fn decide(&mut self, decision: Decision) -> Result<Revision, StoreError> {
        let head = self.link.fetch(Note::Judged, self.link.deadline())?;
        let decided = match decision {
            Decision::Accept => self.accept(head)?,
            Decision::Restore { force } => self.restore(head, force)?,
        };
        self.inner.note_served(decided);
        self.note_base(decided);
        self.link.is_well();
        tracing::info!(?decision, revision = %decided, "an operator has decided about the rewritten remote");
        Ok(decided)
    }

    fn accept(&mut self, head: Option<Revision>) -> Result<Revision, StoreError> {
        let why = "the remote has no such branch, so there is nothing to accept";
        let head = head.ok_or_else(|| RemoteError::Stopped(why.to_owned()))?;
        let local = self.inner.head()?;
        if local != Some(head) {
            match self.is_ahead(local)? {
                // What the remote never had it has not lost.
                Some(local) => drop(self.inner.keep(local, self.link.now())?),
                None => self.accepted = local,
            }
            self.inner.advance(local, head, "accepted the remote as it is", self.link.now())?;
        }
        let kept = self.inner.kept(self.link.now())?;
        let settled: Vec<Kept> =
            kept.into_iter().filter(|kept| Some(kept.revision) != local || self.accepted == local).collect();
        self.inner.let_go(&settled)?;
        Ok(head)
    }

    fn restore(&mut self, head: Option<Revision>, force: bool) -> Result<Revision, StoreError> {
        let local = self.inner.head()?;
        let kept = self.inner.kept(self.link.now())?;
        let lost = self.lost(local, head, &kept)?;
        let tip = match head {
            Some(head) if !force => self.merge(Join { theirs: head, ours: lost, is_restored: true })?,
            Some(_) | None => lost,
        };
        self.push_decided(head, tip)?;
        if let Some(head) = head
            && !self.inner.descends(tip, head)?
        {
            self.inner.keep(head, self.link.now())?;
        }
        if local != Some(tip) {
            self.inner.advance(local, tip, "restored what the remote had lost", self.link.now())?;
        }
        let restored: Vec<Kept> = kept.into_iter().filter(|kept| kept.revision == lost).collect();
        self.inner.let_go(&restored)?;
        Ok(tip)
    }

    /// What the remote does not have any more: the branch here where it was not followed, else what was kept last.
    fn lost(
        &mut self,
        local: Option<Revision>,
        head: Option<Revision>,
        kept: &[Kept],
    ) -> Result<Revision, StoreError> {
        if let Some(local) = local
            && head.map_or(Ok(true), |head| self.inner.descends(head, local).map(|has| !has))?
        {
            return Ok(local);
        }
        let nothing = || RemoteError::Stopped("nothing is kept of a rewritten branch".to_owned());
        Ok(kept.last().map(|kept| kept.revision).ok_or_else(nothing)?)
    }

    fn push_decided(&mut self, lease: Option<Revision>, tip: Revision) -> Result<(), StoreError> {
        let until = self.link.deadline();
        match self.link.push(tip, lease, until) {
            Pushed::Accepted => Ok(()),
            Pushed::Answered(why) => Err(RemoteError::Refused(why).into()),
            Pushed::NotSent(why) | Pushed::NoAnswer(why) => match self.link.fetch(Note::Judged, until)? {
                Some(head) if head == tip => Ok(()),
                Some(_) | None => Err(RemoteError::Unreachable(why).into()),
            },
        }
    }
}
