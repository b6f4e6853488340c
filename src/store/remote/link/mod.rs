//! What is known of the remote, by whoever has asked it last.

pub(crate) mod behind;
pub(crate) mod poll;
mod sightings;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::file_name::is_collection_file;
use crate::domain::{Actor, Revision};
use crate::store::Archive;
use crate::store::remote::RemoteError;
use crate::store::remote::journal::decision::Decision;
use crate::store::remote::journal::merge::Merger;
use crate::store::remote::link::behind::Outbox;
pub(crate) use crate::store::remote::link::sightings::SeenHead;
use crate::store::remote::link::sightings::Sightings;
pub use crate::store::remote::link::sightings::Since;
use crate::store::remote::transport::git::{Git, Note};
use crate::store::remote::transport::pushed::Pushed;
use crate::telemetry::metrics::{Gauge, Histogram};

/// How long it takes at least until a remote that was away is asked again.
const DOWN_WAIT_MIN: Duration = Duration::from_millis(100);

/// How long at most, where nothing else says how often the remote is asked.
const DOWN_WAIT_MAX: Duration = Duration::from_secs(5);

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// When it is durable here and on the remote.
    Pushed,
    /// When it is durable here; it is pushed right after.
    Local {
        /// How many commits may wait to be pushed.
        ahead_max: usize,
    },
}

impl Ack {
    /// The word for it in `/readyz`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pushed => "pushed",
            Self::Local { .. } => "local",
        }
    }
}

/// How to deal with the remote; see the flags of `collectory serve`.
pub struct Settings {
    /// When a write is answered.
    pub ack: Ack,
    /// The collections folder, as a path inside the repository.
    pub folder: String,
    /// Knows what collections mean that both sides have changed.
    pub merger: Box<dyn Merger>,
    /// How often the remote is asked when nobody tells of a change; `None` is never.
    pub poll: Option<Duration>,
    /// How long one exchange may take.
    pub timeout: Duration,
    /// The least time between two pushes.
    pub push_interval: Duration,
    /// Whether a remote that was rewritten is followed.
    pub follow_rewrites: bool,
    /// Who merges.
    pub committer: Actor,
    /// Whether nothing is ever pushed.
    pub is_follower: bool,
    /// Where what was pushed is told.
    pub told: Option<Sender<Revision>>,
}

impl Settings {
    /// The name of a file inside the collections folder, if it is one that may be a collection.
    pub(crate) fn is_collection(&self, path: &[u8]) -> Option<String> {
        let path = std::str::from_utf8(path).ok()?;
        let name = match self.folder.trim_end_matches('/') {
            "" | "." => path,
            folder => path.strip_prefix(folder)?.strip_prefix('/')?,
        };
        (!name.contains('/') && is_collection_file(name)).then(|| name.to_owned())
    }

    /// Whether what is here is pushed behind.
    pub(crate) const fn is_local(&self) -> bool {
        matches!(self.ack, Ack::Local { .. })
    }
}

/// How it stands with the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It has not been reached yet.
    Starting,
    /// It was reached the last time.
    Up,
    /// It was not.
    Down,
    /// It does not take what is pushed.
    Refused,
    /// It has not said what became of a push.
    Unknown,
    /// It was rewritten in a way that is never followed.
    Rewritten,
    /// It was rewritten, and somebody has to decide what that means.
    Stopped,
}

impl LinkState {
    /// The word for it in `/readyz`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Up => "up",
            Self::Down => "down",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Rewritten => "rewritten",
            Self::Stopped => "stopped",
        }
    }
}

/// What is told of the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkStatus {
    /// Where it is, without secrets.
    pub url: String,
    /// When a write is answered.
    pub ack: Ack,
    /// How it stands.
    pub state: LinkState,
    /// How many commits here are not there yet.
    pub ahead: usize,
    /// How many commits there are not served here yet.
    pub behind: usize,
    /// When it answered last.
    pub last_contact: Option<DateTime<Utc>>,
    /// What went wrong last, while it does.
    pub last_error: Option<String>,
}

