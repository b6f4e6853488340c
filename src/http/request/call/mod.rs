//! One request under way: its head, the route that it came in by, and what its handler may do with it.
//!
//! What each part of a handler needs stands in a file: who asks and whether they may (`access`), the past and what
//! takes long (`past`), what is counted of it (`counted`).

mod access;
mod counted;
mod past;

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
use crate::http::budgets::answers::{self, AnswerRoom};
use crate::http::context::Context;
use crate::http::jsonapi::error::{ApiError, ErrorObject};
use crate::http::jsonapi::negotiate::{self, Accepted, Dialect};
use crate::http::jsonapi::query::{AS_OF, Query};
use crate::http::jsonapi::request;
use crate::http::metrics::RequestSeries;
use crate::http::reply::{Common, Reply};
use crate::http::request::body::Body;
pub(crate) use crate::http::request::call::access::FOLLOWER_WRITES_NOTHING;
use crate::http::request::call::past::Asking;
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
    entered: OnceLock<Entered>,
    permission: Permission,
    shown: Shown,
    asking: Asking,
    /// When it came, if that is of interest to anybody; not of a request that the service makes itself.
    began: Option<Instant>,
}

/// What an answer comes from.
#[derive(Default)]
struct Shown {
    /// The revision of the snapshot that was handed out first.
    snapshot: OnceLock<Option<Revision>>,
    /// The revision that a page comes from, for the log: pages do not name it in their heads.
    page: OnceLock<Revision>,
}

/// Whether somebody was asked about the request, and let it in.
#[derive(Default)]
struct Permission {
    is_asked: AtomicBool,
    is_given: AtomicBool,
}

/// The route that a request came in by.
struct Entered {
    route: &'static str,
    /// The actions of which one has to be allowed; absent where everybody is let in.
    actions: Option<Actions>,
    /// Where it is counted, if it is.
    place: Option<RequestSeries>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(context: &'a Context, budgets: &'a Budgets, head: Arc<Head>, id: RequestId) -> Self {
        let (identity, entered) = (OnceCell::new(), OnceLock::new());
        let (permission, shown, asking) = Default::default();
        Self { context, budgets, head, id, identity, entered, permission, shown, asking, began: None }
    }

