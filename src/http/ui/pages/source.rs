//! The file of a collection as it is, and who set each attribute to its value.

use askama::Template;
use warp::http::StatusCode;

use crate::domain::file_name::default_name;
use crate::domain::{Key, Revision, Shorthand};
use crate::engine::history::{Blame, View};
use crate::engine::{Entry, attribute_lines};
use crate::http::authorize::{Action, Allowed};
use crate::http::jsonapi::document::history;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::ui;
use crate::http::ui::frame::{Frame, Nav, Visit};
use crate::http::ui::pages::collection;
use crate::http::ui::pages::heading::Head;
use crate::http::ui::words::ShownTime;

#[derive(Template)]
#[template(path = "source.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    head: Head,
    path: String,
    lines: Vec<Line>,
    /// Why no one is named beside the lines, if so.
    unblamed: Option<&'static str>,
}

struct Line {
    text: String,
    /// Who set the attribute that begins here to its value.
    by: Option<By>,
    faults: Vec<ShownFault>,
}

struct By {
    attribute: String,
    event: String,
    actor: String,
    at: ShownTime,
    reason: Option<String>,
}

pub(crate) struct ShownFault {
    /// White space up to the column.
    pub(crate) indent: String,
    pub(crate) column: usize,
    pub(crate) message: String,
}

pub(crate) async fn page(visit: &Visit<'_>, key: &Key) -> Result<Reply, ApiError> {
    let entry = collection::entry(visit, key).await?;
    let frame = visit.live_frame(format!("{key}: source"), Nav::Collections, Some(key)).await;
    let head = Head::of(visit, key, entry.as_deref(), "source").await;
    let blaming = visit.call.authorize(Action::ReadBlame { key }).await.ok();
    let view = visit.call.history_view().await?;
    let saved = visit.call.snapshot()?.hand_edits.saved.clone();
    let (key, as_of) = (key.clone(), visit.as_of.as_ref().map(|it| it.revision));
    visit
        .call
        .query_history(move || {
            let name = entry.as_ref().map_or_else(|| default_name(&key), |entry| entry.file());
            let path = head.problem.as_ref().map_or_else(|| view.path(&name), |it| it.path.clone());
            let by_hand = saved.get(&path).filter(|_| as_of.is_none());
            let bytes = match by_hand {
                Some(bytes) => bytes.to_vec(),
                None => committed(&view, as_of, entry.as_deref(), &path)?,
            };
            let blames = blamed(&view, as_of, &key, blaming.as_ref());
            let unblamed = match (&blaming, by_hand) {
                (None, _) => Some("Who set each value is shown only to people who may see the past."),
                (_, Some(_)) => Some(
                    "The saved file is not committed; the names beside it are of what was committed last.",
                ),
                _ => None,
            };
            let mut lines = lines(&bytes, &blames, blaming.as_ref());
            for fault in head.problem.iter().flat_map(|problem| &problem.faults) {
                if let Some(line) = lines.get_mut(fault.line.saturating_sub(1)) {
                    line.faults.push(ShownFault::of(&line.text, fault.column, fault.message.clone()));
                }
            }
            Ok(ui::page(StatusCode::OK, &Page { frame, head, path, lines, unblamed }))
        })
        .await
}

impl ShownFault {
    /// Creates a fault at a column of a line. Tabs before the column stay tabs, so that the caret is in the right
    /// place.
    pub(crate) fn of(line: &str, column: usize, message: String) -> Self {
        let before = line.chars().take(column.saturating_sub(1));
        let indent = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        Self { indent, column, message }
    }
}

/// Returns the committed content of a file, broken or not.
fn committed(
    view: &View,
    as_of: Option<Revision>,
    entry: Option<&Entry>,
    path: &str,
) -> Result<Vec<u8>, ApiError> {
    let name = view.name_of(path);
    let fine = entry.filter(|entry| !entry.stale && !entry.uncommitted && entry.file() == name);
    if let Some(entry) = fine {
        return Ok(view.content(entry.blob)?);
    }
    let Some(revision) = as_of.or_else(|| view.head()) else { return Ok(Vec::new()) };
    Ok(view.file(revision, name)?.unwrap_or_default())
}

fn blamed(view: &View, as_of: Option<Revision>, key: &Key, blaming: Option<&Allowed>) -> Vec<Blame> {
    let Some(allowed) = blaming else { return Vec::new() };
    let sees = |key: &Key| allowed.sees(key);
    // A collection that was never committed, or a revision off the first-parent history, has no blame.
    view.blame(key, as_of, &sees).unwrap_or_default()
}

fn lines(bytes: &[u8], blames: &[Blame], blaming: Option<&Allowed>) -> Vec<Line> {
    let text = String::from_utf8_lossy(bytes);
    let names = attribute_lines(bytes);
    let by = |number: usize| {
        let (name, _) = names.iter().find(|(_, line)| *line == number)?;
        let attribute = Shorthand::parse(name).map_or(name.as_str(), |_| "unpublishedStatuses");
        let blame = blames.iter().find(|blame| blame.attribute == attribute)?;
        let event = &blame.event;
        Some(By {
            attribute: name.clone(),
            event: event.id.to_string(),
            actor: event.commit.actor.name().to_owned(),
            at: ShownTime(event.commit.at),
            reason: blaming.and_then(|allowed| history::reason(event, allowed)).map(str::to_owned),
        })
    };
    let line = |(at, text): (usize, &str)| Line { text: text.to_owned(), by: by(at + 1), faults: Vec::new() };
    text.lines().enumerate().map(line).collect()
}
