//! The pages: a handler here, and a template of the same name.

mod about;
pub(crate) mod collection;
mod compare;
mod confirm;
mod edit;
pub(crate) mod error;
mod event;
mod events;
mod heading;
mod history;
mod list;
mod problems;
pub(crate) mod sign_in;
mod source;

use percent_encoding::percent_decode_str;
use warp::http::Method;
use warp::http::header::ACCEPT;

use crate::domain::Key;
use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::ui::api::Request;
use crate::http::ui::frame::Visit;
use crate::http::ui::pages::confirm::Confirmation;

/// The methods of a page without a form.
const READ: &str = "GET, HEAD";

/// The methods of a page with a form.
const WRITE: &str = "GET, HEAD, POST";

/// Answers a request for the page at a path below `/ui/`.
pub(crate) async fn answer(visit: &Visit<'_>, path: &str, body: &mut Body) -> Result<Reply, ApiError> {
    let decoded = percent_decode_str(path).decode_utf8().map_err(|_| nothing_at(visit))?;
    let steps: Vec<&str> = decoded.split('/').collect();
    match *visit.call.method() {
        Method::GET | Method::HEAD => Box::pin(show_page(visit, &steps)).await,
        Method::POST => Box::pin(act(visit, &steps, body)).await,
        _ => Err(ApiError::method_not_allowed(if has_form(&steps) { WRITE } else { READ })),
    }
}

fn has_form(steps: &[&str]) -> bool {
    matches!(
        steps,
        ["new" | "sign-in" | "sign-out"]
            | ["collections", _]
            | ["collections", _, "delete" | "restore"]
            | ["events", _, "undo"]
    )
}

async fn show_page(visit: &Visit<'_>, steps: &[&str]) -> Result<Reply, ApiError> {
    match steps {
        [""] => list::page(visit).await,
        ["new"] => edit::new(visit).await,
        ["collections", key] => collection::page(visit, &key_of(key)?).await,
        ["collections", key, "source"] => source::page(visit, &key_of(key)?).await,
        ["collections", key, "history"] => history::page(visit, &key_of(key)?).await,
        ["events"] => events::page(visit).await,
        ["events", id] => event::page(visit, id).await,
        ["compare"] => compare::page(visit).await,
        ["problems"] => problems::page(visit).await,
        ["about"] => about::page(visit).await,
        ["stream"] => stream(visit).await,
        ["sign-in"] => sign_in::page(visit).await,
        _ => match confirmation(visit, steps)? {
            Some(confirmation) => confirm::ask(visit, confirmation).await,
            None => Err(nothing_at(visit)),
        },
    }
}

async fn act(visit: &Visit<'_>, steps: &[&str], body: &mut Body) -> Result<Reply, ApiError> {
    if visit.as_of.is_some() && has_form(steps) {
        return Err(ApiError::new(Code::BAD_REQUEST, "The past can't be changed; go back to the present."));
    }
    match steps {
        ["sign-in"] => sign_in::sign_in(visit, body).await,
        ["sign-out"] => sign_in::sign_out(visit, body).await,
        ["new"] => edit::create(visit, body).await,
        ["collections", key] => edit::save(visit, &key_of(key)?, body).await,
        _ => match confirmation(visit, steps)? {
            Some(confirmation) => confirm::answer(visit, confirmation, body).await,
            None => Err(ApiError::method_not_allowed(READ)),
        },
    }
}

/// Returns the action of a confirmation page.
fn confirmation(visit: &Visit<'_>, steps: &[&str]) -> Result<Option<Confirmation>, ApiError> {
    Ok(Some(match steps {
        ["collections", key, "delete"] => Confirmation::Delete(key_of(key)?),
        ["collections", key, "restore"] => {
            Confirmation::Restore(key_of(key)?, visit.asked("revision").unwrap_or_default().to_owned())
        }
        ["events", id, "undo"] => Confirmation::Undo((*id).to_owned()),
        _ => return Ok(None),
    }))
}

/// The API's stream of what is served, of all collections or one.
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

/// Parses a key. A text that can't be a key is reported as a missing collection.
fn key_of(text: &str) -> Result<Key, ApiError> {
    Key::parse(text).map_err(|_| ApiError::no_such_collection(text))
}
