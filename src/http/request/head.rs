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

/// How long a client that sends no more is waited with.
const HALF_CLOSED_WAIT: Duration = Duration::from_secs(2);

/// Method, address, header fields, and who sent them.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    uri: Uri,
    pub(crate) headers: HeaderMap,
    /// Whether a body follows.
    pub(crate) has_body: bool,
    /// The connection that it came by.
    pub(crate) connection: Arc<ClientConnection>,
    /// When the session ends that the request belongs to, if it belongs to one; gone when somebody has ended that before.
    session: Option<Weak<DateTime<Utc>>>,
}

impl Head {
    /// Parts a request into its head and its body.
    pub(crate) fn parted<B: Body>(request: Request<B>, connection: Arc<ClientConnection>) -> (Self, B) {
        let (Parts { method, uri, headers, .. }, body) = request.into_parts();
        (Self { method, uri, headers, has_body: !body.is_end_stream(), connection, session: None }, body)
    }

    /// The head of a request that the service makes itself on behalf of whoever sent this one.
    pub(crate) fn asking(&self, method: Method, uri: Uri, headers: HeaderMap, has_body: bool) -> Self {
        let (connection, session) = (Arc::clone(&self.connection), self.session.clone());
        Self { method, uri, headers, has_body, connection, session }
    }

    /// The head as one of a session, which ends at that time, or when the session, which alone keeps it, is dropped.
    pub(crate) fn of_session(self, ends: &Arc<DateTime<Utc>>) -> Self {
        Self { session: Some(Arc::downgrade(ends)), ..self }
    }

    /// Whether it is of a session that has ended.
    pub(crate) fn has_ended(&self, now: DateTime<Utc>) -> bool {
        self.session.as_ref().is_some_and(|session| session.upgrade().is_none_or(|ends| *ends <= now))
    }

    /// Waits until the client has left. One that only says that it has nothing to add looks the same, and is
    /// waited with for a while.
    pub(crate) async fn left(&self) {
        self.connection.ended().await;
        tokio::time::sleep(HALF_CLOSED_WAIT).await;
    }

    /// The path as it was sent.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// The host that the request is for, and perhaps a port: that of an address in absolute form counts more than
    /// the field (RFC 9112 section 3.2.2).
    pub(crate) fn host(&self) -> Option<&[u8]> {
        let authority = self.uri.authority().map(|authority| authority.as_str().as_bytes());
        authority.or_else(|| Some(field(&self.headers, &HOST)?.as_bytes()))
    }

    /// What follows the `?`, as it was sent.
    pub(crate) fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }
}
