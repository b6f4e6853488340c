//! The problems: what is broken, where, since when, by whom, and what is served instead.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use warp::http::StatusCode;

use crate::domain::file_name::key_of;
use crate::domain::{Revision, Value};
use crate::engine::history::{PastFault, View};
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::ui;
use crate::http::ui::api;
use crate::http::ui::frame::{Frame, Nav, Visit};
use crate::http::ui::pages::source::ShownFault;
use crate::http::ui::words::{ShownTime, items, member, number, short, text};

/// Lines shown before and after a fault.
const LINES_AROUND: usize = 2;

/// Maximum problems shown with the lines of their files.
const SHOWN_WITH_LINES_MAX: usize = 100;

#[derive(Template)]
#[template(path = "problems.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    problems: Vec<Problem>,
}

struct Problem {
    kind: String,
    place: Place,
    key: String,
    message: String,
    serving: String,
    since: Option<ShownTime>,
    revision: String,
    author: String,
    lines: Vec<Line>,
    events: Vec<RemovedEventView>,
}

/// An event that a rewrite of the branch has removed.
struct RemovedEventView {
    key: String,
    revision: String,
}

impl RemovedEventView {
    fn short(&self) -> &str {
        short(&self.revision)
    }
}

/// The place of a problem. Line and column are 0 if unknown.
struct Place {
    path: String,
    line: usize,
    column: usize,
}

struct Line {
    number: usize,
    text: String,
    wrong: Option<ShownFault>,
}

impl Problem {
    fn of(resource: &Value) -> Self {
        let attributes = member(resource, "attributes");
        let own = |name: &str| text(attributes, name).to_owned();
        let path = own("path");
        Self {
            kind: own("kind"),
            place: Place {
                path: if path.is_empty() { text(resource, "id").to_owned() } else { path },
                line: number(attributes, "line"),
                column: number(attributes, "column"),
            },
            key: own("collection"),
            message: own("message"),
            serving: own("serving"),
            since: ShownTime::parse(text(attributes, "since")),
            revision: own("revision"),
            author: text(member(attributes, "author"), "name").to_owned(),
            lines: Vec::new(),
            events: items(attributes, "events")
                .iter()
                .map(|it| RemovedEventView {
                    key: text(it, "collection").to_owned(),
                    revision: text(it, "revision").to_owned(),
                })
                .collect(),
        }
    }

    fn short(&self) -> &str {
        short(&self.revision)
    }

    /// Adds the lines around the fault.
    fn show(&mut self, content: &[u8]) {
        let text = String::from_utf8_lossy(content);
        let Place { line: here, column, .. } = self.place;
        let from = here.saturating_sub(LINES_AROUND + 1);
        let lines = text.lines().enumerate().skip(from).take(here + LINES_AROUND - from);
        self.lines = lines
            .map(|(at, text)| {
                let is_here = at + 1 == here;
                let wrong = is_here.then(|| ShownFault::of(text, column, self.message.clone()));
                Line { number: at + 1, text: text.to_owned(), wrong }
            })
            .collect();
    }
}

pub(crate) async fn page(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    match &visit.as_of {
        None => present(visit).await,
        Some(as_of) => past(visit, as_of.revision).await,
    }
}

async fn present(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let document = api::get(visit.call, "/problems").await?;
    let frame = visit.live_frame("Problems", Nav::Problems, None).await;
    let saved = Arc::clone(&visit.call.snapshot()?.hand_edits.saved);
    let view = visit.call.history_view().await?;
    visit
        .call
        .query_history(move || {
            let mut problems: Vec<_> = items(&document, "data").iter().map(Problem::of).collect();
            let mut files = Files { view, saved, read: BTreeMap::new() };
            for problem in problems.iter_mut().filter(|it| it.kind == "file").take(SHOWN_WITH_LINES_MAX) {
                if let Some(content) = files.get(&problem.place.path, problem.revision.is_empty()) {
                    problem.show(&content);
                }
            }
            Ok(ui::page(StatusCode::OK, &Page { frame, problems }))
        })
        .await
}

/// The contents of broken files, each of which is read once.
struct Files {
    view: View,
    saved: Arc<BTreeMap<String, Arc<Vec<u8>>>>,
    read: BTreeMap<String, Arc<Vec<u8>>>,
}

impl Files {
    fn get(&mut self, path: &str, is_saved: bool) -> Option<Arc<Vec<u8>>> {
        if let Some(bytes) = self.saved.get(path).filter(|_| is_saved) {
            return Some(Arc::clone(bytes));
        }
        if let Some(bytes) = self.read.get(path) {
            return Some(Arc::clone(bytes));
        }
        let name = self.view.name_of(path);
        let bytes = Arc::new(self.view.file(self.view.head()?, name).ok()??);
        self.read.insert(path.to_owned(), Arc::clone(&bytes));
        Some(bytes)
    }
}

async fn past(visit: &Visit<'_>, revision: Revision) -> Result<Reply, ApiError> {
    let allowed = visit.call.authorize(Action::ListPast).await?;
    let frame = visit.frame("Problems", Nav::Problems).await;
    let view = visit.call.history_view().await?;
    visit
        .call
        .query_history(move || {
            let past = view.as_of(revision)?;
            let mut problems = Vec::new();
            for (path, PastFault { fault, .. }) in &past.problems {
                let name = view.name_of(path);
                let key = key_of(name);
                if !allowed.sees_file(key.as_ref()) {
                    continue;
                }
                let entry = key.as_ref().and_then(|key| past.entries.get(key));
                let mut problem = Problem {
                    kind: "file".to_owned(),
                    place: Place { path: path.clone(), line: fault.line, column: fault.column },
                    key: key.map(|key| key.to_string()).unwrap_or_default(),
                    message: fault.message.clone(),
                    serving: if entry.is_some() { "last-good" } else { "nothing" }.to_owned(),
                    since: None,
                    revision: String::new(),
                    author: String::new(),
                    lines: Vec::new(),
                    events: Vec::new(),
                };
                // A damaged file has no lines to show.
                if problems.len() < SHOWN_WITH_LINES_MAX
                    && let Ok(Some(content)) = view.file(revision, name)
                {
                    problem.show(&content);
                }
                problems.push(problem);
            }
            Ok(ui::page(StatusCode::OK, &Page { frame, problems }))
        })
        .await
}
