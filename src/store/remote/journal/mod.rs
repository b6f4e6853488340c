//! The journal around a journal.

pub(crate) mod decision;
pub(crate) mod merge;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::remote::RemoteError;
use crate::store::remote::journal::merge::Join;
use crate::store::remote::link::behind::Outbox;
use crate::store::remote::link::{Ack, Link, LinkState, SeenHead, pause};
use crate::store::remote::transport::git::Note;
use crate::store::remote::transport::pushed::Pushed;
use crate::store::{
    BlobId, Commit, Committed, Draft, EachContent, FileChange, Journal, Kept, Paths, StoreError, TwoPhase,
    WorkTree,
};

/// How often commits that were not sent, or refused, are pushed.
const TRIES_MAX: u32 = 3;

/// How often a refusal is heard before it is believed: another push may have stood in the way of the first.
const REFUSALS_MAX: u32 = 2;

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A journal whose branch goes on only to what the remote has.
pub struct RemoteJournal<J> {
    pub(crate) inner: J,
    pub(crate) link: Arc<Link>,
    /// The head of the remote that the branch here contains.
    base: Option<Revision>,
    /// How many races were lost in a row.
    lost: u32,
    /// The former head that an operator let go, before it is found missing.
    pub(crate) accepted: Option<Revision>,
    /// Between which heads, here and there, the distance was noted.
    distance_of: (Option<Revision>, Option<Revision>),
}

