//! The state of the link: whether the remote is reachable and accepts pushes, and which writes may be tried.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::domain::Revision;
use crate::store::remote::error::RemoteError;
use crate::store::remote::link::settings::Ack;
use crate::store::remote::link::{Link, Pending};

/// The shortest wait before an unreachable remote is tried again.
const DOWN_WAIT_MIN: Duration = Duration::from_millis(100);

/// The longest wait, if no poll interval is set.
const DOWN_WAIT_MAX: Duration = Duration::from_secs(5);

/// The state of the link to the remote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkState {
    /// The remote has not been reached yet.
    #[default]
    Starting,
    /// The last attempt reached the remote.
    Up,
    /// The last attempt did not reach the remote.
    Down,
    /// The remote refuses pushes.
    Refused,
    /// The outcome of a push is unknown.
    Unknown,
    /// The remote was rewritten in a way that is never followed.
    Rewritten,
    /// The branch can't be followed until an operator, or a commit on the remote, resolves that.
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

/// The reported status of the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkStatus {
    /// The URL, without secrets.
    pub url: String,
    /// When a write is answered.
    pub ack: Ack,
    /// The state of the link.
    pub state: LinkState,
    /// The number of local commits that the remote does not have yet.
    pub ahead: usize,
    /// The number of the remote's commits that are not served here yet.
    pub behind: usize,
    /// When the remote last answered.
    pub last_contact: Option<DateTime<Utc>>,
    /// The current error, if any.
    pub last_error: Option<String>,
}

/// The state of the link, since when, and why.
#[derive(Default)]
pub(super) struct LinkHealth {
    pub(super) state: LinkState,
    pub(super) last_contact: Option<DateTime<Utc>>,
    last_error: Option<RemoteError>,
    /// When the state was set, or the last write in it tried the remote or asked for a poll.
    since: Option<Instant>,
    /// The number of consecutive failures to reach the remote.
    pub(super) failures: u32,
}

impl LinkHealth {
    fn set(&mut self, state: LinkState, error: Option<RemoteError>) {
        self.state = state;
        self.last_error = error;
        self.since = Some(Instant::now());
    }

    fn error(&self) -> RemoteError {
        let unheard = || RemoteError::Unreachable("it has not answered yet".to_owned());
        self.last_error.clone().unwrap_or_else(unheard)
    }

