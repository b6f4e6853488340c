//! Which events of the index a filter lets through, and where they stand in its list.

use std::ops::Range;
use std::sync::Arc;

use super::index::{number, partition};
use super::page::{Bound, Filter, Seeing};
use super::row::{CommitRow, EventRow};
use super::{HistoryError, View};
use crate::domain::Actor;

impl Filter {
    /// Which commits fit by what is the same for all their events; nothing where all do.
    fn fitting_commits(&self, view: &View) -> Option<Vec<bool>> {
        let (since, until) = (self.since_s(), self.until_s());
        if self.actor.is_none() && self.origin.is_none() && since.is_none() && until.is_none() {
            return None;
        }
        let is = |actor: &Arc<Actor>| {
            self.actor.as_ref().is_none_or(|wanted| actor.name() == wanted || actor.email() == wanted)
        };
        let actors: Vec<bool> = view.index.actors().map(is).collect();
        let times = since.unwrap_or(i64::MIN)..=until.unwrap_or(i64::MAX);
        let fits = |row: &CommitRow| {
            times.contains(&row.at)
                && actors[row.actor as usize]
                && self.origin.is_none_or(|origin| origin == row.origin)
        };
        Some(view.index.commits().map(fits).collect())
    }

    /// The first second that is late enough; commits are made at whole ones.
    fn since_s(&self) -> Option<i64> {
        let Some(Bound::Time(time)) = self.since else { return None };
        Some(time.timestamp() + i64::from(time.timestamp_subsec_nanos() > 0))
    }

    /// The last second that is early enough.
    fn until_s(&self) -> Option<i64> {
        let Some(Bound::Time(time)) = self.until else { return None };
        Some(time.timestamp())
    }

    /// Whether an event is asked for, as far as the index tells; `None` where it can't.
    pub(super) fn takes(&self, view: &View, event: u32) -> Option<bool> {
        let row = view.index.event(event);
        let commit = view.index.commit(row.commit);
        let (key, actor) = (view.index.key(row.key), view.index.actor(commit.actor));
        let since = match &self.since {
            None => true,
            Some(Bound::Time(time)) => commit.time() >= *time,
            Some(Bound::Revision { revision, .. }) => row.commit > view.index.find(*revision)?,
        };
        let until = match &self.until {
            None => true,
            Some(Bound::Time(time)) => commit.time() <= *time,
            Some(Bound::Revision { revision, .. }) => row.commit <= view.index.find(*revision)?,
        };
        Some(
            since
                && until
                && self.collection.as_ref().is_none_or(|collection| collection == key)
                && self.action.is_none_or(|action| action == row.action)
                && self.origin.is_none_or(|origin| origin == commit.origin)
                && self.actor.as_ref().is_none_or(|it| actor.name() == it || actor.email() == it)
                && self.seeing.as_ref().is_none_or(|Seeing(sees)| sees(key)),
        )
    }
}

