//! Tests of the history on repositories made for them.

mod counting;
mod decided;
mod events;
mod moved;
mod past;
mod questions;
mod random;
mod service;

use std::sync::Arc;

use crate::domain::Change;
use crate::engine::history::*;
use crate::store::git::testing::Repo;

const SERVICE: (&str, &str) = ("Collectory", "collectory@localhost");
const MARA: (&str, &str) = ("Mara", "mara@example.org");

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn read(repo: &Repo) -> View {
    History::read(repo.archive(), &Options::new("collections")).unwrap()
}

/// A collection's file with a name.
fn named(name: &str) -> String {
    format!("# kept\ntype: document\nname: {name}\n")
}

/// Returns all events as lines such as `updated posts (name A B)`, newest first.
fn events(view: &View) -> Vec<String> {
    let page = view.events(&Filter::default(), &EventPageQuery::first(1000)).unwrap();
    page.events.iter().map(|event| line(event)).collect()
}

fn line(event: &EventRecord) -> String {
    format!("{} {} ({})", event.action.as_str(), event.key, effect(&event.effect))
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Changes(changes) => changes.iter().map(shown).collect::<Vec<_>>().join(", "),
        Effect::Problem(fault) => format!("! {}:{}:{}", fault.path, fault.fault.line, fault.fault.column),
    }
}

fn shown(change: &Change) -> String {
    let value = |value: &Option<crate::domain::Value>| value.as_ref().map_or("-".into(), ToString::to_string);
    format!("{} {} {}", change.attribute, value(&change.from), value(&change.to)).replace('"', "")
}

fn ids(page: &EventPage) -> Vec<uuid::Uuid> {
    page.events.iter().map(|event| event.id).collect()
}

fn all(view: &View) -> Vec<Arc<EventRecord>> {
    let mut events = view.events(&Filter::default(), &EventPageQuery::first(usize::MAX)).unwrap().events;
    events.reverse();
    events
}

/// Returns a page of one collection's events, a deleted one's too.
fn of_key(view: &View, text: &str, page: &EventPageQuery) -> Result<EventPage, HistoryError> {
    view.events(&Filter { collections: vec![key(text)], ..Filter::default() }, page)
}
