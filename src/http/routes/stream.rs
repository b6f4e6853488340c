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
//! takes nothing at all loses its connection like any other.
//!
//! The `id` of an event is how far whoever has got it has come; a client that comes back says so
//! in `Last-Event-ID`, after any time and to any process that serves the repository.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use warp::http::HeaderName;
use warp::reply::{Reply as _, Response};
use warp::sse::Event;

use super::super::authorize::Action;
use super::super::call::{Call, looking};
use super::super::jsonapi::error::ApiError;
use super::super::jsonapi::negotiate;
use super::super::jsonapi::past;
use super::super::jsonapi::query::{self, EventScope, Fields};
use super::super::reply;
use super::events::{Wanted, filter};
use crate::domain::Revision;
use crate::engine::history::{EventRecord, Followed, Position, Subscription};
use crate::shutdown::Shutdown;

/// The media type of a stream.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Opens a stream.
pub(super) async fn open(call: &Call<'_>) -> Result<Response, ApiError> {
    negotiate::content_type_without_body(call.headers())?;
    let wanted = Wanted::of(call);
    let allowed = call.authorize(Action::StreamEvents { key: wanted.key() }).await?;
    let (history, view) = call.history().await?;
    let key = wanted.known(&view)?;
    let scope = EventScope { collection: true, pages: false, cursor_profile: false };
    let asked = query::events(&call.query()?, scope)?;
    let head = view.head();
    let (filter, fields) = looking(move || Ok((filter(&view, &asked, key, allowed)?, asked.fields))).await?;
    let subscription = match (last_event_id(call), &filter.since) {
        (Some(position), _) => history.subscribe(Some(position), filter),
        (None, Some(_)) => history.subscribe_from_start(filter),
        (None, None) => history.subscribe(None, filter),
    };
    let (heartbeat, shutdown) = (call.context.limits.heartbeat(), call.context.shutdown.clone());
    let teller = Teller { subscription, fields, heartbeat, shutdown };
    Ok(reply::of_revision(warp::sse::reply(Told::by(teller)).into_response(), head, None))
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
}

impl Teller {
    /// What to tell next, and who tells what comes after; `None` when the service stops.
    async fn tell(mut self) -> Option<(Event, Self)> {
        let shutdown = self.shutdown.clone();
        let next = tokio::select! {
            biased;
            () = shutdown.begun() => None,
            next = self.next() => next,
        };
        Some((next?, self))
    }

    /// What to tell next; `None` at the end.
    async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            followed = self.subscription.next() => match followed {
                Ok(Some(Followed::Event(event))) => Some(happened(&event, &self.fields)),
                Ok(Some(Followed::Reset(revision))) => Some(reset(revision)),
                Ok(None) => None,
                Err(error) => {
                    // The client comes back and goes on from what it has got.
                    tracing::warn!(error = crate::engine::chain(&error), "a stream of events ends early");
                    None
                }
            },
            () = tokio::time::sleep(self.heartbeat) => Some(self.head()),
        }
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

fn happened(event: &EventRecord, fields: &Fields) -> Event {
    let resource = past::event(event, fields);
    let data = String::from_utf8_lossy(&resource);
    Event::default().id(event.position.to_string()).event(event.action.as_str()).data(data)
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

type Next = Pin<Box<dyn Future<Output = Option<(Event, Teller)>> + Send>>;

impl Told {
    fn by(teller: Teller) -> Self {
        Self { next: Mutex::new(Some(Box::pin(teller.tell()))) }
    }
}

impl Stream for Told {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let slot = self.next.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = slot else { return Poll::Ready(None) };
        let Some((event, teller)) = ready!(next.as_mut().poll(cx)) else {
            *slot = None;
            return Poll::Ready(None);
        };
        *slot = Some(Box::pin(teller.tell()));
        Poll::Ready(Some(Ok(event)))
    }
}
