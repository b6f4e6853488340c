//! One event.

use askama::Template;
use uuid::Uuid;
use warp::http::StatusCode;

use crate::domain::{Key, Revision};
use crate::engine::history::SignatureStatus;
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::ui;
use crate::http::ui::api;
use crate::http::ui::frame::{Frame, Nav, Visit, encoded};
use crate::http::ui::pages::events::EventView;
use crate::http::ui::words::{ChangeView, DiffBudget, member};

#[derive(Template)]
#[template(path = "event.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    event: EventView,
    changes: Vec<ChangeView>,
    undo: Option<Undo>,
    signature: String,
}

/// Whether the visitor can undo the event.
enum Undo {
    Can,
    Not(String),
}

pub(crate) async fn page(visit: &Visit<'_>, id: &str) -> Result<Reply, ApiError> {
    let document = api::get(visit.call, format!("/events/{}", encoded(id))).await?;
    let (event, changes) = visit
        .call
        .query_history(move || {
            let resource = member(&document, "data");
            let changes = ChangeView::list(member(resource, "attributes"), &mut DiffBudget::of_page());
            Ok((EventView::of(resource), changes))
        })
        .await?;
    let title = format!("{} {}", event.key, event.action);
    let undo = undo(visit, &event).await?;
    let signature = signature(visit, &event).await?;
    let frame = visit.frame(title, Nav::Timeline).await;
    Ok(ui::page(StatusCode::OK, &Page { frame, event, changes, undo, signature }))
}

/// Describes the signature of the commit: whether it has one, by whom, and whether that is valid.
async fn signature(visit: &Visit<'_>, event: &EventView) -> Result<String, ApiError> {
    let Ok(revision) = event.commit.revision.parse::<Revision>() else { return Ok(String::new()) };
    let view = visit.call.history_view().await?;
    visit
        .call
        .query_history(move || {
            let signature = view.signature(revision)?;
            Ok(match &signature {
                SignatureStatus::NotAllowed { why, .. } => format!("{signature}: {why}"),
                SignatureStatus::Bad(why) => format!("{signature}, so it does not hold: {why}"),
                SignatureStatus::NotChecked(why) => format!("{signature}: {why}"),
                SignatureStatus::Valid { .. } => format!("{signature}; it holds"),
                SignatureStatus::Unattributed(_) => format!("{signature}; it holds for its own key"),
                SignatureStatus::None => signature.to_string(),
            })
        })
        .await
}

/// Checks whether the event can be undone now; `None` for visitors who may not undo it.
async fn undo(visit: &Visit<'_>, event: &EventView) -> Result<Option<Undo>, ApiError> {
    let (Ok(key), Ok(id)) = (Key::parse(&event.key), Uuid::try_parse(&event.id)) else { return Ok(None) };
    let may = visit.call.authorize(Action::UndoEvent { key: Some(&key) }).await.is_ok();
    if !may || visit.as_of.is_some() {
        return Ok(None);
    }
    let (view, snapshot) = (visit.call.history_view().await?, visit.call.snapshot()?);
    visit
        .call
        .query_history(move || {
            Ok(Some(match view.plan_undo(id, &snapshot) {
                Ok(_) => Undo::Can,
                Err(refusal) => Undo::Not(ApiError::from(refusal).details().concat()),
            }))
        })
        .await
}
