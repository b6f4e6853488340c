//! The events of one collection, to compare and to restore.

use askama::Template;
use warp::http::StatusCode;

use crate::domain::Key;
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::ui;
use crate::http::ui::api;
use crate::http::ui::frame::{Frame, Nav, Visit};
use crate::http::ui::pages::events::{EventView, adjacent_pages, api_path, total};
use crate::http::ui::pages::heading::Head;
use crate::http::ui::words::items;

#[derive(Template)]
#[template(path = "history.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    head: Head,
    /// Whether the visitor may restore a version.
    can_restore: bool,
    events: Vec<EventView>,
    total: usize,
    newer: Option<String>,
    older: Option<String>,
}

pub(crate) async fn page(visit: &Visit<'_>, key: &Key) -> Result<Reply, ApiError> {
    let until = visit.as_of.as_ref().map(|as_of| ("filter[until]", as_of.revision.to_string()));
    let asked: Vec<_> = until.into_iter().collect();
    let path = format!("/collections/{key}/events");
    let document = api::get(visit.call, api_path(&path, &asked, visit)).await?;
    let frame = visit.live_frame(format!("{key}: history"), Nav::Collections, Some(key)).await;
    let snapshot = visit.call.snapshot()?;
    let head = Head::of(visit, key, snapshot.get(key.as_str()).map(AsRef::as_ref), "history").await;
    let may_restore = visit.call.authorize(Action::Restore { key }).await.is_ok();
    let (newer, older) = adjacent_pages(&document, &format!("/collections/{key}/history"), &frame);
    let page = Page {
        newer,
        older,
        events: items(&document, "data").iter().map(EventView::of).collect(),
        total: total(&document),
        can_restore: may_restore && visit.as_of.is_none(),
        head,
        frame,
    };
    Ok(ui::page(StatusCode::OK, &page))
}
