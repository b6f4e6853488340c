//! Endless answers, as server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! Every stream begins with a comment, so that proxies see at once that there is an answer, and with the time
//! after which a browser reconnects when the stream ends. Proxies are asked not to buffer it (with
//! `X-Accel-Buffering: no`, which nginx supports).
//!
//! Permission to follow can be withdrawn. The authorizer is therefore asked again about the same request before
//! anything is sent, once for everything that is read together. If it refuses, the stream ends, and a client that
//! reconnects gets the reason. A stream also ends when its client stops reading, as on any other connection, and
//! when the service stops. A client that has closed its sending half may have left. The stream finds out by
//! sending something, long before the heartbeat.

mod events;
mod served;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;
use warp::http::{HeaderName, HeaderValue};
use warp::reply::Reply as _;

use crate::domain::Key;
use crate::http::authorize::{Action, Allowed};
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::negotiate;
use crate::http::metrics::Metrics;
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::request::caller::Caller;
pub(crate) use crate::http::routes::stream::events::events;
pub(crate) use crate::http::routes::stream::served::served;
use crate::shutdown::Shutdown;

const EVENT_STREAM: &str = "text/event-stream";

/// The beginning of a stream: a comment, and the reconnection time in milliseconds.
const BEGINNING: &[u8] = b":\nretry: 2000\n\n";

/// A chunk ends with the message that reaches this length.
const CHUNK_BYTES_MAX: usize = 16 * 1024;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Reports whether the client asks for a stream.
pub(crate) fn is_wanted(call: &Call<'_>) -> bool {
    negotiate::prefers(call.headers(), EVENT_STREAM)
}

/// The id of the last event that the client has received.
fn last_event_id<'a>(call: &'a Call<'_>) -> Option<&'a str> {
    let text = call.headers().get(LAST_EVENT_ID)?.to_str().unwrap_or("?").trim();
    (!text.is_empty()).then_some(text)
}

/// Appends a message. A client that has received it may reconnect with its `id`. Neither JSON nor an id contains
/// line breaks, so no line ends early.
fn push_message(name: &str, id: Option<&str>, out: &mut Vec<u8>, data: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"event:");
    out.extend_from_slice(name.as_bytes());
    if let Some(id) = id {
        out.extend_from_slice(b"\nid:");
        out.extend_from_slice(id.as_bytes());
    }
    out.extend_from_slice(b"\ndata:");
    data(out);
    out.extend_from_slice(b"\n\n");
}

/// Produces the chunks of one stream.
trait Source: Send + Sized + 'static {
    /// Returns the next chunk; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

fn answer(call: &Call<'_>, source: impl Source) -> Reply {
    let follower = Follower::new(call.context.telemetry.metrics.clone());
    let response =
        warp::reply::stream(Following::by(source, call.context.shutdown.clone(), follower)).into_response();
    Reply::stream(EVENT_STREAM, response).with(X_ACCEL_BUFFERING, HeaderValue::from_static("no"))
}

/// An open stream, counted in the metrics.
struct Follower(Option<Arc<Metrics>>);

impl Follower {
    fn new(metrics: Option<Arc<Metrics>>) -> Self {
        metrics.iter().for_each(|metrics| metrics.subscribers.add_one());
        Self(metrics)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.iter().for_each(|metrics| metrics.subscribers.take_one());
    }
}

/// What the reader of a stream may see, according to the last authorization.
struct Permission {
    caller: Caller,
    /// The collection that is followed, if it is only one.
    key: Option<Key>,
    action: fn(Option<&Key>) -> Action<'_>,
    allowed: Allowed,
    asked: Instant,
    /// How long an authorization holds for events that were read together.
    age_max: Duration,
}

impl Permission {
    /// Authorizes the stream for the first time.
    async fn take(
        call: &Call<'_>,
        key: Option<Key>,
        action: fn(Option<&Key>) -> Action<'_>,
    ) -> Result<Self, ApiError> {
        negotiate::content_type_without_body(call.headers())?;
        let allowed = call.authorize(action(key.as_ref())).await?;
        let age_max = call.context.settings.limits.policy.policy_age_max();
        Ok(Self { caller: call.caller(), key, action, allowed, asked: Instant::now(), age_max })
    }

    fn is_old(&self) -> bool {
        self.asked.elapsed() >= self.age_max
    }

    /// Asks the authorizer again. Returns `false` if the reader may no longer follow.
    async fn renew(&mut self) -> bool {
        let answer = self.caller.authorize((self.action)(self.key.as_ref())).await;
        self.asked = Instant::now();
        match answer {
            Ok(allowed) => self.allowed = allowed,
            Err(denied) => {
                let (status, id) = (denied.status().as_u16(), self.caller.request_id());
                self.caller.note_dropped();
                tracing::info!(
                    request.id = id,
                    status,
                    "a stream ends, its reader may not follow it any more"
                );
                return false;
            }
        }
        true
    }
}

/// The body of one stream.
struct Following<T> {
    /// `None` at the end. There is never contention: the mutex only makes the body `Sync`.
    next: Mutex<Option<Next<T>>>,
    shutdown: Shutdown,
    _follower: Follower,
}

type Next<T> = Pin<Box<dyn Future<Output = Option<(Bytes, T)>> + Send>>;

impl<T: Source> Following<T> {
    fn by(source: T, shutdown: Shutdown, follower: Follower) -> Self {
        let beginning = std::future::ready(Some((Bytes::from_static(BEGINNING), source)));
        Self { next: Mutex::new(Some(Box::pin(beginning))), shutdown, _follower: follower }
    }
}

/// Returns the next chunk, and the source of those after it; `None` at the end and when the service stops.
async fn next<T: Source>(mut source: T, shutdown: Shutdown) -> Option<(Bytes, T)> {
    let chunk = tokio::select! {
        biased;
        () = shutdown.begun() => None,
        chunk = source.next() => chunk,
    };
    Some((chunk?, source))
}

impl<T: Source> Stream for Following<T> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let shutdown = self.shutdown.clone();
        let slot = self.next.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(coming) = slot else { return Poll::Ready(None) };
        let Some((chunk, source)) = ready!(coming.as_mut().poll(cx)) else {
            *slot = None;
            return Poll::Ready(None);
        };
        *slot = Some(Box::pin(next(source, shutdown)));
        Poll::Ready(Some(Ok(chunk)))
    }
}
