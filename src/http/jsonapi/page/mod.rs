//! Pages of the list, as they are asked for.
//!
//! Three styles, each with parameters of its own:
//!
//! | style | parameters | ends |
//! |---|---|---|
//! | offset | `page[offset]`, `page[limit]` | links at the ends are left out |
//! | number | `page[number]` from 1, `page[size]` | links at the ends are left out |
//! | cursor | `page[size]`, `page[after]` or `page[before]` | links at the ends are `null` |
//!
//! An empty `page[after]` stands before the first item and an empty `page[before]` behind the last
//! one. What is on a page is the business of [`listing`].

pub(crate) mod cursor;
pub(crate) mod listing;
pub(crate) mod sort;

use crate::http::jsonapi::error::{Code, ErrorObject, More};
use crate::http::jsonapi::page::cursor::ItemCursor;
use crate::http::jsonapi::page::sort::Sort;

/// The most items on a page, and how many there are when nobody says.
pub(crate) const PAGE_SIZE_MAX: usize = 100;

const RANGE_NOT_SUPPORTED: &str =
    "https://jsonapi.org/profiles/ethanresnick/cursor-pagination/range-pagination-not-supported";
const MAX_SIZE_EXCEEDED: &str =
    "https://jsonapi.org/profiles/ethanresnick/cursor-pagination/max-size-exceeded";

/// The page that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageQuery {
    /// At most `limit` items, after the first `offset` ones.
    Offset {
        /// How many items are left out.
        offset: usize,
        /// How many items there are at most.
        limit: usize,
    },
    /// Pages with numbers, from 1.
    Number {
        /// Which one.
        number: usize,
        /// How many items it has at most.
        size: usize,
    },
    /// What the cursor pagination profile describes: the items beside a place.
    Cursor {
        /// Where the page begins or ends.
        at: ItemsAt,
        /// How many items there are at most.
        size: usize,
    },
}

/// Where a page of items begins or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ItemsAt {
    /// Right after a place; `None` before the first item.
    After(Option<ItemCursor>),
    /// Right before a place; `None` behind the last item.
    Before(Option<ItemCursor>),
}

/// How many events a page has when nobody says.
const EVENTS_LEN_DEFAULT: usize = 20;

/// A page of events: they have cursors only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventPage {
    /// How many events there are at most.
    pub(crate) size: usize,
    /// Where the page begins or ends.
    pub(crate) at: EventsAt,
}

/// Where a page of events begins or ends; the cursors are read by who made them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventsAt {
    /// Right after an event; with an empty text at the newest one.
    After(String),
    /// Right before an event; with an empty text behind the oldest one.
    Before(String),
}

impl Default for EventPage {
    fn default() -> Self {
        Self { size: EVENTS_LEN_DEFAULT, at: EventsAt::After(String::new()) }
    }
}

/// The `page[...]` parameters as they come.
#[derive(Debug, Default)]
pub(crate) struct Parameters<'a> {
    offset: Option<&'a str>,
    limit: Option<&'a str>,
    number: Option<&'a str>,
    size: Option<&'a str>,
    after: Option<&'a str>,
    before: Option<&'a str>,
}

impl<'a> Parameters<'a> {
    /// Takes a parameter; `false` if there is none of this name.
    pub(crate) fn set(&mut self, member: &str, value: &'a str) -> bool {
        let slot = match member {
            "offset" => &mut self.offset,
            "limit" => &mut self.limit,
            "number" => &mut self.number,
            "size" => &mut self.size,
            "after" => &mut self.after,
            "before" => &mut self.before,
            _ => return false,
        };
        *slot = Some(value);
        true
    }

