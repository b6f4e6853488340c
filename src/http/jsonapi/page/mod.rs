//! Pagination of lists.
//!
//! There are three styles, each with its own parameters:
//!
//! | style | parameters | ends |
//! |---|---|---|
//! | offset | `page[offset]`, `page[limit]` | links at the ends are left out |
//! | number | `page[number]` from 1, `page[size]` | links at the ends are left out |
//! | cursor | `page[size]`, `page[after]` or `page[before]` | links at the ends are `null` |
//!
//! An empty `page[after]` is the position before the first item, and an empty `page[before]` is the position after
//! the last. [`listing`] finds the items of a page, and [`links`] renders its links.

pub(crate) mod cursor;
pub(crate) mod links;
pub(crate) mod listing;
pub(crate) mod sort;

use std::collections::HashMap;

use crate::http::jsonapi::error::{Code, ErrorExtras, ErrorObject};
use crate::http::jsonapi::page::cursor::ItemCursor;
use crate::http::jsonapi::page::sort::Sort;

const OFFSET: &str = "page[offset]";
pub(crate) const LIMIT: &str = "page[limit]";
const NUMBER: &str = "page[number]";
pub(crate) const SIZE: &str = "page[size]";
const AFTER: &str = "page[after]";
const BEFORE: &str = "page[before]";

/// All parameters.
pub(crate) const NAMES: [&str; 6] = [OFFSET, LIMIT, NUMBER, SIZE, AFTER, BEFORE];

/// The parameters of event lists.
pub(crate) const NAMES_OF_EVENTS: [&str; 3] = [SIZE, AFTER, BEFORE];

/// The maximum page size, and the default page size of collection lists.
pub(crate) const PAGE_SIZE_MAX: usize = 100;

const RANGE_NOT_SUPPORTED: &str =
    "https://jsonapi.org/profiles/ethanresnick/cursor-pagination/range-pagination-not-supported";
const MAX_SIZE_EXCEEDED: &str =
    "https://jsonapi.org/profiles/ethanresnick/cursor-pagination/max-size-exceeded";

/// The requested page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageQuery {
    /// At most `limit` items, after the first `offset` ones.
    Offset {
        /// How many items to skip.
        offset: usize,
        limit: usize,
    },
    /// A numbered page, from 1.
    Number {
        /// The page number.
        number: usize,
        size: usize,
    },
    /// The items next to a position, as the cursor pagination profile describes.
    Cursor {
        /// Where the page begins or ends.
        at: At<ItemCursor>,
        size: usize,
    },
}

/// Where a cursor page begins or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum At<C> {
    /// The page begins right after a position; `None` is before the first item.
    After(Option<C>),
    /// The page ends right before a position; `None` is after the last item.
    Before(Option<C>),
}

impl<C> At<C> {
    /// The name of the query parameter.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::After(_) => AFTER,
            Self::Before(_) => BEFORE,
        }
    }

    fn into_inner(self) -> Option<C> {
        let (Self::After(cursor) | Self::Before(cursor)) = self;
        cursor
    }

    fn and_then<D>(self, read: impl FnOnce(C) -> Option<D>) -> At<D> {
        match self {
            Self::After(cursor) => At::After(cursor.and_then(read)),
            Self::Before(cursor) => At::Before(cursor.and_then(read)),
        }
    }
}

/// The default number of events on a page.
const EVENTS_LEN_DEFAULT: usize = 20;

/// The requested page of events. Events support only cursors, which the history itself decodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventPage {
    pub(crate) size: usize,
    /// Where the page begins or ends, the newest event first.
    pub(crate) at: At<String>,
}

impl Default for EventPage {
    fn default() -> Self {
        Self { size: EVENTS_LEN_DEFAULT, at: At::After(None) }
    }
}

/// The `page[...]` parameters of a query, and their faults.
#[derive(Debug, Default)]
pub(crate) struct PageParameters<'a> {
    given: HashMap<&'static str, &'a str>,
    faults: Vec<ErrorObject>,
}

impl<'a> PageParameters<'a> {
    /// Stores a parameter; returns `false` if the name is unknown.
    pub(crate) fn set(&mut self, name: &str, value: &'a str) -> bool {
        let known = NAMES.into_iter().find(|known| *known == name);
        known.map(|known| self.given.insert(known, value)).is_some()
    }

