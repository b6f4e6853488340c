//! Lists of events, newest first and those of one commit in the order of their keys, page by page.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::event::{Action, EventRecord, Origin};
use super::index::partition;
use super::{HistoryError, View};
use crate::domain::{Key, Revision};

/// Which events are asked for; all of it must be true of an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Of this collection.
    pub collection: Option<Key>,
    /// Of this kind.
    pub action: Option<Action>,
    /// By an author of this name or e-mail address.
    pub actor: Option<String>,
    /// Of this origin.
    pub origin: Option<Origin>,
    /// From then on.
    pub since: Option<Bound>,
    /// Until then.
    pub until: Option<Bound>,
    /// Of collections that whoever asks may see.
    pub seeing: Option<Seeing>,
}

/// Tells the keys that may be seen.
#[derive(Clone)]
pub struct Seeing(pub Arc<dyn Fn(&Key) -> bool + Send + Sync>);

impl fmt::Debug for Seeing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seeing(..)")
    }
}

impl PartialEq for Seeing {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A limit in time, or along the branch.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// A committer time, included on both sides. Times need not grow along a branch, so each
    /// event is judged by its own.
    Time(DateTime<Utc>),
    /// A revision: as `since` the events that it does not reach, as `until` those that it does.
    Revision {
        /// What it was asked for as; a cursor stays one of its list when a branch's name has
        /// moved on.
        asked: String,
        /// The revision.
        revision: Revision,
    },
}

/// Which events of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// How many at most.
    pub size: usize,
    /// From where.
    pub at: At,
}

impl Page {
    /// The newest events.
    #[must_use]
    pub const fn first(size: usize) -> Self {
        Self { size, at: At::Newest }
    }
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq)]
pub enum At {
    /// At the newest event.
    Newest,
    /// At the oldest event: the last page.
    Oldest,
    /// Behind this event, with older ones (`page[after]`).
    After(Cursor),
    /// Ahead of this event, with newer ones, up to it (`page[before]`).
    Before(Cursor),
}

/// A page of events, newest first.
#[derive(Debug, Clone)]
pub struct EventPage {
    /// The events.
    pub events: Vec<Arc<EventRecord>>,
    /// The cursor of each.
    pub cursors: Vec<Cursor>,
    /// Whether the list has newer events.
    pub has_newer: bool,
    /// Whether the list has older events.
    pub has_older: bool,
}

/// An event's place in a list. It holds when new commits come, and is good for the list that it
/// was made for only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    revision: Revision,
    /// Which event of the commit, from 0.
    nth: u32,
    list: u32,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}-{:08x}", self.revision, self.nth, self.list)
    }
}

impl FromStr for Cursor {
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

impl Filter {
    /// Tells lists apart.
    fn list(&self) -> u32 {
        let bound = |bound: &Option<Bound>| match bound {
            None => String::new(),
            Some(Bound::Time(time)) => time.to_rfc3339(),
            Some(Bound::Revision { asked, .. }) => format!("r{asked}"),
        };
        let parts = [
            self.collection.as_ref().map(ToString::to_string).unwrap_or_default(),
            self.action.map_or("", Action::as_str).to_owned(),
            self.actor.as_ref().map(|actor| format!("a{actor}")).unwrap_or_default(),
            self.origin.map_or("", Origin::as_str).to_owned(),
            bound(&self.since),
            bound(&self.until),
        ];
        crc32fast::hash(parts.join("\0").as_bytes())
    }
}

/// A filter made ready for an index: the events that may fit, oldest first, and what else each
/// must keep to.
pub(super) struct Sieve<'a> {
    view: &'a View,
    filter: Filter,
    key: Option<u32>,
    actors: Option<Vec<bool>>,
    seen: Option<Vec<bool>>,
    /// The numbers of the first event and behind the last one that the revisions allow.
    range: Range<u32>,
}