    /// Makes a page of them; `None` without any.
    pub(crate) fn finish(
        self,
        sort: &Sort,
        cursor_profile: bool,
    ) -> Result<Option<PageQuery>, Vec<ErrorObject>> {
        let mut faults = Vec::new();
        let has_cursor = self.after.is_some() || self.before.is_some();
        let page = if has_cursor || (self.size.is_some() && self.number.is_none()) {
            stray(
                &mut faults,
                "a cursor page",
                &[("page[offset]", self.offset), ("page[limit]", self.limit), ("page[number]", self.number)],
            );
            self.cursor(sort, cursor_profile, &mut faults)
        } else if self.number.is_some() {
            stray(
                &mut faults,
                "a numbered page",
                &[("page[offset]", self.offset), ("page[limit]", self.limit)],
            );
            let number = count(&mut faults, "page[number]", self.number, 1).unwrap_or(1);
            PageQuery::Number { number, size: self.page_size(false, &mut faults) }
        } else if self.offset.is_some() || self.limit.is_some() {
            let offset = count(&mut faults, "page[offset]", self.offset, 0).unwrap_or(0);
            let limit = count(&mut faults, "page[limit]", self.limit, 1).unwrap_or(PAGE_SIZE_MAX);
            PageQuery::Offset { offset, limit: limit.min(PAGE_SIZE_MAX) }
        } else {
            return Ok(None);
        };
        if faults.is_empty() { Ok(Some(page)) } else { Err(faults) }
    }

    /// Makes a page of events of them.
    pub(crate) fn finish_events(self, cursor_profile: bool) -> Result<EventPage, Vec<ErrorObject>> {
        let mut faults = Vec::new();
        let size = self.size.map(|_| self.page_size(cursor_profile, &mut faults));
        if self.after.is_some() && self.before.is_some() {
            faults.push(range());
        }
        let at = match (self.after, self.before) {
            (None, Some(before)) => EventsAt::Before(before.to_owned()),
            (after, _) => EventsAt::After(after.unwrap_or_default().to_owned()),
        };
        let page = EventPage { size: size.unwrap_or(EVENTS_LEN_DEFAULT), at };
        if faults.is_empty() { Ok(page) } else { Err(faults) }
    }

    fn cursor(&self, sort: &Sort, profile: bool, faults: &mut Vec<ErrorObject>) -> PageQuery {
        let size = self.page_size(profile, faults);
        if self.after.is_some() && self.before.is_some() {
            faults.push(range());
        }
        let at = match (self.after, self.before) {
            (None, Some(before)) => ItemsAt::Before(parsed("page[before]", before, sort, faults)),
            (after, _) => ItemsAt::After(parsed("page[after]", after.unwrap_or_default(), sort, faults)),
        };
        PageQuery::Cursor { at, size }
    }

    fn page_size(&self, refuse_large: bool, faults: &mut Vec<ErrorObject>) -> usize {
        let size = count(faults, "page[size]", self.size, 1).unwrap_or(PAGE_SIZE_MAX);
        if refuse_large && size > PAGE_SIZE_MAX {
            let more = More {
                kind_link: Some(MAX_SIZE_EXCEEDED),
                page_size_max: Some(PAGE_SIZE_MAX),
                ..More::default()
            };
            let detail = format!("a page has at most {PAGE_SIZE_MAX} items");
            faults.push(invalid("page[size]", detail).with(more));
        }
        size.min(PAGE_SIZE_MAX)
    }
}

fn invalid(name: &'static str, detail: impl Into<String>) -> ErrorObject {
    ErrorObject::new(Code::INVALID_DATA, detail.into()).parameter(name)
}

fn range() -> ErrorObject {
    invalid("page[before]", "a page begins after an item or ends before one, not both")
        .with(More { kind_link: Some(RANGE_NOT_SUPPORTED), ..More::default() })
}

fn stray(faults: &mut Vec<ErrorObject>, page: &str, parameters: &[(&'static str, Option<&str>)]) {
    for (name, _) in parameters.iter().filter(|(_, value)| value.is_some()) {
        faults.push(invalid(name, format!("this does not go together with {page}")));
    }
}

/// Reads a decimal number; one that is too large for the machine is as large as can be.
fn count(
    faults: &mut Vec<ErrorObject>,
    name: &'static str,
    text: Option<&str>,
    least: usize,
) -> Option<usize> {
    let text = text?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        faults.push(invalid(name, format!("expected a decimal number, found {text:?}")));
        return None;
    }
    let number = text.parse().unwrap_or(usize::MAX);
    if number < least {
        faults.push(invalid(name, format!("expected at least {least}, found {text}")));
        return None;
    }
    Some(number)
}

fn parsed(name: &'static str, text: &str, sort: &Sort, faults: &mut Vec<ErrorObject>) -> Option<ItemCursor> {
    if text.is_empty() {
        return None;
    }
    let cursor = ItemCursor::decode(text, sort);
    if cursor.is_none() {
        faults.push(invalid(name, "this is no cursor of a list in this order"));
    }
    cursor
}
