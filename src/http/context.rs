//! What a handler may reach, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use chrono::{DateTime, Utc};

use super::authorize::Authorizer;
use super::cors::Cors;
use crate::engine::{Handle, Projection};

/// Everything that answers are made of; see [`routes`](super::routes).
#[derive(Debug)]
pub struct Context {
    /// The way to the writer.
    pub handle: Handle,
    /// What readers see.
    pub projection: Projection,
    /// Who is asked before anything happens.
    pub guard: Guard,
    /// What else keeps the service from being ready.
    pub readiness: Readiness,
    /// What time it is.
    pub clock: Clock,
    /// How much is too much.
    pub limits: Limits,
    /// Where all paths begin.
    pub base_path: BasePath,
    /// Which web pages of other origins may use the service.
    pub cors: Cors,
    /// Whether an update or a delete without `If-Match` is refused with 428.
    pub require_if_match: bool,
}

impl Context {
    /// A context with the defaults of everything that has one.
    #[must_use]
    pub fn new(handle: Handle, projection: Projection, guard: Guard) -> Self {
        Self {
            handle,
            projection,
            guard,
            readiness: Readiness::default(),
            clock: Clock::system(),
            limits: Limits::default(),
            base_path: BasePath::default(),
            cors: Cors::default(),
            require_if_match: false,
        }
    }
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
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Without => "Guard::Without",
            Self::With(_) => "Guard::With(..)",
        })
    }
}

/// What keeps the service from being ready beside a repository that is still being read; the same
/// value is shared by its clones.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    obstacle: Arc<ArcSwapOption<String>>,
}

impl Readiness {
    /// Not ready, for this reason; one sentence that is fit for anybody who can reach `/readyz`.
    pub fn obstruct(&self, reason: impl Into<String>) {
        self.obstacle.store(Some(Arc::new(reason.into())));
    }

    /// Nothing stands in the way any more.
    pub fn clear(&self) {
        self.obstacle.store(None);
    }

    /// What stands in the way.
    #[must_use]
    pub fn obstacle(&self) -> Option<Arc<String>> {
        self.obstacle.load_full()
    }
}

/// What time it is; tests have a clock that stands.
#[derive(Debug, Clone, Copy)]
pub struct Clock(fn() -> DateTime<Utc>);

impl Clock {
    /// The clock of the machine.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else is told to use")]
    pub const fn system() -> Self {
        Self(Utc::now)
    }

    /// Whatever this function says.
    #[must_use]
    pub const fn new(now: fn() -> DateTime<Utc>) -> Self {
        Self(now)
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        (self.0)()
    }
}

/// How much is too much, and what is answered then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes in the body of a request; 413 above. At least
    /// [`BODY_BYTES_MAX_LEAST`](Self::BODY_BYTES_MAX_LEAST).
    pub body_bytes_max: usize,
    /// How long a body may take to arrive; 408 after.
    pub body_time_max: Duration,
    /// How many bytes of an unwanted body are read and dropped, so that a client that sends before
    /// it listens gets its answer.
    pub discard_bytes_max: usize,
    /// The most bytes in path and query; 414 above.
    pub url_bytes_max: usize,
    /// How deep lists and maps of a body may be nested; 400 below. At most
    /// [`JSON_DEPTH_MAX_MOST`](Self::JSON_DEPTH_MAX_MOST).
    pub json_depth_max: usize,
    /// The most operations in an atomic batch; 400 above.
    pub operations_max: usize,
}

impl Limits {
    /// The least that `body_bytes_max` may be: smaller ones would refuse collections that fit
    /// into a file.
    pub const BODY_BYTES_MAX_LEAST: usize = 64 * 1024;
    /// The most that `json_depth_max` may be: reading is recursive and the stack is finite.
    pub const JSON_DEPTH_MAX_MOST: usize = 128;

    /// The same with every limit inside its own bounds.
    pub(super) fn within_bounds(self) -> Self {
        Self {
            body_bytes_max: self.body_bytes_max.max(Self::BODY_BYTES_MAX_LEAST),
            json_depth_max: self.json_depth_max.min(Self::JSON_DEPTH_MAX_MOST),
            ..self
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 1024 * 1024,
            body_time_max: Duration::from_secs(30),
            discard_bytes_max: 16 * 1024 * 1024,
            url_bytes_max: 16 * 1024,
            json_depth_max: 64,
            operations_max: 1000,
        }
    }
}

/// Where all paths begin: empty, or `/a` or `/a/b`, never with a `/` at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BasePath(Arc<str>);

impl BasePath {
    /// Parses a base path; one `/` at the end is dropped.
    ///
    /// # Errors
    ///
    /// Says what is wrong, in one sentence. A base path is written into links as it is, so it
    /// keeps to characters that need no escape in a URL or in JSON.
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = text.strip_suffix('/').unwrap_or(text);
        if path.is_empty() {
            return Ok(Self::default());
        }
        let Some(parts) = path.strip_prefix('/') else {
            return Err(format!("the base path {text:?} does not begin with `/`"));
        };
        for part in parts.split('/') {
            if matches!(part, "" | "." | "..") {
                return Err(format!("the base path {text:?} has the part {part:?}"));
            }
            if let Some(stray) =
                part.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.' | '_' | '~'))
            {
                return Err(format!(
                    "the base path {text:?} holds {stray:?}; it is made of letters, digits, `-`, `.`, `_`, `~` and `/`"
                ));
            }
        }
        Ok(Self(path.into()))
    }

    /// The path without a `/` at the end; empty for the root.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_is_brought_into_one_form() {
        for (text, path) in
            [("", ""), ("/", ""), ("/api", "/api"), ("/api/", "/api"), ("/a/b-c.d_~", "/a/b-c.d_~")]
        {
            assert_eq!(BasePath::parse(text).as_ref().map(BasePath::as_str), Ok(path), "{text:?}");
        }
        for text in ["api", "//", "/a//b", "/../x", "/a b", "/a\"b", "/a%20b", "/a?b", "/ä"] {
            assert!(BasePath::parse(text).is_err(), "{text:?}");
        }
    }
}
