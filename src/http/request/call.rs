//! One request under way: its head, and what its handler may do with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chrono::SecondsFormat;
use tokio::sync::{OnceCell, OwnedSemaphorePermit};
use warp::http::{HeaderMap, Method, StatusCode};

use crate::domain::{Actor, Key, Revision, hex};
use crate::engine::Snapshot;
use crate::engine::history::{self, Asker, Filter, History, Page, View};
use crate::http::authorize::{Action, Actions, Allowed, Denied, Identity};
use crate::http::budgets::Budgets;
use crate::http::budgets::answers::{self, AnswerRoom};
use crate::http::budgets::bodies::Sender;
use crate::http::budgets::room::Taker;
use crate::http::context::Context;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};
use crate::http::jsonapi::negotiate;
use crate::http::jsonapi::negotiate::{Accepted, Dialect};
use crate::http::jsonapi::query::{AS_OF, Query};
use crate::http::metrics::{NOWHERE, Place};
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::caller::{Caller, ask, identify};
use crate::http::request::head::Head;
use crate::http::request::id;
use crate::http::request::id::RequestId;
use crate::telemetry::{AccessLog, Answered, Limit};

/// When to ask again for a history that takes long to read.
const HISTORY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long a client that sends no more is waited with for what is looked up.
const HALF_CLOSED_WAIT: Duration = Duration::from_secs(2);

/// What is told to whoever would write where all writes are for other instances.
pub(crate) const FOLLOWER_WRITES_NOTHING: &str =
    "This instance follows others and takes no writes (--follow).";

/// A request without its body.
pub(crate) struct Call<'a> {
    pub(crate) context: &'a Context,
    pub(crate) budgets: &'a Budgets,
    pub(crate) head: Arc<Head>,
    pub(crate) id: RequestId,
    identity: OnceCell<Identity>,
    entered: OnceLock<Entered>,
    is_asked: AtomicBool,
    is_allowed: AtomicBool,
    asking: Asking,
    /// When it came, if that is of interest to anybody; not of a request that the service makes itself.
    began: Option<Instant>,
}

/// Whoever waits for what is looked up for a request, once something is; gone with the request.
#[derive(Default)]
struct Asking(OnceLock<Asker>);

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(asker) = self.0.get() {
            asker.leave();
        }
    }
}

/// The route that a request came in by.
struct Entered {
    route: &'static str,
    /// The actions of which one has to be allowed; absent where everybody is let in.
    actions: Option<Actions>,
    /// Where it is counted, if it is.
    place: Option<Place>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(context: &'a Context, budgets: &'a Budgets, head: Arc<Head>, id: RequestId) -> Self {
        let (identity, entered) = (OnceCell::new(), OnceLock::new());
        let (is_asked, is_allowed) = (AtomicBool::new(false), AtomicBool::new(false));
        let asking = Asking::default();
        Self { context, budgets, head, id, identity, entered, is_asked, is_allowed, asking, began: None }
    }

    /// The same as somebody has sent it, which is counted where that is of interest.
    pub(crate) fn watched(self) -> Self {
        let is_of_interest =
            self.context.telemetry.metrics.is_some() || self.context.telemetry.access_log.is_some();
        Self { began: is_of_interest.then(Instant::now), ..self }
    }

    /// Counts the request as under way until this is dropped.
    pub(crate) const fn counted(&self) -> Counted<'_, 'a> {
        Counted(self)
    }

