//! How it stands with a remote: whether it is reached and takes what is pushed, and what is asked of it when it is or
//! does not.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::domain::Revision;
use crate::store::remote::error::RemoteError;
use crate::store::remote::link::settings::Ack;
use crate::store::remote::link::{Link, Pending};

/// How long it takes at least until a remote that was away is asked again.
const DOWN_WAIT_MIN: Duration = Duration::from_millis(100);

/// How long at most, where nothing else says how often the remote is asked.
const DOWN_WAIT_MAX: Duration = Duration::from_secs(5);

/// How it stands with the remote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkState {
    /// It has not been reached yet.
    #[default]
    Starting,
    /// It was reached the last time.
    Up,
    /// It was not reached the last time.
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

/// How it stands, since when and why.
#[derive(Default)]
pub(super) struct Standing {
    pub(super) state: LinkState,
    pub(super) last_contact: Option<DateTime<Utc>>,
    last_error: Option<RemoteError>,
    /// When the state became what it is.
    since: Option<Instant>,
    /// How often the remote was not reached in a row.
    pub(super) failures: u32,
}

impl Standing {
    fn set(&mut self, state: LinkState, error: Option<RemoteError>) {
        self.state = state;
        self.last_error = error;
        self.since = Some(Instant::now());
    }

    /// What went wrong last, while it does.
    fn error(&self) -> RemoteError {
        let unheard = || RemoteError::Unreachable("it has not answered yet".to_owned());
        self.last_error.clone().unwrap_or_else(unheard)
    }

    /// What went wrong last in words for people, beside the state.
    pub(super) fn told(&self) -> Option<String> {
        self.last_error.as_ref().map(|error| match error {
            RemoteError::Refused(why) | RemoteError::Stopped(why) => why.clone(),
            error => error.to_string(),
        })
    }

    pub(super) const fn is_stopped(&self) -> bool {
        matches!(self.state, LinkState::Rewritten | LinkState::Stopped)
    }
}

impl Link {
    pub(super) fn down_wait(&self, failures: u32) -> Duration {
        let most = self.settings.poll.unwrap_or(DOWN_WAIT_MAX).max(DOWN_WAIT_MIN);
        DOWN_WAIT_MIN.saturating_mul(1 << failures.min(10)).min(most)
    }

    /// How long writes fail at once after the remote has refused one.
    pub(super) fn refused_wait(&self) -> Duration {
        self.settings.poll.unwrap_or(DOWN_WAIT_MAX).max(self.settings.push_interval)
    }

    /// Whether the remote may be asked where it is now, for an answer with nothing to be pushed: it can be given while
    /// pushes are refused, and says nothing about the next of them.
    pub(crate) fn check_reachable(&self) -> Result<(), RemoteError> {
        if self.known().standing.state == LinkState::Refused { Ok(()) } else { self.check_writable() }
    }

    /// Why the remote has not been seen yet.
    pub(crate) fn last_error(&self) -> RemoteError {
        self.known().standing.error()
    }

    /// Whether a write may be tried now.
    pub(crate) fn check_writable(&self) -> Result<(), RemoteError> {
        let mut known = self.known();
        let error = known.standing.error();
        let elapsed = known.standing.since.map_or(Duration::MAX, |since| since.elapsed());
        match known.standing.state {
            LinkState::Starting | LinkState::Up => Ok(()),
            LinkState::Refused if elapsed < self.refused_wait() => Err(error),
            LinkState::Refused => {
                // One that may show that it is over; the others go on failing at once.
                known.standing.since = Some(Instant::now());
                Ok(())
            }
            LinkState::Down if elapsed < DOWN_WAIT_MIN => Err(error),
            LinkState::Down => {
                known.standing.since = Some(Instant::now());
                self.want_look(&mut known);
                Err(error)
            }
            LinkState::Unknown => Err(RemoteError::Pending),
            LinkState::Rewritten | LinkState::Stopped => Err(error),
        }
    }

