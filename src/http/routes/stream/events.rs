//! `GET /events` with `Accept: text/event-stream`: each event once, in order, as it happens.
//!
//! ```text
//! event:updated          event:created            event:head
//! id:41d7a3e…            id:9fceb02…/2            id:9fceb02…
//! data:{"type": …}       data:{"type": …}         data:{"revision":"9fceb02…"}
//! ```
//!
//! Each connection asks for the next events after it has taken the previous ones. A slow reader delays no one
//! else, and receives `reset` when it has fallen too far behind. Events that are read together are sent together.
//! Each message is built once, for its first subscriber.
//!
//! The `id` of an event is the position that its reader has reached. A client that reconnects sends it in
//! `Last-Event-ID`, after any time and to any process that serves the repository.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use crate::domain::Revision;
use crate::engine::history::{EventRecord, Filter, Followed, KeyVisibility, Position, Subscription, View};
use crate::http::authorize::{Action, Allowed};
use crate::http::jsonapi::document::history;
use crate::http::jsonapi::document::history::EVENT;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::query;
use crate::http::jsonapi::query::{EventScope, Fields};
use crate::http::min_revision;
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::routes::events::selection::{EventSelection, fetch_queried_revisions, filter};
use crate::http::routes::stream::{CHUNK_BYTES_MAX, Permission, Source, answer, last_event_id, push_message};

/// `GET /events` and `GET /collections/:key/events`. `scope` says which parameters the path takes.
pub(crate) async fn events(
    call: &Call<'_>,
    wanted: EventSelection,
    scope: EventScope,
) -> Result<Reply, ApiError> {
    let resumed = last_event_id(call).map(position);
    if let Some(position) = resumed {
        Box::pin(min_revision::fetch_for(call, position.revision)).await;
    }
    let permission =
        Permission::take(call, wanted.key().cloned(), |key| Action::StreamEvents { key }).await?;
    let allowed = wanted.restricted_to(permission.allowed.clone())?;
    fetch_queried_revisions(call).await;
    let (history, view) = call.live_history().await?;
    let collections = wanted.known(call, &view)?;
    let asked = query::events(&call.query()?, scope)?;
    let head = view.head();
    let follow = wanted.follows();
    let (filter, fields, resumed) = call
        .query_history(move || {
            let resumed = resumed.map(|position| known_or_nowhere(&view, position));
            let filter = Filter { follow, ..filter(&view, &asked, collections, &allowed)? };
            Ok((filter, asked.fields, resumed))
        })
        .await?;
    let subscription = match (resumed, &filter.since) {
        (Some(position), _) => history.subscribe(Some(position), filter),
        (None, Some(_)) => history.subscribe_from_start(filter),
        (None, None) => history.subscribe(None, filter),
    };
    let heartbeat = call.context.settings.limits.answers.heartbeat();
    Ok(answer(call, EventSource { subscription, fields, heartbeat, permission }).of_revision(head))
}

/// Parses the position that the client has reached. A text that is not a position was never sent to any client, so
/// it is treated like an unknown position and leads to `reset`.
fn position(text: &str) -> Position {
    text.parse().unwrap_or_else(|_| nowhere())
}

/// A position that no history has.
fn nowhere() -> Position {
    Position::from(Revision::new([0; 20]))
}

/// Returns the position, or [`nowhere`] if its commit has fewer events than it says: it was never sent either.
fn known_or_nowhere(view: &View, position: Position) -> Position {
    let Some(seen) = position.seen else { return position };
    let events_after = |seen| {
        let place = Position { seen: Some(seen), ..position };
        view.events_after(Some(place), &Filter::default())
    };
    if events_after(seen.saturating_sub(1)) > events_after(seen) { position } else { nowhere() }
}

struct EventSource {
    subscription: Subscription,
    fields: Fields,
    heartbeat: Duration,
    permission: Permission,
}

impl Source for EventSource {
    async fn next(&mut self) -> Option<Bytes> {
        let mut chunk = Vec::new();
        while chunk.is_empty() {
            let is_mid_batch = self.subscription.has_read_ahead();
            let followed = self.followed().await?;
            if (!is_mid_batch || self.permission.is_old()) && !self.is_still_authorized().await {
                return None;
            }
            match followed {
                Some(Followed::Event(event)) => self.append_batch(event, &mut chunk),
                Some(Followed::Reset(revision)) => return Some(reset(revision)),
                Some(Followed::CaughtUp(_)) | None => return Some(self.head()),
            }
        }
        Some(chunk.into())
    }
}

impl EventSource {
    /// Appends an event and those that were read with it, as far as the reader could see them at the last
    /// authorization.
    fn append_batch(&mut self, first: Arc<EventRecord>, chunk: &mut Vec<u8>) {
        let mut next = Some(first);
        while let Some(event) = next {
            if self.permission.allowed.sees(&event.key) {
                chunk.extend_from_slice(&message(&event, &self.fields, &self.permission.allowed));
            }
            let is_full = chunk.len() >= CHUNK_BYTES_MAX;
            next = if is_full { None } else { self.subscription.read_ahead() };
        }
    }

    /// Returns the next item, `Some(None)` when a heartbeat is due or the client may have left, and `None` at the end.
    async fn followed(&mut self) -> Option<Option<Followed>> {
        let followed = tokio::select! {
            followed = self.subscription.next() => followed,
            () = tokio::time::sleep(self.heartbeat) => return Some(None),
            () = self.permission.caller.left() => return Some(None),
        };
        match followed {
            Ok(followed) => followed.map(Some),
            Err(error) => {
                // The client reconnects and resumes after its last event.
                tracing::warn!(
                    error = crate::telemetry::error_chain(&error),
                    "a stream of events ends early"
                );
                None
            }
        }
    }

    /// Asks the authorizer whether the stream may continue. From now on its answer decides what the reader sees.
    async fn is_still_authorized(&mut self) -> bool {
        let is_allowed = self.permission.renew().await;
        self.subscription.see(self.permission.allowed.visibility.clone().map(KeyVisibility));
        is_allowed
    }

    /// The heartbeat. It has a position to resume from only when everything up to there has been sent.
    fn head(&self) -> Bytes {
        let place = self.subscription.head_if_caught_up().map(|revision| revision.to_string());
        head_message("head", place.as_deref(), self.subscription.head())
    }
}

/// The message for an event, built once for all readers who see the whole event.
fn message(event: &EventRecord, fields: &Fields, allowed: &Allowed) -> Bytes {
    let make = || {
        let mut out = Vec::new();
        push_message(event.action.as_str(), Some(&event.position.to_string()), &mut out, |out| {
            out.extend_from_slice(&history::event(event, fields, allowed));
        });
        out.into()
    };
    let is_whole = fields.wanted(EVENT).is_none() && history::is_whole(event, allowed);
    if is_whole { event.memo_streamed.get_or_make(make) } else { make() }
}

/// Tells the reader that its events are no longer in the history. Without a commit there is no position to resume
/// from.
fn reset(revision: Option<Revision>) -> Bytes {
    let place = revision.map(|revision| revision.to_string()).unwrap_or_default();
    head_message("reset", Some(&place), revision)
}

fn head_message(name: &str, place: Option<&str>, head: Option<Revision>) -> Bytes {
    let data = json!({"revision": head.map(|revision| revision.to_string())}).to_string();
    let mut out = Vec::new();
    push_message(name, place, &mut out, |out| out.extend_from_slice(data.as_bytes()));
    out.into()
}
