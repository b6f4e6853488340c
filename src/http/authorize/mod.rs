//! The authorization hook: asked before every action, impossible to forget.
//!
//! An [`Authorizer`] answers two questions. [`identify`](Authorizer::identify) is asked once, before a byte of the
//! body is read, so that strangers cost nothing. [`authorize`](Authorizer::authorize) is asked with the action;
//! allowing it names the [`Actor`] who becomes the author of the commit. It is asked before the service checks
//! whether a collection exists, so a 404 reveals nothing to callers who may not read.
//!
//! ```
//! use collectory::{Action, Allowed, Authorizer, Denied, Authorizing, RequestHead};
//!
//! /// Everybody may read, nobody may write.
//! struct ReadOnly;
//!
//! impl Authorizer for ReadOnly {
//!     fn authorize<'a>(&'a self, _head: &'a RequestHead<'a>, action: Action<'a>) -> Authorizing<'a> {
//!         let answer = match action {
//!             Action::List | Action::Read { .. } | Action::ReadOpenApi | Action::ReadProblems => {
//!                 Ok(Allowed::anonymous())
//!             }
//!             _ => Err(Denied::forbidden()),
//!         };
//!         Box::pin(std::future::ready(answer))
//!     }
//! }
//! ```

mod action;

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use warp::http::header::WWW_AUTHENTICATE;
use warp::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::domain::{Actor, Grant, Key};
use crate::engine::VisibleKeys;
pub use crate::http::authorize::action::Action;
pub(crate) use crate::http::authorize::action::{ACTIONS, Actions};
use crate::telemetry::Limit;

/// The future of [`Authorizer::identify`].
pub type Identifying<'a> = Pin<Box<dyn Future<Output = Result<Identity, Denied>> + Send + 'a>>;

/// The future of [`Authorizer::authorize`].
pub type Authorizing<'a> = Pin<Box<dyn Future<Output = Result<Allowed, Denied>> + Send + 'a>>;

/// Decides who may do what.
///
/// A panic in a hook is answered like [`Denied::failed`]: 500, without details for the client.
pub trait Authorizer: Send + Sync + 'static {
    /// Identifies the sender of a request, or refuses the request as a whole. Called once for each request, before
    /// its body is read and before [`authorize`](Self::authorize).
    ///
    /// The identity is shown to the caller (`GET /capabilities`) and decides nothing. By default every caller is
    /// anonymous and without grants.
    fn identify<'a>(&'a self, _head: &'a RequestHead<'a>) -> Identifying<'a> {
        Box::pin(std::future::ready(Ok(Identity::anonymous())))
    }

    /// Allows or denies one action.
    ///
    /// For a batch, it is called once for each operation, all before the first write.
    fn authorize<'a>(&'a self, head: &'a RequestHead<'a>, action: Action<'a>) -> Authorizing<'a>;

    /// Reports whether everyone may do everything on purpose.
    ///
    /// Such a service shows its full status to everyone (`/readyz`), and keeps out web pages of other sites, which
    /// no token does for it.
    fn is_open(&self) -> bool {
        false
    }

    /// Describes what is wrong with the rules themselves, for `/readyz`, in one sentence that everyone may read.
    fn rules_error(&self) -> Option<String> {
        None
    }
}

/// Shares a hook with its owner, who can still reload it, for instance.
impl<A: Authorizer> Authorizer for Arc<A> {
    fn identify<'a>(&'a self, head: &'a RequestHead<'a>) -> Identifying<'a> {
        (**self).identify(head)
    }

    fn authorize<'a>(&'a self, head: &'a RequestHead<'a>, action: Action<'a>) -> Authorizing<'a> {
        (**self).authorize(head, action)
    }

    fn is_open(&self) -> bool {
        (**self).is_open()
    }

    fn rules_error(&self) -> Option<String> {
        (**self).rules_error()
    }
}

