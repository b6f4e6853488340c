//! The web pages, for people who would rather look than read JSON.
//!
//! ```text
//! /ui/… ──▶ Visit ──▶ pages/NAME.rs ──▶ templates/NAME.html ──▶ Reply
//!           who, as of  snapshot, View,   escaped, no script
//!           when        the API itself
//! ```
//!
//! A page is one handler and one template of the same name. Reads use the snapshot or a view of the history, as
//! the API's routes do. Writes go through the API itself ([`api`]), so that one place decides what is allowed.
//! Everything works without a script; with it, pages follow changes.
//!
//! Pages never decide about rights, conditions, limits or error messages themselves, load anything from elsewhere,
//! or contain inline scripts or styles.

mod api;
mod assets;
pub(crate) mod escape;
mod fields;
mod form;
mod frame;
mod pages;
mod session;
mod words;

use std::sync::Arc;

use askama::Template;
use warp::http::header::{
    AUTHORIZATION, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use warp::http::{HeaderName, HeaderValue, Method, StatusCode};

use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::negotiate;
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::request::caught::{Panicked, caught};
use crate::http::ui::frame::Visit;
use crate::http::ui::session::Sessions;

/// The content security policy: only this service is loaded from and receives forms, and nothing is inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Maximum bytes parsed or compressed on a thread that answers requests. More is processed on another thread.
const AT_ONCE_BYTES_MAX: usize = 256 * 1_024;

/// The path of stylesheet, script and icon, below `/ui/`. They are the same for everyone.
const ASSETS: &str = "assets/";

const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The headers of every answer below `/ui/`. With the referrer policy `no-referrer`, Chromium would send
/// `Origin: null` with our own forms.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (CROSS_ORIGIN_OPENER_POLICY, HeaderValue::from_static("same-origin")),
];

/// The state that pages share.
#[derive(Debug)]
pub(crate) struct Ui {
    /// The token in the forms of visitors without a session, so that no other site can send a form.
    token: String,
    sessions: Sessions,
}

impl Ui {
    pub(crate) fn new() -> Self {
        Self { token: form::random_token(), sessions: Sessions::default() }
    }

    /// Returns the token for the forms of the sender of a request.
    fn form_token(&self, call: &Call<'_>) -> String {
        self.sessions.of(call).map_or_else(|| self.token.clone(), |session| session.form_token)
    }
}

/// Redirects a browser that asks for the service itself to its pages.
pub(crate) fn redirect_to_ui(call: &Call<'_>) -> Option<Reply> {
    let below = call.path().strip_prefix(call.context.settings.base_path.as_str())?;
    let is_read = matches!(*call.method(), Method::GET | Method::HEAD);
    let is_asked =
        matches!(below, "" | "/" | "/ui") && is_read && negotiate::prefers(call.headers(), "text/html");
    is_asked.then(|| see_other(&format!("{}/ui/", call.context.settings.base_path.as_str())))
}

/// Answers a request for a page. Errors become pages too.
pub(crate) async fn answer(ui: &Ui, call: &Call<'_>, body: &mut Body) -> Reply {
    let of_session = with_session_token(ui, call).await;
    let asked = of_session.as_ref().unwrap_or(call);
    let reply = answered(ui, asked, body).await;
    call.adopt_from_inner(asked);
    HEADERS.into_iter().fold(reply, |reply, (name, value)| reply.with(name, value))
}

async fn answered(ui: &Ui, call: &Call<'_>, body: &mut Body) -> Reply {
    let answered = caught(known(ui, call, body)).await;
    let reply = match answered.unwrap_or_else(|Panicked| Err(ApiError::internal())) {
        Ok(reply) => reply,
        Err(mut error) => {
            error.log();
            call.count_limit(&mut error);
            pages::error::page(ui, call, error).await
        }
    };
    // Compression reveals no form token by the length of a page: other sites can't request a page with a session.
    if reply.body().len() <= AT_ONCE_BYTES_MAX {
        return reply.compressed(call.headers());
    }
    let headers = call.headers().clone();
    match call.build_off_thread(move || reply.compressed(&headers)).await {
        Ok(reply) => reply,
        Err(error) => pages::error::page(ui, call, error).await,
    }
}

/// Answers visitors who are known. Others are sent to sign in, and come back.
async fn known(ui: &Ui, call: &Call<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    let is_page = call.page_path().is_some_and(|path| path != "stream");
    match checked(ui, call, body).await {
        Err(error) if error.status() == StatusCode::UNAUTHORIZED && is_page => {
            pages::sign_in::asked_for(ui, call, body, error).await
        }
        answer => answer,
    }
}

/// Returns the request with the token of its session, if it has one that is still valid. Error pages are made with
/// it too.
async fn with_session_token<'a>(ui: &Ui, call: &Call<'a>) -> Option<Call<'a>> {
    let is_asset = call.page_path().is_some_and(|path| path.starts_with(ASSETS));
    if is_asset || call.headers().contains_key(AUTHORIZATION) {
        return None;
    }
    let session = ui.sessions.of(call)?;
    let uri = call.link().parse().ok()?;
    let headers = session::authorized(call.headers(), session.authorization.clone());
    let head = call.head.asking(call.method().clone(), uri, headers, call.head.has_body);
    let inner = call.inner(Arc::new(head.of_session(&session.ends)));
    inner.record_route("/ui/", None);
    ui.sessions.is_still_valid(call, &session, inner.identity().await).then_some(inner)
}

/// Answers a request for an asset or a page.
async fn checked(ui: &Ui, call: &Call<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    let path = call.page_path().unwrap_or_default();
    if let Some(name) = path.strip_prefix(ASSETS) {
        return assets::find(name).ok_or_else(|| ApiError::no_such_path(call.path()));
    }
    call.check_host()?;
    let visit = Visit::begin(ui, call).await?;
    pages::answer(&visit, path, body).await
}

fn page(status: StatusCode, template: &impl Template) -> Reply {
    match template.render() {
        Ok(html) => Reply::typed(status, "text/html; charset=utf-8", html.into()),
        // Only writing to memory could fail, and that can't.
        Err(_) => Reply::typed(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "Internal error".into()),
    }
}

fn see_other(path: &str) -> Reply {
    let location = HeaderValue::try_from(path).unwrap_or(HeaderValue::from_static("/"));
    Reply::empty(StatusCode::SEE_OTHER).with(LOCATION, location)
}
