//! The past: differences, blame and changes. Also the capabilities of the service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use warp::http::StatusCode;

use crate::domain::{ATTRIBUTES_MAX, Grant, Key, KeyPattern, Revision};
use crate::engine::history::{HistoryError, View};
use crate::engine::{Entry, Snapshot, SyncToken, VisibleState};
use crate::http::authorize::{Action, Identity};
use crate::http::jsonapi::document::{history, self_link};
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};
use crate::http::jsonapi::page::PAGE_SIZE_MAX;
use crate::http::jsonapi::query::Query;
use crate::http::jsonapi::{negotiate, query};
use crate::http::min_revision;
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::routes::events::selection::{EventSelection, revision_text};

/// The media type of a unified diff.
const TEXT_DIFF: &str = "text/x-diff";

/// The content type of a unified diff: the files are UTF-8.
const TEXT_DIFF_UTF8: &str = "text/x-diff; charset=utf-8";

/// How long one answer may search for the shortest differences. After that, the rest is shown as replaced.
const DIFFERENCE_TIME_MAX: Duration = Duration::from_secs(2);

const FROM: &str = "filter[from]";
const TO: &str = "filter[to]";
const COLLECTION: &str = "filter[collection]";
const SINCE: &str = "filter[since]";

/// `GET /diff`
pub(crate) async fn difference(call: &Call<'_>) -> Result<Reply, ApiError> {
    let as_text = negotiate::prefers(call.headers(), TEXT_DIFF);
    if as_text {
        negotiate::content_type_without_body(call.headers())?;
    } else {
        call.negotiate()?;
    }
    let allowed = call.authorize(Action::ReadDifference).await?;
    let view = call.history_view().await?;
    let query = call.query()?;
    let types: &[&str] = if as_text { &[] } else { &[history::DIFFERENCE] };
    let fields = query::fields_and_others(&query, types, &[FROM, TO, COLLECTION])?;
    let wanted = EventSelection::of(call);
    let (allowed, keys) = (wanted.restricted_to(allowed)?, wanted.known(call, &view)?);
    let links = self_link(&call.link());
    call.reply_from_history(move || {
        let (from, to) = (revision(&view, &query, FROM)?, revision(&view, &query, TO)?);
        let sees = |key: &Key| (keys.is_empty() || keys.contains(key)) && allowed.sees(key);
        let reply = if as_text {
            let text =
                view.text_difference(Some(from), Some(to), &sees, Instant::now() + DIFFERENCE_TIME_MAX)?;
            Reply::typed(StatusCode::OK, TEXT_DIFF_UTF8, text.into())
        } else {
            let found = view.difference(from, to, &sees)?;
            let resources = found.iter().map(|difference| history::difference(difference, &fields));
            Reply::document(StatusCode::OK, history::list(resources, &links, None))
        };
        Ok(reply.of_revision(Some(to)))
    })
    .await
}

/// Returns the revision that a required parameter names.
fn revision(view: &View, query: &Query, name: &str) -> Result<Revision, ApiError> {
    let text = query.first(name).ok_or_else(|| missing(name, "a revision, a tag, a branch or a time"))?;
    view.resolve(&revision_text(text)).map_err(|error| ApiError::from(error).parameter(name))
}

fn missing(name: &str, what: &str) -> ApiError {
    ErrorObject::new(Code::INVALID_DATA, format!("the parameter is missing; it takes {what}"))
        .parameter(name)
        .into()
}

/// The snapshot at the revision of `asOf`, with the permit to hold it: it takes as much memory as all collections.
pub(crate) async fn as_of(
    call: &Call<'_>,
    text: &str,
) -> Result<(Arc<Snapshot>, OwnedSemaphorePermit), ApiError> {
    at_revision(call, text, |view, revision| view.snapshot_as_of(revision)).await
}

/// One collection as it was served at the revision of `asOf`, and that revision.
pub(crate) async fn one_as_of(
    call: &Call<'_>,
    key: &Key,
    text: &str,
) -> Result<(Arc<Entry>, Revision), ApiError> {
    let key = key.clone();
    let found =
        at_revision(call, text, move |view, revision| Ok((view.entry_as_of(revision, &key)?, revision)))
            .await;
    found.map(|(found, _)| found)
}

/// Queries the history at the revision of `asOf`.
async fn at_revision<T: Send + 'static>(
    call: &Call<'_>,
    text: &str,
    ask: impl FnOnce(&View, Revision) -> Result<T, HistoryError> + Send + 'static,
) -> Result<(T, OwnedSemaphorePermit), ApiError> {
    let view = call.history_view().await?;
    let text = revision_text(text);
    call.query_history_with_permit(move || {
        let revision = view.resolve(&text).map_err(|error| ApiError::from(error).parameter(query::AS_OF))?;
        Ok(ask(&view, revision)?)
    })
    .await
}

