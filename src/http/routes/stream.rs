//! `GET /events` with `Accept: text/event-stream`: each event once, in order, as it happens.
//!
//! ```text
//! id:41d7a3e…            id:9fceb02…/2            id:9fceb02…
//! event:updated          event:created            event:head
//! data:{"type": …}       data:{"type": …}         data:{"revision":"9fceb02…"}
//! ```
//!
//! The connection itself asks for what comes next when it has taken what came before: a slow
//! reader keeps nobody waiting, and is told `reset` when it has fallen too far behind. One that
//! takes nothing at all loses its connection like any other. What was read together is sent
//! together, each message as it was made for the first who follows along.
//!
//! Whoever may follow now need not be allowed to for ever: the authorizer is asked again about the
//! same request before anything is sent, once for all events that are read together. When it refuses
//! the stream ends, and a client that comes back is told why.
//!
//! The `id` of an event is how far whoever has got it has come; a client that comes back says so
//! in `Last-Event-ID`, after any time and to any process that serves the repository.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;
use warp::http::HeaderName;
use warp::reply::Reply as _;
use warp::sse::Event;

use super::super::authorize::{Action, Allowed};
use super::super::call::{Call, Caller, looking};
use super::super::jsonapi::error::ApiError;
use super::super::jsonapi::negotiate;
use super::super::jsonapi::past::{self, EVENT};
use super::super::jsonapi::query::{self, EventScope, Fields};
use super::super::reply::Reply;
use super::events::{Wanted, filter};
use crate::domain::{Key, Revision};
use crate::engine::history::{EventRecord, Followed, Position, Seeing, Subscription};
use crate::shutdown::Shutdown;

/// The media type of a stream.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// What is sent at once ends with the message that reaches this length.
const CHUNK_BYTES_MAX: usize = 16 * 1024;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Opens a stream.
pub(super) async fn open(call: &Call<'_>) -> Result<Reply, ApiError> {
    negotiate::content_type_without_body(call.headers())?;
    let wanted = Wanted::of(call);
    let allowed = wanted.seen_by(call.authorize(Action::StreamEvents { key: wanted.key() }).await?)?;
    let (history, view) = call.history().await?;
    let collections = wanted.known(call, &view)?;
    let scope = EventScope { collection: true, pages: false, cursor_profile: false };
    let asked = query::events(&call.query()?, scope)?;
    let head = view.head();
    let leave = Leave {
        caller: call.caller(),
        key: wanted.key().cloned(),
        allowed: allowed.clone(),
        asked: Instant::now(),
        age_max: call.context.limits.policy_age_max(),
    };
    let (filter, fields) =
        looking(move || Ok((filter(&view, &asked, collections, &allowed)?, asked.fields))).await?;
    let subscription = match (last_event_id(call), &filter.since) {
        (Some(position), _) => history.subscribe(Some(position), filter),
        (None, Some(_)) => history.subscribe_from_start(filter),
        (None, None) => history.subscribe(None, filter),
    };
    let (heartbeat, shutdown) = (call.context.limits.heartbeat(), call.context.shutdown.clone());
    let teller = Teller { subscription, fields, heartbeat, shutdown, leave };
    let told = warp::reply::stream(Told::by(teller)).into_response();
    Ok(Reply::stream(EVENT_STREAM, told).of_revision(head))
}

/// How far the client has come. A text that is no position is none that anybody was ever told, so
/// it is answered like any unknown one, by `reset`.
fn last_event_id(call: &Call<'_>) -> Option<Position> {
    let text = call.headers().get(LAST_EVENT_ID)?.to_str().unwrap_or("?").trim();
    let nowhere = Position::from(Revision::new([0; 20]));
    (!text.is_empty()).then(|| text.parse().unwrap_or(nowhere))
}

/// What tells one connection of what happens.
struct Teller {
    subscription: Subscription,
    fields: Fields,
    heartbeat: Duration,
    shutdown: Shutdown,
    leave: Leave,
}

/// What the reader of a stream may hear, as the authorizer said last.
struct Leave {
    caller: Caller,
    key: Option<Key>,
    allowed: Allowed,
    asked: Instant,
    /// For how long an answer holds for events that were read together.
    age_max: Duration,
}

impl Leave {
    fn is_old(&self) -> bool {
        self.asked.elapsed() >= self.age_max
    }

    /// Asks again; `false` when the reader may hear nothing any more.
    async fn renew(&mut self) -> bool {
        let answer = self.caller.authorize(Action::StreamEvents { key: self.key.as_ref() }).await;
        self.asked = Instant::now();
        match answer {
            Ok(allowed) => self.allowed = allowed,
            Err(denied) => {
                let (status, id) = (denied.status().as_u16(), self.caller.request_id());
                tracing::info!(
                    request.id = id,
                    status,
                    "a stream of events ends, its reader may not follow it any more"
                );
                return false;
            }
        }
        true
    }
}