/// How often what has happened, for whoever counts it.
#[derive(Debug)]
pub struct Counters {
    /// Pushes that lost a race.
    pub races: AtomicU64,
    /// How often the remote was rewritten.
    pub rewrites: AtomicU64,
    /// What both sides of a merge had changed in different ways.
    pub conflicts: AtomicU64,
    /// When the remote was asked last, in seconds since 1970.
    pub attempted_at: Gauge,
    /// How long pushes took: those that were accepted, lost a race, were refused, and had no answer.
    pub pushes: [Histogram; 4],
    /// How long fetches took.
    pub fetches: Histogram,
    /// How long others' commits took to come here, from when they were made.
    pub propagation: Histogram,
}

impl Default for Counters {
    fn default() -> Self {
        let (races, rewrites, conflicts, attempted_at) = Default::default();
        let [fetches, propagation] = std::array::from_fn(|_| Histogram::of_times());
        let pushes = std::array::from_fn(|_| Histogram::of_times());
        Self { races, rewrites, conflicts, attempted_at, pushes, fetches, propagation }
    }
}

impl Counters {
    /// The names of what became of pushes, as they are counted.
    pub const PUSHED: [&str; 4] = ["ok", "lost", "refused", "unknown"];

    fn note_push(&self, pushed: &Pushed, took: Duration) {
        let outcome = match pushed {
            Pushed::Accepted => 0,
            Pushed::NotSent(why) if why.starts_with("[rejected]") => 1,
            Pushed::Answered(_) => 2,
            Pushed::NotSent(_) | Pushed::NoAnswer(_) => 3,
        };
        self.pushes[outcome].observe(took);
    }
}

/// Commits of which nobody knows whether the remote has taken them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) lease: Option<Revision>,
    pub(crate) tip: Revision,
    /// What came of pushing them once more.
    pub(crate) pushed: Option<Pushed>,
}

/// Who waits for a look that begins after they asked, and is told what was seen.
pub type Waiter = Box<dyn FnOnce(Result<Option<Revision>, RemoteError>) + Send>;

/// Who is told what became of a decision: where the branch is then.
pub type Decided = Box<dyn FnOnce(Result<Revision, RemoteError>) + Send>;

/// What is known; everything in it is replaced as a whole under one lock.
#[derive(Default)]
pub(crate) struct Known {
    state: Option<LinkState>,
    last_contact: Option<DateTime<Utc>>,
    last_error: Option<String>,
    pub(crate) ahead: usize,
    pub(crate) behind: usize,
    pub(crate) sightings: Sightings,
    /// What the remote has where it does not have the branch.
    pub(crate) other_branches: Vec<String>,
    pub(crate) pending: Option<Pending>,
    /// What is to be pushed behind.
    pub(crate) outbox: Option<Outbox>,
    /// When that is tried again.
    push_again_at: Option<Instant>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) decision: Option<(Decision, Decided)>,
    pub(crate) is_wanted: bool,
    pub(crate) is_over: bool,
    pushed_at: Option<Instant>,
    /// When the state became what it is.
    since: Option<Instant>,
    /// How often the remote was not reached in a row.
    failures: u32,
}

/// The link between this instance and the remote, shared by the writer, the thread that polls, and whoever
/// shows it.
pub struct Link {
    pub(crate) git: Git,
    /// Knows how commits follow one another.
    archive: Arc<dyn Archive>,
    pub(crate) settings: Settings,
    /// What has happened how often.
    pub counters: Counters,
    known: Mutex<Known>,
    changed: Condvar,
    clock: Clock,
}

/// Tells the time.
pub type Clock = Box<dyn Fn() -> DateTime<Utc> + Send + Sync>;

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("git", &self.git).finish_non_exhaustive()
    }
}

impl Link {
    /// A link that nothing is known of yet.
    #[must_use]
    pub fn new(git: Git, archive: Arc<dyn Archive>, settings: Settings, clock: Clock) -> Self {
        let (counters, known) = (Counters::default(), Mutex::default());
        Self { git, archive, settings, counters, known, changed: Condvar::new(), clock }
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        (self.clock)()
    }

