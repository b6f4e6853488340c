//! The query of event lists. Each filter except the two bounds takes a comma-separated list.

use crate::engine::history::{Action, Origin};
use crate::http::jsonapi::document::history::EVENT;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};
use crate::http::jsonapi::page;
use crate::http::jsonapi::page::EventPage;
use crate::http::jsonapi::query::{Fields, Query, fields_of, member, not_understood, repeated};

#[derive(Debug, Default)]
pub(crate) struct EventQuery {
    pub(crate) fields: Fields,
    pub(crate) attributes: Vec<String>,
    pub(crate) actions: Vec<Action>,
    pub(crate) actors: Vec<String>,
    pub(crate) origins: Vec<Origin>,
    /// A revision or a time, as text.
    pub(crate) since: Option<String>,
    /// A revision or a time, as text.
    pub(crate) until: Option<String>,
    pub(crate) page: EventPage,
}

/// Which parameters an event path supports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventScope {
    /// Whether it takes `filter[collection]`, which the caller reads.
    pub(crate) collection: bool,
    /// Whether it takes `page[...]`; a stream does not.
    pub(crate) pages: bool,
    /// Whether the cursor pagination profile is in effect.
    pub(crate) cursor_profile: bool,
}

impl EventScope {
    /// Returns the names of the supported parameters.
    fn known(self) -> Vec<String> {
        let collection = self.collection.then_some("filter[collection]");
        let filters = ["attribute", "action", "actor", "origin", "since", "until"];
        let filters = filters.map(|name| format!("filter[{name}]"));
        let pages = page::NAMES_OF_EVENTS.into_iter().filter(|_| self.pages);
        let own = |name: &str| name.to_owned();
        let known = fields_of(&[EVENT]).chain(collection.map(own));
        known.chain(filters).chain(pages.map(own)).collect()
    }
}

/// Parses the query of an event list.
///
/// # Errors
///
/// 400 with all invalid parameters.
pub(crate) fn events(query: &Query, scope: EventScope) -> Result<EventQuery, ApiError> {
    let mut asked = EventQuery::default();
    let mut faults = repeated(query);
    let mut page = page::PageParameters::default();
    for (name, value) in &query.pairs {
        match member(name) {
            ("fields", Some(EVENT)) => asked.fields.add(EVENT, value),
            ("filter", Some("collection")) if scope.collection => {}
            ("filter", Some("attribute")) => asked.attributes = listed(value).collect(),
            ("filter", Some("action")) => match words(value, Action::parse) {
                Ok(actions) => asked.actions = actions,
                Err(word) => faults.push(unknown_word(name, &word, "created, updated or deleted")),
            },
            ("filter", Some("origin")) => match words(value, Origin::parse) {
                Ok(origins) => asked.origins = origins,
                Err(word) => faults.push(unknown_word(name, &word, "api, work-tree, command, git or merge")),
            },
            ("filter", Some("actor")) => asked.actors = listed(value).collect(),
            ("filter", Some("since")) => asked.since = Some(value.clone()),
            ("filter", Some("until")) => asked.until = Some(value.clone()),
            _ if scope.pages && page::NAMES_OF_EVENTS.contains(&name.as_str()) => {
                page.set(name, value);
            }
            _ => faults.push(not_understood(name, &scope.known())),
        }
    }
    match page.finish_events(scope.cursor_profile) {
        Ok(page) => asked.page = page,
        Err(found) => faults.extend(found),
    }
    if faults.is_empty() { Ok(asked) } else { Err(faults.into()) }
}

/// Splits a comma-separated list and trims its parts. A backslash escapes a comma or another backslash.
pub(crate) fn listed(value: &str) -> impl Iterator<Item = String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut signs = value.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => part.push(signs.next_if(|next| matches!(next, ',' | '\\')).unwrap_or(sign)),
            ',' => parts.push(std::mem::take(&mut part)),
            _ => part.push(sign),
        }
    }
    parts.push(part);
    parts.into_iter().map(|part| part.trim().to_owned())
}

/// Escapes a text as one part of such a list.
pub(crate) fn as_part(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,")
}

/// Parses each word of a list; fails with the first unknown word.
fn words<T>(value: &str, parse: fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
    listed(value).map(|word| parse(&word).ok_or(word)).collect()
}

fn unknown_word(name: &str, value: &str, words: &str) -> ErrorObject {
    ErrorObject::new(Code::INVALID_DATA, format!("expected {words}, found {value:?}")).parameter(name)
}
