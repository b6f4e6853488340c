//! Signing in with a token of the policy file, and signing out.
//!
//! A form that is sent after its session has ended is kept in the sign-in page, and shown again as it was typed
//! when the visitor has signed in. Nothing is done until the visitor sends it again.

use std::sync::Arc;

use askama::Template;
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use warp::http::header::{AUTHORIZATION, SET_COOKIE};
use warp::http::{HeaderValue, Method, StatusCode, Uri};

use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::ui::form::{PostedForm, check_site, is_form};
use crate::http::ui::frame::{Frame, Nav, Visit, encoded};
use crate::http::ui::{self, Ui, session};

#[derive(Template)]
#[template(path = "sign_in.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    /// The page to continue with.
    next: String,
    /// The form to show again.
    kept: String,
    errors: Vec<String>,
}

/// `GET /ui/sign-in`
pub(crate) async fn page(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    require_policy(visit.call)?;
    let next = visit.asked("next").unwrap_or_default().to_owned();
    Ok(show(visit.ui, visit.call, StatusCode::OK, next, String::new(), Vec::new()).await)
}

/// `POST /ui/sign-in`
pub(crate) async fn sign_in(visit: &Visit<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    let (ui, call) = (visit.ui, visit.call);
    require_policy(call)?;
    let posted = PostedForm::read(visit, visit.call.unknown_sender(), body).await?;
    let kept = posted.find("kept").filter(|form| is_form(form.as_bytes())).unwrap_or_default().to_owned();
    let next = posted.get("next").to_owned();
    if !posted.is_ours {
        let why = "This page was older than the running service; send it again.".to_owned();
        return Ok(show(ui, call, StatusCode::FORBIDDEN, next, kept, vec![why]).await);
    }
    let bearer = format!("Bearer {}", posted.get("secret").trim());
    let Ok(mut authorization) = HeaderValue::try_from(bearer) else {
        let why = "A token has no such characters.".to_owned();
        return Ok(show(ui, call, StatusCode::UNAUTHORIZED, next, kept, vec![why]).await);
    };
    authorization.set_sensitive(true);
    let uri = call.path().parse().map_err(|_| ApiError::internal())?;
    let headers = session::authorized(call.headers(), authorization.clone());
    let head = Arc::new(call.head.asking(Method::GET, uri, headers, false));
    let identity = match call.inner(head).identity().await {
        Ok(identity) => identity.clone(),
        Err(mut error) => {
            call.count_limit(&mut error);
            let status = error.status();
            return Ok(show(ui, call, status, next, kept, error.details()).await);
        }
    };
    let cookie = ui.sessions.begin(call, authorization, identity);
    let target = local_page(call, &next);
    let reply = if kept.is_empty() {
        ui::see_other(&target)
    } else {
        back(ui, call, &cookie, &target, kept).await.unwrap_or_else(|_| ui::see_other(&target))
    };
    Ok(reply.with(SET_COOKIE, cookie))
}

/// Shows the kept form again in the new session. Its form token is that of another session, so nothing is done.
async fn back(
    ui: &Ui,
    call: &Call<'_>,
    cookie: &HeaderValue,
    target: &str,
    kept: String,
) -> Result<Reply, ApiError> {
    let mut headers = call.headers().clone();
    headers.insert(warp::http::header::COOKIE, cookie.clone());
    headers.remove(AUTHORIZATION);
    let uri: Uri = target.parse().map_err(|_| ApiError::internal())?;
    let head = Arc::new(call.head.asking(Method::POST, uri, headers, true));
    let inner = call.inner(head);
    let of_session = ui::with_session_token(ui, &inner).await;
    let mut body = Body::whole(Bytes::from(kept));
    Box::pin(ui::checked(ui, of_session.as_ref().unwrap_or(&inner), &mut body)).await
}

/// `POST /ui/sign-out`
pub(crate) async fn sign_out(visit: &Visit<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    let posted = PostedForm::read(visit, visit.call.unknown_sender(), body).await?;
    if !posted.is_ours {
        let detail = "This page was older than the session; open it again to sign out.";
        return Err(ApiError::new(Code::FORBIDDEN, detail));
    }
    let cookie = visit.ui.sessions.end(visit.call);
    let base = visit.call.context.settings.base_path.as_str();
    Ok(ui::see_other(&format!("{base}/ui/sign-in")).with(SET_COOKIE, cookie))
}

/// Sends a visitor who is not signed in to this page, which leads back.
pub(crate) async fn asked_for(
    ui: &Ui,
    call: &Call<'_>,
    body: &mut Body,
    error: ApiError,
) -> Result<Reply, ApiError> {
    if require_policy(call).is_err() {
        return Err(error);
    }
    let next = call.link();
    if *call.method() != Method::POST {
        let base = call.context.settings.base_path.as_str();
        return Ok(ui::see_other(&format!("{base}/ui/sign-in?next={}", encoded(&next))));
    }
    check_site(call)?;
    // Browsers delete the cookie of a session that has ended, so the visitor is unknown. The form is kept in the
    // page that is sent back, not in the service.
    let bytes = call.collect_of(call.unknown_sender(), body).await?;
    // Only text that is encoded like a form goes into the page.
    let kept = String::from_utf8(bytes.into()).ok().filter(|form| is_form(form.as_bytes()));
    let kept = kept.unwrap_or_default();
    let why =
        "Your session has ended, so nothing was done yet. What you typed comes back once you have signed in.";
    Ok(show(ui, call, StatusCode::UNAUTHORIZED, next, kept, vec![why.to_owned()]).await)
}

/// Fails with 404 where everyone may do everything, because signing in has no purpose there.
fn require_policy(call: &Call<'_>) -> Result<(), ApiError> {
    if call.context.access.guard.is_open() { Err(ApiError::no_such_path(call.path())) } else { Ok(()) }
}

/// Returns `next` if it is a page of this service, and otherwise the first page.
fn local_page(call: &Call<'_>, next: &str) -> String {
    let pages = format!("{}/ui/", call.context.settings.base_path.as_str());
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if next.starts_with(&pages) && is_plain && !is_dot_segment(next) { next.to_owned() } else { pages }
}

/// Reports whether a segment of the path is `.` or `..`, encoded or not, because browsers resolve these (WHATWG
/// URL, "double-dot URL path segment").
fn is_dot_segment(next: &str) -> bool {
    let path = next.split(['?', '#']).next().unwrap_or_default();
    let is_dots = |part: &str| matches!(&*percent_decode_str(part).decode_utf8_lossy(), "." | "..");
    path.split('/').any(is_dots)
}

async fn show(
    ui: &Ui,
    call: &Call<'_>,
    status: StatusCode,
    next: String,
    kept: String,
    errors: Vec<String>,
) -> Reply {
    let frame = Frame::of(ui, call, "Sign in", Nav::Elsewhere).await;
    ui::page(status, &Page { frame, next, kept, errors })
}
