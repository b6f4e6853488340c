//! The collections.

use std::sync::Arc;

use askama::Template;
use warp::http::StatusCode;

use crate::domain::{Attribute, Collection, Key, Kind};
use crate::engine::history::View;
use crate::engine::{Entry, Snapshot};
use crate::http::authorize::{Action, Allowed};
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::ui;
use crate::http::ui::frame::{Frame, Nav, Visit, with_query};
use crate::http::ui::pages::edit::told;
use crate::http::ui::words::At;

/// How many collections a page shows.
const PAGE_LEN: usize = 100;

#[derive(Template)]
#[template(path = "list.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    asked: Asked,
    rows: Vec<Row>,
    total: usize,
    /// How many there are whatever is asked for.
    all: usize,
    uncommitted: usize,
    can_create: bool,
    done: Option<&'static str>,
    knows_changes: bool,
}

/// What is asked of the list.
#[derive(Debug, Clone, Default)]
struct Asked {
    text: String,
    kind: Option<Kind>,
    mark: Option<Mark>,
    sort: Sort,
    descending: bool,
    /// From 1.
    page: usize,
}

/// What a collection can be marked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Uncommitted,
    Broken,
}

/// What the list is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sort {
    #[default]
    Key,
    Name,
    Kind,
    Directory,
}

impl Sort {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Name => "name",
            Self::Kind => "kind",
            Self::Directory => "directory",
        }
    }

    /// What a collection is sorted by; ties end by key.
    fn of(self, collection: &Collection) -> (&str, &Key) {
        let text = match self {
            Self::Key => "",
            Self::Name => text_of(collection, &Attribute::Name),
            Self::Kind => collection.kind().as_str(),
            Self::Directory => text_of(collection, &Attribute::Directory),
        };
        (text, collection.key())
    }
}

struct Row {
    key: String,
    name: String,
    kind: &'static str,
    directory: String,
    uncommitted: bool,
    broken: bool,
    last: Option<Last>,
}

/// When and by whom a collection was changed last.
struct Last {
    event: String,
    at: At,
    actor: String,
}

impl Asked {
    fn of(visit: &Visit<'_>) -> Self {
        let (sort, descending) = match visit.asked("sort").unwrap_or_default() {
            text if text.starts_with('-') => (text.trim_start_matches('-'), true),
            text => (text, false),
        };
        let sorts = [Sort::Name, Sort::Kind, Sort::Directory];
        Self {
            text: visit.asked("q").unwrap_or_default().to_owned(),
            kind: visit.asked("kind").and_then(Kind::parse),
            mark: match visit.asked("mark") {
                Some("uncommitted") => Some(Mark::Uncommitted),
                Some("broken") => Some(Mark::Broken),
                Some(_) | None => None,
            },
            sort: sorts.into_iter().find(|it| it.as_str() == sort).unwrap_or_default(),
            descending,
            page: visit
                .asked("page")
                .and_then(|page| page.parse().ok())
                .filter(|page| *page > 0)
                .unwrap_or(1),
        }
    }

    fn is_everything(&self) -> bool {
        self.text.is_empty() && self.kind.is_none() && self.mark.is_none()
    }

    fn takes(&self, entry: &Entry, text: &str) -> bool {
        let collection = &entry.collection;
        self.kind.is_none_or(|kind| collection.kind() == kind)
            && match self.mark {
                None => true,
                Some(Mark::Uncommitted) => entry.uncommitted,
                Some(Mark::Broken) => entry.problem.is_some(),
            }
            && (text.is_empty()
                || holds(collection.key().as_str(), text)
                || holds(text_of(collection, &Attribute::Name), text)
                || holds(text_of(collection, &Attribute::Directory), text))
    }

    fn mark_is(&self, name: &str) -> bool {
        match self.mark {
            None => false,
            Some(Mark::Uncommitted) => name == "uncommitted",
            Some(Mark::Broken) => name == "broken",
        }
    }

    fn kind_is(&self, name: &str) -> bool {
        self.kind.is_some_and(|kind| kind.as_str() == name)
    }

