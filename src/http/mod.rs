//! The edge: the only user of warp, and the only place with status codes.
//!
//! ```text
//! warp filter ─▶ Call ─▶ routes::Target ─▶ handler ─▶ Response ─▶ reply::finish
//!                head     the table of      Result<Response,      what every
//!                         paths & methods   ApiError>             answer says
//! ```
//!
//! warp is asked for one thing, the parts of the request. Which path and method is answered by
//! whom stands in one table ([`routes`]), because the contract is strict about what
//! is said of a path that exists with a method that it does not take, and a chain of filters would
//! have to guess that from rejections.
//!
//! What is promised here:
//!
//! * Every answer is a JSON:API document (OpenAPI documents aside), also 404, 405, 413, 415 and
//!   500, and carries `Cache-Control: no-store`, `Vary: Accept` and an `X-Request-Id`.
//! * The order of checks is the same everywhere: path, method and media types; authorization;
//!   existence; preconditions; syntax and values; conflicts.
//! * A request sees one snapshot, and a refused one changes nothing.
//! * A client that hangs up undoes nothing: what was submitted is carried out.
//!
//! What is not here: sockets, YAML and git.

mod authorize;
mod body;
mod call;
mod compress;
mod context;
mod cors;
mod idempotency;
mod jsonapi;
pub mod policy;
mod prefer;
mod rejection;
mod reply;
mod request_id;
mod routes;
pub mod server;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use tracing::Instrument as _;
use warp::filters::BoxedFilter;
use warp::filters::path::FullPath;
use warp::http::{HeaderMap, Method};
use warp::reply::Response;
use warp::{Filter as _, Rejection};

use self::body::Body;
use self::call::{Call, Panicked, caught};
use self::jsonapi::error::ApiError;
use self::request_id::RequestId;

pub use self::authorize::{
    Action, AllowAll, Allowed, Authorizer, Authorizing, Denied, ErrorStatus, RequestHead, Visibility,
};
pub use self::call::Peer;
pub use self::context::{Clock, Context, Guard, Readiness};
pub use self::cors::Cors;

/// Resources of the past as the API shows them, for the command line.
pub(crate) mod resources {
    use bytes::Bytes;

    use super::jsonapi::past;
    use super::jsonapi::query::Fields;
    use crate::domain::Key;
    use crate::engine::history::{Blame, CollectionDifference, EventRecord};

    /// An event.
    pub(crate) fn event(event: &EventRecord) -> Bytes {
        past::event(event, &Fields::default())
    }

    /// What differs in a collection.
    pub(crate) fn difference(difference: &CollectionDifference) -> Bytes {
        past::difference(difference, &Fields::default())
    }

    /// An attribute and the event that gave it its value.
    pub(crate) fn blame(key: &Key, blame: &Blame) -> Bytes {
        past::blame(key, blame, &Fields::default())
    }
}

/// Everything that can be asked of the service, as one filter that answers every request.
///
/// The server puts a [`Peer`] into the extensions of each request, so that the authorizer and the
/// log know the other end.
#[must_use]
pub fn routes(context: Context) -> BoxedFilter<(Response,)> {
    let context = Arc::new(context);
    let recovering = Arc::clone(&context);
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    let remote = warp::ext::optional::<Peer>().and(warp::addr::remote());
    warp::method()
        .and(warp::path::full())
        .and(query)
        .and(warp::header::headers_cloned())
        .and(remote)
        .and(warp::body::stream())
        .then(move |method, path, query, headers, peer: Option<Peer>, remote: Option<SocketAddr>, stream| {
            let context = Arc::clone(&context);
            let body = Body::of(&headers, stream);
            let remote = peer.map(|Peer(address)| address).or(remote);
            async move { answer(&context, method, path, query, headers, remote, body).await }
        })
        .recover(move |rejection: Rejection| {
            std::future::ready(rejection::recovered(&rejection, &recovering))
        })
        .unify()
        .boxed()
}

/// Answers one request, come what may.
async fn answer(
    context: &Context,
    method: Method,
    path: FullPath,
    query: String,
    headers: HeaderMap,
    remote: Option<SocketAddr>,
    mut body: Body,
) -> Response {
    let id = RequestId::of(&headers, context.clock);
    let span = id.span(&method, path.as_str());
    let call = Call { context, method, path, query, headers, remote, id };
    async {
        let answered = caught(routes::answer(&call, &mut body)).await;
        let answered = answered.unwrap_or_else(|Panicked| Err(ApiError::internal()));
        let response = answered.unwrap_or_else(|error| {
            error.log();
            reply::failure(&error, &context.base_path)
        });
        body.discard(&context.limits).await;
        reply::finish(response, &call)
    }
    .instrument(span)
    .await
}
