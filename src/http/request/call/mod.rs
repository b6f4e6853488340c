//! A request in progress: its head, its route, and what its handler may do with it.
//!
//! The submodules serve authorization (`access`), the past and other slow work (`history`), and metrics (`in_flight`).

mod access;
mod history;
mod in_flight;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::sync::OnceCell;
use warp::http::{HeaderMap, Method, StatusCode};
use warp::reply::Response;

use crate::domain::{Revision, Value};
use crate::engine::Snapshot;
use crate::http::authorize::{Actions, Identity};
use crate::http::budgets::Budgets;
use crate::http::budgets::answers::{self, AnswerReservation};
use crate::http::context::Context;
use crate::http::jsonapi::error::{ApiError, ErrorObject};
use crate::http::jsonapi::negotiate::{self, Accepted, Dialect};
use crate::http::jsonapi::query::{self, AS_OF, Query};
use crate::http::jsonapi::request;
use crate::http::metrics::RequestSeries;
use crate::http::reply::{Common, Reply};
use crate::http::request::body::Body;
pub(crate) use crate::http::request::call::access::FOLLOWER_WRITES_NOTHING;
use crate::http::request::call::history::CancelOnDrop;
use crate::http::request::head::Head;
use crate::http::request::id::RequestId;
use crate::telemetry::Limit;

/// A request without its body.
pub(crate) struct Call<'a> {
    pub(crate) context: &'a Context,
    pub(crate) budgets: &'a Budgets,
    pub(crate) head: Arc<Head>,
    pub(crate) id: RequestId,
    identity: OnceCell<Identity>,
    matched: OnceLock<MatchedRoute>,
    permission: Permission,
    shown: Shown,
    questions: CancelOnDrop,
    /// When the request arrived, if metrics or the access log need it; `None` for inner requests.
    began: Option<Instant>,
}

/// The revisions that an answer is based on.
#[derive(Default)]
struct Shown {
    /// The revision of the snapshot that was used first.
    snapshot: OnceLock<Option<Revision>>,
    /// The revision that a page is based on, for the log: pages do not name it in a header.
    page: OnceLock<Revision>,
}

/// Whether the authorizer was asked about the request, and whether it allowed an action.
#[derive(Default)]
struct Permission {
    is_asked: AtomicBool,
    is_given: AtomicBool,
}

/// The route of a request.
struct MatchedRoute {
    route: &'static str,
    /// The actions of which one must be allowed; `None` if the route is open to everyone.
    actions: Option<Actions>,
    /// The position of its metrics, if they are collected.
    series: Option<RequestSeries>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(context: &'a Context, budgets: &'a Budgets, head: Arc<Head>, id: RequestId) -> Self {
        let (identity, matched) = (OnceCell::new(), OnceLock::new());
        let (permission, shown, questions) = Default::default();
        Self { context, budgets, head, id, identity, matched, permission, shown, questions, began: None }
    }

