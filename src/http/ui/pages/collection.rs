//! One collection: its settings.

use std::sync::Arc;

use askama::Template;
use warp::http::StatusCode;

use crate::domain::Key;
use crate::engine::{Entry, Snapshot};
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::ui;
use crate::http::ui::frame::{Frame, Nav, Visit};
use crate::http::ui::pages::edit;
use crate::http::ui::pages::heading::Head;
use crate::http::ui::words::{FOLD_BYTES_MIN, shown};

#[derive(Template)]
#[template(path = "collection.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    head: Head,
    settings: Vec<Setting>,
}

struct Setting {
    name: String,
    meaning: &'static str,
    value: String,
    folds: bool,
    is_directory: bool,
}

pub(crate) async fn page(visit: &Visit<'_>, key: &Key) -> Result<Reply, ApiError> {
    let entry = entry(visit, key).await?;
    let can_edit =
        visit.as_of.is_none() && visit.call.authorize(Action::Update { key, content: None }).await.is_ok();
    if let Some(entry) = entry.as_ref().filter(|entry| can_edit && !entry.stale) {
        return edit::page(visit, entry).await;
    }
    let frame = visit.live_frame(key.as_str(), Nav::Collections, Some(key)).await;
    let head = Head::of(visit, key, entry.as_deref(), "settings").await;
    let settings = entry.as_ref().map(|entry| settings(entry)).unwrap_or_default();
    Ok(ui::page(StatusCode::OK, &Page { frame, head, settings }))
}

/// Returns the collection as it is or was; `None` if its file was never valid.
///
/// # Errors
///
/// 404. It includes who deleted the collection, for visitors who may know.
pub(crate) async fn entry(visit: &Visit<'_>, key: &Key) -> Result<Option<Arc<Entry>>, ApiError> {
    let call = visit.call;
    if let Some(as_of) = &visit.as_of {
        call.authorize(Action::ReadPast { key }).await?;
        let (view, revision, key) = (visit.call.history_view().await?, as_of.revision, key.clone());
        return visit.call.query_history(move || Ok(Some(view.entry_as_of(revision, &key)?))).await;
    }
    call.authorize(Action::Read { key }).await?;
    let snapshot = call.snapshot()?;
    let is_broken = |snapshot: &Snapshot| snapshot.problem_of(key.as_str()).is_some();
    match snapshot.get(key.as_str()) {
        Some(entry) => Ok(Some(Arc::clone(entry))),
        None if is_broken(&snapshot) => Ok(None),
        None => Err(call.missing_collection_error(key).await),
    }
}

fn settings(entry: &Entry) -> Vec<Setting> {
    let collection = &entry.collection;
    let setting = |name: &str, meaning, is_directory, value: String| {
        let folds = value.len() > FOLD_BYTES_MIN;
        Setting { name: name.to_owned(), meaning, value, folds, is_directory }
    };
    let kind = setting("type", "What the collection holds.", false, collection.kind().to_string());
    let others = collection.attributes().iter().map(|(attribute, value)| {
        setting(attribute.as_str(), attribute.meaning(), attribute.is_directory(), shown(value))
    });
    std::iter::once(kind).chain(others).collect()
}
