//! Brings the local branch and the remote's together by following, merging or pushing.

use std::sync::Arc;

use crate::domain::Revision;
use crate::store::remote::error::RemoteError;
use crate::store::remote::journal::RemoteJournal;
use crate::store::remote::journal::merge::MergeRequest;
use crate::store::remote::link::push_queue::QueuedPush;
use crate::store::remote::link::{LinkState, SeenHead};
use crate::store::{Journal as _, StoreError};

impl RemoteJournal {
    /// Brings the branch to where the remote was last seen, and returns the branch's head.
    pub(super) fn follow(&mut self, local: Option<Revision>) -> Result<Option<Revision>, StoreError> {
        self.resolve_unknown_push()?;
        let Some(seen_head) = self.seen_head(local.is_some()) else {
            let local = local.ok_or_else(|| self.link.last_error())?;
            self.post_what_waits(local)?;
            return Ok(Some(local));
        };
        if let Some(head) = seen_head.head.filter(|head| local != Some(*head))
            && let Some(why) = self.unsuitable(head)?
        {
            self.link.stop(LinkState::Stopped, why.clone());
            return local.map(Some).ok_or(RemoteError::Stopped(why).into());
        }
        match (local, seen_head.head) {
            (None, None) => self.begin(),
            (local, head) if local == head => {
                self.note_base(local.expect("they are not both absent"));
                self.link.set_queued_push(None);
                self.link.note_followable();
                Ok(local)
            }
            (None, Some(head)) => {
                // This records that the work tree is empty because nothing was there.
                self.inner.catch_up()?;
                self.advance(None, head, "cloned from the remote")
            }
            (Some(local), None) if self.base.is_none() && self.link.git.is_begun_here() => {
                self.push_ahead(local, None)
            }
            (Some(local), None) => {
                if self.link.is_current(seen_head) {
                    self.stop_without_branch();
                }
                Ok(Some(local))
            }
            (Some(local), Some(head)) => self.follow_from(local, head, seen_head),
        }
    }

    /// Returns why a head of the remote can't be followed, if so: the branch would have to leave it again before
    /// anything could be read, and a start would refuse it.
    fn unsuitable(&mut self, head: Revision) -> Result<Option<String>, StoreError> {
        match self.inner.check_folder(head) {
            Err(StoreError::Unsuitable { why, .. }) => Ok(Some(format!(
                "{why}; what was there before is served, and writes wait until a commit of the remote mends it"
            ))),
            checked => checked.map(|()| None),
        }
    }

    /// Lets the first commit create the branch, unless the remote has others: then its name is more likely wrong.
    fn begin(&self) -> Result<Option<Revision>, StoreError> {
        let others = self.link.known().other_branches.join("`, `");
        if others.is_empty() {
            self.link.git.note_begun().map_err(|error| {
                RemoteError::Stopped(format!("cannot note that the branch is yet to begin: {error}"))
            })?;
            self.link.note_followable();
            return Ok(None);
        }
        let why = format!(
            "the remote has no branch `{}` but `{others}`; name one with --remote-branch, or push the branch that is meant",
            self.link.git.branch()
        );
        self.link.stop(LinkState::Stopped, why.clone());
        Err(RemoteError::Stopped(why).into())
    }

    fn follow_from(
        &mut self,
        local: Revision,
        head: Revision,
        seen_head: SeenHead,
    ) -> Result<Option<Revision>, StoreError> {
        if self.inner.commits().descends(head, local)? {
            self.count_propagation(head);
            self.turn.met();
            return self.advance(Some(local), head, "fetched from the remote");
        }
        if !self.link.is_current(seen_head) && self.inner.commits().descends(local, head)? {
            // The remote was asked before our push arrived there.
            return Ok(Some(local));
        }
        let is_continued = match self.base {
            Some(base) => self.inner.commits().descends(head, base)?,
            None => true,
        };
        match is_continued {
            true if self.inner.commits().descends(local, head)? => self.push_ahead(local, Some(head)),
            true => self.join(local, head),
            false => self.follow_rewritten(local, head),
        }
    }