    /// Creates an inner request, which helps to answer this one.
    pub(crate) fn inner(&self, head: Arc<Head>) -> Call<'a> {
        Call::new(self.context, self.budgets, head, self.id.clone())
    }

    /// Counts the limit that an error is about, once.
    pub(crate) fn count_limit(&self, error: &mut ApiError) {
        error.take_limit().into_iter().for_each(|limit| self.context.telemetry.reached.count(limit));
    }

    /// Records the revision that a page is based on; the first one counts.
    pub(crate) fn record_page_revision(&self, revision: Option<Revision>) {
        if let Some(revision) = revision {
            self.shown.page.get_or_init(|| revision);
        }
    }

    /// Copies the sender and the revision of the page from an inner request.
    pub(crate) fn adopt_from_inner(&self, page: &Call<'_>) {
        page.identity.get().into_iter().for_each(|it| drop(self.identity.set(it.clone())));
        // The page of an unauthorized caller is not based on anything that is served.
        let is_let_in = page.permission.is_given.load(Ordering::Relaxed);
        let shown = page.shown.snapshot.get().filter(|_| is_let_in).copied().flatten();
        self.record_page_revision(page.shown.page.get().copied().or(shown));
    }

    pub(crate) fn method(&self) -> &Method {
        &self.head.method
    }

    /// Returns the path as it was sent.
    pub(crate) fn path(&self) -> &str {
        self.head.path()
    }

    /// Returns the rest of the path after the base path and `/ui/`, if the path begins with them.
    pub(crate) fn page_path(&self) -> Option<&str> {
        self.path().strip_prefix(self.context.settings.base_path.as_str())?.strip_prefix("/ui/")
    }

    /// Returns the query as it was sent, without the `?`.
    pub(crate) fn raw_query(&self) -> &str {
        self.head.query()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Records the route, and the actions of which one must be allowed.
    pub(crate) fn record_route(&self, route: &'static str, actions: Option<Actions>) {
        self.matched.get_or_init(|| {
            let metrics = self.began.and(self.context.telemetry.metrics.as_deref());
            let series = metrics.map(|metrics| metrics.begin(route, self.method()));
            MatchedRoute { route, actions, series }
        });
    }

    /// Returns the path of the route as in the route table, if the path is known.
    pub(crate) fn route(&self) -> Option<&'static str> {
        self.matched.get().map(|matched| matched.route)
    }

    /// Returns the revision that a refusal is based on, if it depends on the current state and the caller was
    /// authorized. A refusal about the past has none.
    pub(crate) fn refused_at(&self, status: StatusCode) -> Option<Revision> {
        let is_about_what_is_there = matches!(
            status,
            StatusCode::NOT_FOUND
                | StatusCode::CONFLICT
                | StatusCode::PRECONDITION_FAILED
                | StatusCode::PRECONDITION_REQUIRED
        );
        let is_shown = is_about_what_is_there && self.permission.is_given.load(Ordering::Relaxed);
        if !is_shown || self.query().is_ok_and(|query| query.first(AS_OF).is_some()) {
            return None;
        }
        // The writer refuses a write based on the newest state; a read is refused based on the snapshot that it used.
        let was_shown = self.shown.snapshot.get().filter(|_| self.method().is_safe());
        was_shown.map_or_else(|| self.context.projection.snapshot()?.revision, |revision| *revision)
    }

    /// Returns the snapshot that is served now, for use during the whole request.
    ///
    /// # Errors
    ///
    /// 503 until the repository was read for the first time, because an empty list would be wrong.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, ApiError> {
        let projection = &self.context.projection;
        let snapshot =
            projection.snapshot().ok_or_else(|| ApiError::unread(projection.read_error().as_deref()))?;
        self.shown.snapshot.get_or_init(|| snapshot.revision);
        Ok(snapshot)
    }

    /// Returns the budget for the request's answer.
    pub(crate) fn answer_reservation(&self) -> AnswerReservation {
        AnswerReservation::of(&self.budgets.answers, self.budget_user())
    }

    /// Counts a large answer against the budget for all answers.
    ///
    /// # Errors
    ///
    /// 503 when the budget is exhausted.
    pub(crate) fn with_reservation(&self, reply: Reply) -> Result<Reply, ApiError> {
        if reply.body().len() <= answers::FREE_BYTES {
            Ok(reply)
        } else {
            reply.counted(self.answer_reservation())
        }
    }

    /// Completes the response to the request.
    pub(crate) fn finish(self, mut reply: Reply, common: &Common) -> Response {
        let cors = &self.context.access.cors;
        // Pages are only for their own origin.
        let is_page = || self.context.settings.ui && self.page_path().is_some();
        if !cors.is_off() && !is_page() {
            reply = reply.with_cors(cors, self.headers());
        }
        if *self.method() == Method::HEAD {
            reply = reply.without_body();
        }
        reply.into_response(common, self.id.into_header())
    }

    /// Checks the media types of a request without a body.
    ///
    /// # Errors
    ///
    /// 406 and 415.
    pub(crate) fn negotiate(&self) -> Result<Accepted, ApiError> {
        negotiate::content_type_without_body(self.headers())?;
        negotiate::accept(self.headers(), Dialect::Plain)
    }

    /// Checks the media types of a request with a body, before the body is read.
    ///
    /// # Errors
    ///
    /// 415 and 406.
    pub(crate) fn negotiate_write(&self, dialect: Dialect, body: &Body) -> Result<(), ApiError> {
        negotiate::content_type(self.headers(), dialect, body.has_unread())?;
        negotiate::accept(self.headers(), dialect).map(drop)
    }

    /// Parses a body as JSON, up to the configured depth.
    ///
    /// # Errors
    ///
    /// 400.
    pub(crate) fn parse(&self, body: &[u8]) -> Result<Value, ErrorObject> {
        request::parse(body, self.context.settings.limits.requests.json_depth_max)
    }

    /// The decoded query.
    ///
    /// # Errors
    ///
    /// 400 when it is not UTF-8.
    pub(crate) fn query(&self) -> Result<Query, ApiError> {
        Query::parse(self.raw_query())
    }

    /// Counts a request for a page beyond the maximum size, whether the answer is a full page or 400.
    pub(crate) fn count_page(&self, query: &Query) {
        if query.wants_larger_page() {
            self.context.telemetry.reached.count(Limit::PageSize);
        }
    }

    /// Returns path and query as they were sent, in the form of a URI.
    pub(crate) fn link(&self) -> String {
        match self.raw_query() {
            "" => self.path().to_owned(),
            query => format!("{}?{}", self.path(), query::in_uri(query)),
        }
    }
}