    /// Another request that is made to answer this one.
    pub(crate) fn inner(&self, head: Arc<Head>) -> Call<'a> {
        Call::new(self.context, self.budgets, head, self.id.clone())
    }

    pub(crate) fn method(&self) -> &Method {
        &self.head.method
    }

    /// The path as it was sent.
    pub(crate) fn path(&self) -> &str {
        self.head.path()
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

    /// Keeps an answer back that nobody was asked about.
    ///
    /// # Errors
    ///
    /// 500, where the route has to be asked for and its handler forgot to.
    pub(crate) fn check_authorized(&self) -> Result<(), ApiError> {
        let is_open = self.entered.get().is_some_and(|entered| entered.actions.is_none());
        if is_open || self.is_asked.load(Ordering::Relaxed) {
            return Ok(());
        }
        tracing::error!(route = self.route(), "BUG: nobody was asked whether this may be answered");
        Err(ApiError::internal())
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
        let is_told = is_about_what_is_there && self.is_allowed.load(Ordering::Relaxed);
        if !is_told || self.query().is_ok_and(|query| query.first(AS_OF).is_some()) {
            return None;
        }
        self.context.projection.snapshot()?.revision
    }

    /// Whether this may be what the request is let in by: the first action has to be one of the route's.
    fn may_ask(&self, action: &Action<'_>) -> bool {
        let is_first = !self.is_asked.swap(true, Ordering::Relaxed);
        let actions = self.entered.get().and_then(|entered| entered.actions);
        !is_first || actions.is_none_or(|is_one| is_one(action))
    }

    /// Who sends the request, as the hook says, if there is one; it is asked once.
    ///
    /// # Errors
    ///
    /// What the hook answers; 500 if it panics.
    pub(crate) async fn identity(&self) -> Result<&Identity, ApiError> {
        let asked = || identify(&self.context.access.guard, &self.head, &self.id);
        Ok(self.identity.get_or_try_init(asked).await?)
    }

    /// Asks the hook, if there is one, who it is, if it has not said yet, and whether they may. One that
    /// is open knows nobody, and most reads go by it: it is only asked the second.
    ///
    /// # Errors
    ///
    /// What the hook answers; 500 if it panics; 403 for a write where all are for other instances.
    pub(crate) async fn authorize(&self, action: Action<'_>) -> Result<Allowed, ApiError> {
        if !self.may_ask(&action) {
            tracing::error!(route = self.route(), ?action, "BUG: the table of routes has no such action");
            return Err(ApiError::internal());
        }
        if self.context.is_follower() && action.is_write() {
            return Err(ErrorObject::new(Code::FORBIDDEN, FOLLOWER_WRITES_NOTHING).into());
        }
        let answer = self.ask(action).await;
        self.context
            .telemetry
            .metrics
            .iter()
            .for_each(|metrics| metrics.authorized(&action, answer.as_ref().map(drop)));
        let allowed = answer?;
        self.is_allowed.store(true, Ordering::Relaxed);
        Ok(allowed)
    }

    async fn ask(&self, action: Action<'_>) -> Result<Allowed, Denied> {
        let Self { context, head, id, .. } = self;
        if !context.access.guard.is_open() {
            self.identity.get_or_try_init(|| identify(&context.access.guard, head, id)).await?;
        }
        ask(&context.access.guard, head, id, action).await
    }

    /// Reads the whole body of a write, of those whom the hook knows and who may write at all: nothing is kept of
    /// what others send.
    ///
    /// # Errors
    ///
    /// The outer ones are those of [`identity`](Self::identity). The inner ones, those of
    /// [`Body::collect`], are for whoever may do what is asked for, and told after authorization.
    pub(crate) async fn collect(&self, body: &mut Body) -> Result<Result<Bytes, ApiError>, ApiError> {
        let sender = self.known().await?;
        if self.context.is_follower() || !self.identity().await?.may_write {
            // Authorization says why.
            return Ok(Err(Denied::forbidden().into()));
        }
        Ok(self.collect_of(sender, body).await)
    }

    /// Whoever sends the request, if the hook knows them.
    ///
    /// # Errors
    ///
    /// Those of [`identity`](Self::identity).
    pub(crate) async fn known(&self) -> Result<Sender, ApiError> {
        self.identity().await?;
        Ok(Sender::Known(self.taker()))
    }

    /// Whoever sends the request, and need not be known.
    pub(crate) fn stranger(&self) -> Sender {
        Sender::Stranger(Taker::Unnamed(self.head.line.network()))
    }

    /// Who has what the request takes, as far as that is known by now.
    fn taker(&self) -> Taker {
        let actor = self.identity.get().map(|identity| &identity.actor);
        match actor.filter(|actor| **actor != Actor::anonymous()) {
            Some(actor) => Taker::Named(actor.clone()),
            None => Taker::Unnamed(self.head.line.network()),
        }
    }

    /// Reads the whole body of this sender.
    ///
    /// # Errors
    ///
    /// Those of [`Body::collect`].
    pub(crate) async fn collect_of(&self, sender: Sender, body: &mut Body) -> Result<Bytes, ApiError> {
        body.collect(&self.context.settings.limits.requests, self.budgets.bodies.room(sender)).await
    }

    /// The same for as long as the answer goes on.
    pub(crate) fn caller(&self) -> Caller {
        let Self { context, head, id, .. } = self;
        Caller {
            guard: context.access.guard.clone(),
            metrics: context.telemetry.metrics.clone(),
            head: Arc::clone(head),
            id: id.clone(),
            clock: context.clock,
        }
    }

    /// What is served now; the whole request keeps to it.
    ///
    /// # Errors
    ///
    /// 503 until the repository has been read for the first time: an empty list would be a lie.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, ApiError> {
        let projection = &self.context.projection;
        projection.snapshot().ok_or_else(|| ApiError::unread(projection.trouble().as_deref()))
    }

    /// The history up to what is served now, for as long as the request is answered: questions to it end when
    /// the client leaves.
    ///
    /// # Errors
    ///
    /// 503 while it is being read and longer than one likes to wait, or can't be read.
    pub(crate) async fn past(&self) -> Result<View, ApiError> {
        let asker = self.asking.0.get_or_init(Asker::default);
        Ok(self.history().await?.1.asked_by(asker.clone()))
    }

    /// The same for whatever is done longer than that, with what follows it.
    ///
    /// # Errors
    ///
    /// As [`past`](Self::past).
    pub(crate) async fn history(&self) -> Result<(&History, View), ApiError> {
        // Where nothing can be read that is told: the history begins behind it.
        let late = || {
            let reading = "The history is still being read; try again shortly.";
            let still = || ApiError::unavailable(reading, HISTORY_RETRY_AFTER).reaching(Limit::HistoryWait);
            self.snapshot().err().unwrap_or_else(still)
        };
        let history = self.context.history.as_ref().ok_or_else(late)?;
        let view =
            tokio::time::timeout(self.context.settings.limits.answers.history_wait_max(), history.ready())
                .await;
        Ok((history, view.map_err(|_| late())??))
    }

    /// No commit ever had this collection, which may be there all the same, saved and not committed.
    pub(crate) fn no_history_of(&self, key: &Key) -> ApiError {
        let served = self.context.projection.snapshot();
        if served.is_some_and(|snapshot| snapshot.get(key.as_str()).is_some_and(|entry| entry.uncommitted)) {
            let detail = format!("Collection '{key}' has no history yet: its file is not committed.");
            return ApiError::new(Code::NOT_FOUND, detail);
        }
        ApiError::no_such_collection(key.as_str())
    }

    /// Who deleted a collection and when, in a sentence, for those who may audit it. A history that is
    /// not there yet is not waited for.
    pub(crate) async fn deletion_of(&self, key: &Key) -> Option<String> {
        let history = self.context.history.as_ref()?;
        self.authorize(Action::ListEvents { key: Some(key) }).await.ok()?;
        let view = history.view().await.ok()?;
        let filter = Filter { collections: vec![key.clone()], ..Filter::default() };
        let found = self.looking(move || Ok(view.events(&filter, &Page::first(1))?.events)).await.ok()?;
        let last = found.first().filter(|event| event.action == history::Action::Deleted)?;
        let at = last.commit.at.to_rfc3339_opts(SecondsFormat::Secs, true);
        Some(format!(
            "It was deleted by {} at {at}, by the commit {}.",
            last.commit.actor.name(),
            last.commit.revision
        ))
    }

    /// The room of an answer to the request.
    pub(crate) fn answer_room(&self) -> AnswerRoom {
        AnswerRoom::of(&self.budgets.answers, self.taker())
    }

    /// The same answer, counted among those under way if it is large.
    ///
    /// # Errors
    ///
    /// 503 when those take too much.
    pub(crate) fn with_room(&self, reply: Reply) -> Result<Reply, ApiError> {
        if reply.body().len() <= answers::FREE_BYTES { Ok(reply) } else { reply.counted(self.answer_room()) }
    }

    /// Looks into the past where waiting for the disk is no harm to other requests, and not with too many at a time.
    ///
    /// # Errors
    ///
    /// What looking says; 503 if there is no room for it in time, 500 if it panics.
    pub(crate) async fn looking<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.looking_on(look).await.map(|(found, _)| found)
    }

    /// The same for an answer, which is counted before others may look: so there are never more that are not counted
    /// than places.
    ///
    /// # Errors
    ///
    /// As [`looking`](Self::looking); 503 when the answers under way take too much.
    pub(crate) async fn answering(
        &self,
        answer: impl FnOnce() -> Result<Reply, ApiError> + Send + 'static,
    ) -> Result<Reply, ApiError> {
        let room = self.answer_room();
        self.looking(move || answer()?.counted(room)).await
    }

    /// The same as [`looking`](Self::looking) for whoever has more to do with what was found, and keeps the place for
    /// as long as that takes: what is found may be large.
    ///
    /// # Errors
    ///
    /// As [`looking`](Self::looking).
    pub(crate) async fn looking_on<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<(T, OwnedSemaphorePermit), ApiError> {
        let place = self.budgets.question().await?;
        // The place is with the thread that looks: it may go on when nobody waits any more.
        let mut looked = tokio::task::spawn_blocking(move || Ok((look()?, place)));
        let looked = tokio::select! {
            looked = &mut looked => looked,
            () = self.left() => {
                self.asking.0.get_or_init(Asker::default).leave();
                looked.await
            }
        };
        looked.unwrap_or_else(|_| Err(ApiError::internal()))
    }

    /// Makes something long off the threads that answer, as soon as it is its turn.
    ///
    /// # Errors
    ///
    /// 500 if making it panics.
    pub(crate) async fn making<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = self.budgets.list().await;
        let made = tokio::task::spawn_blocking(move || {
            let made = make();
            drop(place);
            made
        });
        made.await.map_err(|_| ApiError::internal())
    }

    /// Waits until the client has left. One that only says that it has nothing to add looks the same, and is
    /// waited with for a while.
    async fn left(&self) {
        self.head.line.ended().await;
        tokio::time::sleep(HALF_CLOSED_WAIT).await;
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

    /// The decoded query.
    ///
    /// # Errors
    ///
    /// 400 when it is not UTF-8.
    pub(crate) fn query(&self) -> Result<Query, ApiError> {
        Query::parse(self.raw_query())
    }

    /// Path and query as they were asked for.
    pub(crate) fn link(&self) -> String {
        match self.raw_query() {
            "" => self.path().to_owned(),
            query => format!("{}?{query}", self.path()),
        }
    }
}

