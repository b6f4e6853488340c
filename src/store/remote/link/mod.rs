//! What is known of the remote, by whoever has asked it last.

pub(crate) mod behind;
mod counters;
mod exchange;
pub(crate) mod poll;
mod settings;
mod sightings;
mod standing;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::Revision;
use crate::store::Archive;
use crate::store::remote::decision::Decision;
use crate::store::remote::error::RemoteError;
use crate::store::remote::link::behind::Posted;
pub use crate::store::remote::link::counters::Counters;
pub use crate::store::remote::link::settings::{Ack, RemoteSettings};
pub(crate) use crate::store::remote::link::sightings::SeenHead;
use crate::store::remote::link::sightings::Sightings;
pub use crate::store::remote::link::sightings::Since;
use crate::store::remote::link::standing::Standing;
pub use crate::store::remote::link::standing::{LinkState, LinkStatus};
use crate::store::remote::transport::git::Git;
use crate::store::remote::transport::pushed::Pushed;

/// How long a service with nothing to serve waits for the remote before it says that it is not ready.
const FIRST_LOOK_WAIT_MAX: Duration = Duration::from_secs(5);

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

/// What is wanted of the thread that looks, and of the writer.
#[derive(Default)]
pub(crate) struct Wishes {
    /// Who waits for a look; the next one is for all of them.
    pub(crate) waiters: Vec<Waiter>,
    /// What the operator has decided and the writer is to carry out, and who is told.
    pub(crate) decision: Option<(Decision, Decided)>,
    /// Whether a look is wanted now, though nobody waits for it.
    pub(crate) is_wanted: bool,
    /// Whether the link ends: nothing is waited for any more.
    pub(crate) is_over: bool,
    /// Whether the end is near: what waits for its turn is pushed now.
    pub(crate) is_hurried: bool,
}

/// What is known; everything in it is replaced as a whole under one lock.
#[derive(Default)]
pub(crate) struct KnownRemote {
    standing: Standing,
    pub(crate) ahead: usize,
    pub(crate) behind: usize,
    pub(crate) sightings: Sightings,
    /// What the remote has where it does not have the branch.
    pub(crate) other_branches: Vec<String>,
    pub(crate) pending: Option<Pending>,
    pub(crate) posted: Posted,
    pub(crate) wishes: Wishes,
    pushed_at: Option<Instant>,
}

/// The link between this instance and the remote, shared by the writer, the thread that polls, and whoever
/// shows it.
pub struct Link {
    pub(crate) git: Git,
    /// Knows how commits follow one another.
    archive: Arc<dyn Archive>,
    pub(crate) settings: RemoteSettings,
    /// What has happened how often.
    pub counters: Counters,
    known: Mutex<KnownRemote>,
    changed: Condvar,
    /// Held by who pushes.
    pushing: Mutex<()>,
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
    pub fn new(git: Git, archive: Arc<dyn Archive>, settings: RemoteSettings, clock: Clock) -> Self {
        let (counters, known) = (Counters::default(), Mutex::default());
        let (changed, pushing) = (Condvar::new(), Mutex::default());
        Self { git, archive, settings, counters, known, changed, pushing, clock }
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
            state: known.standing.state,
            ahead: known.ahead,
            behind: known.behind,
            last_contact: known.standing.last_contact,
            last_error: known.standing.told(),
        }
    }

    /// Has the remote looked at soon, because somebody says that it has changed.
    pub fn look(&self) {
        self.want_look(&mut self.known());
    }

    fn want_look(&self, known: &mut KnownRemote) {
        known.wishes.is_wanted = true;
        self.changed.notify_all();
    }

    /// Has the remote looked at, and tells what was seen.
    pub fn look_and_tell(&self, waiter: Waiter) {
        let mut known = self.known();
        if known.wishes.is_over {
            drop(known);
            return waiter(Err(RemoteError::Unreachable("the service is shutting down".to_owned())));
        }
        known.wishes.waiters.push(waiter);
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
        known.wishes.decision = Some((decision, tell));
        self.want_look(&mut known);
    }

    pub(crate) fn take_decision(&self) -> Option<(Decision, Decided)> {
        self.known().wishes.decision.take()
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, KnownRemote> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.settings.timeout
    }

    /// Waits until the remote was seen or could not be, the first time, a moment at most: it may be long in coming.
    pub(crate) fn wait_for_first_look(&self) {
        let known = self.known();
        let is_early = |known: &mut KnownRemote| {
            known.sightings.newest().is_none() && known.standing.failures == 0 && !known.wishes.is_over
        };
        let wait_max = self.settings.timeout.min(FIRST_LOOK_WAIT_MAX);
        drop(self.changed.wait_timeout_while(known, wait_max, is_early));
    }

    /// Waits until it is time to look, or the end; `false` then.
    pub(crate) fn wait_for_next_look(&self) -> bool {
        let mut known = self.known();
        let poll = self.settings.poll.map(|poll| poll.mul_f64(0.8 + 0.4 * random()));
        let began = Instant::now();
        loop {
            if known.wishes.is_over {
                return false;
            }
            if known.wishes.is_wanted
                || !known.wishes.waiters.is_empty()
                || known.standing.last_contact.is_none() && known.standing.failures == 0
            {
                return true;
            }
            let wait = match known.standing.failures {
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

    /// Has pushed what only waits because the last push was not long ago.
    pub(crate) fn hurry(&self) {
        self.known().wishes.is_hurried = true;
        self.changed.notify_all();
    }

    /// Whether nothing waits for its turn any more.
    pub(crate) fn is_hurried(&self) -> bool {
        self.known().wishes.is_hurried
    }

    /// Ends what waits.
    pub(crate) fn finish(&self) {
        let mut known = self.known();
        known.wishes.is_over = true;
        known.wishes.waiters.clear();
        known.wishes.decision = None;
        self.changed.notify_all();
    }

    /// Ends what waits and what is under way.
    pub(crate) fn end(&self) {
        self.finish();
        self.git.processes.end();
        let _known = self.known();
        self.changed.notify_all();
    }

    /// Whether nothing is exchanged with the remote any more.
    pub(crate) fn is_ended(&self) -> bool {
        self.git.processes.is_over()
    }

    /// Whether writes are answered before the remote has them.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        matches!(self.settings.ack, Ack::Local { .. })
    }

    /// How many commits here are not on the remote yet.
    #[must_use]
    pub fn ahead(&self) -> usize {
        self.known().ahead
    }

    pub(crate) fn lost_a_race(&self) {
        self.counters.races.add_one();
    }
}

/// A number from 0 to 1.
pub(crate) fn random() -> f64 {
    f64::from(Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

/// The shortest and the longest pause between two tries, before chance shortens them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pauses {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Pauses {
    /// Waits for a random time that grows with each try, so that those who met once do not meet again; not beyond
    /// `until`.
    pub(crate) fn pause(self, tries: u32, until: Instant) {
        let scale = self.least.saturating_mul(1 << tries.min(8)).min(self.most);
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(scale.min(left).mul_f64(random()));
    }
}
