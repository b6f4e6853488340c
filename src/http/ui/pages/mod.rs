//! The pages: a handler here, and a template of the same name.

mod about;
mod collection;
mod compare;
pub(crate) mod error;
mod event;
mod events;
mod history;
mod list;
mod problems;
mod source;

use percent_encoding::percent_decode_str;
use warp::http::Method;
use warp::http::header::ACCEPT;

use crate::domain::Key;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::ui::api::Request;
use crate::http::ui::frame::Visit;

/// The methods of a page that is only looked at.
const READ: &str = "GET, HEAD";

/// Answers a request for the page at a path below `/ui/`.
pub(crate) async fn answer(visit: &Visit<'_>, path: &str, _body: &mut Body) -> Result<Reply, ApiError> {
    let decoded = percent_decode_str(path).decode_utf8().map_err(|_| nothing_at(visit))?;
    let steps: Vec<&str> = decoded.split('/').collect();
    if !matches!(*visit.call.method(), Method::GET | Method::HEAD) {
        return Err(ApiError::method_not_allowed(READ));
    }
    match steps.as_slice() {
        [""] => list::page(visit).await,
        ["collections", key] => collection::page(visit, &key_of(key)?).await,
        ["collections", key, "source"] => source::page(visit, &key_of(key)?).await,
        ["collections", key, "history"] => history::page(visit, &key_of(key)?).await,
        ["events"] => events::page(visit).await,
        ["events", id] => event::page(visit, id).await,
        ["compare"] => compare::page(visit).await,
        ["problems"] => problems::page(visit).await,
        ["about"] => about::page(visit).await,
        ["stream"] => stream(visit).await,
        _ => Err(nothing_at(visit)),
    }
}

/// What is served, as the API's stream of it: all collections, or one.
async fn stream(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let target = match visit.asked("key") {
        None => "/collections".to_owned(),
        Some(key) => format!("/collections/{}", key_of(key)?),
    };
    Request::new(Method::GET, target).header(ACCEPT, "text/event-stream").answer(visit.call).await
}

fn nothing_at(visit: &Visit<'_>) -> ApiError {
    ApiError::no_such_path(visit.call.path())
}

/// A text that can't be a key is the key of no collection.
fn key_of(text: &str) -> Result<Key, ApiError> {
    Key::parse(text).map_err(|_| ApiError::no_such_collection(text))
}
