//! Carries out an operator's decision about a rewritten remote: to accept it as it is, or to restore what it has lost.

use crate::domain::Revision;
use crate::store::remote::decision::Decision;
use crate::store::remote::error::RemoteError;
use crate::store::remote::journal::RemoteJournal;
use crate::store::remote::journal::merge::MergeRequest;
use crate::store::remote::transport::folder::PrivateRef;
use crate::store::{Journal as _, KeptHead, StoreError};

impl RemoteJournal {
    /// Carries out a decision, and returns the branch's head. If others push in the meantime it starts again, as often
    /// as a write is decided again. If nothing was rewritten, commits that wait to be pushed are not affected: they
    /// stay on the branch, and are pushed as usual.
    ///
    /// # Errors
    ///
    /// Fails with the reason; nothing has changed then.
    pub fn decide(&mut self, decision: Decision) -> Result<Revision, StoreError> {
        for _ in 0..=self.races_max {
            match self.decide_on_head(decision) {
                Err(StoreError::HeadMoved { .. }) => {}
                decided => return decided,
            }
        }
        Err(RemoteError::LostRaces.into())
    }

    fn decide_on_head(&mut self, decision: Decision) -> Result<Revision, StoreError> {
        let head = self.link.fetch(PrivateRef::Judged, self.link.deadline())?;
        let local = self.inner.head()?;
        let decided = match decision {
            Decision::Accept => self.accept(local, head)?,
            Decision::Restore { force } => self.restore(local, head, force)?,
        };
        tracing::info!(?decision, revision = %decided, "an operator has decided about the rewritten remote");
        Ok(decided)
    }

    /// Returns whether the remote has lost commits that the local branch still has.
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
            let unpushed = self.unpushed_head(local)?;
            if let Some(local) = unpushed {
                // The remote has not lost what it never had. But these commits build on what it lost: a merge with
                // them as a parent would push that again, and recreated without it they would have other ids than
                // those that were answered. So they are kept, and reported in `/problems`; `restore` merges both.
                drop(self.inner.keep(local, self.link.now())?);
            }
            // A person's local commits are already in the work tree, and leave it with all others that are let go.
            self.inner.catch_up()?;
            self.inner.advance(local, head, "accepted the remote as it is", self.link.now())?;
            if unpushed.is_none() {
                self.accepted = local;
            }
            self.note_at(head);
        }
        let kept = self.inner.kept(self.link.now())?;
        let is_settled = |kept: &KeptHead| Some(kept.revision) != local || self.accepted == local;
        let settled: Vec<KeptHead> = kept.into_iter().filter(is_settled).collect();
        self.inner.remove_kept(&settled)?;
        Ok(local.filter(|_| !is_left).unwrap_or(head))
    }

    /// Returns whether a follower has diverged from the remote. It pushes nothing, so its commits wait for nothing.
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
            Some(head) if !force => {
                self.merge(MergeRequest { theirs: head, ours: lost, is_restored: true })?
            }
            Some(_) | None => lost,
        };
        let replaced = match head {
            // Kept before it is replaced, because no other copy may exist.
            Some(head) if !self.inner.commits().descends(tip, head)? => {
                Some(self.inner.keep(head, self.link.now())?)
            }
            Some(_) | None => None,
        };
        if let Err(error) = self.push_and_judge(head, tip) {
            let has_not_gone =
                matches!(error, StoreError::HeadMoved { .. } | StoreError::Remote(RemoteError::Refused(_)));
            if let Some(kept) = replaced.filter(|_| has_not_gone) {
                self.inner.remove_kept(&[kept])?;
            }
            return Err(error);
        }
        // Otherwise, commits that wait to be pushed or that a person has made are merged with it at the next look.
        if local.map_or(Ok(true), |local| self.inner.commits().descends(tip, local))? {
            self.bring_to(local, tip)?;
        }
        let restored: Vec<KeptHead> = kept.into_iter().filter(|kept| kept.revision == lost).collect();
        self.inner.remove_kept(&restored)?;
        Ok(tip)
    }

    /// Returns the head to restore: the local one, or else the one that is kept.
    fn what_was_lost(
        &mut self,
        local: Option<Revision>,
        kept: &[KeptHead],
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

    /// Moves the local branch to the restored head, unless it is there.
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

    /// Returns the newest kept head that the remote does not have again.
    fn lost_last(
        &mut self,
        kept: &[KeptHead],
        head: Option<Revision>,
    ) -> Result<Option<Revision>, StoreError> {
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

    /// Records that the local branch is at the remote's head.
    fn note_at(&mut self, head: Revision) {
        self.inner.note_served(head);
        self.note_base(head);
        self.link.set_queued_push(None);
        self.link.note_up();
    }
}
