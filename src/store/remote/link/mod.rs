//! The link to the remote: what is known of it, shared by all threads that talk to it.

mod counters;
mod exchange;
mod health;
pub(crate) mod poll;
pub(crate) mod push_queue;
mod seen_heads;
mod settings;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::Revision;
use crate::store::Archive;
use crate::store::remote::decision::Decision;
use crate::store::remote::error::RemoteError;
pub use crate::store::remote::link::counters::Counters;
use crate::store::remote::link::health::LinkHealth;
pub use crate::store::remote::link::health::{LinkState, LinkStatus};
use crate::store::remote::link::push_queue::PushQueue;
pub use crate::store::remote::link::seen_heads::LogicalTime;
pub(crate) use crate::store::remote::link::seen_heads::SeenHead;
use crate::store::remote::link::seen_heads::SeenHeads;
pub use crate::store::remote::link::settings::{Ack, RemoteSettings};
use crate::store::remote::transport::git::Git;
use crate::store::remote::transport::pushed::PushOutcome;

/// Commits whose push has an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) lease: Option<Revision>,
    pub(crate) tip: Revision,
    /// The outcome of pushing them once more.
    pub(crate) pushed: Option<PushOutcome>,
    /// How often they have been asked for or pushed once more.
    pub(crate) tries: u32,
}

/// A caller waiting for a poll that starts after its request, and for that poll's result.
pub type Waiter = Box<dyn FnOnce(Result<Option<Revision>, RemoteError>) + Send>;

/// A callback for the outcome of a decision: where the branch is then.
pub type DecisionCallback = Box<dyn FnOnce(Result<Revision, RemoteError>) + Send>;

/// Requests to the polling thread and to the writer.
#[derive(Default)]
pub(crate) struct LinkRequests {
    /// Callers waiting for a poll; the next one serves all of them.
    pub(crate) waiters: Vec<Waiter>,
    /// The operator's decision that the writer is to carry out, and the callback for its outcome.
    pub(crate) decision: Option<(Decision, DecisionCallback)>,
    /// Whether a poll is wanted now, though no caller waits for it.
    pub(crate) is_wanted: bool,
    /// Whether the link is ending: nothing is waited for any more.
    pub(crate) is_over: bool,
    /// Whether the end is near: delayed pushes start now.
    pub(crate) is_hurried: bool,
}

/// What is known of the remote, all under one lock.
#[derive(Default)]
pub(crate) struct KnownRemote {
    health: LinkHealth,
    pub(crate) ahead: usize,
    pub(crate) behind: usize,
    pub(crate) seen_heads: SeenHeads,
    /// The remote's other branches, if it does not have the shared one.
    pub(crate) other_branches: Vec<String>,
    pub(crate) pending: Option<Pending>,
    pub(crate) push_queue: PushQueue,
    pub(crate) requests: LinkRequests,
    pushed_at: Option<Instant>,
}

/// The link between this instance and the remote, shared by the writer, the polling thread and the code that reports
/// its status.
pub struct Link {
    pub(crate) git: Git,
    /// Decides whether one commit reaches another.
    archive: Arc<dyn Archive>,
    pub(crate) settings: RemoteSettings,
    /// Counters and timings of the exchanges.
    pub counters: Counters,
    known: Mutex<KnownRemote>,
    changed: Condvar,
    /// Held during a push.
    pushing: Mutex<()>,
    /// Until when a service with nothing to serve waits for the first poll before it reports that it is not ready.
    first_poll_until: Instant,
    clock: Clock,
}

/// Returns the current time.
pub type Clock = Box<dyn Fn() -> DateTime<Utc> + Send + Sync>;

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("git", &self.git).finish_non_exhaustive()
    }
}

impl Link {
    /// Creates a link to a remote that has not been contacted yet.
    #[must_use]
    pub fn new(
        git: Git,
        archive: Arc<dyn Archive>,
        settings: RemoteSettings,
        first_poll_until: Instant,
        clock: Clock,
    ) -> Self {
        let (counters, known) = (Counters::default(), Mutex::default());
        let (changed, pushing) = (Condvar::new(), Mutex::default());
        Self { git, archive, settings, counters, known, changed, pushing, first_poll_until, clock }
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        (self.clock)()
    }

    /// Returns the current status of the remote.
    #[must_use]
    pub fn status(&self) -> LinkStatus {
        let known = self.known();
        LinkStatus {
            url: self.git.url().to_string(),
            ack: self.settings.ack,
            state: known.health.state,
            ahead: known.ahead,
            behind: known.behind,
            last_contact: known.health.last_contact,
            last_error: known.health.error_text(),
        }
    }

    /// Requests a poll soon, because of a notice that the remote has changed.
    pub fn request_poll(&self) {
        self.mark_poll_wanted(&mut self.known());
    }

