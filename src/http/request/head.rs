//! The head of a request: everything but its body.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Body;
use warp::Filter;
use warp::filters::path::FullPath;
use warp::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use warp::http::{HeaderMap, Method, Request, Uri};

use crate::http::request::call::Peer;
use crate::http::server::Line;

/// Method, address, header fields, and who sent them.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    address: Address,
    pub(crate) headers: HeaderMap,
    /// Whether a body follows.
    pub(crate) has_body: bool,
    /// The connection that it came by.
    pub(crate) line: Arc<Line>,
}

/// Path and query, from whoever took the request apart.
#[derive(Debug)]
enum Address {
    Uri(Uri),
    Parts { path: FullPath, query: String },
}

impl Head {
    /// Moves the head out of a request.
    pub(crate) fn taken<B: Body>(request: &mut Request<B>, line: Arc<Line>) -> Self {
        Self {
            has_body: !request.body().is_end_stream(),
            method: request.method().clone(),
            address: Address::Uri(request.uri().clone()),
            headers: std::mem::take(request.headers_mut()),
            line,
        }
    }

    /// The head of a request that the service makes itself on behalf of whoever sent this one.
    pub(crate) fn asking(&self, method: Method, uri: Uri, headers: HeaderMap, has_body: bool) -> Self {
        Self { method, address: Address::Uri(uri), headers, has_body, line: Arc::clone(&self.line) }
    }

    /// The path as it was sent.
    pub(crate) fn path(&self) -> &str {
        match &self.address {
            Address::Uri(uri) => uri.path(),
            Address::Parts { path, .. } => path.as_str(),
        }
    }

    /// What follows the `?`, as it was sent.
    pub(crate) fn query(&self) -> &str {
        match &self.address {
            Address::Uri(uri) => uri.query().unwrap_or_default(),
            Address::Parts { query, .. } => query,
        }
    }
}

/// Whether a body follows this head (RFC 9112 section 6.3).
fn announces_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) || content_length(headers).is_some_and(|length| length > 0)
}

/// How long the body says it is.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The head of a request, copied: warp lends it to its filters.
pub(crate) fn of_request() -> impl Filter<Extract = (Arc<Head>,), Error = Infallible> + Clone {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    let remote = warp::ext::optional::<Peer>().and(warp::addr::remote());
    warp::method().and(warp::path::full()).and(query).and(warp::header::headers_cloned()).and(remote).map(
        |method, path, query, headers, peer: Option<Peer>, remote: Option<SocketAddr>| {
            let line = Arc::new(Line::of(peer.map(|Peer(address)| address).or(remote)));
            let has_body = announces_body(&headers);
            Arc::new(Head { method, address: Address::Parts { path, query }, headers, has_body, line })
        },
    )
}

#[cfg(test)]
mod tests {
    use warp::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_body_follows_where_the_head_says_so() {
        let announces = |name: HeaderName, value| {
            announces_body(&HeaderMap::from_iter([(name, HeaderValue::from_static(value))]))
        };
        assert!(announces(TRANSFER_ENCODING, "chunked") && announces(CONTENT_LENGTH, "1"));
        assert!(!announces(CONTENT_LENGTH, "0") && !announces(CONTENT_LENGTH, "x"));
        assert!(!announces_body(&HeaderMap::new()));
    }
}