impl<'a> Sieve<'a> {
    pub(super) fn new(view: &'a View, filter: &Filter) -> Result<Self, HistoryError> {
        let key = match &filter.collection {
            None => None,
            Some(key) => {
                let number = view.index.find_key(key.as_str());
                Some(number.ok_or_else(|| HistoryError::UnknownKey(key.clone()))?)
            }
        };
        let wanted = |text: &String| -> Vec<bool> {
            let is = |actor: &Arc<crate::domain::Actor>| actor.name() == text || actor.email() == text;
            view.index.actors().map(is).collect()
        };
        let after = |bound: &Option<Bound>| match bound {
            Some(Bound::Revision { revision, .. }) => {
                let commit = view.newest_reached(*revision)?;
                Ok(Some(commit.map_or(0, |commit| view.index.events_of(commit).end)))
            }
            Some(Bound::Time(_)) | None => Ok::<_, HistoryError>(None),
        };
        let from = after(&filter.since)?.unwrap_or(0);
        let end = after(&filter.until)?.unwrap_or_else(|| view.index.events_len());
        let actors = filter.actor.as_ref().map(wanted);
        let keys = || (0..view.index.keys_len()).map(|key| view.index.key(key));
        let seen = filter.seeing.as_ref().map(|Seeing(sees)| keys().map(|key| sees(key)).collect());
        Ok(Self { view, filter: filter.clone(), key, actors, seen, range: from..end.max(from) })
    }

    fn len(&self) -> usize {
        self.key.map_or(self.view.index.events_len() as usize, |key| self.view.index.of_key(key).len())
    }

    fn at(&self, place: usize) -> u32 {
        match self.key {
            Some(key) => self.view.index.of_key(key)[place],
            None => self.view.turned(super::index::number(place)),
        }
    }

    /// The place of the first event of a commit or behind it, by the number of its first event.
    fn start(&self, event: u32) -> usize {
        match self.key.map(|key| self.view.index.of_key(key)) {
            Some(events) => partition(events.len(), |place| events[place] < event),
            None => self.len().min(event as usize),
        }
    }

    /// The place of an event.
    fn place(&self, event: u32) -> usize {
        if self.key.is_some() { self.start(event) } else { self.view.turned(event) as usize }
    }

    /// The places that the revisions allow.
    fn places(&self) -> std::ops::Range<usize> {
        let (low, high) = (self.start(self.range.start), self.start(self.range.end));
        low..high.max(low)
    }

    pub(super) fn fits(&self, event: u32) -> bool {
        let row = self.view.index.event(event);
        let commit = self.view.index.commit(row.commit);
        let time = |bound: &Option<Bound>, holds: &dyn Fn(&DateTime<Utc>) -> bool| match bound {
            Some(Bound::Time(time)) => holds(time),
            Some(Bound::Revision { .. }) | None => true,
        };
        self.range.contains(&event)
            && self.key.is_none_or(|key| key == row.key)
            && self.filter.action.is_none_or(|action| action == row.action)
            && self.filter.origin.is_none_or(|origin| origin == commit.origin)
            && self.actors.as_ref().is_none_or(|actors| actors[commit.actor as usize])
            && self.seen.as_ref().is_none_or(|seen| seen[row.key as usize])
            && time(&self.filter.since, &|since| commit.time() >= *since)
            && time(&self.filter.until, &|until| commit.time() <= *until)
    }

    /// The events that fit, newest first.
    fn newest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.fitting(self.places()).rev()
    }

    /// The events that fit, the last of the list first.
    fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.fitting(self.places())
    }

    /// The events behind another one in the list that fit.
    fn older(&self, event: u32) -> impl Iterator<Item = u32> + '_ {
        let Range { start, end } = self.places();
        self.fitting(start..self.place(event).clamp(start, end)).rev()
    }

    /// The events ahead of another one in the list that fit, the nearest first.
    fn newer(&self, event: u32) -> impl Iterator<Item = u32> + '_ {
        let Range { start, end } = self.places();
        self.fitting((self.place(event) + 1).clamp(start, end)..end)
    }

    fn fitting(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = u32> + '_ {
        places.map(|place| self.at(place)).filter(|event| self.fits(*event))
    }

    /// How many events fit; nobody needs to look at each where only the collection is asked for.
    fn count(&self) -> usize {
        let Filter { collection: _, action, actor, origin, since, until, seeing } = &self.filter;
        let is_time = |bound: &Option<Bound>| matches!(bound, Some(Bound::Time(_)));
        let each = action.is_some() || actor.is_some() || origin.is_some() || seeing.is_some();
        if each || is_time(since) || is_time(until) {
            return self.oldest_first().count();
        }
        self.places().len()
    }
}

