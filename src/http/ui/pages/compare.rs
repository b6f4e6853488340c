//! The differences between two revisions, tags or times.

use askama::Template;
use warp::http::header::ACCEPT;
use warp::http::{Method, StatusCode};

use crate::domain::Value;
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::ui;
use crate::http::ui::api::{self, Request};
use crate::http::ui::frame::{Frame, Nav, Visit, with_query};
use crate::http::ui::words::{
    ChangeView, DiffBudget, DiffLine, SHOWN_BYTES_MAX, diff_lines, items, member, text,
};

#[derive(Template)]
#[template(path = "compare.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    from: String,
    to: String,
    key: String,
    found: Option<Found>,
}

struct Found {
    differences: Vec<Difference>,
    text: Vec<DiffLine>,
    /// Whether the diff is longer than a page shows.
    has_more: bool,
}

/// The differences in one collection.
struct Difference {
    key: String,
    action: String,
    changes: Vec<ChangeView>,
    /// Why the changes can't be determined.
    problem: String,
}

impl Difference {
    fn of(resource: &Value, budget: &mut DiffBudget) -> Self {
        let attributes = member(resource, "attributes");
        Self {
            key: text(resource, "id").to_owned(),
            action: text(attributes, "action").to_owned(),
            changes: ChangeView::list(attributes, budget),
            problem: text(member(attributes, "problem"), "message").to_owned(),
        }
    }
}

pub(crate) async fn page(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let asked = |name: &str| visit.asked(name).unwrap_or_default().to_owned();
    let (from, to, key) = (asked("from"), asked("to"), asked("key"));
    visit.call.authorize(Action::ReadDifference).await?;
    let found =
        if from.is_empty() && to.is_empty() { None } else { Some(found(visit, &from, &to, &key).await?) };
    let frame = visit.frame("Compare", Nav::Compare).await;
    Ok(ui::page(StatusCode::OK, &Page { frame, from, to, key, found }))
}

async fn found(visit: &Visit<'_>, from: &str, to: &str, key: &str) -> Result<Found, ApiError> {
    let now = visit.as_of.as_ref().map_or_else(|| "HEAD".to_owned(), |it| it.revision.to_string());
    let named = |text: &str| if text.is_empty() { now.clone() } else { text.to_owned() };
    let parameters =
        [("filter[from]", named(from)), ("filter[to]", named(to)), ("filter[collection]", key.to_owned())];
    let target = with_query("/diff", &parameters);
    let document = api::get(visit.call, target.clone()).await?;
    let unified = Request::new(Method::GET, target).header(ACCEPT, "text/x-diff").answer(visit.call).await?;
    visit
        .call
        .query_history(move || {
            let mut budget = DiffBudget::of_page();
            let of = |resource: &Value| Difference::of(resource, &mut budget);
            let shown = &unified.body()[..unified.body().len().min(SHOWN_BYTES_MAX)];
            Ok(Found {
                differences: items(&document, "data").iter().map(of).collect(),
                text: diff_lines(&String::from_utf8_lossy(shown)),
                has_more: shown.len() < unified.body().len(),
            })
        })
        .await
}