    /// Another request that is made to answer this one.
    pub(crate) fn inner(&self, head: Arc<Head>) -> Call<'a> {
        Call::new(self.context, self.budgets, head, self.id.clone())
    }

    /// Takes note of the revision that a page comes from; what is noted first counts.
    pub(crate) fn comes_from(&self, revision: Option<Revision>) {
        if let Some(revision) = revision {
            self.shown.page.get_or_init(|| revision);
        }
    }

    /// Takes note of who sends the request, and of what its page comes from, as another one has it that was made to
    /// answer this one.
    pub(crate) fn learn_of(&self, page: &Call<'_>) {
        page.identity.get().into_iter().for_each(|it| drop(self.identity.set(it.clone())));
        // What a stranger is shown comes from nothing that is served.
        let is_let_in = page.permission.is_given.load(Ordering::Relaxed);
        let shown = page.shown.snapshot.get().filter(|_| is_let_in).copied().flatten();
        self.comes_from(page.shown.page.get().copied().or(shown));
    }

    pub(crate) fn method(&self) -> &Method {
        &self.head.method
    }

    /// The path as it was sent.
    pub(crate) fn path(&self) -> &str {
        self.head.path()
    }

    /// What follows the base path and `/ui/`, if that is where the path leads.
    pub(crate) fn page_path(&self) -> Option<&str> {
        self.path().strip_prefix(self.context.settings.base_path.as_str())?.strip_prefix("/ui/")
    }

    /// What follows the `?`, as it was sent.
    pub(crate) fn raw_query(&self) -> &str {
        self.head.query()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Takes note of the route, and of the actions by which it lets a request in.
    pub(crate) fn enter(&self, route: &'static str, actions: Option<Actions>) {
        self.entered.get_or_init(|| {
            let metrics = self.began.and(self.context.telemetry.metrics.as_deref());
            let place = metrics.map(|metrics| metrics.begin(route, self.method()));
            Entered { route, actions, place }
        });
    }

    /// The path of the route as the table has it, if the path leads anywhere.
    pub(crate) fn route(&self) -> Option<&'static str> {
        self.entered.get().map(|entered| entered.route)
    }

    /// The revision on which a refusal rests that is about what is there, for who was let in; none where it is about
    /// the past.
    pub(crate) fn refused_at(&self, status: StatusCode) -> Option<Revision> {
        let is_about_what_is_there = matches!(
            status,
            StatusCode::NOT_FOUND
                | StatusCode::CONFLICT
                | StatusCode::PRECONDITION_FAILED
                | StatusCode::PRECONDITION_REQUIRED
        );
        let is_told = is_about_what_is_there && self.permission.is_given.load(Ordering::Relaxed);
        if !is_told || self.query().is_ok_and(|query| query.first(AS_OF).is_some()) {
            return None;
        }
        // A write is refused by the writer, on what is newest there; a read by what was looked at for it.
        let was_shown = self.shown.snapshot.get().filter(|_| self.method().is_safe());
        was_shown.map_or_else(|| self.context.projection.snapshot()?.revision, |revision| *revision)
    }

    /// What is served now; the whole request keeps to it.
    ///
    /// # Errors
    ///
    /// 503 until the repository has been read for the first time: an empty list would be a lie.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, ApiError> {
        let projection = &self.context.projection;
        let snapshot =
            projection.snapshot().ok_or_else(|| ApiError::unread(projection.trouble().as_deref()))?;
        self.shown.snapshot.get_or_init(|| snapshot.revision);
        Ok(snapshot)
    }

    /// The room of an answer to the request.
    pub(crate) fn answer_room(&self) -> AnswerRoom {
        AnswerRoom::of(&self.budgets.answers, self.taker())
    }

    /// Counts an answer among those under way if it is large.
    ///
    /// # Errors
    ///
    /// 503 when those take too much.
    pub(crate) fn with_room(&self, reply: Reply) -> Result<Reply, ApiError> {
        if reply.body().len() <= answers::FREE_BYTES { Ok(reply) } else { reply.counted(self.answer_room()) }
    }

    /// The response to the request: the last touch to every answer.
    pub(crate) fn finish(self, mut reply: Reply, common: &Common) -> Response {
        let cors = &self.context.access.cors;
        // Pages are for their own origin.
        let is_page = || self.context.settings.ui && self.page_path().is_some();
        if !cors.is_off() && !is_page() {
            reply = reply.shared_with(cors, self.headers());
        }
        if *self.method() == Method::HEAD {
            reply = reply.without_body();
        }
        reply.into_response(common, Some(self.id.into_header()))
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

    /// Checks the media types of a request with a body, before that is read.
    ///
    /// # Errors
    ///
    /// 415 and 406.
    pub(crate) fn negotiate_write(&self, dialect: Dialect, body: &Body) -> Result<(), ApiError> {
        negotiate::content_type(self.headers(), dialect, body.is_there())?;
        negotiate::accept(self.headers(), dialect).map(drop)
    }

    /// Reads a body as JSON, as deep as one may nest here.
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

    /// Counts whether more is asked for than a page has, whatever is answered to that: a page that is full, or 400.
    pub(crate) fn count_page(&self, query: &Query) {
        if query.wants_larger_page() {
            self.context.telemetry.reached.count(Limit::PageSize);
        }
    }

    /// Path and query as they were asked for.
    pub(crate) fn link(&self) -> String {
        match self.raw_query() {
            "" => self.path().to_owned(),
            query => format!("{}?{query}", self.path()),
        }
    }
}