impl<J: TwoPhase> RemoteJournal<J> {
    /// A journal that shares its branch with others by a link.
    pub fn new(inner: J, link: Arc<Link>) -> Self {
        let base = link.git.noted(Note::Base);
        Self { inner, link, base, lost: 0, accepted: None, distance_of: (None, None) }
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

    /// Looks at a remote that is a folder when its branch has moved. What is decided on what it was comes too late, so
    /// only answers that do not rest on the remote go on meanwhile.
    fn peek(&mut self) {
        if !self.link.is_elsewhere() {
            return;
        }
        if self.link.settings.is_local() || !self.link.is_up() {
            return self.link.look();
        }
        if let Err(error) = self.link.fetch(Note::Judged, self.link.deadline()) {
            self.link.missed(&error);
        }
    }

    /// What was decided on a head that a remote has left which is a folder is known to come too late before anything is
    /// made of it.
    fn note_late(&mut self) {
        if self.link.is_local() || !self.link.is_elsewhere() {
            return;
        }
        if self.lost > 0 {
            pause(self.lost, PAUSE_MAX);
        }
        self.lost += 1;
        self.link.lost_a_race();
    }

    /// Brings the branch to where the remote has been seen; answers where it is then.
    fn follow(&mut self, local: Option<Revision>) -> Result<Option<Revision>, StoreError> {
        self.settle()?;
        let Some(seen_head) = self.seen_head(local.is_some()) else {
            return match local {
                Some(_) => Ok(local),
                None => Err(self.not_there_yet().into()),
            };
        };
        match (local, seen_head.head) {
            (None, None) => self.begin(),
            (local, head) if local == head => {
                self.note_base(local.expect("they are not both absent"));
                self.link.post(None);
                if self.link.is_stopped() {
                    self.link.is_well();
                }
                Ok(local)
            }
            (None, Some(head)) => {
                // From then on it is known that the work tree is empty because nothing was there.
                self.inner.catch_up()?;
                self.advance(None, head, "cloned from the remote")
            }
            (Some(local), None) if self.base.is_none() && self.link.git.is_begun_here() => {
                self.post(None, local)?;
                Ok(Some(local))
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

    /// The first commit makes the branch, unless the remote has others: then it is more likely misnamed.
    fn begin(&self) -> Result<Option<Revision>, StoreError> {
        let others = self.link.known().other_branches.join("`, `");
        if others.is_empty() {
            if self.link.is_stopped() {
                self.link.is_well();
            }
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
        if self.inner.descends(head, local)? {
            self.count_propagation(head);
            return self.advance(Some(local), head, "fetched from the remote");
        }
        if !self.link.is_current(seen_head) && self.inner.descends(local, head)? {
            // It was asked before our push had come there.
            return Ok(Some(local));
        }
        let is_continued = match self.base {
            Some(base) => self.inner.descends(head, base)?,
            None => true,
        };
        match is_continued {
            true if self.inner.descends(local, head)? => self.push_ahead(local, head),
            true => self.join(local, head),
            false => self.follow_rewritten(local, head),
        }
    }

    /// Both have gone on: what is here is merged with what the remote has.
    fn join(&mut self, local: Revision, head: Revision) -> Result<Option<Revision>, StoreError> {
        let until = self.link.deadline();
        if !self.link.git.is_begun_here() && !self.link.git.are_related(local, head, until)? {
            self.stop_unrelated(local, head);
            return Ok(Some(local));
        }
        if self.link.settings.is_follower {
            let why = format!(
                "the branch here ({local}) and that of the remote ({head}) have both gone on, and a follower pushes nothing; \
                 push what is here yourself, or reset it"
            );
            self.link.stop(LinkState::Stopped, why);
            return Ok(Some(local));
        }
        if !self.link.settings.is_local() && self.link.check_writable().is_err() && !self.link.is_stopped() {
            return Ok(Some(local));
        }
        let merge = self.merge(Join { theirs: head, ours: local, is_restored: false })?;
        let why = "merged with what the remote has";
        if self.link.settings.is_local() {
            let found = self.advance_onto(Some(local), (merge, head), why)?;
            if found == Some(merge) {
                self.post(Some(head), merge)?;
            }
            return Ok(found);
        }
        match self.push(Some(head), merge) {
            Ok(()) => self.advance(Some(local), merge, why),
            // It is known now where the remote is, or told that it is not.
            Err(StoreError::HeadMoved { .. } | StoreError::Remote(_)) => Ok(Some(local)),
            Err(error) => Err(error),
        }
    }

    /// Has what is here pushed behind.
    fn post(&mut self, lease: Option<Revision>, tip: Revision) -> Result<(), StoreError> {
        let known = self.link.known().posted.outbox;
        if known.is_some_and(|known| known.lease == lease && known.tip == tip) {
            return Ok(());
        }
        let commits = match lease {
            Some(lease) => self.inner.commits_beyond(tip, lease)?.len(),
            None => {
                let mut commits = 0;
                self.inner.log(tip, &mut |_| {
                    commits += 1;
                    true
                })?;
                commits
            }
        };
        self.link.post(Some(Outbox { lease, tip, commits }));
        Ok(())
    }

    /// What is here, if the remote never had all of it.
    pub(crate) fn is_ahead(&mut self, local: Option<Revision>) -> Result<Option<Revision>, StoreError> {
        match (local, self.base) {
            (Some(local), Some(base)) => Ok((!self.inner.descends(base, local)?).then_some(local)),
            (local, _) => Ok(local),
        }
    }

    /// Notes how many commits there are only on the remote, and where nothing is pushed behind only here.
    fn note_distance(&mut self, here: Option<Revision>) -> Result<(), StoreError> {
        let there = self.link.known().sightings.head();
        if self.distance_of == (here, there) {
            return Ok(());
        }
        let (behind, ahead) = match (here, there) {
            (Some(here), Some(there)) if here != there => {
                (self.inner.commits_beyond(there, here)?.len(), self.inner.commits_beyond(here, there)?.len())
            }
            _ => (0, 0),
        };
        let mut known = self.link.known();
        known.behind = behind;
        if !self.link.settings.is_local() {
            known.ahead = ahead;
        }
        drop(known);
        self.distance_of = (here, there);
        Ok(())
    }

    /// Counts how long what is new took to come here.
    fn count_propagation(&mut self, head: Revision) {
        let (now, link) = (self.link.now(), Arc::clone(&self.link));
        let counted = self.inner.log(head, &mut |commit| {
            link.counters.propagation.observe((now - commit.at).to_std().unwrap_or_default());
            false
        });
        drop(counted);
    }

    /// What the branch here has and the remote has not was committed by a person; it is pushed like a write.
    fn push_ahead(&mut self, local: Revision, head: Revision) -> Result<Option<Revision>, StoreError> {
        self.note_base(head);
        if self.link.settings.is_local() && !self.link.settings.is_follower {
            if self.link.is_stopped() {
                self.link.is_well();
            }
            self.post(Some(head), local)?;
            return Ok(Some(local));
        }
        let ahead = self.inner.commits_beyond(local, head)?.len();
        self.link.known().ahead = ahead;
        let is_held_back = self.link.settings.is_follower || self.link.check_writable().is_err();
        if is_held_back && !self.link.is_stopped() {
            return Ok(Some(local));
        }
        match self.push(Some(head), local) {
            Ok(()) => {
                self.note_base(local);
                tracing::info!(commits = ahead, revision = %local, "commits of the branch here were pushed to the remote");
                Ok(Some(local))
            }
            // It is known now where the remote is, or told that it is not.
            Err(StoreError::HeadMoved { .. } | StoreError::Remote(_)) => Ok(Some(local)),
            Err(error) => Err(error),
        }
    }

    /// The remote does not have any more what it had.
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
        self.link.counters.rewrites.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(from = %local, to = %head, "the remote was rewritten, and the branch here follows it");
        if let Some(ahead) = self.is_ahead(Some(local))? {
            // What the remote never had it has not rewritten.
            let kept = self.inner.keep(ahead, self.link.now())?;
            tracing::warn!(
                kept = kept.name,
                "commits that were not pushed yet are kept; `collectory remote restore` merges them"
            );
        }
        self.link.post(None);
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
             `collectory remote restore --force` makes it, or name another one with --remote-branch"
        );
        self.link.stop(LinkState::Rewritten, why);
    }

    /// What was seen last; with nothing here that could be served meanwhile, the first look is waited for.
    fn seen_head(&self, is_served: bool) -> Option<SeenHead> {
        if !is_served {
            self.link.wait_for_first_look();
        }
        self.link.known().sightings.newest()
    }

    fn not_there_yet(&self) -> RemoteError {
        let told = self.link.status().last_error;
        RemoteError::Unreachable(told.unwrap_or_else(|| "it has not answered yet".to_owned()))
    }

    fn advance(
        &mut self,
        from: Option<Revision>,
        to: Revision,
        why: &str,
    ) -> Result<Option<Revision>, StoreError> {
        self.advance_onto(from, (to, to), why)
    }

    /// Brings the branch to a commit that contains this head of the remote.
    fn advance_onto(
        &mut self,
        from: Option<Revision>,
        (to, base): (Revision, Revision),
        why: &str,
    ) -> Result<Option<Revision>, StoreError> {
        if from.is_some() {
            // What a person has committed here stands in the work tree already, and is noted first.
            match self.inner.catch_up() {
                Err(StoreError::Locked { .. }) => return Ok(from),
                caught_up => caught_up?,
            }
        }
        match self.inner.advance(from, to, why, self.link.now()) {
            Ok(()) => {
                self.note_base(base);
                if self.link.is_stopped() {
                    self.link.is_well();
                }
                Ok(Some(to))
            }
            // Somebody here was faster; it is looked at again.
            Err(StoreError::HeadMoved { found, .. }) => Ok(found),
            Err(StoreError::Locked { .. }) => Ok(from),
            Err(error) => Err(error),
        }
    }

    /// Finds out what became of commits whose push had no answer.
    fn settle(&mut self) -> Result<(), StoreError> {
        let (pending, seen_head) = {
            let known = self.link.known();
            (known.pending.clone(), known.sightings.newest())
        };
        let (Some(pending), Some(seen_head)) = (pending, seen_head) else { return Ok(()) };
        let is_seen_since = self.link.is_current(seen_head);
        let head = seen_head.head.filter(|_| is_seen_since);
        let has_landed = match (&pending.pushed, head) {
            (Some(Pushed::Accepted), _) => true,
            (_, Some(head)) => self.inner.descends(head, pending.tip)?,
            (_, None) => false,
        };
        if has_landed {
            tracing::info!(tip = %pending.tip, "the remote has taken the push that it did not answer");
            self.link.settled();
            let local = self.inner.head()?;
            if local == pending.lease {
                self.advance(local, pending.tip, "pushed to the remote")?;
            }
            return Ok(());
        }
        if !is_seen_since {
            return Ok(());
        }
        match (&pending.pushed, seen_head.head == pending.lease) {
            (Some(Pushed::Answered(why)), true) => {
                self.link.settled();
                self.link.refused(why);
            }
            // It may still be under way.
            (_, true) => {}
            // With a lease on what was, it can't come any more.
            (_, false) => self.link.settled(),
        }
        Ok(())
    }

    /// Pushes, and finds out what became of it.
    fn push(&mut self, lease: Option<Revision>, tip: Revision) -> Result<(), StoreError> {
        let until = self.link.deadline();
        let (mut tries, mut refusals, mut is_unanswered) = (0, 0, false);
        loop {
            let pushed = self.link.push(tip, lease, until);
            if pushed == Pushed::Accepted {
                self.lost = 0;
                self.link.is_well();
                return Ok(());
            }
            tracing::debug!(?pushed, %tip, "a push was not accepted");
            is_unanswered |= matches!(pushed, Pushed::NoAnswer(_));
            tries += 1;
            if is_unanswered && Instant::now() >= until {
                self.link.pend(lease, tip);
                return Err(RemoteError::Unknown.into());
            }
            if self.lost > 0 {
                pause(self.lost, PAUSE_MAX);
            }
            match (self.link.fetch(Note::Judged, until), pushed) {
                (Ok(Some(head)), _) if self.inner.descends(head, tip)? => {
                    self.lost = 0;
                    self.link.is_well();
                    self.link.tell(tip);
                    return Ok(());
                }
                (Ok(head), _) if head != lease => {
                    self.lost += 1;
                    self.link.lost_a_race();
                    return Err(StoreError::HeadMoved { expected: lease, found: head });
                }
                (Ok(_), Pushed::Answered(why)) => {
                    refusals += 1;
                    if refusals >= REFUSALS_MAX {
                        self.link.refused(&why);
                        return Err(RemoteError::Refused(why).into());
                    }
                }
                (Ok(_), Pushed::NotSent(why)) if tries >= TRIES_MAX && !is_unanswered => {
                    let error = RemoteError::Unreachable(why);
                    self.link.missed(&error);
                    return Err(error.into());
                }
                (Err(error), _) if !is_unanswered && (tries >= TRIES_MAX || Instant::now() >= until) => {
                    self.link.missed(&error);
                    return Err(error.into());
                }
                _ => {}
            }
            pause(tries, PAUSE_MAX.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Mode `local`: the commits are answered when they are here, and pushed behind.
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
        if expected.is_none() && self.base.is_none() {
            let noted = self.link.git.note_begun();
            noted.map_err(|error| {
                RemoteError::Stopped(format!("cannot note that the branch begins: {error}"))
            })?;
        }
        let committed = self.inner.append(expected, drafts)?;
        if let Some(tip) = committed.last() {
            self.link.post_more(self.base, tip.revision, committed.len());
        }
        Ok(committed)
    }

    /// Makes sure that the remote's head is this one, asked for now.
    fn confirm(&mut self, head: Option<Revision>) -> Result<(), StoreError> {
        self.link.check_writable()?;
        let until = self.link.deadline();
        let found = self.link.git.ask(until).inspect_err(|error| self.link.missed(error))?;
        if found == head || found == self.base && self.base.is_some() {
            return Ok(());
        }
        match self.link.fetch(Note::Judged, until) {
            Ok(found) => Err(StoreError::HeadMoved { expected: head, found }),
            // A replica may lag behind; the side that takes pushes does not.
            Err(_)
                if head.is_some_and(|head| self.link.git.ask_writing_side(head, until) == Ok(Some(head))) =>
            {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl<J: TwoPhase> Journal for RemoteJournal<J> {
    fn head(&mut self) -> Result<Option<Revision>, StoreError> {
        self.peek();
        if let Some((decision, tell)) = self.link.take_decision() {
            tell(self.decide(decision).map_err(|error| match error {
                StoreError::Remote(error) => error,
                error => RemoteError::Stopped(error.to_string()),
            }));
        }
        let local = self.inner.head()?;
        let found = self.follow(local)?;
        self.note_distance(found)?;
        Ok(found)
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
        self.link.check_writable()?;
        let committed = self.inner.prepare(expected, drafts)?;
        let Some(tip) = committed.last().map(|it| it.revision) else { return Ok(committed) };
        self.push(expected, tip)?;
        if let Err(error) = self.inner.advance(expected, tip, "pushed to the remote", self.link.now()) {
            tracing::warn!(%error, %tip, "the remote has a write that the branch here could not go on to yet");
            return Err(RemoteError::Unknown.into());
        }
        self.note_base(tip);
        if let Err(error) = self.inner.catch_up() {
            tracing::debug!(%error, "the work tree is brought forward later");
        }
        Ok(committed)
    }

    fn make_durable(&mut self, head: Option<Revision>) -> Result<(), StoreError> {
        self.inner.make_durable(head)?;
        if self.link.settings.is_local() { Ok(()) } else { self.confirm(head) }
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        self.inner.catch_up()
    }

    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        self.inner.changes(from, to)
    }

    fn read(&mut self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError> {
        self.inner.read(blobs, each)
    }

    fn copy_of(&mut self, name: &str, blob: BlobId) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.copy_of(name, blob)
    }

    fn work_tree(
        &mut self,
        head: Option<Revision>,
        paths: Paths<'_>,
        despite_locks: bool,
    ) -> Result<WorkTree, StoreError> {
        self.inner.work_tree(head, paths, despite_locks)
    }

    fn walk(
        &mut self,
        from: Revision,
        each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
    ) -> Result<(), StoreError> {
        self.inner.walk(from, each)
    }

    fn log(&mut self, from: Revision, each: &mut dyn FnMut(&Commit) -> bool) -> Result<(), StoreError> {
        self.inner.log(from, each)
    }

    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        self.inner.descends(descendant, ancestor)
    }

    fn commits_beyond(&mut self, old: Revision, new: Revision) -> Result<Vec<Revision>, StoreError> {
        self.inner.commits_beyond(old, new)
    }

    fn last_served(&mut self) -> Result<Option<Revision>, StoreError> {
        self.inner.last_served()
    }

    fn note_served(&mut self, head: Revision) {
        self.inner.note_served(head);
    }

    fn keep(&mut self, revision: Revision, now: DateTime<Utc>) -> Result<Kept, StoreError> {
        let kept = self.inner.keep(revision, now)?;
        if self.accepted.take() == Some(revision) {
            self.inner.let_go(std::slice::from_ref(&kept))?;
        }
        Ok(kept)
    }

    fn kept(&mut self, now: DateTime<Utc>) -> Result<Vec<Kept>, StoreError> {
        self.inner.kept(now)
    }

    fn has_merges(&self) -> bool {
        true
    }

    fn object_at(&mut self, revision: Revision, path: &str) -> Result<Option<BlobId>, StoreError> {
        self.inner.object_at(revision, path)
    }

    fn saved_at(&self, name: &str) -> Option<DateTime<Utc>> {
        self.inner.saved_at(name)
    }

    fn person(&mut self) -> Actor {
        self.inner.person()
    }

    fn tend(&mut self) -> Result<(), StoreError> {
        self.inner.tend()
    }
}
