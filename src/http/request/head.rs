//! The head of a request: everything but its body.

use std::sync::{Arc, Weak};
use std::time::Duration;

use chrono::{DateTime, Utc};
use hyper::body::Body;
use warp::http::header::HOST;
use warp::http::request::Parts;
use warp::http::{HeaderMap, Method, Request, Uri};

use crate::http::header::field;
use crate::http::server::ClientConnection;

/// How long to wait for a client that has closed its sending side.
const HALF_CLOSED_WAIT: Duration = Duration::from_secs(2);

/// Method, URI, header fields, and the connection of a request.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) has_body: bool,
    pub(crate) connection: Arc<ClientConnection>,
    /// The end of the request's browser session, if it has one; dead once the session was ended early.
    session: Option<Weak<DateTime<Utc>>>,
}

impl Head {
    /// Splits a request into its head and its body.
    pub(crate) fn split_request<B: Body>(
        request: Request<B>,
        connection: Arc<ClientConnection>,
    ) -> (Self, B) {
        let (Parts { method, uri, headers, .. }, body) = request.into_parts();
        (Self { method, uri, headers, has_body: !body.is_end_stream(), connection, session: None }, body)
    }

    /// Returns the head of an inner request that the service makes on behalf of this request's client.
    pub(crate) fn asking(&self, method: Method, uri: Uri, headers: HeaderMap, has_body: bool) -> Self {
        let (connection, session) = (Arc::clone(&self.connection), self.session.clone());
        Self { method, uri, headers, has_body, connection, session }
    }

    /// Binds the head to a session. The session ends at that time, or when its owner drops the only strong reference.
    pub(crate) fn of_session(self, ends: &Arc<DateTime<Utc>>) -> Self {
        Self { session: Some(Arc::downgrade(ends)), ..self }
    }

    /// Whether the request's session has ended.
    pub(crate) fn has_ended(&self, now: DateTime<Utc>) -> bool {
        self.session.as_ref().is_some_and(|session| session.upgrade().is_none_or(|ends| *ends <= now))
    }

    /// Waits until the client has disconnected. A half-closed connection looks the same, so this waits longer.
    pub(crate) async fn client_disconnected(&self) {
        self.connection.ended().await;
        tokio::time::sleep(HALF_CLOSED_WAIT).await;
    }

    /// Returns the path as it was sent.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// Returns the host that the request is for, with an optional port. The authority of a URI in absolute form takes
    /// precedence over the field (RFC 9112 section 3.2.2).
    pub(crate) fn host(&self) -> Option<&[u8]> {
        let authority = self.uri.authority().map(|authority| authority.as_str().as_bytes());
        authority.or_else(|| Some(field(&self.headers, &HOST)?.as_bytes()))
    }

    /// Returns the query as it was sent, without the `?`.
    pub(crate) fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }
}
