//! The HTTP layer: the only user of warp, and the only place with status codes.
//!
//! ```text
//! request ─────▶ Call ─▶ routes::table ─▶ handler ─▶ Reply ─▶ Response
//!                head     path, method,    Result<Reply,       what every
//!                         action, handler  ApiError>           answer says
//! ```
//!
//! warp does one thing here: it provides the body of a request that has one. A single table (`routes`) says which
//! handler answers which path and method, and which action the authorizer is asked about first. A chain of warp
//! filters would not do: the contract is strict about the answer to an existing path with an unsupported method, and
//! a chain would have to guess that from rejections.
//!
//! Guarantees:
//!
//! * Every answer is a JSON:API document (except OpenAPI documents and the pages of `ui`), also 404, 405, 413, 415
//!   and 500, and carries `Cache-Control: no-store`, `Vary: Accept` and an `X-Request-Id`.
//! * The order of checks is the same everywhere: path, method and media types; authorization; existence;
//!   preconditions; syntax and values; conflicts.
//! * A request sees one snapshot, and a refused request changes nothing.
//! * A client that disconnects undoes nothing: what was submitted is carried out.
//!
//! Nothing here uses git, or YAML other than that of its own OpenAPI document, and only `server` uses sockets.

mod admin;
mod authorize;
mod browser;
mod budgets;
mod context;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod header;
mod jsonapi;
mod metrics;
mod min_revision;
mod notice_secret;
pub mod policy;
mod reply;
mod request;
mod routes;
pub mod server;
pub(crate) mod standard_webhooks;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod ui;

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use tower_service::Service as _;
use tracing::Instrument as _;
use warp::Filter as _;
use warp::http::header::{CONNECTION, VARY};
use warp::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use warp::reply::Response;

use crate::http::budgets::Budgets;
use crate::http::header::X_REQUEST_ID;
use crate::http::jsonapi::error::ApiError;
use crate::http::metrics::{UI, UNKNOWN_ROUTE};
use crate::http::reply::{Common, Reply};
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::request::caught::{Panicked, caught};
use crate::http::request::head::Head;
use crate::http::request::id::{RequestId, traceparent};
use crate::http::server::{Answers, ClientConnection, HeaderFields};
use crate::http::ui::Ui;
use crate::telemetry::{AccessLogEntry, Limit};

pub use crate::http::admin::{Admin, METRICS};
pub use crate::http::authorize::{
    Action, AllowAll, Allowed, Authorizer, Authorizing, Denied, ErrorStatus, Identifying, Identity,
    RequestHead,
};
pub use crate::http::browser::sites::Hosts;
pub use crate::http::context::webhooks::{ReceiverStatus, ReceiverStatuses};
pub use crate::http::context::{
    AccessRules, AnswerOptions, Clock, Context, Guard, ServedFrom, SharedBranch, Telemetry,
};
pub use crate::http::metrics::{Metrics, RequestDurations};
pub use crate::http::notice_secret::NoticeSecret;

/// API resources for the command line.
pub(crate) mod resources {
    use bytes::Bytes;

    use crate::config::BasePath;
    use crate::domain::Key;
    use crate::engine::history::{Blame, CollectionDifference, EventRecord};
    use crate::engine::{Entry, Snapshot};
    use crate::http::authorize::Allowed;
    use crate::http::jsonapi::document;
    use crate::http::jsonapi::document::history;
    use crate::http::jsonapi::query::Fields;

    pub(crate) fn collection(entry: &Entry) -> Bytes {
        let mut out = Vec::new();
        document::push_resource(entry, &BasePath::root(), None, None, &mut out);
        out.into()
    }

    /// Returns the list document of a snapshot.
    pub(crate) fn list(snapshot: &Snapshot) -> Bytes {
        document::whole_list(snapshot, &BasePath::root()).body()
    }

    /// Returns the resource of an event, without anything that names keys hidden from the caller.
    pub(crate) fn event(event: &EventRecord, allowed: &Allowed) -> Bytes {
        history::event(event, &Fields::default(), allowed)
    }

    /// Returns the resource of the differences in a collection.
    pub(crate) fn difference(difference: &CollectionDifference) -> Bytes {
        history::difference(difference, &Fields::default())
    }

    /// Returns an attribute and the event that gave it its value, marked if the collection has an uncommitted edit.
    /// The mark is on the resource because the command prints no document whose `meta` could hold it.
    pub(crate) fn blame(key: &Key, blame: &Blame, is_edited: bool) -> Bytes {
        let resource = history::blame(key, blame, &Fields::default(), &Allowed::anonymous());
        match resource.strip_suffix(b"}") {
            Some(open) if is_edited => [open, br#","meta":{"uncommitted":true}}"#].concat().into(),
            _ => resource,
        }
    }
}

/// The entry point for all requests to the API and the web pages.
#[derive(Debug, Clone)]
pub struct Routes {
    shared: Arc<Shared>,
}

/// State shared by all requests.
#[derive(Debug)]
struct Shared {
    context: Context,
    common: Common,
    budgets: Budgets,
    ui: Option<Ui>,
}

impl Routes {
    /// Creates the routes of a service with these parts.
    #[must_use]
    pub fn new(context: Context) -> Self {
        let common = Common::new(&context.access.cors, context.settings.compress);
        let ui = context.settings.ui.then(Ui::new);
        let limits = &context.settings.limits;
        let budgets = Budgets::of(&limits.requests, &limits.answers);
        Self { shared: Arc::new(Shared { context, common, budgets, ui }) }
    }

