//! `GET /collections` and `GET /collections/:key` as a stream: what is served, and every change to it, committed
//! or not.
//!
//! ```text
//! event:collection        event:ready                        event:removed
//! data:{"type": …}        id:9fceb02…~5d4140…                id:41d7a3e…~09f7e0…
//!                         data:{"syncToken":"9fceb02…~…"}    data:{"type":"media-collection","id":"a"}
//! ```
//!
//! The stream begins with a listing, then `ready`, then changes. An `id` is a [`SyncToken`] whose state the reader
//! knows completely. The events of the listing therefore have none, and of the events of one snapshot only the
//! last has one. A client that reconnects with it receives the differences since then. If these can't be
//! determined, it receives `reset` and everything again.
//!
//! A connection keeps the state that it has sent, which shares its data with the snapshot that it comes from, and
//! compares it with each new snapshot. If many clients follow, it pauses between two comparisons. It skips
//! the states in between, and a slow reader costs the others nothing. A collection that the reader may no longer see
//! is `removed`. One whose kind has changed is `removed` too, before it is sent with its new kind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::BasePath;
use crate::domain::{Key, Kind};
use crate::engine::history::{History, HistoryError};
use crate::engine::{
    Entry, PacedFollower, Projection, ServedChange, Snapshot, SyncToken, VersionDigest, VisibleState,
};
use crate::http::authorize::Action;
use crate::http::jsonapi::document::push_resource;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::query;
use crate::http::jsonapi::query::{FILTER_TYPE, Fields};
use crate::http::jsonapi::resource_type::resource_type;
use crate::http::min_revision;
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::routes::stream::{CHUNK_BYTES_MAX, Permission, Source, answer, last_event_id, push_message};

/// The heartbeat.
const COMMENT: &[u8] = b":\n\n";

/// `GET /collections`, or `GET /collections/:key`, as a stream.
pub(crate) async fn served(call: &Call<'_>, key: Option<Key>) -> Result<Reply, ApiError> {
    let permission = Permission::take(call, key, |key| Action::Follow { key }).await?;
    let filters: &[&str] = if permission.key.is_none() { &[FILTER_TYPE] } else { &[] };
    let query = call.query()?;
    let fields = query::fields_and_others(&query, query::COLLECTION_TYPES, filters)?;
    let of_type = query.first(FILTER_TYPE).map(str::to_owned);
    let wording = Wording { fields, of_type, base: call.context.settings.base_path.clone() };
    let projection = call.context.projection.clone();
    if let Some(id) = last_event_id(call) {
        min_revision::fetch_for_cursor(call, id).await;
    }
    // Before the snapshot is taken, so that the next one is not missed.
    let (news, paced) = (projection.news(), projection.register_follower());
    let snapshot = call.snapshot()?;
    let heartbeat = call.context.settings.limits.answers.heartbeat();
    let mut source = ServedSource {
        shown: shown(&snapshot, &permission),
        last_seen: None,
        queue: VecDeque::new(),
        wording,
        projection,
        news,
        heartbeat,
        silent_until: Instant::now() + heartbeat,
        paced,
        permission,
    };
    match last_event_id(call) {
        None => source.list(),
        Some(id) => {
            let history = call
                .context
                .history
                .clone()
                .zip(Some(call.context.settings.limits.answers.history_wait_max()));
            source.last_seen = Some((id.to_owned(), history));
        }
    }
    Ok(answer(call, source).of_snapshot(&snapshot))
}

fn shown(snapshot: &Snapshot, permission: &Permission) -> VisibleState {
    VisibleState::of(snapshot, permission.allowed.visible_keys(permission.key.as_ref()))
}

/// The source of one connection's collections.
struct ServedSource {
    /// The state that the reader knows after it has received everything in the queue.
    shown: VisibleState,
    /// The id that the client reconnected with, the history to look it up in, and how long that may take.
    last_seen: Option<(String, Option<(History, Duration)>)>,
    queue: VecDeque<(News, Option<SyncToken>)>,
    wording: Wording,
    projection: Projection,
    news: watch::Receiver<()>,
    heartbeat: Duration,
    /// When the next heartbeat is due.
    silent_until: Instant,
    paced: PacedFollower,
    permission: Permission,
}

enum News {
    Reset,
    Collection(Arc<Entry>),
    Removed(Kind, Key),
    Ready,
}

impl Source for ServedSource {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some((id, history)) = self.last_seen.take() {
            self.resume(&id, history).await;
        }
        loop {
            if !self.queue.is_empty() {
                if self.permission.is_old() && !self.permission.renew().await {
                    return None;
                }
                let chunk = self.chunk();
                if !chunk.is_empty() {
                    return Some(self.sent(chunk));
                }
            }
            let is_time = tokio::select! {
                changed = self.news.changed() => changed.map(|()| false).ok()?,
                () = tokio::time::sleep_until(self.silent_until) => true,
                () = self.permission.caller.left() => true,
            };
            self.paced.wait_out_pause().await;
            let turn = self.paced.acquire_permit().await;
            if !self.permission.renew().await {
                return None;
            }
            self.enqueue_changes();
            self.paced.start_pause();
            drop(turn);
            if is_time && self.queue.is_empty() {
                return Some(self.sent(COMMENT.into()));
            }
        }
    }
}

