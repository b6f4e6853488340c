//! One event.

use askama::Template;
use warp::http::StatusCode;

use crate::domain::Value;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::ui;
use crate::http::ui::api;
use crate::http::ui::frame::{Frame, Nav, Visit, encoded};
use crate::http::ui::pages::events::EventView;

#[derive(Template)]
#[template(path = "event.html")]
struct Page {
    frame: Frame,
    event: EventView,
}

pub(crate) async fn page(visit: &Visit<'_>, id: &str) -> Result<Reply, ApiError> {
    let document = api::get(visit.call, format!("/events/{}", encoded(id))).await?;
    let event = EventView::of(document.get("data").unwrap_or(&Value::Null));
    let title = format!("{} {}", event.key, event.action);
    let frame = visit.frame(title, Nav::Timeline).await;
    Ok(ui::page(StatusCode::OK, &Page { frame, event }))
}