    /// What is known of the remote now.
    #[must_use]
    pub fn status(&self) -> LinkStatus {
        let known = self.known();
        LinkStatus {
            url: self.git.url().to_string(),
            ack: self.settings.ack,
            state: known.state.unwrap_or(LinkState::Starting),
            ahead: known.ahead,
            behind: known.behind,
            last_contact: known.last_contact,
            last_error: known.last_error.clone(),
        }
    }

    /// Has the remote looked at soon, because somebody says that it has changed.
    pub fn look(&self) {
        self.want_look(&mut self.known());
    }

    fn want_look(&self, known: &mut Known) {
        known.is_wanted = true;
        self.changed.notify_all();
    }

    /// Has the remote looked at, and tells what was seen.
    pub fn look_and_tell(&self, waiter: Waiter) {
        let mut known = self.known();
        if known.is_over {
            drop(known);
            return waiter(Err(RemoteError::Unreachable("the service is shutting down".to_owned())));
        }
        known.waiters.push(waiter);
        self.changed.notify_all();
    }

    /// Now, as far as looks at the remote are concerned.
    #[must_use]
    pub fn since_now(&self) -> Since {
        self.known().sightings.now()
    }

    /// Whether the remote was seen at a revision by a look that began since then.
    #[must_use]
    pub fn has_been_at(&self, revision: Revision, since: Since) -> bool {
        self.known().sightings.has_been_at(revision, since)
    }

    /// Whether something else was seen since, and may be newer: a look that a push of our own has overtaken says nothing
    /// about what is served now.
    #[must_use]
    pub fn has_gone_on_from(&self, head: Revision) -> bool {
        self.known().sightings.head() != Some(head)
    }

    /// Has the writer do what an operator has decided, and tells what became of it. Of two at once the second counts.
    pub fn decide(&self, decision: Decision, tell: Decided) {
        let mut known = self.known();
        known.decision = Some((decision, tell));
        known.is_wanted = true;
        self.changed.notify_all();
    }

    pub(crate) fn take_decision(&self) -> Option<(Decision, Decided)> {
        self.known().decision.take()
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.settings.timeout
    }

    /// Waits until the remote was seen or could not be, the first time.
    pub(crate) fn wait_for_first_look(&self) {
        let known = self.known();
        let is_early =
            |known: &mut Known| known.sightings.newest().is_none() && known.failures == 0 && !known.is_over;
        drop(self.changed.wait_timeout_while(known, self.settings.timeout, is_early));
    }