/// A request that is being answered, for whoever counts them.
pub(crate) struct Counted<'c, 'a>(&'c Call<'a>);

impl Counted<'_, '_> {
    /// It was answered.
    pub(crate) fn answered(self, reply: &Reply) {
        let Some(began) = self.0.began else { return };
        if self.0.entered.get().is_none() {
            self.0.enter(NOWHERE, None);
        }
        let took = began.elapsed();
        if let Some((metrics, place)) = self.0.context.telemetry.metrics.as_ref().zip(self.place()) {
            metrics.answered(place, reply.status(), took);
        }
        if let Some(log) = &self.0.context.telemetry.access_log {
            self.log(log, reply, took);
        }
    }

    fn log(&self, log: &AccessLog, reply: &Reply, took: Duration) {
        let call = self.0;
        let revision = reply.revision().map(|revision| hex(revision.as_bytes()));
        log.note(&Answered {
            at: call.context.clock.now(),
            method: call.method().as_str(),
            route: call.route().unwrap_or(NOWHERE),
            status: reply.status().as_u16(),
            duration: took,
            bytes: if *call.method() == Method::HEAD { 0 } else { reply.body().len() },
            actor: call.identity.get().map(|identity| identity.actor.name()),
            request_id: Some(call.id.as_str()),
            revision: revision.as_ref().map(<[u8; 40]>::as_slice),
            traceparent: id::traceparent(call.headers()),
        });
    }

