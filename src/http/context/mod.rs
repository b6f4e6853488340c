//! What a handler may access, and nothing else.

pub(crate) mod webhooks;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};

use crate::config::{BasePath, Limits};
use crate::engine::history::History;
use crate::engine::{Handle, Projection, Remote};
use crate::http::authorize::Authorizer;
use crate::http::browser::cors::Cors;
use crate::http::browser::sites::Hosts;
use crate::http::context::webhooks::ReceiverStatuses;
use crate::http::metrics::Metrics;
use crate::http::notice_secret::NoticeSecret;
use crate::shutdown::Shutdown;
use crate::telemetry::{AccessLog, LimitCounters, millis};

/// Everything that answers are made from; see [`Routes`](crate::http::Routes).
#[derive(Debug)]
pub struct Context {
    /// Sends commands to the writer.
    pub handle: Handle,
    /// What readers see.
    pub projection: Projection,
    /// The history: who changed what, when and why.
    pub history: Option<History>,
    /// The webhook receivers.
    pub webhooks: ReceiverStatuses,
    /// The remote with which the branch is shared, if any.
    pub remote: Option<SharedBranch>,
    /// Ends streams, which would otherwise never end.
    pub shutdown: Shutdown,
    /// The source of the current time.
    pub clock: Clock,
    /// Who may send requests.
    pub access: AccessRules,
    /// How requests are answered.
    pub settings: AnswerOptions,
    /// What is recorded of requests.
    pub telemetry: Telemetry,
}

impl Context {
    /// Reports whether this instance leaves writes to others.
    pub(crate) fn is_follower(&self) -> bool {
        self.remote.as_ref().is_some_and(|shared| shared.is_follower)
    }
}

/// Who may send requests, to which host names and from which origins.
#[derive(Debug)]
pub struct AccessRules {
    /// The authorization hook, asked before every action.
    pub guard: Guard,
    /// Which web pages of other origins may use the service.
    pub cors: Cors,
    /// The host names by which browsers may reach the service.
    pub hosts: Hosts,
    /// Whether clients speak TLS with the service itself.
    pub speaks_tls: bool,
}

/// How requests are answered, as the operator configured it.
#[derive(Debug)]
pub struct AnswerOptions {
    /// The limits.
    pub limits: Limits,
    /// The beginning of all paths.
    pub base_path: BasePath,
    /// Whether an update or a delete without `If-Match` is refused with 428.
    pub require_if_match: bool,
    /// Whether the whole list is compressed for clients that accept that.
    pub compress: bool,
    /// Whether the web pages are served.
    pub ui: bool,
    /// The names shown on the page about the service.
    pub served_from: ServedFrom,
}

/// What is recorded of requests.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// How often a limit was reached.
    pub reached: LimitCounters,
    /// Counts requests, if metrics are collected.
    pub metrics: Option<Arc<Metrics>>,
    /// Logs a line for each request, if there is an access log.
    pub access_log: Option<Arc<AccessLog>>,
}

/// What is served, in the operator's words.
#[derive(Debug, Clone, Default)]
pub struct ServedFrom {
    /// The repository.
    pub repository: String,
    /// The served branch.
    pub branch: String,
    /// The collections folder.
    pub folder: String,
}

/// The remote with which the branch is shared, and what that means for requests.
#[derive(Debug)]
pub struct SharedBranch {
    /// The remote.
    pub remote: Remote,
    /// The secret that signs the notices of git hosts and siblings.
    pub notice_secret: Option<NoticeSecret>,
    /// Whether this instance leaves writes to others.
    pub is_follower: bool,
    /// How long the remote may be out of reach before the service is not ready; `None` means forever.
    pub max_staleness: Option<Duration>,
}

/// The two variants of the service.
#[derive(Clone)]
pub enum Guard {
    /// No authentication, and no OpenAPI routes.
    Without,
    /// The variant with this authorization hook, which is asked before every action.
    With(Arc<dyn Authorizer>),
}

impl Guard {
    /// Creates the variant with an authorization hook.
    #[must_use]
    pub fn with(authorizer: impl Authorizer) -> Self {
        Self::With(Arc::new(authorizer))
    }

    /// Reports whether everyone may do everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::Without => true,
            Self::With(authorizer) => authorizer.is_open(),
        }
    }

    /// Describes what is wrong with the rules, in words that everyone may read.
    pub(crate) fn rules_error(&self) -> Option<String> {
        match self {
            Self::Without => None,
            Self::With(authorizer) => authorizer.rules_error(),
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Without => "Guard::Without",
            Self::With(_) => "Guard::With(..)",
        })
    }
}

/// The source of the current time. Tests use a fixed clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock(fn() -> SystemTime);

impl Clock {
    /// The system clock.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else is told to use")]
    pub const fn system() -> Self {
        Self(SystemTime::now)
    }

    /// A clock that returns what this function returns.
    #[must_use]
    #[cfg(test)]
    pub const fn new(now: fn() -> SystemTime) -> Self {
        Self(now)
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        (self.0)().into()
    }

    /// Returns the milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        let since = (self.0)().duration_since(UNIX_EPOCH).unwrap_or_default();
        millis(since)
    }
}
