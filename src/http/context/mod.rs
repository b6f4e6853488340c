//! What a handler may reach, and nothing else.

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
use crate::http::context::webhooks::Webhooks;
use crate::http::metrics::Metrics;
use crate::http::notice_secret::NoticeSecret;
use crate::shutdown::Shutdown;
use crate::telemetry::{AccessLog, Reached};

/// Everything that answers are made of; see [`Routes`](crate::http::Routes).
#[derive(Debug)]
pub struct Context {
    /// The way to the writer.
    pub handle: Handle,
    /// What readers see.
    pub projection: Projection,
    /// What was: who changed what, when and why.
    pub history: Option<History>,
    /// Who is told of events.
    pub webhooks: Webhooks,
    /// The remote that the branch is shared with, if it is.
    pub remote: Option<SharedBranch>,
    /// Ends the streams of events, which would go on for ever.
    pub shutdown: Shutdown,
    /// What time it is.
    pub clock: Clock,
    /// Who may ask.
    pub access: AccessRules,
    /// How requests are answered.
    pub settings: AnswerOptions,
    /// What is noted of requests.
    pub telemetry: Telemetry,
}

impl Context {
    /// Whether writes are for other instances.
    pub(crate) fn is_follower(&self) -> bool {
        self.remote.as_ref().is_some_and(|shared| shared.is_follower)
    }
}

/// Who may ask, by which name and from where.
#[derive(Debug)]
pub struct AccessRules {
    /// Who is asked before anything happens.
    pub guard: Guard,
    /// Which web pages of other origins may use the service.
    pub cors: Cors,
    /// By which names browsers may reach the service.
    pub hosts: Hosts,
    /// Whether clients speak TLS with the service itself.
    pub secured: bool,
}

/// How requests are answered, as the operator wants it.
#[derive(Debug)]
pub struct AnswerOptions {
    /// How much is too much.
    pub limits: Limits,
    /// Where all paths begin.
    pub base_path: BasePath,
    /// Whether an update or a delete without `If-Match` is refused with 428.
    pub require_if_match: bool,
    /// Whether the whole list is sent compressed to those who take it so.
    pub compress: bool,
    /// Whether the web pages are served.
    pub ui: bool,
    /// What is served from where, for the page about the service.
    pub place: ServedFrom,
}

/// What is noted of requests.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// How often a limit was reached.
    pub reached: Reached,
    /// Where requests are counted, if somebody looks at the numbers.
    pub metrics: Option<Arc<Metrics>>,
    /// Where each request has a line, if it has.
    pub access_log: Option<Arc<AccessLog>>,
}

/// What is served from where, in the words of the operator.
#[derive(Debug, Clone, Default)]
pub struct ServedFrom {
    /// The repository.
    pub repository: String,
    /// The served branch.
    pub branch: String,
    /// The collections folder.
    pub folder: String,
}

/// The remote that the branch is shared with, and what that means for requests.
#[derive(Debug)]
pub struct SharedBranch {
    /// The remote.
    pub remote: Remote,
    /// What notices of others are signed with.
    pub notice_secret: Option<NoticeSecret>,
    /// Whether writes are for other instances.
    pub is_follower: bool,
    /// How long the remote may be unseen before the service is not ready; `None` for ever.
    pub max_staleness: Option<Duration>,
}

/// The two variants of the service.
#[derive(Clone)]
pub enum Guard {
    /// No authentication, and no OpenAPI routes.
    Without,
    /// This hook is asked before every action.
    With(Arc<dyn Authorizer>),
}

impl Guard {
    /// The variant with the authorization hook.
    #[must_use]
    pub fn with(authorizer: impl Authorizer) -> Self {
        Self::With(Arc::new(authorizer))
    }

    /// Whether everybody may do everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::Without => true,
            Self::With(authorizer) => authorizer.is_open(),
        }
    }

    /// What is wrong with the rules, for anybody to hear.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Self::Without => None,
            Self::With(authorizer) => authorizer.trouble(),
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

/// What time it is; tests have a clock that stands.
#[derive(Debug, Clone, Copy)]
pub struct Clock(fn() -> SystemTime);

impl Clock {
    /// The clock of the machine.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else is told to use")]
    pub const fn system() -> Self {
        Self(SystemTime::now)
    }

    /// Whatever this function says.
    #[must_use]
    #[cfg(test)]
    pub const fn new(now: fn() -> SystemTime) -> Self {
        Self(now)
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        (self.0)().into()
    }

    /// The milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        let since = (self.0)().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