    /// Converts the parameters to a page; `None` if there are none.
    pub(crate) fn finish(
        mut self,
        sort: &Sort,
        cursor_profile: bool,
    ) -> Result<Option<PageQuery>, Vec<ErrorObject>> {
        let has = |name| self.given.contains_key(name);
        let page = if has(AFTER) || has(BEFORE) || (has(SIZE) && !has(NUMBER)) {
            self.refuse("a cursor page", &[OFFSET, LIMIT, NUMBER]);
            let (size, at) = (self.page_size(cursor_profile), self.at());
            let name = at.name();
            let at = at.and_then(|text| {
                let cursor = ItemCursor::decode(text, sort);
                if cursor.is_none() {
                    self.faults.push(invalid(name, "this is no cursor of a list in this order"));
                }
                cursor
            });
            Some(PageQuery::Cursor { at, size })
        } else if has(NUMBER) {
            self.refuse("a numbered page", &[OFFSET, LIMIT]);
            let number = self.count(NUMBER, 1).unwrap_or(1);
            Some(PageQuery::Number { number, size: self.page_size(false) })
        } else if has(OFFSET) || has(LIMIT) {
            let offset = self.count(OFFSET, 0).unwrap_or(0);
            let limit = self.count(LIMIT, 1).unwrap_or(PAGE_SIZE_MAX);
            Some(PageQuery::Offset { offset, limit: limit.min(PAGE_SIZE_MAX) })
        } else {
            None
        };
        if self.faults.is_empty() { Ok(page) } else { Err(self.faults) }
    }

    /// Converts the parameters to a page of events.
    pub(crate) fn finish_events(mut self, cursor_profile: bool) -> Result<EventPage, Vec<ErrorObject>> {
        let is_sized = self.given.contains_key(SIZE);
        let size = if is_sized { self.page_size(cursor_profile) } else { EVENTS_LEN_DEFAULT };
        let at = self.at().and_then(|text| Some(text.to_owned()));
        if self.faults.is_empty() { Ok(EventPage { size, at }) } else { Err(self.faults) }
    }

    /// Returns where a cursor page begins or ends; an empty text means the corresponding end of the list.
    fn at(&mut self) -> At<&'a str> {
        let given = |name| self.given.get(name).copied();
        let some = |text: &&str| !text.is_empty();
        match (given(AFTER), given(BEFORE)) {
            (None, Some(before)) => At::Before(Some(before).filter(some)),
            (after, before) => {
                if before.is_some() {
                    let detail = "a page begins after an item or ends before one, not both";
                    let more = ErrorExtras { kind_link: Some(RANGE_NOT_SUPPORTED), ..ErrorExtras::default() };
                    self.faults.push(invalid(BEFORE, detail).with(more));
                }
                At::After(after.filter(some))
            }
        }
    }

    fn page_size(&mut self, refuse_large: bool) -> usize {
        let size = self.count(SIZE, 1).unwrap_or(PAGE_SIZE_MAX);
        if refuse_large && size > PAGE_SIZE_MAX {
            let more = ErrorExtras {
                kind_link: Some(MAX_SIZE_EXCEEDED),
                page_size_max: Some(PAGE_SIZE_MAX),
                ..ErrorExtras::default()
            };
            let detail = format!("a page has at most {PAGE_SIZE_MAX} items");
            self.faults.push(invalid(SIZE, detail).with(more));
        }
        size.min(PAGE_SIZE_MAX)
    }

    /// Refuses the given parameters as incompatible with this kind of page.
    fn refuse(&mut self, page: &str, names: &[&'static str]) {
        let given = names.iter().filter(|name| self.given.contains_key(*name));
        let faults = given.map(|name| invalid(name, format!("this does not go together with {page}")));
        self.faults.extend(faults);
    }

    /// Parses a decimal number; a number that is too large for `usize` saturates.
    fn count(&mut self, name: &'static str, least: usize) -> Option<usize> {
        let text = *self.given.get(name)?;
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            self.faults.push(invalid(name, format!("expected a decimal number, found {text:?}")));
            return None;
        }
        let number = text.parse().unwrap_or(usize::MAX);
        if number < least {
            self.faults.push(invalid(name, format!("expected at least {least}, found {text}")));
            return None;
        }
        Some(number)
    }
}

fn invalid(name: &'static str, detail: impl Into<String>) -> ErrorObject {
    ErrorObject::new(Code::INVALID_DATA, detail.into()).parameter(name)
}
