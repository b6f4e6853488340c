//! The table of routes and the handlers that it names.
//!
//! A handler takes one request and returns its answer. It never checks the path or the method, because that is
//! done here, once, before it is called. It opens no sockets and reads no files either.

mod collections;
mod events;
mod find;
pub(crate) mod health;
mod openapi;
mod operations;
mod past;
mod path;
mod problems;
mod remote;
mod schema;
mod stream;
mod submit;
pub(crate) mod table;
mod undo;
pub(crate) mod webhooks;

use warp::http::{Method, StatusCode};

use crate::domain::Key;
use crate::http::jsonapi::error::ApiError;
use crate::http::min_revision;
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::{Call, FOLLOWER_WRITES_NOTHING};
pub(crate) use crate::http::routes::events::selection::{filter as event_filter, revision_text};
use crate::http::routes::find::RouteMatch;
use crate::http::routes::table::{LIVE, REMOTE, REMOTE_RESTORE, ROUTES, allow};

/// Answers a request: checks the path and the method, and then calls the handler.
pub(crate) async fn answer(call: &Call<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    let found = find::find(call);
    // A liveness probe may use any host name and never waits for a revision.
    let is_watch = found.as_ref().is_ok_and(|found| found.route.path.text == LIVE);
    if !is_watch {
        call.check_host()?;
    }
    // `OPTIONS *` is about the service as a whole (RFC 9110 section 9.3.7).
    if *call.method() == Method::OPTIONS && call.path() == "*" {
        let all: Vec<_> = ROUTES.iter().flat_map(|route| route.methods()).collect();
        return Ok(options(call, &allow(&all)));
    }
    let RouteMatch { route, target } = found?;
    call.check_site()?;
    let contained = if is_watch { None } else { min_revision::wanted(call)? };
    let wanted = if *call.method() == Method::HEAD { &Method::GET } else { call.method() };
    let is_of_remote = route.path.text.starts_with(REMOTE) && route.path.text != REMOTE_RESTORE;
    let reads_only = call.context.is_follower() && !is_of_remote;
    let is_taken = !reads_only || *wanted == Method::GET;
    let answering = if is_taken { target.answering(wanted, call, body) } else { None };
    let Some((actions, answering)) = answering else {
        let mut methods = route.methods();
        methods.retain(|method| !reads_only || **method == Method::GET);
        let allow = allow(&methods);
        return match *call.method() {
            Method::OPTIONS => Ok(options(call, &allow)),
            _ if !is_taken && route.methods().contains(&wanted) => {
                Err(ApiError::method_not_allowed(&allow).with_extra_sentence(FOLLOWER_WRITES_NOTHING))
            }
            _ => Err(ApiError::method_not_allowed(&allow)),
        };
    };
    call.record_route(route.path.text, actions);
    if let Some(contained) = contained {
        Box::pin(min_revision::wait(call, contained)).await?;
    }
    let reply = answering.await?;
    call.check_authorized()?;
    Ok(reply)
}

/// Adds to a 404 what became of the collection, for callers who may know.
async fn with_deletion(
    call: &Call<'_>,
    key: &Key,
    answer: Result<Reply, ApiError>,
) -> Result<Reply, ApiError> {
    match answer {
        // An error with a `source` is about something else that does not exist, such as a revision.
        Err(error)
            if error.status() == StatusCode::NOT_FOUND
                && error.errors.iter().all(|it| it.source.is_none()) =>
        {
            Err(call.with_deletion(key, error).await)
        }
        answer => answer,
    }
}

fn options(call: &Call<'_>, allow: &str) -> Reply {
    Reply::options(allow, &call.context.access.cors, call.headers())
}