    fn mark_poll_wanted(&self, known: &mut KnownRemote) {
        known.requests.is_wanted = true;
        self.changed.notify_all();
    }

    /// Requests a poll, and passes its result to `waiter`.
    pub fn request_poll_for(&self, waiter: Waiter) {
        let mut known = self.known();
        if known.requests.is_over {
            drop(known);
            return waiter(Err(RemoteError::Unreachable("the service is shutting down".to_owned())));
        }
        known.requests.waiters.push(waiter);
        self.changed.notify_all();
    }

    /// Returns the current position in the order of the exchanges with the remote.
    #[must_use]
    pub fn since_now(&self) -> LogicalTime {
        self.known().seen_heads.now()
    }

    /// Returns whether an exchange that began after `since` has shown the remote at `revision`.
    #[must_use]
    pub fn has_been_at(&self, revision: Revision, since: LogicalTime) -> bool {
        self.known().seen_heads.has_been_at(revision, since)
    }

    /// Returns whether the last head seen is another one, which may be newer: a fetch that one of our own pushes has
    /// overtaken says nothing about what is served now.
    #[must_use]
    pub fn has_moved_from(&self, head: Revision) -> bool {
        self.known().seen_heads.head() != Some(head)
    }

    /// Hands an operator's decision to the writer, and its outcome to `callback`. A second one at the same time replaces
    /// it.
    pub fn decide(&self, decision: Decision, callback: DecisionCallback) {
        let mut known = self.known();
        known.requests.decision = Some((decision, callback));
        self.mark_poll_wanted(&mut known);
    }

    pub(crate) fn take_decision(&self) -> Option<(Decision, DecisionCallback)> {
        self.known().requests.decision.take()
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, KnownRemote> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.settings.timeout
    }

    /// Waits until the remote was seen or has failed for the first time, but only briefly: it may take long.
    pub(crate) fn wait_for_first_poll(&self) {
        let known = self.known();
        let is_early = |known: &mut KnownRemote| {
            known.seen_heads.newest().is_none() && known.health.failures == 0 && !known.requests.is_over
        };
        let wait_max = self.first_poll_until.saturating_duration_since(Instant::now());
        drop(self.changed.wait_timeout_while(known, wait_max, is_early));
    }

    /// Waits until the next poll is due; returns `false` when the link ends.
    pub(crate) fn wait_for_next_poll(&self) -> bool {
        let mut known = self.known();
        let poll = self.settings.poll.map(|poll| poll.mul_f64(0.8 + 0.4 * random()));
        let began = Instant::now();
        loop {
            if known.requests.is_over {
                return false;
            }
            if known.requests.is_wanted
                || !known.requests.waiters.is_empty()
                || known.health.last_contact.is_none() && known.health.failures == 0
            {
                return true;
            }
            let wait = match known.health.failures {
                0 if known.pending.is_none() => poll,
                failures => {
                    let tries = known.pending.as_ref().map_or(0, |pending| pending.tries);
                    Some(self.down_wait(failures.max(tries)))
                }
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

    /// Lets pushes start now that only wait for the push interval.
    pub(crate) fn hurry(&self) {
        self.known().requests.is_hurried = true;
        self.changed.notify_all();
    }

    /// Returns whether pushes no longer wait for their turn.
    pub(crate) fn is_hurried(&self) -> bool {
        self.known().requests.is_hurried
    }

    /// Ends all waiting.
    pub(crate) fn finish(&self) {
        let mut known = self.known();
        known.requests.is_over = true;
        known.requests.waiters.clear();
        known.requests.decision = None;
        self.changed.notify_all();
    }

    /// Ends all waiting and all running exchanges.
    pub(crate) fn end(&self) {
        self.finish();
        self.git.processes.end();
    }

    /// Returns whether exchanges with the remote have ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.git.processes.is_over()
    }

    /// Returns whether writes are answered before the remote has them.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        matches!(self.settings.ack, Ack::Local { .. })
    }

    /// Returns the number of local commits that the remote does not have yet.
    #[must_use]
    pub fn ahead(&self) -> usize {
        self.known().ahead
    }

    pub(crate) fn lost_a_race(&self) {
        self.counters.races.add_one();
    }
}

/// Returns a random number from 0 to 1.
pub(crate) fn random() -> f64 {
    f64::from(Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

/// The shortest and the longest pause between two attempts, before jitter shortens them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pauses {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Pauses {
    /// Sleeps for a random time that grows with each attempt, so that instances that collide do not do so again; never
    /// beyond `until`.
    pub(crate) fn pause(self, tries: u32, until: Instant) {
        let scale = self.least.saturating_mul(1 << tries.min(8)).min(self.most);
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(scale.min(left).mul_f64(random()));
    }
}
