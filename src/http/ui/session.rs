//! Sessions: a token of the policy file, exchanged once, so that a browser need not send it with every request.
//!
//! A session holds the token itself, in memory only, and each of its requests is authorized with that token as if the
//! browser had sent it. A session therefore has no rights beyond its token. When the policy no longer contains the
//! token, or its entry has changed, or it has expired, its sessions end for good. The API never reads the cookie.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use warp::http::header::{AUTHORIZATION, COOKIE, ORIGIN};
use warp::http::{HeaderMap, HeaderValue, StatusCode};

use crate::http::authorize::Identity;
use crate::http::jsonapi::error::ApiError;
use crate::http::request::call::Call;
use crate::http::ui::form::random_token;

const SESSION_AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// Maximum sessions. The one that ends first makes room for a new one.
const SESSIONS_LEN_MAX: usize = 10_000;

/// Maximum sessions per token, so that one user cannot evict the sessions of others.
const SESSIONS_PER_TOKEN_MAX: usize = 100;

/// The name of the session cookie.
const COOKIE_NAME: &str = "collectory-session";

/// All open sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Session>>);

#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// The `Authorization` that the browser would otherwise send.
    pub(crate) authorization: HeaderValue,
    /// The identity and its grants at sign-in.
    identity: Identity,
    /// The token in every form of the session.
    pub(crate) form_token: String,
    /// When it ends. Requests of the session hold only weak references to this, so they notice when the session is
    /// gone.
    pub(crate) ends: Arc<DateTime<Utc>>,
}

impl Sessions {
    /// Returns the session of a request, if it has one.
    pub(crate) fn of(&self, call: &Call<'_>) -> Option<Session> {
        let now = call.context.clock.now();
        self.with(|open| open.get(id_of(call.headers())?).filter(|session| *session.ends > now).cloned())
    }

    /// Reports whether a session remains valid, given the identity of its token just now. Ends it if not.
    pub(crate) fn is_still_valid(
        &self,
        call: &Call<'_>,
        session: &Session,
        asked: Result<&Identity, ApiError>,
    ) -> bool {
        let is_valid = match asked {
            Ok(identity) => *identity == session.identity,
            Err(error) => error.status() != StatusCode::UNAUTHORIZED,
        };
        if !is_valid {
            self.with(|open| id_of(call.headers()).and_then(|id| open.remove(id)));
        }
        is_valid
    }

    /// Begins a session with a token. Returns its cookie.
    pub(crate) fn begin(
        &self,
        call: &Call<'_>,
        authorization: HeaderValue,
        identity: Identity,
    ) -> HeaderValue {
        let (id, now) = (random_token(), call.context.clock.now());
        let ends = Arc::new(now + SESSION_AGE_MAX);
        let session = Session { authorization, identity, form_token: random_token(), ends };
        self.with(|open| {
            open.retain(|_, session| *session.ends > now);
            let is_own = |other: &Session| other.authorization == session.authorization;
            let own = open.values().filter(|other| is_own(other)).count();
            if own >= SESSIONS_PER_TOKEN_MAX || open.len() >= SESSIONS_LEN_MAX {
                let can_go = |other: &Session| own < SESSIONS_PER_TOKEN_MAX || is_own(other);
                let first =
                    open.iter().filter(|(_, other)| can_go(other)).min_by_key(|(_, other)| *other.ends);
                let first = first.map(|(id, _)| id.clone());
                first.iter().for_each(|id| drop(open.remove(id)));
            }
            open.insert(id.clone(), session);
        });
        cookie(call, &id, SESSION_AGE_MAX)
    }

    /// Ends the session of a request, if it has one. Returns a cookie that deletes the old one.
    pub(crate) fn end(&self, call: &Call<'_>) -> HeaderValue {
        self.with(|open| id_of(call.headers()).and_then(|id| open.remove(id)));
        cookie(call, "", Duration::ZERO)
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, Session>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the header fields of a request with a token added.
pub(crate) fn authorized(headers: &HeaderMap, authorization: HeaderValue) -> HeaderMap {
    let mut headers = headers.clone();
    headers.insert(AUTHORIZATION, authorization);
    headers
}

fn id_of(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}

/// The session cookie, which is sent to the pages only. It is `Secure` if the service speaks TLS, or if the
/// browser's `Origin` shows that a proxy does.
fn cookie(call: &Call<'_>, id: &str, age: Duration) -> HeaderValue {
    let by_tls = |origin: &HeaderValue| origin.as_bytes().starts_with(b"https://");
    let is_secure = call.context.access.speaks_tls || call.headers().get(ORIGIN).is_some_and(by_tls);
    let text = format!(
        "{COOKIE_NAME}={id}; Path={}/ui/; Max-Age={}; HttpOnly; SameSite=Strict{}",
        call.context.settings.base_path.as_str(),
        age.as_secs(),
        if is_secure { "; Secure" } else { "" }
    );
    HeaderValue::try_from(text).expect("a base path and digits are visible ASCII")
}
