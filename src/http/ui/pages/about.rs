//! The page about the service: what it is, what it serves, and its limits.

use askama::Template;
use warp::http::StatusCode;

use crate::domain::Value;
use crate::http::authorize::{Action, Allowed};
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::ui;
use crate::http::ui::api;
use crate::http::ui::frame::{Frame, Nav, Visit};
use crate::http::ui::words::{ShownTime, items, member, shown, text};

#[derive(Template)]
#[template(path = "about.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    facts: Vec<(&'static str, String)>,
    limits: Vec<(String, String)>,
    who: Option<String>,
    grants: Vec<String>,
}

pub(crate) async fn page(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let call = visit.call;
    let document = api::get(call, "/capabilities").await?;
    let about = member(member(&document, "data"), "attributes");
    let limits = match member(about, "limits") {
        Value::Map(limits) => limits.iter().map(|(name, limit)| (name.clone(), limit.to_string())).collect(),
        _ => Vec::new(),
    };
    let grants = items(about, "grants").iter().map(|grant| {
        let listed = |name: &str| items(grant, name).iter().map(shown).collect::<Vec<_>>().join(", ");
        format!("{} for {}", listed("may"), listed("keys"))
    });
    let guarded = !call.context.access.guard.is_open();
    let who = about.get("actor").filter(|_| guarded).map(|it| text(it, "name").to_owned());
    let page = Page {
        frame: visit.frame("About", Nav::About).await,
        facts: facts(visit).await?,
        limits,
        who,
        grants: if guarded { grants.collect() } else { Vec::new() },
    };
    Ok(ui::page(StatusCode::OK, &page))
}

async fn facts(visit: &Visit<'_>) -> Result<Vec<(&'static str, String)>, ApiError> {
    let call = visit.call;
    let snapshot = call.snapshot()?;
    let allowed = call.authorize(Action::List).await.ok();
    let sees_all = allowed.as_ref().is_some_and(Allowed::sees_all);
    let place = &call.context.settings.served_from;
    let mut facts = vec![("Version", env!("CARGO_PKG_VERSION").to_owned()), ("Branch", place.branch.clone())];
    let may_operate = call.authorize(Action::Operate).await.is_ok();
    facts.extend(may_operate.then(|| ("Repository", place.repository.clone())));
    facts.push(("Folder", place.folder.clone()));
    facts.extend(snapshot.revision.map(|revision| ("Revision", revision.to_string())));
    if sees_all {
        facts.push(("Collections", snapshot.catalog().len().to_string()));
        facts.push(("Uncommitted edits", snapshot.hand_edits.served.to_string()));
        facts.push(("Files with problems", snapshot.problems.len().to_string()));
    }
    let audits_all = call.authorize(Action::ListEvents { key: None }).await.is_ok_and(|it| it.sees_all());
    if audits_all && let Some(view) = visit.history_at_hand().await {
        facts.push(("Commits", view.commits_len().to_string()));
        facts.push(("Events", view.events_len().to_string()));
    }
    facts.extend(remote(call, may_operate));
    facts.extend(snapshot.work_tree.as_ref().map(|note| ("Work tree", note.to_string())));
    Ok(facts)
}

/// The status of the remote. Its address and its last error are for operators.
fn remote(call: &Call<'_>, may_operate: bool) -> Vec<(&'static str, String)> {
    let Some(shared) = &call.context.remote else { return vec![("Remote", "none".to_owned())] };
    let status = shared.remote.status();
    let mut facts = vec![("Remote", status.state.as_str().to_owned())];
    facts.extend(may_operate.then(|| ("Remote repository", status.url.to_string())));
    facts.push(("Ahead of the remote", status.ahead.to_string()));
    facts.push(("Behind the remote", status.behind.to_string()));
    facts.extend(status.last_contact.map(|at| ("Remote seen last", ShownTime(at).shown())));
    facts.extend(
        status.last_error.as_ref().filter(|_| may_operate).map(|why| ("Remote trouble", why.to_string())),
    );
    facts
}