impl View {
    /// A page of events, newest first; those of one commit in the order of their keys.
    ///
    /// ```no_run
    /// # use collectory::engine::history::{At, Filter, HistoryError, Page, View};
    /// # fn f(view: &View) -> Result<(), HistoryError> {
    /// let filter = Filter { actor: Some("Mara".into()), ..Filter::default() };
    /// let first = view.events(&filter, &Page::first(20))?;
    /// if let Some(last) = first.cursors.last().filter(|_| first.has_older) {
    ///     let second = view.events(&filter, &Page { size: 20, at: At::After(*last) })?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`HistoryError::UnknownKey`] for a collection that never was, and
    /// [`HistoryError::BadCursor`] for a cursor of another list or of a history that was rewritten.
    pub fn events(&self, filter: &Filter, page: &Page) -> Result<EventPage, HistoryError> {
        let sieve = Sieve::new(self, filter)?;
        let (events, has_newer, has_older) = match &page.at {
            At::Newest => {
                let (events, more) = take(sieve.newest_first(), page.size);
                (events, false, more)
            }
            At::Oldest => {
                let (mut events, more) = take(sieve.oldest_first(), page.size);
                events.reverse();
                (events, more, false)
            }
            At::After(cursor) => {
                let (events, more) = take(sieve.older(self.place_of(cursor, filter)?), page.size);
                (events, true, more)
            }
            At::Before(cursor) => {
                let (mut events, more) = take(sieve.newer(self.place_of(cursor, filter)?), page.size);
                events.reverse();
                (events, more, true)
            }
        };
        let list = filter.list();
        Ok(EventPage {
            cursors: events.iter().map(|event| self.cursor(*event, list)).collect(),
            events: events.into_iter().map(|event| self.record(event)).collect::<Result<_, _>>()?,
            has_newer,
            has_older,
        })
    }

    /// How many events a list has.
    ///
    /// # Errors
    ///
    /// As [`events`](Self::events).
    pub fn count(&self, filter: &Filter) -> Result<usize, HistoryError> {
        Ok(Sieve::new(self, filter)?.count())
    }

    /// The limit that a user's text names: a time, or a revision as in [`resolve`](Self::resolve).
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    pub fn bound(&self, text: &str) -> Result<Bound, HistoryError> {
        if let Some(time) = super::parse_time(text) {
            return Ok(Bound::Time(time));
        }
        Ok(Bound::Revision { asked: text.to_owned(), revision: self.resolve(text)? })
    }

    /// A page of one collection's events, a deleted one's too.
    ///
    /// # Errors
    ///
    /// As [`events`](Self::events).
    pub fn of(&self, key: &Key, page: &Page) -> Result<EventPage, HistoryError> {
        self.events(&Filter { collection: Some(key.clone()), ..Filter::default() }, page)
    }

    /// Whether there ever was a collection of this key.
    #[must_use]
    pub fn knows(&self, key: &Key) -> bool {
        self.index.find_key(key.as_str()).is_some()
    }

    /// The number of an event if those of each commit were numbered the other way round.
    fn turned(&self, event: u32) -> u32 {
        let events = self.index.events_of(self.index.event(event).commit);
        events.start + (events.end - 1 - event)
    }

    fn cursor(&self, event: u32, list: u32) -> Cursor {
        let commit = self.index.event(event).commit;
        let nth = event - self.index.events_of(commit).start;
        Cursor { revision: self.index.commit(commit).revision, nth, list }
    }

    fn place_of(&self, cursor: &Cursor, filter: &Filter) -> Result<u32, HistoryError> {
        let commit = self.index.find(cursor.revision).ok_or(HistoryError::BadCursor)?;
        let events = self.index.events_of(commit);
        let event = events.start.checked_add(cursor.nth).filter(|event| events.contains(event));
        event.filter(|_| cursor.list == filter.list()).ok_or(HistoryError::BadCursor)
    }
}

/// The first events, and whether there are more.
fn take(mut events: impl Iterator<Item = u32>, len: usize) -> (Vec<u32>, bool) {
    let taken = events.by_ref().take(len).collect();
    (taken, events.next().is_some())
}