/// The sender of a request and its grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub(crate) actor: Actor,
    pub(crate) grants: Arc<[Grant]>,
    /// Whether a write may be allowed, as far as is known before its body. If not, bodies of writes are not read.
    pub(crate) may_write: bool,
    /// The number of the policy reading that first contained this identity. An entry that was removed and added
    /// again gets another number.
    pub(crate) policy_generation: u64,
}

impl Identity {
    /// Creates the identity of this actor with these grants.
    #[must_use]
    pub fn new(actor: Actor, grants: impl Into<Arc<[Grant]>>) -> Self {
        Self { actor, grants: grants.into(), may_write: true, policy_generation: 0 }
    }

    /// An anonymous caller without known grants.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(Actor::anonymous(), [])
    }

    /// An anonymous caller where everyone may do everything.
    #[must_use]
    pub fn anybody() -> Self {
        Self::new(Actor::anonymous(), [Grant::everything()])
    }
}

/// The head of the request to authorize.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method. `HEAD` is passed as it is, though its action is that of `GET`.
    pub method: &'a Method,
    /// The whole path as it was sent, base path and percent signs included.
    pub path: &'a str,
    /// What follows the `?`, as it was sent; empty without one.
    pub query: &'a str,
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The peer's address, if it has one.
    pub remote: Option<SocketAddr>,
    /// The id of the request.
    pub request_id: &'a str,
}

/// Selects the keys that a list shows.
pub type Visibility = Arc<dyn Fn(&Key) -> bool + Send + Sync>;

/// The action is allowed.
#[derive(Clone)]
pub struct Allowed {
    pub(crate) actor: Actor,
    pub(crate) visibility: Option<Visibility>,
}

impl Allowed {
    /// Allows it on behalf of this actor, who becomes the author of the commit if there is one.
    #[must_use]
    pub fn by(actor: Actor) -> Self {
        Self { actor, visibility: None }
    }

    /// Allows it on behalf of an anonymous caller.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::by(Actor::anonymous())
    }

    /// Shows only the keys for which `visible` is true, in lists of collections, problems, events,
    /// differences and changes.
    #[must_use]
    pub fn with_visibility(mut self, visible: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        self.visibility = Some(Arc::new(visible));
        self
    }

    /// The actor on whose behalf it is allowed.
    #[must_use]
    pub const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Reports whether no key is hidden.
    #[must_use]
    pub fn sees_all(&self) -> bool {
        self.visibility.is_none()
    }

    /// The key if one is given, which was allowed by itself; otherwise the keys that lists show.
    pub(crate) fn visible_keys<'a>(&'a self, key: Option<&'a Key>) -> VisibleKeys<'a> {
        match (key, self.visibility.as_deref()) {
            (Some(key), _) => VisibleKeys::One(key),
            (None, Some(visible)) => VisibleKeys::Some(visible),
            (None, None) => VisibleKeys::All,
        }
    }

    /// Reports whether what is wrong with a file is shown. That of a file without a key is shown only to callers who see
    /// every key.
    pub(crate) fn sees_file(&self, key: Option<&Key>) -> bool {
        key.map_or(self.sees_all(), |key| self.sees(key))
    }

    /// Reports whether lists show this key.
    #[must_use]
    pub fn sees(&self, key: &Key) -> bool {
        self.visibility.as_ref().is_none_or(|visible| visible(key))
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowed")
            .field("actor", &self.actor)
            .field("visibility", &self.visibility.as_ref().map(|_| ".."))
            .finish()
    }
}

/// The action is denied. Contains the JSON:API error that the client receives.
#[derive(Debug, Clone)]
pub struct Denied {
    pub(crate) status: ErrorStatus,
    pub(crate) code: Cow<'static, str>,
    pub(crate) title: Cow<'static, str>,
    pub(crate) detail: Cow<'static, str>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// The limit of ours that was reached, if that is the reason.
    pub(crate) limit: Option<Limit>,
}