    /// The address of the list in another order or of another page.
    fn link(&self, sort: Sort, descending: bool, page: usize) -> String {
        let mark = self.mark.map(|mark| if mark == Mark::Broken { "broken" } else { "uncommitted" });
        let sign = if descending { "-" } else { "" };
        let is_natural = sort == Sort::Key && !descending;
        let parameters = [
            ("q", self.text.clone()),
            ("kind", self.kind.map_or("", Kind::as_str).to_owned()),
            ("mark", mark.unwrap_or_default().to_owned()),
            ("sort", if is_natural { String::new() } else { format!("{sign}{}", sort.as_str()) }),
            ("page", if page == 1 { String::new() } else { page.to_string() }),
        ];
        with_query("/", &parameters)
    }
}

impl Page {
    fn columns(&self) -> [(&'static str, Sort); 4] {
        [("Key", Sort::Key), ("Name", Sort::Name), ("Kind", Sort::Kind), ("Directory", Sort::Directory)]
    }

    /// The order that the column is in, as `aria-sort` has it.
    fn order(&self, sort: &Sort) -> Option<&'static str> {
        (self.asked.sort == *sort).then_some(if self.asked.descending { "descending" } else { "ascending" })
    }

    fn sorted_by(&self, sort: &Sort) -> String {
        let turned = self.asked.sort == *sort && !self.asked.descending;
        self.frame.to(&self.asked.link(*sort, turned, 1))
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
    let done = visit.asked("done").and_then(told);
    let audit = call.authorize(Action::ListEvents { key: None }).await.ok();
    let view = match (&audit, &call.context.history) {
        (Some(_), Some(history)) => history.view().await.ok(),
        _ => None,
    };
    let now = if visit.as_of.is_none() { Some(call.snapshot()?) } else { None };
    let (as_of, asked) = (visit.as_of.clone(), Asked::of(visit));
    let past = if as_of.is_some() { Some(visit.past().await?) } else { None };
    let page = visit
        .call
        .looking(move || {
            let snapshot = match (now, past, &as_of) {
                (Some(now), ..) => now,
                (None, Some(view), Some(as_of)) => view.snapshot_as_of(as_of.revision)?,
                (None, ..) => return Err(ApiError::internal()),
            };
            let until = as_of.as_ref().map(|it| it.revision);
            let (entries, total) = shown(&snapshot, &allowed, &asked);
            let last = |key: &Key| last(view.as_ref()?, audit.as_ref()?, key, until);
            let rows = entries.iter().map(|entry| row(entry, last(entry.collection.key()))).collect();
            let all = match allowed.sees_all() {
                true => snapshot.catalog().len(),
                false => snapshot.catalog().iter().filter(|it| allowed.sees(it.collection.key())).count(),
            };
            let uncommitted = match allowed.sees_all() {
                true => snapshot.uncommitted,
                false => snapshot.edited.iter().filter(|key| allowed.sees(key)).count(),
            };
            let knows_changes = view.is_some();
            Ok(Page { frame, asked, rows, total, all, uncommitted, can_create, done, knows_changes })
        })
        .await?;
    Ok(ui::page(StatusCode::OK, &page))
}

/// What is on the page that is asked for, and how many there are on all.
fn shown(snapshot: &Snapshot, allowed: &Allowed, asked: &Asked) -> (Vec<Arc<Entry>>, usize) {
    let text = asked.text.to_lowercase();
    let from = (asked.page - 1).saturating_mul(PAGE_LEN);
    let wanted = |entry: &&Arc<Entry>| allowed.sees(entry.collection.key()) && asked.takes(entry, &text);
    if asked.sort == Sort::Key {
        let catalog = snapshot.catalog();
        let ordered: Box<dyn Iterator<Item = &Arc<Entry>>> =
            if asked.descending { Box::new(catalog.iter().rev()) } else { Box::new(catalog.iter()) };
        if asked.is_everything() && allowed.sees_all() {
            return (ordered.skip(from).take(PAGE_LEN).cloned().collect(), catalog.len());
        }
        let mut total = 0;
        let counted = ordered.filter(wanted).inspect(|_| total += 1).enumerate();
        let on_page = counted.filter(|(at, _)| (from..from.saturating_add(PAGE_LEN)).contains(at));
        let entries = on_page.map(|(_, entry)| Arc::clone(entry)).collect();
        return (entries, total);
    }
    let mut entries: Vec<&Arc<Entry>> = snapshot.catalog().iter().filter(wanted).collect();
    let total = entries.len();
    let order = |one: &&Arc<Entry>, two: &&Arc<Entry>| {
        let order = asked.sort.of(&one.collection).cmp(&asked.sort.of(&two.collection));
        if asked.descending { order.reverse() } else { order }
    };
    // Only what is on the page is put in order: the rest need only be on the right side of it.
    let end = from.saturating_add(PAGE_LEN).min(total);
    if from >= total {
        return (Vec::new(), total);
    }
    if end < total {
        entries.select_nth_unstable_by(end, order);
        entries.truncate(end);
    }
    if from > 0 {
        entries.select_nth_unstable_by(from, order);
    }
    let on_page = &mut entries[from..];
    on_page.sort_unstable_by(order);
    (on_page.iter().map(|entry| Arc::clone(entry)).collect(), total)
}

fn row(entry: &Entry, last: Option<Last>) -> Row {
    let collection = &entry.collection;
    Row {
        key: collection.key().to_string(),
        name: text_of(collection, &Attribute::Name).to_owned(),
        kind: collection.kind().as_str(),
        directory: text_of(collection, &Attribute::Directory).to_owned(),
        uncommitted: entry.uncommitted,
        broken: entry.problem.is_some(),
        last,
    }
}

fn last(view: &View, audit: &Allowed, key: &Key, until: Option<crate::domain::Revision>) -> Option<Last> {
    let change = view.last_change(key, until).filter(|_| audit.sees(key))?;
    Some(Last { event: change.id.to_string(), at: At(change.at), actor: change.actor.name().to_owned() })
}

/// An attribute that is a text; empty where there is none.
fn text_of<'a>(collection: &'a Collection, attribute: &Attribute) -> &'a str {
    collection.get(attribute).and_then(|value| value.as_text()).unwrap_or_default()
}