    /// Returns the current error as text to be shown beside the state.
    pub(super) fn error_text(&self) -> Option<String> {
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

    /// Returns how long writes fail immediately after the remote has refused one.
    pub(super) fn refused_wait(&self) -> Duration {
        self.settings.poll.unwrap_or(DOWN_WAIT_MAX).max(self.settings.push_interval)
    }

    /// Checks whether the remote may be asked for its head, for an answer that needs no push. Such an answer can be
    /// given while pushes are refused, and says nothing about the next push.
    pub(crate) fn check_reachable(&self) -> Result<(), RemoteError> {
        if self.known().health.state == LinkState::Refused { Ok(()) } else { self.check_writable() }
    }

    pub(crate) fn last_error(&self) -> RemoteError {
        self.known().health.error()
    }

    /// Checks whether a write may be tried now.
    pub(crate) fn check_writable(&self) -> Result<(), RemoteError> {
        let mut known = self.known();
        let error = known.health.error();
        let elapsed = known.health.since.map_or(Duration::MAX, |since| since.elapsed());
        match known.health.state {
            LinkState::Starting | LinkState::Up => Ok(()),
            LinkState::Refused if elapsed < self.refused_wait() => Err(error),
            LinkState::Refused => {
                // This write tests whether the refusal has ended; the others keep failing immediately.
                known.health.since = Some(Instant::now());
                Ok(())
            }
            LinkState::Down if elapsed < DOWN_WAIT_MIN => Err(error),
            LinkState::Down => {
                known.health.since = Some(Instant::now());
                self.mark_poll_wanted(&mut known);
                Err(error)
            }
            LinkState::Unknown => Err(RemoteError::Pending),
            LinkState::Rewritten | LinkState::Stopped => Err(error),
        }
    }

    pub(super) fn note_contact(&self) {
        let mut known = self.known();
        known.health.last_contact = Some(self.now());
        known.health.failures = 0;
        if matches!(known.health.state, LinkState::Starting | LinkState::Down) {
            if known.health.state == LinkState::Down {
                tracing::info!(remote = %self.git.url(), "the remote is reached again");
            }
            known.health.set(LinkState::Up, None);
        }
        self.changed.notify_all();
    }

    /// Records a failure to reach the remote.
    pub(crate) fn note_unreachable(&self, error: &RemoteError) {
        let mut known = self.known();
        known.health.failures = known.health.failures.saturating_add(1);
        // A lagging remote is reachable and takes pushes, and a failure during shutdown is our own doing.
        let is_away = *error != RemoteError::Lagging && !known.requests.is_over;
        let what = match error {
            RemoteError::Unsound(_) => "what the remote has is not taken",
            _ => "the remote cannot be reached",
        };
        match known.health.state {
            LinkState::Starting | LinkState::Up | LinkState::Refused if is_away => {
                let writes = if self.is_local() { "writes wait here to be pushed" } else { "writes fail" };
                tracing::warn!(
                    remote = %self.git.url(), %error,
                    "{what}: what is here is served, {writes}, and it is asked again by itself"
                );
                known.health.set(LinkState::Down, Some(error.clone()));
            }
            LinkState::Down if is_away && known.health.last_error.as_ref() != Some(error) => {
                tracing::info!(remote = %self.git.url(), %error, "{what}, still");
                known.health.last_error = Some(error.clone());
            }
            _ => {}
        }
        self.changed.notify_all();
    }

    /// Records that the branch is in order.
    pub(crate) fn note_up(&self) {
        let mut known = self.known();
        (known.health.failures, known.behind) = (0, 0);
        known.ahead = known.push_queue.outbox.map_or(0, |outbox| outbox.commits);
        known.health.last_contact = Some(self.now());
        if known.health.state != LinkState::Up {
            if known.health.state != LinkState::Starting {
                tracing::info!(remote = %self.git.url(), "the remote takes writes again");
            }
            known.health.set(LinkState::Up, None);
        }
    }

    /// Records that the branch can be followed, if it could not be before.
    pub(crate) fn note_followable(&self) {
        if self.is_stopped() {
            self.note_up();
        }
    }

    /// Records that the remote refuses pushes.
    pub(crate) fn note_refused(&self, why: &str) {
        let mut known = self.known();
        if known.health.state != LinkState::Refused {
            tracing::warn!(remote = %self.git.url(), why, "the remote refuses what is pushed; a write is tried now and then");
        }
        known.health.set(LinkState::Refused, Some(RemoteError::Refused(why.to_owned())));
    }

    /// Records that the branch can't be followed.
    pub(crate) fn stop(&self, state: LinkState, why: String) {
        let mut known = self.known();
        let error = RemoteError::Stopped(why);
        if known.health.state != state || known.health.last_error.as_ref() != Some(&error) {
            tracing::error!(remote = %self.git.url(), "{error}");
            known.health.set(state, Some(error));
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.known().health.is_stopped()
    }

    /// Records commits whose push has an unknown outcome.
    pub(crate) fn note_outcome_unknown(&self, lease: Option<Revision>, tip: Revision) {
        let mut known = self.known();
        tracing::warn!(remote = %self.git.url(), %tip, "the remote has not said whether it took a push; writes wait until it is known");
        known.pending = Some(Pending { lease, tip, pushed: None, tries: 0 });
        known.health.set(LinkState::Unknown, Some(RemoteError::OutcomeUnknown));
        self.changed.notify_all();
    }

    /// Records that the outcome of the pending push is known.
    pub(crate) fn note_outcome_known(&self) {
        let mut known = self.known();
        known.pending = None;
        known.health.set(LinkState::Up, None);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.known().health.state == LinkState::Up
    }
}