    fn place(&self) -> Option<Place> {
        self.0.entered.get()?.place
    }
}

impl Drop for Counted<'_, '_> {
    fn drop(&mut self) {
        if let Some((metrics, place)) = self.0.context.telemetry.metrics.as_ref().zip(self.place()) {
            metrics.end(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;
    use crate::http::testing::{context, key};

    #[tokio::test]
    async fn an_answer_leaves_only_after_its_route_s_action_was_asked_about() {
        let context = context();
        let limits = &context.settings.limits;
        let budgets = Budgets::of(&limits.requests, &limits.answers);
        let call = || {
            let (head, _) = Head::parted(Request::new(String::new()), Arc::default());
            let id = RequestId::of(&head.headers, context.clock);
            Call::new(&context, &budgets, Arc::new(head), id)
        };
        let key = key("posts");
        let reads: Actions = |action| matches!(action, Action::Read { .. });

        let asked = call();
        asked.enter("/collections/{key}", Some(reads));
        assert!(asked.check_authorized().is_err(), "its handler forgot to ask");
        asked.authorize(Action::Read { key: &key }).await.unwrap();
        asked.check_authorized().unwrap();
        asked.authorize(Action::ReadPast { key: &key }).await.expect("what else is asked is its own affair");

        let mistaken = call();
        mistaken.enter("/collections/{key}", Some(reads));
        assert!(mistaken.authorize(Action::List).await.is_err(), "another action than the table's");

        let open = call();
        open.enter("/livez", None);
        open.check_authorized().unwrap();
    }
}
