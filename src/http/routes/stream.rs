//! `GET /events` with `Accept: text/event-stream`: each event once, in order, as it happens.
//!
//! ```text
//! id:41d7a3e…            id:9fceb02…/2            id:9fceb02…
//! event:updated          event:created            event:head
//! data:{"type": …}       data:{"type": …}         data:{"revision":"9fceb02…"}
//! ```
//!
//! A task of its own asks its subscription for what comes next when the connection has taken what
//! came before: a slow reader keeps nobody waiting, and is told `reset` when it has fallen too far
//! behind. One that takes nothing at all loses its connection like any other.
//!
//! The `id` of an event is how far whoever has got it has come; a client that comes back says so
//! in `Last-Event-ID`, after any time and to any process that serves the repository.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::mpsc;
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

/// How many events are ready for a connection that has not taken them yet: a reader that is
/// further behind is judged by the history, not by a queue.
const READY_LEN_MAX: usize = 1;

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
    let (tell, told) = mpsc::channel(READY_LEN_MAX);
    let shutdown = call.context.shutdown.clone();
    let teller = Teller { subscription, fields, heartbeat: call.context.limits.heartbeat(), tell };
    call.context.shutdown.spawn(teller.run(shutdown));
    Ok(reply::of_revision(warp::sse::reply(Told(told)).into_response(), head, None))
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
    tell: mpsc::Sender<Event>,
}

impl Teller {
    /// Tells until the client leaves or the service stops.
    async fn run(mut self, shutdown: Shutdown) {
        let tell = self.tell.clone();
        loop {
            let next = tokio::select! {
                biased;
                () = shutdown.begun() => return,
                () = tell.closed() => return,
                next = self.next() => next,
            };
            let Some(event) = next else { return };
            let sent = tokio::select! {
                sent = tell.send(event) => sent,
                () = shutdown.begun() => return,
            };
            if sent.is_err() {
                return;
            }
        }
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
struct Told(mpsc::Receiver<Event>);

impl Stream for Told {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(Ok))
    }
}