    /// Merges the local branch with the remote's, because both have advanced.
    fn join(&mut self, local: Revision, head: Revision) -> Result<Option<Revision>, StoreError> {
        let until = self.link.deadline();
        if !self.link.git.is_begun_here() && !self.link.git.are_related(local, head, until)? {
            self.stop_unrelated(local, head);
            return Ok(Some(local));
        }
        if self.link.settings.is_follower {
            let why = format!(
                "the branch here ({local}) and that of the remote ({head}) have both gone on, and a follower pushes nothing; \
                 push what is here yourself, or have `collectory remote accept` follow the remote and keep what is here"
            );
            self.link.stop(LinkState::Stopped, why);
            return Ok(Some(local));
        }
        if !self.link.is_local()
            && (self.paused_until().is_some()
                || self.link.check_writable().is_err() && !self.link.is_stopped())
        {
            return Ok(Some(local));
        }
        let merge = self.merge(MergeRequest { theirs: head, ours: local, is_restored: false })?;
        let why = "merged with what the remote has";
        if self.link.is_local() {
            let found = self.advance_onto(Some(local), merge, head, why)?;
            if found == Some(merge) {
                self.post(Some(head), merge)?;
            }
            return Ok(found);
        }
        match self.push(Some(head), merge) {
            Ok(()) => self.advance(Some(local), merge, why),
            // By now the remote's new head is known, or its failure is recorded.
            Err(StoreError::HeadMoved { .. } | StoreError::Remote(_)) => Ok(Some(local)),
            Err(error) => Err(error),
        }
    }

    /// Mode `local`: schedules a push of the commits that were waiting when the service ended, based on the recorded
    /// head of a remote that has not been seen since.
    fn post_what_waits(&mut self, local: Revision) -> Result<(), StoreError> {
        let is_ours = match self.base {
            Some(base) => base != local && self.inner.commits().descends(local, base)?,
            None => self.link.git.is_begun_here(),
        };
        if is_ours && self.link.is_local() && !self.link.settings.is_follower {
            self.post(self.base, local)?;
        }
        Ok(())
    }

    /// Schedules a background push of the local commits.
    fn post(&mut self, lease: Option<Revision>, tip: Revision) -> Result<(), StoreError> {
        let known = self.link.known().push_queue.outbox;
        if known.is_some_and(|known| known.lease == lease && known.tip == tip) {
            return Ok(());
        }
        let commits = self.count_beyond(tip, lease)?;
        self.link.set_queued_push(Some(QueuedPush { lease, tip, commits }));
        Ok(())
    }

    /// Counts the commits from the remote's head to the local one.
    fn count_beyond(&mut self, tip: Revision, lease: Option<Revision>) -> Result<usize, StoreError> {
        let Some(lease) = lease else {
            let mut commits = 0;
            self.inner.commits().log(tip, &mut |_| {
                commits += 1;
                true
            })?;
            return Ok(commits);
        };
        Ok(self.inner.commits().commits_beyond(tip, lease)?.len())
    }

    /// Returns the local head, if the remote never had all of it.
    pub(crate) fn unpushed_head(&mut self, local: Option<Revision>) -> Result<Option<Revision>, StoreError> {
        match (local, self.base) {
            (Some(local), Some(base)) => Ok((!self.inner.commits().descends(base, local)?).then_some(local)),
            (local, _) => Ok(local),
        }
    }

    /// Records how long the newest commit took to arrive here.
    fn count_propagation(&mut self, head: Revision) {
        let (now, link) = (self.link.now(), Arc::clone(&self.link));
        let counted = self.inner.commits().log(head, &mut |commit| {
            link.counters.propagation.observe((now - commit.at).to_std().unwrap_or_default());
            false
        });
        drop(counted);
    }

