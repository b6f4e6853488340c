//! Sessions: a token of the policy file, exchanged once, so that a browser need not send it with every request.
//!
//! A session holds the token itself, in memory only, and every request of it is asked about with that token as
//! if the browser had sent it. So there is nothing that a session may beyond its token. One that the policy no longer
//! knows, of which it says something else by now, or that has expired, has no sessions any more, and does not get
//! them back. The API never reads the cookie.

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

/// For how long a session lasts.
const SESSION_AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// How many sessions there may be; the one that ends first makes room for the next.
const SESSIONS_LEN_MAX: usize = 10_000;

/// How many of them one token may have: whoever holds one pushes nobody else out.
const SESSIONS_PER_TOKEN_MAX: usize = 100;

/// The cookie that names a session.
const NAME: &str = "collectory-session";

/// Everybody who is signed in.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Session>>);

/// Somebody is signed in.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// What the browser would send instead.
    pub(crate) authorization: HeaderValue,
    /// Who signed in, and what they might do then.
    identity: Identity,
    /// Stands in every form of the session.
    pub(crate) form_token: String,
    /// Kept by nobody else: whoever goes on with a request of the session sees when it is gone.
    pub(crate) ends: Arc<DateTime<Utc>>,
}

impl Sessions {
    /// The session of a request, if it has one.
    pub(crate) fn of(&self, call: &Call<'_>) -> Option<Session> {
        let now = call.context.clock.now();
        self.with(|open| open.get(id_of(call.headers())?).filter(|session| *session.ends > now).cloned())
    }

    /// Whether the session of a request goes on, as its token was asked about just now; else it ends.
    pub(crate) fn goes_on(
        &self,
        call: &Call<'_>,
        session: &Session,
        asked: Result<&Identity, ApiError>,
    ) -> bool {
        let goes_on = match asked {
            Ok(identity) => *identity == session.identity,
            Err(error) => error.status() != StatusCode::UNAUTHORIZED,
        };
        if !goes_on {
            self.with(|open| id_of(call.headers()).and_then(|id| open.remove(id)));
        }
        goes_on
    }

    /// Begins a session with a token; answers the cookie that names it.
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
            let own = open.values().filter(|other| other.authorization == session.authorization).count();
            if own >= SESSIONS_PER_TOKEN_MAX || open.len() >= SESSIONS_LEN_MAX {
                let is_own = |other: &Session| other.authorization == session.authorization;
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

    /// Ends the session of a request, if it has one; answers the cookie that forgets it.
    pub(crate) fn end(&self, call: &Call<'_>) -> HeaderValue {
        self.with(|open| id_of(call.headers()).and_then(|id| open.remove(id)));
        cookie(call, "", Duration::ZERO)
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, Session>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The header fields of a request with a token.
pub(crate) fn authorized(headers: &HeaderMap, authorization: HeaderValue) -> HeaderMap {
    let mut headers = headers.clone();
    headers.insert(AUTHORIZATION, authorization);
    headers
}

fn id_of(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='))
}

/// The cookie, for the pages alone; where the browser says that it came by TLS, ours or a proxy's, it is sent by
/// nothing else.
fn cookie(call: &Call<'_>, id: &str, age: Duration) -> HeaderValue {
    let by_tls = |origin: &HeaderValue| origin.as_bytes().starts_with(b"https://");
    let is_secure = call.context.access.secured || call.headers().get(ORIGIN).is_some_and(by_tls);
    let text = format!(
        "{NAME}={id}; Path={}/ui/; Max-Age={}; HttpOnly; SameSite=Strict{}",
        call.context.settings.base_path.as_str(),
        age.as_secs(),
        if is_secure { "; Secure" } else { "" }
    );
    HeaderValue::try_from(text).expect("a base path and digits are visible ASCII")
}