    /// Returns what the routes may access.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.shared.context
    }

    /// Answers one request that came over this connection.
    ///
    /// The head is moved out of the request first, because warp would only hand out copies of its fields. The filter
    /// is created for this one request, whose body is always available, so warp has nothing to reject. Most requests
    /// have no body and skip warp altogether.
    fn respond<B>(
        &self,
        request: Request<B>,
        connection: Arc<ClientConnection>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<B>
    where
        B: hyper::body::Body + Send + Sync + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (head, body) = Head::split_request(request, connection);
        let (shared, head) = (Arc::clone(&self.shared), Arc::new(head));
        async move {
            if !head.has_body {
                return Ok(answer(shared, head, Body::none()).await);
            }
            let filter = warp::body::stream().then(move |stream| {
                let body = Body::announced(&head.headers, stream);
                answer(Arc::clone(&shared), Arc::clone(&head), body)
            });
            warp::service(filter).call(Request::new(body)).await
        }
    }
}

impl Answers for Routes {
    fn answer(
        &self,
        request: Request<Incoming>,
        connection: Arc<ClientConnection>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<> {
        self.respond(request, connection)
    }

    fn refused(&self, head: Option<(&Method, &HeaderMap)>, status: StatusCode, bytes: usize) -> HeaderFields {
        let context = &self.shared.context;
        let method = head.map(|(method, _)| method);
        let none = HeaderMap::new();
        let headers = head.map_or(&none, |(_, headers)| headers);
        let id = RequestId::of(headers, context.clock);
        if let Some(metrics) = &context.telemetry.metrics {
            metrics.refused(method, status);
        }
        if let Some(log) = &context.telemetry.access_log {
            log.note(&AccessLogEntry {
                at: context.clock.now(),
                method: method.map_or("-", Method::as_str),
                route: UNKNOWN_ROUTE,
                status: status.as_u16(),
                duration: Duration::ZERO,
                bytes,
                actor: None,
                request_id: Some(id.as_str()),
                revision: None,
                traceparent: None,
            });
        }
        let mut fields = vec![(VARY, self.shared.common.vary()), (X_REQUEST_ID, id.into_header())];
        context.access.cors.add_headers(headers, &mut fields);
        fields
    }
}

/// Passes a request for a page to the web pages, and any other request to the API.
async fn answer_to(ui: Option<&Ui>, call: &Call<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    if let Some(ui) = ui {
        if call.page_path().is_some() {
            // The parts of a page are authorized one by one.
            call.record_route(UI, None);
            return Ok(Box::pin(ui::answer(ui, call, body)).await);
        }
        if let Some(reply) = ui::redirect_to_ui(call) {
            return Ok(reply);
        }
    }
    routes::answer(call, body).await
}

/// The number of commits that are acknowledged here but not yet on the remote.
const COLLECTORY_AHEAD: HeaderName = HeaderName::from_static("collectory-ahead");

/// Answers one request, even if its handler fails or panics.
///
/// The future is boxed because it is large and is moved several times before it is first polled.
fn answer(shared: Arc<Shared>, head: Arc<Head>, mut body: Body) -> impl Future<Output = Response> + Send {
    let id = RequestId::of(&head.headers, shared.context.clock);
    let span = id.span(&head.method, head.path(), traceparent(&head.headers));
    let answered = Box::pin(async move {
        let Shared { context, common, budgets, ui } = &*shared;
        let call = Call::new(context, budgets, head, id).with_start_time();
        let counted = call.counted();
        let answered = caught(answer_to(ui.as_ref(), &call, &mut body)).await;
        let answered = answered.unwrap_or_else(|Panicked| Err(ApiError::internal()));
        let reply = answered.and_then(|reply| call.with_reservation(reply)).unwrap_or_else(|mut error| {
            error.log();
            call.count_limit(&mut error);
            Reply::failure(&error, &context.settings.base_path).of_revision(call.refused_at(error.status()))
        });
        if body.has_unread() {
            Box::pin(body.discard(&context.settings.limits.requests)).await;
            if body.has_unread() && !body.awaits_continue() {
                context.telemetry.reached.count(Limit::DiscardBytes);
            }
        }
        let reply = match body.must_close_connection() {
            true => reply.with(CONNECTION, HeaderValue::from_static("close")),
            false => reply,
        };
        counted.answered(&reply);
        let ahead = context.remote.as_ref().and_then(|shared| shared.remote.ahead());
        let mut response = call.finish(reply, common);
        if let Some(ahead) = ahead {
            response.headers_mut().insert(COLLECTORY_AHEAD, ahead.into());
        }
        response
    });
    answered.instrument(span)
}