/// `GET /collections/:key/blame`
pub(crate) async fn blame(call: &Call<'_>, key: Key) -> Result<Reply, ApiError> {
    call.negotiate()?;
    let allowed = call.authorize(Action::ReadBlame { key: &key }).await?;
    let view = call.history_view().await?;
    if !view.knows(&key) {
        return Err(call.no_history_of(&key));
    }
    let Some(entry) = call.snapshot()?.get(key.as_str()).cloned() else {
        // Nothing gave it a present value, also if only a person has deleted the file, without a commit.
        return Err(call.missing_collection_error(&key).await);
    };
    let is_edited = entry.uncommitted;
    let links = self_link(&call.link());
    let query = call.query();
    call.reply_from_history(move || {
        let sees = |key: &Key| allowed.sees(key);
        let blames = view.blame(&key, None, &sees)?;
        let fields = query::fields(&query?, &[history::BLAME, history::EVENT])?;
        let resources = blames.iter().map(|blame| history::blame(&key, blame, &fields, &allowed));
        // Blame covers committed values, but a saved file that is not committed may be served.
        let meta = is_edited.then(|| json!({"uncommitted": true}));
        let body = history::list(resources, &links, meta.as_ref());
        Ok(Reply::document(StatusCode::OK, body).of_revision(view.head()))
    })
    .await
}

/// `GET /sync-token`
pub(crate) async fn sync_token(call: &Call<'_>) -> Result<Reply, ApiError> {
    call.negotiate()?;
    let allowed = call.authorize(Action::ReadSyncToken).await?;
    let snapshot = call.snapshot()?;
    let fields = query::fields(&call.query()?, &[history::SYNC_TOKEN])?;
    let token = VisibleState::of(&snapshot, allowed.visible_keys(None)).token;
    let resource =
        history::about_itself(history::SYNC_TOKEN, &json!({"syncToken": token.to_string()}), &fields);
    let body = history::one(&resource, &self_link(&call.link()));
    Ok(Reply::document(StatusCode::OK, body).of_snapshot(&snapshot))
}

/// `GET /changes`
pub(crate) async fn changes(call: &Call<'_>) -> Result<Reply, ApiError> {
    call.negotiate()?;
    let allowed = call.authorize(Action::ReadChanges).await?;
    if let Some(token) = call.query().unwrap_or_default().first(SINCE) {
        min_revision::fetch_for_cursor(call, token).await;
    }
    // In this order, so that the history is at least as new as the snapshot.
    let snapshot = call.snapshot()?;
    let view = call.history_view().await?;
    let query = call.query()?;
    let fields = query::fields_and_others(&query, &[history::CHANGE], &[SINCE])?;
    let token = query.first(SINCE).ok_or_else(|| missing(SINCE, "a token, see /sync-token"))?;
    let blamed = |error| ApiError::from(error).parameter(SINCE);
    let token: SyncToken = token.parse().map_err(blamed)?;
    let links = self_link(&call.link());
    call.reply_from_history(move || {
        let shown = VisibleState::of(&snapshot, allowed.visible_keys(None));
        let changes = view.changes_since(&token, &shown, allowed.visible_keys(None)).map_err(blamed)?;
        let resources = changes.iter().map(|change| history::change(change, &fields));
        let meta = json!({"syncToken": shown.token.to_string()});
        let body = history::list(resources, &links, Some(&meta));
        Ok(Reply::document(StatusCode::OK, body).of_snapshot(&snapshot))
    })
    .await
}

/// `GET /capabilities`
pub(crate) async fn capabilities(call: &Call<'_>) -> Result<Reply, ApiError> {
    call.negotiate()?;
    call.authorize(Action::ReadCapabilities).await?;
    let fields = query::fields(&call.query()?, &[history::CAPABILITIES])?;
    let limits = &call.context.settings.limits;
    let Identity { actor, grants, .. } = call.identity().await?;
    let grants: Vec<_> = grants.iter().filter(|grant| !grant.is_empty()).map(grant_json).collect();
    let attributes = json!({
        "actor": {"name": actor.name(), "email": actor.email()},
        "grants": grants,
        "pagination": {"styles": {"offset": true, "page": true, "cursor": true}},
        "changes": {"supported": true},
        "limits": {
            "pageSizeMax": PAGE_SIZE_MAX,
            "bodyBytesMax": limits.requests.body_bytes_max,
            "uriBytesMax": limits.requests.uri_bytes_max,
            "headerBytesMax": limits.requests.header_bytes_max,
            "jsonDepthMax": limits.requests.json_depth_max,
            "operationsMax": limits.writes.operations_max,
            "operationsBytesMax": limits.writes.operations_bytes_max,
            "attributesMax": ATTRIBUTES_MAX,
        },
    });
    let resource = history::about_itself(history::CAPABILITIES, &attributes, &fields);
    let body = history::one(&resource, &self_link(&call.link()));
    Ok(Reply::document(StatusCode::OK, body))
}

fn grant_json(grant: &Grant) -> Value {
    let may: Vec<_> = grant.rights.iter().map(|right| right.as_str()).collect();
    let keys: Vec<_> = grant.keys.iter().map(KeyPattern::as_str).collect();
    json!({"may": may, "keys": keys})
}