impl ServedSource {
    fn sent(&mut self, chunk: Bytes) -> Bytes {
        self.silent_until = Instant::now() + self.heartbeat;
        chunk
    }

    /// Queues a listing of everything.
    fn list(&mut self) {
        let wanted = self.shown.catalog.iter().filter(|entry| self.wording.wants(entry.collection.kind()));
        self.queue.extend(wanted.map(|entry| (News::Collection(Arc::clone(entry)), None)));
        self.queue.push_back((News::Ready, Some(self.shown.token.clone())));
    }

    /// Queues the differences from the state that the client knows, or everything if they can't be determined.
    async fn resume(&mut self, id: &str, history: Option<(History, Duration)>) {
        match self.changes_since(id, history).await {
            Ok(changes) => self.enqueue(changes.into_iter().filter(ServedChange::differs)),
            Err(error) => {
                tracing::debug!(error = crate::telemetry::error_chain(&error), "a stream begins anew");
                self.queue.push_back((News::Reset, None));
                self.list();
            }
        }
    }

    /// Returns the differences from the state that an id names.
    async fn changes_since(
        &self,
        id: &str,
        history: Option<(History, Duration)>,
    ) -> Result<Vec<ServedChange>, HistoryError> {
        let token: SyncToken = id.parse()?;
        if token == self.shown.token {
            return Ok(Vec::new());
        }
        let building = HistoryError::Building { done: 0, total: 0 };
        let Some((history, wait_max)) = history else { return Err(building) };
        let view = tokio::time::timeout(wait_max, history.ready()).await.map_err(|_| building)??;
        let (shown, permission) = (self.shown.clone(), &self.permission);
        let (key, allowed) = (permission.key.clone(), permission.allowed.clone());
        // The lookup waits for the disk, and after a restart all clients reconnect at once.
        let turn = self.paced.acquire_permit().await;
        let look = move || {
            let changes = view.changes_since(&token, &shown, allowed.visible_keys(key.as_ref()));
            drop(turn);
            changes
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_else(|_| Err(HistoryError::Gone))
    }

    /// Queues the changes in what is served, or in what the reader may see.
    fn enqueue_changes(&mut self) {
        self.news.mark_unchanged();
        let Some(snapshot) = self.projection.snapshot() else { return };
        let now = shown(&snapshot, &self.permission);
        let changes: Vec<ServedChange> = self.shown.catalog.differences(&now.catalog).map(change).collect();
        self.shown = now;
        self.enqueue(changes);
    }

    fn enqueue(&mut self, changes: impl IntoIterator<Item = ServedChange>) {
        let before = self.queue.len();
        for ServedChange { key, was, now } in changes {
            let was = was.map(|mark| mark.kind).filter(|kind| self.wording.wants(*kind));
            let now = now.filter(|entry| self.wording.wants(entry.collection.kind()));
            if let Some(kind) = was.filter(|kind| now.as_ref().is_none_or(|it| it.collection.kind() != *kind))
            {
                self.queue.push_back((News::Removed(kind, key), None));
            }
            self.queue.extend(now.map(|entry| (News::Collection(entry), None)));
        }
        if self.queue.len() > before
            && let Some((_, id)) = self.queue.back_mut()
        {
            *id = Some(self.shown.token.clone());
        }
    }

    /// Takes the first messages off the queue, as far as the reader may still see them.
    fn chunk(&mut self) -> Bytes {
        let mut out = Vec::new();
        while out.len() < CHUNK_BYTES_MAX
            && let Some((news, id)) = self.queue.pop_front()
        {
            if !matches!(&news, News::Collection(entry) if !self.permission.allowed.sees(entry.collection.key()))
            {
                self.wording.write(&news, id.as_ref(), &mut out);
            }
        }
        out.into()
    }
}

fn change((was, now): (Option<&Arc<Entry>>, Option<&Arc<Entry>>)) -> ServedChange {
    let entry = was.or(now).expect("what differs is in one of the two");
    let key = entry.collection.key().clone();
    ServedChange { key, was: was.map(|entry| VersionDigest::of(entry)), now: now.cloned() }
}

/// The form of the messages to one reader.
struct Wording {
    fields: Fields,
    /// The value of `filter[type]`.
    of_type: Option<String>,
    base: BasePath,
}

impl Wording {
    fn wants(&self, kind: Kind) -> bool {
        self.of_type.as_deref().is_none_or(|wanted| query::is_type(wanted, kind))
    }

    fn write(&self, news: &News, id: Option<&SyncToken>, out: &mut Vec<u8>) {
        let id = id.map(ToString::to_string);
        let id = id.as_deref();
        match news {
            News::Reset => push_message("reset", id, out, |out| out.extend_from_slice(b"{}")),
            News::Collection(entry) => push_message("collection", id, out, |out| {
                push_resource(entry, &self.base, None, Some(&self.fields), out);
            }),
            News::Removed(kind, key) => {
                let data = format!(r#"{{"type":"{}","id":"{key}"}}"#, resource_type(*kind));
                push_message("removed", id, out, |out| out.extend_from_slice(data.as_bytes()));
            }
            News::Ready => {
                let token = id.expect("the reader knows everything by then");
                let data = format!(r#"{{"syncToken":"{token}"}}"#);
                push_message("ready", id, out, |out| out.extend_from_slice(data.as_bytes()));
            }
        }
    }
}