    /// Notes that the remote has answered.
    pub(super) fn note_contact(&self) {
        let mut known = self.known();
        known.standing.last_contact = Some(self.now());
        known.standing.failures = 0;
        if matches!(known.standing.state, LinkState::Starting | LinkState::Down) {
            if known.standing.state == LinkState::Down {
                tracing::info!(remote = %self.git.url(), "the remote is reached again");
            }
            known.standing.set(LinkState::Up, None);
        }
        self.changed.notify_all();
    }

    /// Notes that the remote was not reached.
    pub(crate) fn missed(&self, error: &RemoteError) {
        let mut known = self.known();
        known.standing.failures = known.standing.failures.saturating_add(1);
        // It is there and takes pushes, or it is us who have ended.
        let is_away = *error != RemoteError::Lagging && !known.wishes.is_over;
        let what = match error {
            RemoteError::Unsound(_) => "what the remote has is not taken",
            _ => "the remote cannot be reached",
        };
        match known.standing.state {
            LinkState::Starting | LinkState::Up | LinkState::Refused if is_away => {
                let writes = if self.is_local() { "writes wait here to be pushed" } else { "writes fail" };
                tracing::warn!(
                    remote = %self.git.url(), %error,
                    "{what}: what is here is served, {writes}, and it is asked again by itself"
                );
                known.standing.set(LinkState::Down, Some(error.clone()));
            }
            LinkState::Down if is_away && known.standing.last_error.as_ref() != Some(error) => {
                tracing::info!(remote = %self.git.url(), %error, "{what}, still");
                known.standing.last_error = Some(error.clone());
            }
            _ => {}
        }
        self.changed.notify_all();
    }

    /// Notes that all is well with the branch.
    pub(crate) fn note_well(&self) {
        let mut known = self.known();
        (known.standing.failures, known.behind) = (0, 0);
        known.ahead = known.posted.outbox.map_or(0, |outbox| outbox.commits);
        known.standing.last_contact = Some(self.now());
        if known.standing.state != LinkState::Up {
            if known.standing.state != LinkState::Starting {
                tracing::info!(remote = %self.git.url(), "the remote takes writes again");
            }
            known.standing.set(LinkState::Up, None);
        }
    }

    /// Notes that the branch can be followed, if it could not be before.
    pub(crate) fn note_followable(&self) {
        if self.is_stopped() {
            self.note_well();
        }
    }

    /// Notes that the remote does not take what is pushed.
    pub(crate) fn refused(&self, why: &str) {
        let mut known = self.known();
        if known.standing.state != LinkState::Refused {
            tracing::warn!(remote = %self.git.url(), why, "the remote refuses what is pushed; a write is tried now and then");
        }
        known.standing.set(LinkState::Refused, Some(RemoteError::Refused(why.to_owned())));
    }

    /// Notes that the branch can't be followed.
    pub(crate) fn stop(&self, state: LinkState, why: String) {
        let mut known = self.known();
        let error = RemoteError::Stopped(why);
        if known.standing.state != state || known.standing.last_error.as_ref() != Some(&error) {
            tracing::error!(remote = %self.git.url(), "{error}");
            known.standing.set(state, Some(error));
        }
    }

    /// Whether the branch can't be followed.
    pub(crate) fn is_stopped(&self) -> bool {
        self.known().standing.is_stopped()
    }

    /// Notes commits of which nobody knows whether they were taken.
    pub(crate) fn pend(&self, lease: Option<Revision>, tip: Revision) {
        let mut known = self.known();
        tracing::warn!(remote = %self.git.url(), %tip, "the remote has not said whether it took a push; writes wait until it is known");
        known.pending = Some(Pending { lease, tip, pushed: None });
        known.standing.set(LinkState::Unknown, Some(RemoteError::Unknown));
        self.changed.notify_all();
    }

    /// Notes that it is known now what became of them.
    pub(crate) fn settled(&self) {
        let mut known = self.known();
        known.pending = None;
        known.standing.set(LinkState::Up, None);
    }

    /// Whether it was reached the last time.
    pub(crate) fn is_up(&self) -> bool {
        self.known().standing.state == LinkState::Up
    }
}