    /// Pushes the commits that only the local branch has: a person made them, and they are pushed like a write.
    fn push_ahead(
        &mut self,
        local: Revision,
        head: Option<Revision>,
    ) -> Result<Option<Revision>, StoreError> {
        head.into_iter().for_each(|head| self.note_base(head));
        if self.link.is_local() && !self.link.settings.is_follower {
            self.link.note_followable();
            self.post(head, local)?;
            return Ok(Some(local));
        }
        let ahead = self.count_beyond(local, head)?;
        self.link.known().ahead = ahead;
        if self.link.settings.is_follower {
            self.link.note_followable();
            return Ok(Some(local));
        }
        let is_held_back = self.paused_until().is_some() || self.link.check_writable().is_err();
        if is_held_back && !self.link.is_stopped() {
            return Ok(Some(local));
        }
        match self.push(head, local) {
            Ok(()) => {
                self.note_base(local);
                tracing::info!(commits = ahead, revision = %local, "commits of the branch here were pushed to the remote");
                Ok(Some(local))
            }
            // By now the remote's new head is known, or its failure is recorded.
            Err(StoreError::HeadMoved { .. } | StoreError::Remote(_)) => Ok(Some(local)),
            Err(error) => Err(error),
        }
    }

    /// Follows a remote that has lost commits, or stops there.
    fn follow_rewritten(&mut self, local: Revision, head: Revision) -> Result<Option<Revision>, StoreError> {
        let until = self.link.deadline();
        let Ok(is_related) = self.link.git.are_related(local, head, until) else { return Ok(Some(local)) };
        if !is_related {
            self.stop_unrelated(local, head);
            return Ok(Some(local));
        }
        if !self.link.settings.follow_rewrites {
            let why = format!(
                "the remote was rewritten: it had {local} and has {head} now; `collectory remote accept` follows it, \
                 `collectory remote restore` brings back what went"
            );
            self.link.stop(LinkState::Stopped, why);
            return Ok(Some(local));
        }
        self.link.counters.rewrites.add_one();
        tracing::warn!(from = %local, to = %head, "the remote was rewritten, and the branch here follows it");
        if let Some(ahead) = self.unpushed_head(Some(local))? {
            // The remote never had these commits, so it has not rewritten them.
            let kept = self.inner.keep(ahead, self.link.now())?;
            tracing::warn!(
                kept = kept.name,
                "commits that were not pushed yet are kept; `collectory remote restore` merges them"
            );
        }
        self.link.set_queued_push(None);
        self.advance(Some(local), head, "followed the rewritten remote")
    }

    fn stop_unrelated(&self, local: Revision, head: Revision) {
        let why = format!(
            "the remote has another history ({head}), which has nothing in common with what is served here ({local}); \
             `collectory remote accept` takes it, `collectory remote restore --force` puts back what was"
        );
        self.link.stop(LinkState::Rewritten, why);
    }

    fn stop_without_branch(&self) {
        let branch = self.link.git.branch();
        let why = format!(
            "the remote has no branch `{branch}`, though there are commits of it here; \
             `collectory remote restore` makes it, or name another one with --remote-branch"
        );
        self.link.stop(LinkState::Rewritten, why);
    }

    /// Returns the head that was seen last. If nothing can be served yet, this first waits for the first look.
    fn seen_head(&self, is_served: bool) -> Option<SeenHead> {
        if !is_served {
            self.link.wait_for_first_poll();
        }
        self.link.known().seen_heads.newest()
    }

    pub(super) fn advance(
        &mut self,
        from: Option<Revision>,
        to: Revision,
        why: &str,
    ) -> Result<Option<Revision>, StoreError> {
        self.advance_onto(from, to, to, why)
    }

    /// Advances the branch to a commit that contains `base`, a head of the remote.
    fn advance_onto(
        &mut self,
        from: Option<Revision>,
        to: Revision,
        base: Revision,
        why: &str,
    ) -> Result<Option<Revision>, StoreError> {
        if from.is_some() {
            // A person's local commits are already in the work tree, which is recorded first.
            match self.inner.catch_up() {
                Err(StoreError::Locked { .. }) => return Ok(from),
                caught_up => caught_up?,
            }
        }
        self.link.note_coming(base);
        match self.inner.advance(from, to, why, self.link.now()) {
            Ok(()) => {
                self.note_base(base);
                self.link.note_followable();
                Ok(Some(to))
            }
            // The local branch has moved, and is looked at again.
            Err(StoreError::HeadMoved { found, .. }) => Ok(found),
            Err(StoreError::Locked { path }) => {
                self.held_by = Some(path);
                Ok(from)
            }
            Err(error) => Err(error),
        }
    }
}