impl Teller {
    /// What to tell next, and who tells what comes after; `None` when the service stops.
    async fn tell(mut self) -> Option<(Bytes, Self)> {
        let shutdown = self.shutdown.clone();
        let next = tokio::select! {
            biased;
            () = shutdown.begun() => None,
            next = self.next() => next,
        };
        Some((next?, self))
    }

    /// What to tell next; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let mut told = Vec::new();
        while told.is_empty() {
            let goes_on = self.subscription.has_read_ahead();
            let followed = self.followed().await?;
            if (!goes_on || self.leave.is_old()) && !self.may_go_on().await {
                return None;
            }
            match followed {
                Some(Followed::Event(event)) => self.tell_all(event, &mut told),
                Some(Followed::Reset(revision)) => return Some(bytes(&reset(revision))),
                None => return Some(bytes(&self.head())),
            }
        }
        Some(told.into())
    }

    /// Adds an event and those that were read with it, as far as the reader might see them then.
    fn tell_all(&mut self, first: Arc<EventRecord>, told: &mut Vec<u8>) {
        let mut next = Some(first);
        while let Some(event) = next {
            if self.leave.allowed.sees(&event.key) {
                told.extend_from_slice(&message(&event, &self.fields, &self.leave.allowed));
            }
            let is_full = told.len() >= CHUNK_BYTES_MAX;
            next = if is_full { None } else { self.subscription.read_ahead() };
        }
    }

    /// What follows, or nothing for as long as a heartbeat lasts; `None` at the end.
    async fn followed(&mut self) -> Option<Option<Followed>> {
        let followed = tokio::select! {
            followed = self.subscription.next() => followed,
            () = tokio::time::sleep(self.heartbeat) => return Some(None),
        };
        match followed {
            Ok(followed) => followed.map(Some),
            Err(error) => {
                // The client comes back and goes on from what it has got.
                tracing::warn!(error = crate::engine::chain(&error), "a stream of events ends early");
                None
            }
        }
    }

    /// Whether the reader may hear more; from now on it hears what it may see now.
    async fn may_go_on(&mut self) -> bool {
        let goes_on = self.leave.renew().await;
        self.subscription.see(self.leave.allowed.visibility.clone().map(Seeing));
        goes_on
    }

    /// The heartbeat: a place to resume from only when everything up to it has been told.
    fn head(&self) -> Event {
        let event = Event::default().event("head").data(named(self.subscription.head()));
        match self.subscription.caught_up() {
            Some(revision) => event.id(revision.to_string()),
            None => event,
        }
    }
}

/// What happened, made once for all who want to hear the whole of it.
fn message(event: &EventRecord, fields: &Fields, allowed: &Allowed) -> Bytes {
    if fields.wanted(EVENT).is_none() && past::is_whole(event, allowed) {
        event.streamed.get_or_init(|| bytes(&happened(event, fields, allowed))).clone()
    } else {
        bytes(&happened(event, fields, allowed))
    }
}

fn happened(event: &EventRecord, fields: &Fields, allowed: &Allowed) -> Event {
    let resource = past::event(event, fields, allowed);
    let data = String::from_utf8_lossy(&resource);
    Event::default().id(event.position.to_string()).event(event.action.as_str()).data(data)
}

/// As it is sent.
fn bytes(event: &Event) -> Bytes {
    event.to_string().into()
}

/// What was told is not the past any more; without a commit there is no place to resume from.
fn reset(revision: Option<Revision>) -> Event {
    let id = revision.map(|revision| revision.to_string()).unwrap_or_default();
    Event::default().id(id).event("reset").data(named(revision))
}

fn named(revision: Option<Revision>) -> String {
    serde_json::json!({"revision": revision.map(|revision| revision.to_string())}).to_string()
}

/// The events of one connection as they come.
struct Told {
    /// `None` at the end. Only one ever looks at it, but a body may be shared between threads.
    next: Mutex<Option<Next>>,
}

type Next = Pin<Box<dyn Future<Output = Option<(Bytes, Teller)>> + Send>>;

impl Told {
    fn by(teller: Teller) -> Self {
        Self { next: Mutex::new(Some(Box::pin(teller.tell()))) }
    }
}

impl Stream for Told {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let slot = self.next.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = slot else { return Poll::Ready(None) };
        let Some((told, teller)) = ready!(next.as_mut().poll(cx)) else {
            *slot = None;
            return Poll::Ready(None);
        };
        *slot = Some(Box::pin(teller.tell()));
        Poll::Ready(Some(Ok(told)))
    }
}
