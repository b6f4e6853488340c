//! Answers that go on for ever, as server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! Every stream begins with a comment, so that whoever stands in between sees at once that there is an
//! answer, and with the time after which a browser is to come back when it ends. Nobody in between is to
//! keep anything back (`X-Accel-Buffering: no`, which nginx knows).
//!
//! Whoever may follow now need not be allowed to for ever: the authorizer is asked again about the
//! same request before anything is sent, once for all that is read together. When it refuses the
//! stream ends, and a client that comes back is told why. So does one whose reader takes nothing, like
//! any other connection, and every one when the service stops. Whether a reader that sends no more has
//! left is found out by telling it something, long before the heartbeat.

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

/// How a stream begins: a comment, and after how many milliseconds to come back.
const BEGINNING: &[u8] = b":\nretry: 2000\n\n";

/// What is sent at once ends with the message that reaches this length.
const CHUNK_BYTES_MAX: usize = 16 * 1024;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Whether a stream is asked for.
pub(crate) fn is_wanted(call: &Call<'_>) -> bool {
    negotiate::prefers(call.headers(), EVENT_STREAM)
}

/// What the client was told last.
fn last_event_id<'a>(call: &'a Call<'_>) -> Option<&'a str> {
    let text = call.headers().get(LAST_EVENT_ID)?.to_str().unwrap_or("?").trim();
    (!text.is_empty()).then_some(text)
}

/// Appends a message; who has it may come back with its `id`. No line of it ends early: JSON has no line ends, and
/// neither has a place.
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

/// What tells one connection of what happens.
trait Source: Send + Sized + 'static {
    /// What to tell next; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// The answer that a source gives.
fn answer(call: &Call<'_>, source: impl Source) -> Reply {
    let follower = Follower::new(call.context.telemetry.metrics.clone());
    let response =
        warp::reply::stream(Following::by(source, call.context.shutdown.clone(), follower)).into_response();
    Reply::stream(EVENT_STREAM, response).with(X_ACCEL_BUFFERING, HeaderValue::from_static("no"))
}

/// One who follows, for whoever counts them.
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

/// What the reader of a stream may hear, as the authorizer said last.
struct Permission {
    caller: Caller,
    /// The collection that is followed, if it is one.
    key: Option<Key>,
    action: fn(Option<&Key>) -> Action<'_>,
    allowed: Allowed,
    asked: Instant,
    /// For how long an answer holds for what was read together.
    age_max: Duration,
}

impl Permission {
    /// Asks for the first time.
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

    /// Asks again; `false` when the reader may hear nothing any more.
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

/// What one connection is told, as it comes.
struct Following<T> {
    /// `None` at the end. Only one ever looks at it, but a body may be shared between threads.
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

/// What comes next, and who tells what comes after; `None` when the service stops.
async fn next<T: Source>(mut source: T, shutdown: Shutdown) -> Option<(Bytes, T)> {
    let told = tokio::select! {
        biased;
        () = shutdown.begun() => None,
        told = source.next() => told,
    };
    Some((told?, source))
}

impl<T: Source> Stream for Following<T> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let shutdown = self.shutdown.clone();
        let slot = self.next.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(coming) = slot else { return Poll::Ready(None) };
        let Some((told, source)) = ready!(coming.as_mut().poll(cx)) else {
            *slot = None;
            return Poll::Ready(None);
        };
        *slot = Some(Box::pin(next(source, shutdown)));
        Poll::Ready(Some(Ok(told)))
    }
}
