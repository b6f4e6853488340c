//! The list of collections.

mod selection;

use askama::Template;
use warp::http::StatusCode;

use crate::domain::{Attribute, Key};
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::ui;
use crate::http::ui::frame::{Frame, Nav, Visit};
use crate::http::ui::pages::edit::notice;
use crate::http::ui::pages::heading::Last;
use crate::http::ui::pages::list::selection::{Changes, ListSelection, PAGE_LEN, Row, Sort};

#[derive(Template)]
#[template(path = "list.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    asked: ListSelection,
    rows: Vec<Shown>,
    total: usize,
    /// The number of collections without filters.
    all: usize,
    uncommitted: usize,
    can_create: bool,
    done: Option<&'static str>,
    knows_changes: bool,
}

#[derive(Default)]
struct Shown {
    key: String,
    name: String,
    kind: &'static str,
    directory: String,
    uncommitted: bool,
    broken: bool,
    last: Option<Last>,
}

impl Page {
    fn columns(&self) -> Vec<(&'static str, Sort)> {
        let mut columns = vec![
            ("Key", Sort::Key),
            ("Name", Sort::Name),
            ("Kind", Sort::Kind),
            ("Directory", Sort::Directory),
        ];
        columns.extend(self.knows_changes.then_some(("Last change", Sort::Change)));
        columns
    }

    /// The value of `aria-sort` for a column.
    fn order(&self, sort: &Sort) -> Option<&'static str> {
        (self.asked.sort == *sort).then_some(if self.asked.descending { "descending" } else { "ascending" })
    }

    /// The address of the list sorted by a column. A second click reverses the order. The newest changes come first.
    fn sorted_by(&self, sort: &Sort) -> String {
        let begins_descending = *sort == Sort::Change;
        let descending =
            (self.asked.sort == *sort && self.asked.descending == begins_descending) != begins_descending;
        self.frame.to(&self.asked.link(*sort, descending, 1))
    }

    fn sort_text(&self) -> String {
        let sign = if self.asked.descending { "-" } else { "" };
        format!("{sign}{}", self.asked.sort.as_str())
    }

    fn at_page(&self, page: usize) -> String {
        self.frame.to(&self.asked.link(self.asked.sort, self.asked.descending, page))
    }

    fn last_page(&self) -> usize {
        self.total.div_ceil(PAGE_LEN).max(1)
    }

    fn first_shown(&self) -> usize {
        (self.asked.page - 1) * PAGE_LEN + 1
    }

    fn last_shown(&self) -> usize {
        (self.asked.page - 1) * PAGE_LEN + self.rows.len()
    }
}

pub(crate) async fn page(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let call = visit.call;
    let action = if visit.as_of.is_some() { Action::ListPast } else { Action::List };
    let allowed = call.authorize(action).await?;
    let frame = visit.live_frame("Collections", Nav::Collections, None).await;
    let create = Action::Create { key: None, content: None };
    let can_create = visit.as_of.is_none() && call.authorize(create).await.is_ok();
    let done = visit.asked("done").and_then(notice);
    let audit = call.authorize(Action::ListEvents { key: None }).await.ok();
    let view = if audit.is_some() { visit.history_at_hand().await } else { None };
    let until = visit.as_of.as_ref().map(|it| it.revision);
    let past = if until.is_some() { Some(call.history_view().await?) } else { None };
    let (now, mut asked) = (call.snapshot()?, ListSelection::of(visit));
    visit
        .call
        .query_history(move || {
            let snapshot = match past.zip(until) {
                Some((view, revision)) => view.snapshot_as_of(revision)?,
                None => now,
            };
            let changes = view.as_ref().zip(audit.as_ref());
            let changes = changes.map(|(view, audit)| Changes { view, audit, until });
            let chosen = asked.select(&snapshot, &allowed, changes);
            let rows = chosen.rows.iter().map(|row| shown(row, changes)).collect();
            let (total, all) = (chosen.total, chosen.all);
            asked.page = chosen.page;
            let uncommitted = match allowed.sees_all() {
                true => snapshot.hand_edits.served,
                false => snapshot.hand_edits.keys.iter().filter(|key| allowed.sees(key)).count(),
            };
            let knows_changes = changes.is_some();
            let page = Page { frame, asked, rows, total, all, uncommitted, can_create, done, knows_changes };
            Ok(ui::page(StatusCode::OK, &page))
        })
        .await
}

fn shown(row: &Row<'_>, changes: Option<Changes<'_>>) -> Shown {
    let key = row.key();
    let last = changes.and_then(|changes| last(changes, key));
    let Row::Served(entry) = row else {
        return Shown { key: key.to_string(), broken: true, last, ..Shown::default() };
    };
    let collection = &entry.collection;
    Shown {
        key: key.to_string(),
        name: collection.text(&Attribute::Name).unwrap_or_default().to_owned(),
        kind: collection.kind().as_str(),
        directory: collection.text(&Attribute::Directory).unwrap_or_default().to_owned(),
        uncommitted: entry.uncommitted,
        broken: entry.problem.is_some(),
        last,
    }
}

fn last(changes: Changes<'_>, key: &Key) -> Option<Last> {
    let Changes { view, audit, until } = changes;
    let change = view.last_change(key, until).filter(|_| audit.sees(key))?;
    Some(Last::of(&change))
}
