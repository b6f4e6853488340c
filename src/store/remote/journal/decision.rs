//! What an operator decides about a remote that was rewritten: it is right as it is, or what it has lost comes back.

use crate::domain::Revision;
use crate::store::remote::decision::Decision;
use crate::store::remote::error::RemoteError;
use crate::store::remote::journal::RemoteJournal;
use crate::store::remote::journal::merge::Join;
use crate::store::remote::transport::notes::Note;
use crate::store::{Kept, StoreError, TwoPhase};

impl<J: TwoPhase> RemoteJournal<J> {
    /// Does what was decided, and answers where the branch is then; again on what others have pushed meanwhile, as often
    /// as a write is decided again. Where nothing was rewritten, what waits to be pushed here is no part of it: it stays
    /// on the branch, and is pushed as ever.
    ///
    /// # Errors
    ///
    /// Says why it could not be done; nothing has changed then.
    pub fn decide(&mut self, decision: Decision) -> Result<Revision, StoreError> {
        for _ in 0..=self.races_max {
            match self.decide_on_head(decision) {
                Err(StoreError::HeadMoved { .. }) => {}
                decided => return decided,
            }
        }
        Err(RemoteError::KeepsMoving.into())
    }

    fn decide_on_head(&mut self, decision: Decision) -> Result<Revision, StoreError> {
        let head = self.link.fetch(Note::Judged, self.link.deadline())?;
        let local = self.inner.head()?;
        let decided = match decision {
            Decision::Accept => self.accept(local, head)?,
            Decision::Restore { force } => self.restore(local, head, force)?,
        };
        tracing::info!(?decision, revision = %decided, "an operator has decided about the rewritten remote");
        Ok(decided)
    }

    /// Whether the remote has lost what the branch here still has.
    fn is_rewritten(&mut self, local: Option<Revision>, head: Option<Revision>) -> Result<bool, StoreError> {
        Ok(match (local, head, self.base) {
            (Some(_), Some(head), Some(base)) => !self.inner.commits().descends(head, base)?,
            (Some(local), Some(head), None) => {
                !self.link.git.is_begun_here()
                    && !self.link.git.are_related(local, head, self.link.deadline())?
            }
            (Some(_), None, base) => base.is_some() || !self.link.git.is_begun_here(),
            (None, _, _) => false,
        })
    }

    fn accept(&mut self, local: Option<Revision>, head: Option<Revision>) -> Result<Revision, StoreError> {
        let why = "the remote has no such branch, so there is nothing to accept";
        let head = head.ok_or_else(|| RemoteError::Stopped(why.to_owned()))?;
        let is_left = self.is_rewritten(local, head.into())? || self.is_follower_apart(local, head)?;
        if is_left {
            match self.is_ahead(local)? {
                // What the remote never had it has not lost. It stands on what was lost, though: a merge with it as a
                // parent would push all of that again, which is let go here, and made anew without that it would have
                // other ids than those that were answered. So it is kept, and told in `/problems`; `restore` merges both.
                Some(local) => drop(self.inner.keep(local, self.link.now())?),
                None => self.accepted = local,
            }
            // What a person has committed here stands in the work tree already, and goes from it with all else that went.
            self.inner.catch_up()?;
            self.inner.advance(local, head, "accepted the remote as it is", self.link.now())?;
            self.note_at(head);
        }
        let kept = self.inner.kept(self.link.now())?;
        let is_settled = |kept: &Kept| Some(kept.revision) != local || self.accepted == local;
        let settled: Vec<Kept> = kept.into_iter().filter(is_settled).collect();
        self.inner.let_go(&settled)?;
        Ok(local.filter(|_| !is_left).unwrap_or(head))
    }

    /// Whether a follower has gone on beside the remote: it pushes nothing, so that what is here waits for nothing.
    fn is_follower_apart(&mut self, local: Option<Revision>, head: Revision) -> Result<bool, StoreError> {
        let Some(local) = local.filter(|_| self.link.settings.is_follower) else { return Ok(false) };
        let commits = self.inner.commits();
        Ok(!commits.descends(head, local)? && !commits.descends(local, head)?)
    }

    fn restore(
        &mut self,
        local: Option<Revision>,
        head: Option<Revision>,
        force: bool,
    ) -> Result<Revision, StoreError> {
        let kept = self.inner.kept(self.link.now())?;
        let lost = self.what_was_lost(local, &kept, head)?;
        let tip = match head {
            Some(head) if !force => self.merge(Join { theirs: head, ours: lost, is_restored: true })?,
            Some(_) | None => lost,
        };
        let replaced = match head {
            // Before it goes: nobody else may have it.
            Some(head) if !self.inner.commits().descends(tip, head)? => {
                Some(self.inner.keep(head, self.link.now())?)
            }
            Some(_) | None => None,
        };
        if let Err(error) = self.push_and_judge(head, tip) {
            let has_not_gone =
                matches!(error, StoreError::HeadMoved { .. } | StoreError::Remote(RemoteError::Refused(_)));
            if let Some(kept) = replaced.filter(|_| has_not_gone) {
                self.inner.let_go(&[kept])?;
            }
            return Err(error);
        }
        // What waits here to be pushed is merged with it at the next look, and so is what a person commits meanwhile.
        if local.map_or(Ok(true), |local| self.inner.commits().descends(tip, local))? {
            self.bring_to(local, tip)?;
        }
        let restored: Vec<Kept> = kept.into_iter().filter(|kept| kept.revision == lost).collect();
        self.inner.let_go(&restored)?;
        Ok(tip)
    }

    /// What is to come back: the branch here, or else what is kept of it.
    fn what_was_lost(
        &mut self,
        local: Option<Revision>,
        kept: &[Kept],
        head: Option<Revision>,
    ) -> Result<Revision, StoreError> {
        if let Some(local) = local
            && self.is_rewritten(Some(local), head)?
        {
            return Ok(local);
        }
        let nothing = || RemoteError::Stopped("nothing is kept of a rewritten branch".to_owned());
        Ok(self.lost_last(kept, head)?.ok_or_else(nothing)?)
    }

    /// Moves the branch here to what the remote has again, unless it is there.
    fn bring_to(&mut self, local: Option<Revision>, tip: Revision) -> Result<(), StoreError> {
        let at = match local == Some(tip) {
            true => local,
            false => self.advance(local, tip, "restored what the remote had lost")?,
        };
        if at == Some(tip) {
            self.note_at(tip);
        }
        Ok(())
    }

    /// What was kept last and the remote does not have again.
    fn lost_last(&mut self, kept: &[Kept], head: Option<Revision>) -> Result<Option<Revision>, StoreError> {
        for kept in kept.iter().rev() {
            let is_back = match head {
                Some(head) => self.inner.commits().descends(head, kept.revision)?,
                None => false,
            };
            if !is_back {
                return Ok(Some(kept.revision));
            }
        }
        Ok(None)
    }

    /// Notes that the branch here is what the remote has.
    fn note_at(&mut self, head: Revision) {
        self.inner.note_served(head);
        self.note_base(head);
        self.link.post(None);
        self.link.note_well();
    }
}
