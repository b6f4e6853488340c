//! The error page: what went wrong, and what to do next.

use askama::Template;
use warp::http::header::RETRY_AFTER;
use warp::http::{Method, StatusCode};

use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::ui;
use crate::http::ui::Ui;
use crate::http::ui::frame::{Frame, Nav};

#[derive(Template)]
#[template(path = "error.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    status: u16,
    details: Vec<String>,
    again: Option<RetryHint>,
}

/// When and where to try again. The page does not refresh itself, because that would take it away from its reader
/// (WCAG 2.2, 2.2.1).
struct RetryHint {
    after_s: String,
    link: String,
}

/// The page for an error, in the API's words.
pub(crate) async fn page(ui: &Ui, call: &Call<'_>, error: ApiError) -> Reply {
    let status = error.status();
    let headers = error.headers().to_vec();
    // A form is not sent again automatically.
    let is_read = matches!(*call.method(), Method::GET | Method::HEAD);
    let retry_after = headers.iter().find(|(name, _)| is_read && *name == RETRY_AFTER);
    let after_s = retry_after.and_then(|(_, value)| Some(value.to_str().ok()?.to_owned()));
    let again = after_s.map(|after_s| RetryHint { after_s, link: call.link() });
    let title = match status {
        StatusCode::NOT_FOUND => "Nothing is here",
        StatusCode::FORBIDDEN => "This is not for you",
        StatusCode::UNAUTHORIZED => "Sign in",
        StatusCode::SERVICE_UNAVAILABLE => "Not yet",
        status if status.is_server_error() => "Something of ours failed",
        _ => "That did not work",
    };
    let frame = Frame::of(ui, call, title, Nav::Elsewhere).await;
    let reply = ui::page(status, &Page { frame, status: status.as_u16(), details: error.details(), again });
    headers.into_iter().fold(reply, |reply, (name, value)| reply.with(name, value))
}