/// Whether a text holds another one, which is in lower case, whatever the case of its letters.
fn holds(text: &str, wanted: &str) -> bool {
    if text.is_ascii() {
        let wanted = wanted.as_bytes();
        return text.as_bytes().windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted));
    }
    text.to_lowercase().contains(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing::{entry, snapshot};

    #[test]
    fn a_page_in_any_order_is_that_part_of_the_sorted_list() {
        let keys: Vec<String> = (0..250).map(|n| format!("k{:03}", n * 7 % 250)).collect();
        let named = keys.iter().map(|key| {
            let name = key.chars().rev().collect::<String>();
            entry(key, if key.ends_with('1') { Kind::Media } else { Kind::Document }, &[("name", &name)])
        });
        let snapshot = snapshot(named);
        for (sort, descending) in
            [(Sort::Key, true), (Sort::Name, false), (Sort::Kind, true), (Sort::Name, true)]
        {
            let page = |page| {
                let asked = Asked { sort, descending, page, ..Asked::default() };
                shown(&snapshot, &Allowed::anonymous(), &asked).0
            };
            let pages: Vec<_> = (1..=4).flat_map(page).collect();
            let mut sorted: Vec<_> = snapshot.catalog().iter().cloned().collect();
            sorted.sort_by(|one, two| sort.of(&one.collection).cmp(&sort.of(&two.collection)));
            if descending {
                sorted.reverse();
            }
            assert!(pages == sorted, "{sort:?} {descending}");
        }
    }

    #[test]
    fn a_search_finds_key_name_and_directory_whatever_the_case() {
        let posts = entry("Posts", Kind::Document, &[("name", "Beiträge"), ("directory", "content/blog")]);
        let finds = |text: &str| {
            let asked = Asked { text: text.to_owned(), ..Asked::default() };
            asked.takes(&posts, &text.to_lowercase())
        };
        assert!(finds("") && !finds("media"));
        for text in ["posts", "OST", "BEITRÄGE", "blog"] {
            assert!(finds(text), "{text}");
        }
    }
}