impl Denied {
    /// 403: the caller may not do this, whether or not it is known.
    #[must_use]
    pub fn forbidden() -> Self {
        Self::new(ErrorStatus::FORBIDDEN, "forbidden", "Forbidden", "You are not allowed to do this.")
    }

    /// 401: the caller has not identified itself, or is unknown. The answer asks for a bearer token.
    #[must_use]
    pub fn unauthenticated(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorStatus::UNAUTHORIZED, "unauthenticated", "Authentication Error", detail)
            .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// 500: the hook failed to decide. Its cause belongs in the log, never in the answer.
    #[must_use]
    pub fn failed() -> Self {
        Self::new(
            ErrorStatus::INTERNAL_SERVER_ERROR,
            "internal_error",
            "Internal Error",
            "The request could not be authorized.",
        )
    }

    /// Creates a denial with an error of the hook's own.
    #[must_use]
    pub fn new(
        status: ErrorStatus,
        code: impl Into<Cow<'static, str>>,
        title: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            code: code.into(),
            title: title.into(),
            detail: detail.into(),
            headers: Vec::new(),
            limit: None,
        }
    }

    /// Replaces the detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Adds a header to the answer, replacing one of the same name. The service keeps `Cache-Control`,
    /// `Content-Length`, `Content-Type`, `Transfer-Encoding`, `Vary` and `X-Request-Id` for itself.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.retain(|(present, _)| *present != name);
        self.headers.push((name, value));
        self
    }

    /// The status of the answer.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status.0
    }
}

/// An error status, 4xx or 5xx, so that a denial can't look like a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorStatus(StatusCode);

impl ErrorStatus {
    /// 401
    pub const UNAUTHORIZED: Self = Self(StatusCode::UNAUTHORIZED);
    /// 403
    pub const FORBIDDEN: Self = Self(StatusCode::FORBIDDEN);
    /// 404
    pub const NOT_FOUND: Self = Self(StatusCode::NOT_FOUND);
    /// 429
    pub const TOO_MANY_REQUESTS: Self = Self(StatusCode::TOO_MANY_REQUESTS);
    /// 500
    pub const INTERNAL_SERVER_ERROR: Self = Self(StatusCode::INTERNAL_SERVER_ERROR);
    /// 503
    pub const SERVICE_UNAVAILABLE: Self = Self(StatusCode::SERVICE_UNAVAILABLE);

    /// Returns the status if it is an error.
    #[must_use]
    pub fn new(status: StatusCode) -> Option<Self> {
        (status.is_client_error() || status.is_server_error()).then_some(Self(status))
    }

    /// The status.
    #[must_use]
    pub const fn get(self) -> StatusCode {
        self.0
    }
}

/// Allows everything on behalf of an anonymous caller: the explicit way to run an open service.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn identify<'a>(&'a self, _head: &'a RequestHead<'a>) -> Identifying<'a> {
        Box::pin(std::future::ready(Ok(Identity::anybody())))
    }

    fn authorize<'a>(&'a self, _head: &'a RequestHead<'a>, _action: Action<'a>) -> Authorizing<'a> {
        Box::pin(std::future::ready(Ok(Allowed::anonymous())))
    }

    fn is_open(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_can_not_be_a_success() {
        for code in [200, 204, 301, 304, 399] {
            assert_eq!(ErrorStatus::new(StatusCode::from_u16(code).unwrap()), None, "{code}");
        }
        for code in [400, 401, 418, 429, 500, 599] {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(ErrorStatus::new(status).map(ErrorStatus::get), Some(status));
        }
    }

    #[test]
    fn whoever_is_allowed_sees_everything_unless_told_otherwise() {
        let (posts, notes) = (Key::parse("posts").unwrap(), Key::parse("notes").unwrap());
        assert!(Allowed::anonymous().sees(&posts));
        let some = Allowed::anonymous().with_visibility(|key| key.as_str() == "posts");
        assert!(some.sees(&posts) && !some.sees(&notes));
    }
}
