//! The query of a list of events.

use super::super::error::{ApiError, Code, ErrorObject};
use super::super::page::{self, EventPage};
use super::super::past::EVENT;
use super::{Fields, Query, member, not_understood, repeated};
use crate::engine::history::{Action, Origin};

/// What is asked of a list of events.
#[derive(Debug, Default)]
pub(in crate::http) struct EventQuery {
    pub(in crate::http) fields: Fields,
    pub(in crate::http) action: Option<Action>,
    pub(in crate::http) actor: Option<String>,
    pub(in crate::http) origin: Option<Origin>,
    /// A revision or a time, as text.
    pub(in crate::http) since: Option<String>,
    /// A revision or a time, as text.
    pub(in crate::http) until: Option<String>,
    pub(in crate::http) page: EventPage,
}

/// Which events a path can be asked for.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct EventScope {
    /// Those of a collection; the caller reads the parameter.
    pub(in crate::http) collection: bool,
    /// Those of a page, and not of a stream.
    pub(in crate::http) pages: bool,
    /// Under the cursor pagination profile.
    pub(in crate::http) cursor_profile: bool,
}

/// Reads the query of a list of events.
///
/// # Errors
///
/// 400 with everything that is not understood.
pub(in crate::http) fn events(query: &Query, scope: EventScope) -> Result<EventQuery, ApiError> {
    let mut asked = EventQuery::default();
    let mut faults = repeated(query);
    let mut page = page::Parameters::default();
    for (name, value) in &query.pairs {
        match member(name) {
            ("fields", Some(EVENT)) => asked.fields.add(EVENT, value),
            ("filter", Some("collection")) if scope.collection => {}
            ("filter", Some("action")) => match Action::parse(value) {
                Some(action) => asked.action = Some(action),
                None => faults.push(unknown_word(name, value, "created, updated or deleted")),
            },
            ("filter", Some("origin")) => match Origin::parse(value) {
                Some(origin) => asked.origin = Some(origin),
                None => faults.push(unknown_word(name, value, "api, work-tree or git")),
            },
            ("filter", Some("actor")) => asked.actor = Some(value.clone()),
            ("filter", Some("since")) => asked.since = Some(value.clone()),
            ("filter", Some("until")) => asked.until = Some(value.clone()),
            ("page", Some(member @ ("size" | "after" | "before"))) if scope.pages => {
                page.set(member, value);
            }
            _ => faults.push(not_understood(name)),
        }
    }
    match page.finish_events(scope.cursor_profile) {
        Ok(page) => asked.page = page,
        Err(found) => faults.extend(found),
    }
    if faults.is_empty() { Ok(asked) } else { Err(faults.into()) }
}

fn unknown_word(name: &str, value: &str, words: &str) -> ErrorObject {
    ErrorObject::new(Code::INVALID_DATA, format!("expected {words}, found {value:?}")).parameter(name)
}
