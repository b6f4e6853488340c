//! The head of a request: everything but its body.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use warp::Filter;
use warp::filters::path::FullPath;
use warp::http::{HeaderMap, Method, Uri};

use super::call::Peer;

/// Method, address, header fields, and who sent them.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: Method,
    address: Address,
    pub(super) headers: HeaderMap,
    /// The other end of the connection.
    pub(super) remote: Option<SocketAddr>,
}

/// Path and query, from whoever took the request apart.
#[derive(Debug)]
enum Address {
    Uri(Uri),
    Parts { path: FullPath, query: String },
}

impl Head {
    /// Moves the head out of a request and leaves it behind as an extension, where [`of_request`]
    /// finds it: warp lends a head to its filters, and a copy of every header field for every
    /// request is the dearest part of asking for them.
    pub(super) fn hand_over<B>(request: &mut warp::http::Request<B>, remote: SocketAddr) {
        let head = Self {
            method: request.method().clone(),
            address: Address::Uri(request.uri().clone()),
            headers: std::mem::take(request.headers_mut()),
            remote: Some(remote),
        };
        request.extensions_mut().insert(Arc::new(head));
    }

    /// The path as it was sent.
    pub(super) fn path(&self) -> &str {
        match &self.address {
            Address::Uri(uri) => uri.path(),
            Address::Parts { path, .. } => path.as_str(),
        }
    }

    /// What follows the `?`, as it was sent.
    pub(super) fn query(&self) -> &str {
        match &self.address {
            Address::Uri(uri) => uri.query().unwrap_or_default(),
            Address::Parts { query, .. } => query,
        }
    }
}

/// The head of a request: the one that was handed over, or a copy of warp's under another server.
pub(super) fn of_request() -> impl Filter<Extract = (Arc<Head>,), Error = Infallible> + Clone {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    let remote = warp::ext::optional::<Peer>().and(warp::addr::remote());
    let copied = warp::method()
        .and(warp::path::full())
        .and(query)
        .and(warp::header::headers_cloned())
        .and(remote)
        .map(|method, path, query, headers, peer: Option<Peer>, remote: Option<SocketAddr>| {
            let remote = peer.map(|Peer(address)| address).or(remote);
            Arc::new(Head { method, address: Address::Parts { path, query }, headers, remote })
        });
    warp::ext::get::<Arc<Head>>().or(copied).unify()
}