/// A filter made ready for an index: the events that may fit, oldest first, and what else each
/// must keep to.
pub(super) struct Sieve<'a> {
    view: &'a View,
    filter: Filter,
    key: Option<u32>,
    /// Which commits fit, by number; nothing where all do.
    commits: Option<Vec<bool>>,
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
        let after = |bound: &Option<Bound>| match bound {
            Some(Bound::Revision { revision, .. }) => {
                let commit = view.newest_reached(*revision)?;
                Ok(Some(commit.map_or(0, |commit| view.index.events_of(commit).end)))
            }
            Some(Bound::Time(_)) | None => Ok::<_, HistoryError>(None),
        };
        let from = after(&filter.since)?.unwrap_or(0);
        let end = after(&filter.until)?.unwrap_or_else(|| view.index.events_len());
        let commits = filter.fitting_commits(view);
        let range = narrowed(view, commits.as_deref(), from..end.max(from));
        let keys = || (0..view.index.keys_len()).map(|key| view.index.key(key));
        let seen = filter.seeing.as_ref().map(|Seeing(sees)| keys().map(|key| sees(key)).collect());
        Ok(Self { view, filter: filter.clone(), key, commits, seen, range })
    }

    fn len(&self) -> usize {
        self.key.map_or(self.view.index.events_len() as usize, |key| self.view.index.of_key(key).len())
    }

    fn at(&self, place: usize) -> u32 {
        match self.key {
            Some(key) => self.view.index.of_key(key).at(place),
            None => self.view.turned(number(place)),
        }
    }

    /// The place of the first event of a commit or behind it, by the number of its first event.
    fn start(&self, event: u32) -> usize {
        match self.key.map(|key| self.view.index.of_key(key)) {
            Some(events) => partition(events.len(), |place| events.at(place) < event),
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
        self.range.contains(&event) && self.fits_row(self.view.index.event(event))
    }

    fn fits_row(&self, row: &EventRow) -> bool {
        self.key.is_none_or(|key| key == row.key)
            && self.filter.action.is_none_or(|action| action == row.action)
            && self.commits.as_ref().is_none_or(|commits| commits[row.commit as usize])
            && self.seen.as_ref().is_none_or(|seen| seen[row.key as usize])
    }

    /// The events that fit, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.fitting(self.places()).rev()
    }

    /// The events that fit, the last of the list first.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.fitting(self.places())
    }

    /// The events behind another one in the list that fit.
    pub(super) fn older(&self, event: u32) -> impl Iterator<Item = u32> + '_ {
        let Range { start, end } = self.places();
        self.fitting(start..self.place(event).clamp(start, end)).rev()
    }

    /// The events ahead of another one in the list that fit, the nearest first.
    pub(super) fn newer(&self, event: u32) -> impl Iterator<Item = u32> + '_ {
        let Range { start, end } = self.places();
        self.fitting((self.place(event) + 1).clamp(start, end)..end)
    }

    fn fitting(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = u32> + '_ {
        places.map(|place| self.at(place)).filter(|event| self.fits(*event))
    }

    /// How many events fit; nobody needs to look at each where only the collection is asked for, or
    /// only what is the same for all events of a commit.
    pub(super) fn count(&self) -> usize {
        let Range { start, end } = self.range.clone();
        let is_of_all = self.seen.is_none() && self.filter.action.is_none();
        match (self.key, &self.commits) {
            (_, None) if is_of_all => self.places().len(),
            (None, Some(commits)) if is_of_all => self.count_of(commits),
            (Some(_), _) => self.oldest_first().count(),
            (None, _) => {
                let some = self.view.index.events().skip(start as usize).take((end - start) as usize);
                some.filter(|row| self.fits_row(row)).count()
            }
        }
    }

    /// How many events of the range are of commits that fit.
    fn count_of(&self, commits: &[bool]) -> usize {
        let Range { start, end } = self.range;
        if start >= end {
            return 0;
        }
        let ends = self.view.index.commits().skip(1).map(|row| row.events).chain([u32::MAX]);
        let events = self.view.index.commits().map(|row| row.events).zip(ends);
        let fitting = events.zip(commits).filter(|(_, fits)| **fits);
        fitting.map(|((from, until), _)| until.min(end).saturating_sub(from.max(start)) as usize).sum()
    }
}

/// What is left of a range of events between the first and the last commit that fit.
fn narrowed(view: &View, commits: Option<&[bool]>, range: Range<u32>) -> Range<u32> {
    let Some(commits) = commits else { return range };
    let place = |at: Option<usize>| at.map(|at| view.index.events_of(number(at)));
    let first = place(commits.iter().position(|fits| *fits));
    let last = place(commits.iter().rposition(|fits| *fits));
    let (Some(first), Some(last)) = (first, last) else { return range.start..range.start };
    let start = range.start.max(first.start);
    start..range.end.min(last.end).max(start)
}

impl View {
    /// The number of an event if those of each commit were numbered the other way round.
    fn turned(&self, event: u32) -> u32 {
        let events = self.index.events_of(self.index.event(event).commit);
        events.start + (events.end - 1 - event)
    }
}