    /// Waits until it is time to look, or the end; `false` then.
    pub(crate) fn wait_for_next_look(&self) -> bool {
        let mut known = self.known();
        let poll = self.settings.poll.map(|poll| poll.mul_f64(0.8 + 0.4 * random()));
        let began = Instant::now();
        loop {
            if known.is_over {
                return false;
            }
            if known.is_wanted
                || !known.waiters.is_empty()
                || known.last_contact.is_none() && known.failures == 0
            {
                return true;
            }
            let wait = match known.failures {
                0 if known.pending.is_none() => poll,
                failures => Some(self.down_wait(failures)),
            };
            let left = wait.map(|wait| wait.saturating_sub(began.elapsed()));
            known = match left {
                Some(Duration::ZERO) => return true,
                Some(left) => {
                    self.changed.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(known).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn down_wait(&self, failures: u32) -> Duration {
        let most = self.settings.poll.unwrap_or(DOWN_WAIT_MAX).max(DOWN_WAIT_MIN);
        DOWN_WAIT_MIN.saturating_mul(1 << failures.min(10)).min(most)
    }

    /// How long writes fail at once after the remote has refused one.
    fn refused_wait(&self) -> Duration {
        self.settings.poll.unwrap_or(DOWN_WAIT_MAX)
    }

    /// Whether a write may be tried now.
    pub(crate) fn check_writable(&self) -> Result<(), RemoteError> {
        let mut known = self.known();
        let told = known.last_error.clone().unwrap_or_default();
        let elapsed = known.since.map_or(Duration::MAX, |since| since.elapsed());
        match known.state.unwrap_or(LinkState::Starting) {
            LinkState::Starting | LinkState::Up => Ok(()),
            LinkState::Refused if elapsed < self.refused_wait() => Err(RemoteError::Refused(told)),
            LinkState::Refused => {
                // One that may show that it is over; the others go on failing at once.
                known.since = Some(Instant::now());
                Ok(())
            }
            LinkState::Down if elapsed < DOWN_WAIT_MIN => Err(RemoteError::Unreachable(told)),
            LinkState::Down => {
                known.since = Some(Instant::now());
                known.is_wanted = true;
                self.changed.notify_all();
                Err(RemoteError::Unreachable(told))
            }
            LinkState::Unknown => Err(RemoteError::Pending),
            LinkState::Rewritten | LinkState::Stopped => Err(RemoteError::Stopped(told)),
        }
    }

    /// Notes that the remote has answered.
    fn note_contact(&self) {
        let mut known = self.known();
        known.last_contact = Some(self.now());
        known.failures = 0;
        if matches!(known.state, None | Some(LinkState::Starting | LinkState::Down)) {
            if known.state == Some(LinkState::Down) {
                tracing::info!(remote = %self.git.url(), "the remote is reached again");
            }
            set(&mut known, LinkState::Up, None);
        }
        self.changed.notify_all();
    }

    /// Notes that the remote was not reached.
    pub(crate) fn missed(&self, error: &RemoteError) {
        let mut known = self.known();
        known.failures = known.failures.saturating_add(1);
        // It is there, and takes pushes.
        let is_away = *error != RemoteError::Lagging;
        if is_away
            && matches!(known.state, None | Some(LinkState::Starting | LinkState::Up | LinkState::Refused))
        {
            let writes =
                if self.settings.is_local() { "writes wait here to be pushed" } else { "writes fail" };
            tracing::warn!(
                remote = %self.git.url(), %error,
                "the remote cannot be reached: what is here is served, {writes}, and it is asked again by itself"
            );
            set(&mut known, LinkState::Down, Some(error.to_string()));
        }
        self.changed.notify_all();
    }

    /// Notes that all is well with the branch.
    pub(crate) fn is_well(&self) {
        let mut known = self.known();
        (known.failures, known.behind) = (0, 0);
        known.ahead = known.outbox.map_or(0, |outbox| outbox.commits);
        known.last_contact = Some(self.now());
        if known.state != Some(LinkState::Up) {
            if !matches!(known.state, None | Some(LinkState::Starting)) {
                tracing::info!(remote = %self.git.url(), "the remote takes writes again");
            }
            set(&mut known, LinkState::Up, None);
        }
    }

    /// Notes that the remote does not take what is pushed.
    pub(crate) fn refused(&self, why: &str) {
        let mut known = self.known();
        if known.state != Some(LinkState::Refused) {
            tracing::warn!(remote = %self.git.url(), why, "the remote refuses what is pushed; a write is tried now and then");
        }
        set(&mut known, LinkState::Refused, Some(why.to_owned()));
    }

    /// Notes that the branch can't be followed.
    pub(crate) fn stop(&self, state: LinkState, why: String) {
        let mut known = self.known();
        if known.state != Some(state) || known.last_error.as_ref() != Some(&why) {
            tracing::error!(remote = %self.git.url(), "{why}");
            set(&mut known, state, Some(why));
        }
    }

    /// Whether the branch can't be followed.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.known().state, Some(LinkState::Rewritten | LinkState::Stopped))
    }

    /// Notes commits of which nobody knows whether they were taken.
    pub(crate) fn pend(&self, lease: Option<Revision>, tip: Revision) {
        let mut known = self.known();
        tracing::warn!(remote = %self.git.url(), %tip, "the remote has not said whether it took a push; writes wait until it is known");
        known.pending = Some(Pending { lease, tip, pushed: None });
        set(&mut known, LinkState::Unknown, Some(RemoteError::Unknown.to_string()));
        self.changed.notify_all();
    }

    /// Notes that it is known now what became of them.
    pub(crate) fn settled(&self) {
        let mut known = self.known();
        known.pending = None;
        set(&mut known, LinkState::Up, None);
    }

    /// Whether it was asked for after all pushes of ours.
    pub(crate) fn is_current(&self, seen: SeenHead) -> bool {
        self.known().sightings.is_current(seen)
    }

    /// Pushes, not sooner after the last time than it may be.
    pub(crate) fn push(&self, tip: Revision, lease: Option<Revision>, until: Instant) -> Pushed {
        let since = self.known().pushed_at.map_or(Duration::MAX, |at| at.elapsed());
        let wait = self.settings.push_interval.saturating_sub(since);
        std::thread::sleep(wait);
        let push = self.known().sightings.begin_push();
        self.counters.attempted_at.set(self.now().timestamp());
        let began = Instant::now();
        let pushed = self.git.push(tip, lease, until + wait);
        self.counters.note_push(&pushed, began.elapsed());
        let accepted = (pushed == Pushed::Accepted).then_some(tip);
        let mut known = self.known();
        known.pushed_at = Some(Instant::now());
        if !known.sightings.end_push(push, accepted) {
            self.want_look(&mut known);
        }
        drop(known);
        accepted.into_iter().for_each(|tip| self.tell(tip));
        pushed
    }

    /// Has siblings told what the remote has got from here.
    pub(crate) fn tell(&self, tip: Revision) {
        // Nobody listens while the service ends.
        let _told = self.settings.told.as_ref().map(|told| told.send(tip));
    }

    /// Fetches and notes what was seen.
    pub(crate) fn fetch(&self, note: Note, until: Instant) -> Result<Option<Revision>, RemoteError> {
        let look = self.known().sightings.begin_look();
        self.counters.attempted_at.set(self.now().timestamp());
        let began = Instant::now();
        let fetched = self.git.fetch(note, until);
        self.counters.fetches.observe(began.elapsed());
        let head = fetched?;
        let before = self.known().sightings.newest();
        if !self.goes_on(before, head) {
            if self.known().sightings.is_overtaken(look) {
                self.note_contact();
                self.look();
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
        if !known.sightings.saw(look, head, before) {
            self.want_look(&mut known);
        }
        drop(known);
        self.note_contact();
        Ok(head)
    }

    /// Whether a head goes on from what was seen before.
    fn goes_on(&self, before: Option<SeenHead>, head: Option<Revision>) -> bool {
        let Some(before) = self.known_head(before) else { return true };
        head == Some(before)
            || head.is_some_and(|head| self.archive.reaches(head, before).is_ok_and(|reaches| reaches))
    }

    fn known_head(&self, before: Option<SeenHead>) -> Option<Revision> {
        before.and_then(|seen| seen.head).or_else(|| self.git.noted(Note::Base))
    }

    /// Whether the side of the remote that takes pushes has it as well: a replica may lag behind.
    fn is_on_writing_side(
        &self,
        before: Option<SeenHead>,
        head: Option<Revision>,
        until: Instant,
    ) -> Result<bool, RemoteError> {
        let Some(before) = self.known_head(before) else { return Ok(true) };
        match self.git.ask_writing_side(before, until) {
            // Who may not push is asked to look again.
            Err(_) if self.settings.is_follower => Ok(self.git.ask(until)? == head),
            found => Ok(found? == head),
        }
    }

    /// Whether the branch of a remote that is a folder is not where it was seen, which costs next to nothing to find
    /// out.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let Some(path) = self.branch_files().into_iter().next() else { return false };
        let found = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        found.is_some() && found != self.known().sightings.head()
    }

    /// Whether it was reached the last time.
    pub(crate) fn is_up(&self) -> bool {
        self.known().state == Some(LinkState::Up)
    }

    /// What git writes when the branch of a remote moves that is a folder, the branch itself first.
    #[must_use]
    pub fn branch_files(&self) -> Vec<PathBuf> {
        let Some(folder) = self.git.url().folder() else { return Vec::new() };
        let inner = folder.join(".git");
        let folder = if inner.is_dir() { inner } else { folder.to_owned() };
        vec![folder.join("refs/heads").join(self.git.branch()), folder.join("packed-refs")]
    }

    /// Ends what waits.
    pub(crate) fn finish(&self) {
        let mut known = self.known();
        known.is_over = true;
        known.waiters.clear();
        known.decision = None;
        self.changed.notify_all();
    }

    /// Has these commits pushed behind, instead of what was to be pushed.
    pub(crate) fn post(&self, outbox: Option<Outbox>) {
        let mut known = self.known();
        known.ahead = outbox.map_or(0, |outbox| outbox.commits);
        known.outbox = outbox;
        self.changed.notify_all();
    }

    /// The same of commits that were made on top of what is to be pushed, or of what the remote has.
    pub(crate) fn post_more(&self, base: Option<Revision>, tip: Revision, commits: usize) {
        let mut known = self.known();
        let (lease, waiting) = known.outbox.map_or((base, 0), |outbox| (outbox.lease, outbox.commits));
        known.outbox = Some(Outbox { lease, tip, commits: waiting + commits });
        known.ahead = waiting + commits;
        self.changed.notify_all();
    }

    /// Waits until there is something to be pushed behind and may be, or the end; `None` then. What may be pushed when it
    /// ends still is.
    pub(crate) fn wait_for_outbox(&self) -> Option<Outbox> {
        let mut known = self.known();
        loop {
            let is_stopped = matches!(known.state, Some(LinkState::Rewritten | LinkState::Stopped));
            let wait =
                known.push_again_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
            match known.outbox.filter(|_| !is_stopped) {
                Some(outbox) if wait.is_zero() => {
                    known.push_again_at = None;
                    return Some(outbox);
                }
                _ if known.is_over => return None,
                Some(_) => {
                    known = self.changed.wait_timeout(known, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
                None => known = self.changed.wait(known).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Notes that the remote has what was pushed behind; more may have come since.
    pub(crate) fn landed(&self, landed: Outbox) {
        let mut known = self.known();
        known.outbox = known.outbox.filter(|outbox| outbox.tip != landed.tip).map(|outbox| {
            let commits = outbox.commits.saturating_sub(landed.commits);
            if outbox.lease == landed.lease {
                Outbox { lease: Some(landed.tip), commits, ..outbox }
            } else {
                outbox
            }
        });
        drop(known);
        self.is_well();
    }

    /// Notes that somebody else was faster than a push behind: the writer has to merge first.
    pub(crate) fn lost_behind(&self, lost: Outbox) {
        let mut known = self.known();
        known.outbox = known.outbox.filter(|outbox| outbox.lease != lost.lease);
        drop(known);
        self.lost_a_race();
    }

    /// Has a push behind tried again later.
    pub(crate) fn push_later(&self, is_refused: bool) {
        let mut known = self.known();
        let wait = if is_refused { self.refused_wait() } else { self.down_wait(known.failures.max(1)) };
        known.push_again_at = Some(Instant::now() + wait);
    }

    /// Whether writes are answered before the remote has them.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.settings.is_local()
    }

    /// How many commits here are not on the remote yet.
    #[must_use]
    pub fn ahead(&self) -> usize {
        self.known().ahead
    }

    pub(crate) fn lost_a_race(&self) {
        self.counters.races.fetch_add(1, Ordering::Relaxed);
    }
}

fn set(known: &mut Known, state: LinkState, error: Option<String>) {
    known.state = Some(state);
    known.last_error = error;
    known.since = Some(Instant::now());
}

/// A number from 0 to 1.
pub(crate) fn random() -> f64 {
    f64::from(Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

/// Waits for a random time that grows with each try, so that those who met once do not meet again.
pub(crate) fn pause(tries: u32, most: Duration) {
    let scale = Duration::from_millis(20).saturating_mul(1 << tries.min(8)).min(most);
    std::thread::sleep(scale.mul_f64(random()));
}
