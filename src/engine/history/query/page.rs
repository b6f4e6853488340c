//! Lists of events, page by page: newest first, those of one commit in the order of their keys.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::domain::{Key, Revision, to_the_second};
use crate::engine::history::event::{Action, EventRecord};
use crate::engine::history::query::filter::{Bound, Filter};
use crate::engine::history::query::matching::MatchingEvents;
use crate::engine::history::query::time;
use crate::engine::history::query::time::TimeBound;
use crate::engine::history::{HistoryError, View};

/// Selects a page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPageQuery {
    /// The maximum number of events.
    pub size: usize,
    /// Where the page begins.
    pub at: PageStart,
}

impl EventPageQuery {
    /// Selects the newest events.
    #[must_use]
    pub const fn first(size: usize) -> Self {
        Self { size, at: PageStart::Newest }
    }
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq)]
pub enum PageStart {
    /// At the newest event.
    Newest,
    /// At the oldest event: the last page.
    Oldest,
    /// After this event in the list, with older ones (`page[after]`).
    After(EventCursor),
    /// Before this event in the list, with newer ones, up to it (`page[before]`).
    Before(EventCursor),
}

/// A page of events, newest first.
#[derive(Debug, Clone)]
pub struct EventPage {
    pub events: Vec<Arc<EventRecord>>,
    /// The cursor of each event.
    pub cursors: Vec<EventCursor>,
    /// Whether the list has newer events.
    pub has_newer: bool,
    /// Whether the list has older events.
    pub has_older: bool,
}

/// An event's place in a list. It stays valid when new commits arrive, but only for the list that it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCursor {
    revision: Revision,
    /// The index of the event in its commit, from 0.
    nth: u32,
    list: u32,
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}-{:08x}", self.revision, self.nth, self.list)
    }
}

impl FromStr for EventCursor {
    type Err = HistoryError;

    fn from_str(text: &str) -> Result<Self, HistoryError> {
        let mut parts = text.split('-');
        let (revision, nth, list) = (parts.next(), parts.next(), parts.next());
        let hex = |part: Option<&str>| {
            let digits = part.filter(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
            digits.and_then(|part| u32::from_str_radix(part, 16).ok()).ok_or(HistoryError::BadCursor)
        };
        let revision = revision.and_then(|revision| revision.parse().ok()).ok_or(HistoryError::BadCursor)?;
        let cursor = Self { revision, nth: hex(nth)?, list: hex(list)? };
        if parts.next().is_some() { Err(HistoryError::BadCursor) } else { Ok(cursor) }
    }
}

impl View {
    /// Returns a page of events, newest first; those of one commit in the order of their keys.
    ///
    /// # Errors
    ///
    /// [`HistoryError::UnknownKey`] for a collection that never existed, and
    /// [`HistoryError::BadCursor`] for a cursor of another list or of a history that was rewritten.
    pub fn events(&self, filter: &Filter, page: &EventPageQuery) -> Result<EventPage, HistoryError> {
        self.page(&MatchingEvents::new(self, filter)?, filter, page)
    }

    /// Returns a page of events, and the number of events in the whole list.
    ///
    /// # Errors
    ///
    /// As [`events`](Self::events).
    pub fn events_and_total(
        &self,
        filter: &Filter,
        page: &EventPageQuery,
    ) -> Result<(EventPage, usize), HistoryError> {
        let matching = MatchingEvents::new(self, filter)?;
        let (page, total) = (self.page(&matching, filter, page)?, matching.count());
        matching.check()?;
        Ok((page, total))
    }

    fn page(
        &self,
        matching: &MatchingEvents<'_>,
        filter: &Filter,
        page: &EventPageQuery,
    ) -> Result<EventPage, HistoryError> {
        let (events, has_newer, has_older) = match &page.at {
            PageStart::Newest => {
                let (events, more) = take(matching.newest_first(), page.size);
                (events, false, more)
            }
            PageStart::Oldest => {
                let (mut events, more) = take(matching.oldest_first(), page.size);
                events.reverse();
                (events, more, false)
            }
            PageStart::After(cursor) => {
                let (events, more) = take(matching.older(self.place_of(cursor, filter)?), page.size);
                (events, true, more)
            }
            PageStart::Before(cursor) => {
                let (mut events, more) = take(matching.newer(self.place_of(cursor, filter)?), page.size);
                events.reverse();
                (events, more, true)
            }
        };
        matching.check()?;
        let list = filter.list();
        Ok(EventPage {
            cursors: events.iter().map(|event| self.cursor(*event, list)).collect(),
            events: events.into_iter().map(|event| self.record(event)).collect::<Result<_, _>>()?,
            has_newer,
            has_older,
        })
    }

    /// Parses a bound in a user's text: a time, a day, or a revision as in [`resolve`](Self::resolve).
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    pub fn bound(&self, text: &str, side: TimeBound) -> Result<Bound, HistoryError> {
        if let Some(time) = time::parse(text, side) {
            return Ok(Bound::Time(time));
        }
        Ok(Bound::Revision { asked: text.to_owned(), revision: self.resolve(text)? })
    }

    /// Reports whether a collection with this key ever existed.
    #[must_use]
    pub fn knows(&self, key: &Key) -> bool {
        self.index.find_key(key.as_str()).is_some()
    }

    /// Returns a sentence about who deleted a collection and when; `None` for one that exists, or never did.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn fate_of(&self, key: &Key) -> Result<Option<String>, HistoryError> {
        if !self.knows(key) {
            return Ok(None);
        }
        let filter = Filter { collections: vec![key.clone()], ..Filter::default() };
        let found = self.events(&filter, &EventPageQuery::first(1))?.events;
        let last = found.first().filter(|event| event.action == Action::Deleted);
        Ok(last.map(|event| {
            let commit = &event.commit;
            let at = to_the_second(commit.at);
            format!("It was deleted by {} at {at}, by the commit {}.", commit.actor.name(), commit.revision)
        }))
    }

    fn cursor(&self, event: u32, list: u32) -> EventCursor {
        let commit = self.index.event(event).commit;
        let nth = event - self.index.events_of(commit).start;
        EventCursor { revision: self.index.commit(commit).revision, nth, list }
    }

    fn place_of(&self, cursor: &EventCursor, filter: &Filter) -> Result<u32, HistoryError> {
        let commit = self.index.find(cursor.revision).ok_or(HistoryError::BadCursor)?;
        let events = self.index.events_of(commit);
        // A made-up number counts as the last one: an error would reveal how many events of other keys a commit has.
        let last = events.end.checked_sub(1).filter(|last| events.contains(last));
        let event = last.map(|last| last.min(events.start.saturating_add(cursor.nth)));
        event.filter(|_| cursor.list == filter.list()).ok_or(HistoryError::BadCursor)
    }
}

/// Returns the first events, and whether there are more.
fn take(mut events: impl Iterator<Item = u32>, len: usize) -> (Vec<u32>, bool) {
    let taken = events.by_ref().take(len).collect();
    (taken, events.next().is_some())
}
