//! Pushes and fetches: what is sent to a remote, and which of its answers are believed.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Instant;

use crate::domain::Revision;
use crate::store::remote::error::RemoteError;
use crate::store::remote::link::seen_heads::SeenHead;
use crate::store::remote::link::{KnownRemote, Link};
use crate::store::remote::transport::folder::PrivateRef;
use crate::store::remote::transport::pushed::PushOutcome;

impl Link {
    /// Returns whether the head was requested after all of our pushes had ended.
    pub(crate) fn is_current(&self, seen: SeenHead) -> bool {
        self.known().seen_heads.is_current(seen)
    }

    /// Returns when the next push may start, if it must wait.
    pub(crate) fn push_at(&self) -> Option<Instant> {
        self.push_at_of(&self.known())
    }

    pub(super) fn push_at_of(&self, known: &KnownRemote) -> Option<Instant> {
        let at = known.pushed_at? + self.settings.push_interval;
        (at > Instant::now() && !known.requests.is_hurried).then_some(at)
    }

    /// Pushes, once a push under way has been answered: the outcomes of concurrent pushes could not be told apart.
    pub(crate) fn push(&self, tip: Revision, lease: Option<Revision>, until: Instant) -> PushOutcome {
        let _alone = self.pushing.lock().unwrap_or_else(PoisonError::into_inner);
        let push = self.known().seen_heads.begin_push();
        self.counters.attempted_at.set(self.now().timestamp());
        let began = Instant::now();
        let pushed = self.git.push(tip, lease, until);
        self.counters.note_push(&pushed, began.elapsed());
        let accepted = (pushed == PushOutcome::Accepted).then_some(tip);
        let mut known = self.known();
        if !matches!(pushed, PushOutcome::NotSent(_)) {
            known.pushed_at = Some(Instant::now());
        }
        if !known.seen_heads.end_push(push, accepted) {
            self.mark_poll_wanted(&mut known);
        }
        drop(known);
        if let Some(tip) = accepted {
            self.note_coming(tip);
            self.notify_siblings(tip);
        }
        pushed
    }

    /// Records durably that the remote has the head which the branch here is about to contain.
    pub(crate) fn note_coming(&self, head: Revision) {
        if let Err(error) = self.git.note_coming(head) {
            tracing::warn!(%error, "up to where the remote is known could not be noted");
        }
    }

    /// Notifies the siblings of a push.
    pub(crate) fn notify_siblings(&self, tip: Revision) {
        for sibling in &self.settings.siblings {
            // There are no receivers during shutdown.
            let _sent = sibling.send(tip);
        }
    }

    /// Fetches, and records the head that was seen.
    pub(crate) fn fetch(&self, note: PrivateRef, until: Instant) -> Result<Option<Revision>, RemoteError> {
        let poll = self.known().seen_heads.begin_poll();
        self.counters.attempted_at.set(self.now().timestamp());
        let began = Instant::now();
        let fetched = self.git.fetch(note, until);
        self.counters.fetches.observe(began.elapsed());
        let head = fetched?;
        let before = self.known().seen_heads.newest();
        if !self.is_continuation(before, head) {
            if self.known().seen_heads.is_overtaken(poll) {
                self.note_contact();
                self.request_poll();
                return Ok(head);
            }
            if !self.is_on_writing_side(before, head, until)? {
                tracing::debug!(?head, "the remote answers from a side that lags behind");
                return Err(RemoteError::Lagging);
            }
        }
        let others = if head.is_none() { self.git.branches(until)? } else { Vec::new() };
        let mut known = self.known();
        known.other_branches = others;
        if !known.seen_heads.saw(poll, head, before) {
            self.mark_poll_wanted(&mut known);
        }
        drop(known);
        self.note_contact();
        Ok(head)
    }

    /// Returns whether a head is, or reaches, the one that was seen before.
    fn is_continuation(&self, before: Option<SeenHead>, head: Option<Revision>) -> bool {
        let Some(before) = self.known_head(before) else { return true };
        head == Some(before)
            || head.is_some_and(|head| self.archive.descends(head, before).is_ok_and(|reaches| reaches))
    }

    fn known_head(&self, before: Option<SeenHead>) -> Option<Revision> {
        before.and_then(|seen| seen.head).or_else(|| self.git.noted(PrivateRef::Base))
    }

    /// Returns whether the side of the remote that takes pushes has the same head: a replica may lag behind.
    fn is_on_writing_side(
        &self,
        before: Option<SeenHead>,
        head: Option<Revision>,
        until: Instant,
    ) -> Result<bool, RemoteError> {
        let Some(before) = self.known_head(before) else { return Ok(true) };
        match self.git.ask_writing_side(before, until) {
            // An instance without push rights asks the remote again instead.
            Err(_) if self.settings.is_follower => Ok(self.git.remote_head(until)? == head),
            found => Ok(found? == head),
        }
    }

    /// Returns whether the branch of a folder remote has moved since it was last seen, which costs next to nothing to
    /// find out.
    pub(crate) fn has_folder_remote_moved(&self) -> bool {
        let Some(path) = self.branch_files().into_iter().next() else { return false };
        let found = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        found.is_some() && found != self.known().seen_heads.head()
    }

    /// Returns the files that git writes when the branch of a folder remote moves, the branch's own ref first.
    #[must_use]
    pub fn branch_files(&self) -> Vec<PathBuf> {
        let Some(folder) = self.git.url().folder() else { return Vec::new() };
        let git_dir = git_dir_of(folder);
        let branch = git_dir.join("refs/heads").join(self.git.branch());
        vec![branch, git_dir.join("packed-refs")]
    }
}

/// Returns the git directory of a folder remote: itself, or its `.git`, which may be a file that names another.
fn git_dir_of(folder: &Path) -> PathBuf {
    let inner = folder.join(".git");
    if inner.is_dir() {
        return inner;
    }
    let named = std::fs::read_to_string(inner).ok();
    let named = named.as_deref().and_then(|text| text.strip_prefix("gitdir: ")).map(str::trim_end);
    let git_dir = named.map_or_else(|| folder.to_owned(), |named| folder.join(named));
    // The git directory of a linked work tree shares the refs of the others.
    match std::fs::read_to_string(git_dir.join("commondir")) {
        Ok(common) => git_dir.join(common.trim_end()),
        Err(_) => git_dir,
    }
}
