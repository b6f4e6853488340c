//! Applies a filter to the index: which events match, and their places in its list.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use crate::domain::Key;
use crate::engine::history::event::Action;
use crate::engine::history::index::row::{CommitRow, EventRow};
use crate::engine::history::index::{number, partition};
use crate::engine::history::query::filter::{Bound, Filter, KeyVisibility, is_among};
use crate::engine::history::received::ReceivedEvents;
use crate::engine::history::{HistoryError, View};

/// A filter prepared for an index: the candidate events, oldest first, and the remaining conditions.
pub(crate) struct MatchingEvents<'a> {
    view: &'a View,
    filter: Filter,
    among: Candidates,
    /// Which commits match, by number; `None` where all do.
    commits: Option<Vec<bool>>,
    /// Which keys the reader may see, by number; `None` for all.
    visible_keys: Option<Vec<bool>>,
    /// The range of event numbers that the revisions allow.
    range: Range<u32>,
    /// The bounds since and until, where they are a commit that a merge brought in.
    beside: [Option<ReceivedEvents>; 2],
    /// Why an event could not be examined.
    failure: RefCell<Option<HistoryError>>,
}

/// The candidate events, in the reverse order of a list: oldest first, those of one commit by descending key.
enum Candidates {
    All,
    /// The events of the key with this number.
    Of(u32),
    /// These events, as [`View::reversed_number`] numbers them.
    Some(Vec<u32>),
}

impl<'a> MatchingEvents<'a> {
    pub(crate) fn new(view: &'a View, filter: &Filter) -> Result<Self, HistoryError> {
        let after = |bound: &Option<Bound>| match bound {
            Some(Bound::Revision { revision, .. }) => {
                let commit = view.newest_reached(*revision)?.map(|commit| view.index.commit(commit).revision);
                let received = commit.map(|commit| view.received(commit.into())).transpose()?.flatten();
                Ok(Some(received.unwrap_or_default()))
            }
            Some(Bound::Time(_)) | None => Ok::<_, HistoryError>(None),
        };
        let among = Candidates::of(view, filter)?;
        let (since, until) = (after(&filter.since)?, after(&filter.until)?);
        let from = since.map_or(0, |seen| seen.until);
        let all = view.index.events_len();
        let end = until.map_or(all, |seen| seen.beside.map_or(seen.until, |(_, end)| end));
        let beside = [since, until].map(|seen| seen.filter(|seen| seen.beside.is_some()));
        let commits = filter.fitting_commits(view);
        let range = narrow_to_matching(view, commits.as_deref(), from..end.max(from));
        let keys = || (0..view.index.keys_len()).map(|key| view.index.key(key));
        let visible_keys =
            filter.seeing.as_ref().map(|KeyVisibility(sees)| keys().map(|key| sees(key)).collect());
        Ok(Self {
            view,
            filter: filter.clone(),
            among,
            commits,
            visible_keys,
            range,
            beside,
            failure: RefCell::default(),
        })
    }

    /// Fails if an event could not be examined.
    pub(crate) fn check(&self) -> Result<(), HistoryError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn at(&self, place: usize) -> u32 {
        match &self.among {
            Candidates::All => self.view.reversed_number(number(place)),
            Candidates::Of(key) => self.view.index.of_key(*key).at(place),
            Candidates::Some(events) => self.view.reversed_number(events[place]),
        }
    }

    /// Returns the place of the first candidate in or after a commit, given the number of the commit's first event.
    fn start(&self, event: u32) -> usize {
        match &self.among {
            Candidates::All => event.min(self.view.index.events_len()) as usize,
            Candidates::Of(key) => {
                let events = self.view.index.of_key(*key);
                partition(events.len(), |place| events.at(place) < event)
            }
            Candidates::Some(events) => events.partition_point(|it| *it < event),
        }
    }

    /// Returns the place of an event.
    fn place(&self, event: u32) -> usize {
        match &self.among {
            Candidates::All => self.view.reversed_number(event) as usize,
            Candidates::Of(_) => self.start(event),
            Candidates::Some(_) => self.start(self.view.reversed_number(event)),
        }
    }

    /// Returns the places that the revisions allow.
    fn places(&self) -> Range<usize> {
        let (low, high) = (self.start(self.range.start), self.start(self.range.end));
        low..high.max(low)
    }

    pub(crate) fn fits(&self, event: u32) -> bool {
        self.is_among(event) && self.range.contains(&event) && self.is_match(event)
    }

    fn is_among(&self, event: u32) -> bool {
        match &self.among {
            Candidates::All => true,
            Candidates::Of(key) => *key == self.view.index.event(event).key,
            Candidates::Some(events) => events.binary_search(&self.view.reversed_number(event)).is_ok(),
        }
    }

    /// Reports whether a candidate event matches.
    fn is_match(&self, event: u32) -> bool {
        let [since, until] =
            self.beside.map(|it| it.map(|received| received.is_new(&self.view.index, event)));
        !self.view.index.is_suppressed(event)
            && since.unwrap_or(true)
            && !until.unwrap_or(false)
            && self.fits_row(self.view.index.event(event))
            && self.fits_effect(event)
    }

    fn fits_row(&self, row: &EventRow) -> bool {
        is_among(&self.filter.actions, &row.action)
            && self.commits.as_ref().is_none_or(|commits| commits[row.commit as usize])
            && self.visible_keys.as_ref().is_none_or(|visible| visible[row.key as usize])
    }

    /// Checks the only condition that needs file contents.
    fn fits_effect(&self, event: u32) -> bool {
        if self.filter.attributes.is_empty() {
            return true;
        }
        let effect = self.view.check_client().and_then(|()| Ok(self.view.effect(event)?.0));
        match effect {
            Ok(effect) => self.filter.matches_effect(&effect),
            Err(error) => {
                self.failure.replace(Some(error));
                false
            }
        }
    }

    /// Returns the matching events, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.matching(self.places()).rev()
    }

    /// Returns the matching events, the last of the list first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.matching(self.places())
    }

    /// Returns the matching events after another one in the list.
    pub(crate) fn older(&self, event: u32) -> impl Iterator<Item = u32> + '_ {
        let Range { start, end } = self.places();
        self.matching(start..self.place(event).clamp(start, end)).rev()
    }

    /// Returns the matching events before another one in the list, the nearest first.
    pub(crate) fn newer(&self, event: u32) -> impl Iterator<Item = u32> + '_ {
        let Range { start, end } = self.places();
        self.matching((self.place(event) + 1).clamp(start, end)..end)
    }

    fn matching(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = u32> + '_ {
        places.map(|place| self.at(place)).filter(|event| self.range.contains(event) && self.is_match(*event))
    }

    /// Returns the number of matching events, without examining each where only the collection is filtered.
    pub(crate) fn count(&self) -> usize {
        if self.commits.is_none() && self.is_of_whole_commits() {
            let suppressed = self.view.index.suppressed(self.range.clone());
            return self.places().len() - suppressed.filter(|event| self.is_among(*event)).count();
        }
        let mut count = 0;
        self.count_by_commit(|_, more| count += more);
        count
    }

    /// Reports whether no condition differs between the events of a commit, their collection aside.
    fn is_of_whole_commits(&self) -> bool {
        self.beside == [None; 2]
            && self.visible_keys.is_none()
            && self.filter.actions.is_empty()
            && self.filter.attributes.is_empty()
    }

    /// Passes the number of matching events of each commit to `each`, in any order and perhaps in several calls.
    /// Does not examine each event where all conditions are the same for all events of a commit.
    pub(crate) fn count_by_commit(&self, mut each: impl FnMut(&CommitRow, usize)) {
        let (index, Range { start, end }) = (&self.view.index, self.range.clone());
        let mut one = |event: u32| each(index.commit(index.event(event).commit), 1);
        match self.among {
            Candidates::Of(_) | Candidates::Some(_) => self.oldest_first().for_each(one),
            Candidates::All if !self.is_of_whole_commits() => {
                (start..end).filter(|event| self.is_match(*event)).for_each(&mut one);
            }
            Candidates::All => {
                let ends = index.commits().skip(1).map(|row| row.events).chain([u32::MAX]);
                for (number, (row, until)) in index.commits().zip(ends).enumerate() {
                    let fits = self.commits.as_ref().is_none_or(|commits| commits[number]);
                    let (from, until) = (row.events.max(start), until.min(end));
                    if fits && from < until {
                        each(row, index.reported_len(from..until));
                    }
                }
            }
        }
    }
}

impl Candidates {
    fn of(view: &View, filter: &Filter) -> Result<Self, HistoryError> {
        let number_of = |key: &Key| {
            view.index.find_key(key.as_str()).ok_or_else(|| HistoryError::UnknownKey(key.clone()))
        };
        let keys: Vec<u32> = filter.collections.iter().map(number_of).collect::<Result<_, _>>()?;
        match keys[..] {
            [] => Ok(Self::All),
            [key] if !filter.spans_moves(view) => Ok(Self::Of(key)),
            _ => {
                let mut events = BTreeSet::new();
                keys.into_iter().for_each(|key| view.collect(key, filter.follow, &mut events));
                Ok(Self::Some(events.into_iter().collect()))
            }
        }
    }
}

/// Narrows a range of events to those between the first and the last matching commit.
fn narrow_to_matching(view: &View, commits: Option<&[bool]>, range: Range<u32>) -> Range<u32> {
    let Some(commits) = commits else { return range };
    let place = |at: Option<usize>| at.map(|at| view.index.events_of(number(at)));
    let first = place(commits.iter().position(|fits| *fits));
    let last = place(commits.iter().rposition(|fits| *fits));
    let (Some(first), Some(last)) = (first, last) else { return range.start..range.start };
    let start = range.start.max(first.start);
    start..range.end.min(last.end).max(start)
}

impl View {
    /// Returns the number of an event if the events of each commit were numbered in reverse.
    fn reversed_number(&self, event: u32) -> u32 {
        let events = self.index.events_of(self.index.event(event).commit);
        events.start + (events.end - 1 - event)
    }

    /// Reports whether a file of this key was moved from another key.
    pub(super) fn was_moved_here(&self, key: u32) -> bool {
        self.index.of_key(key).from(0).any(|event| self.source_of(event).is_some())
    }

    /// Returns the event that removed a file from its former key, if this event created it by a move.
    pub(crate) fn source_of(&self, event: u32) -> Option<u32> {
        let is_created = self.index.event(event).action == Action::Created;
        self.index.move_counterpart(event).filter(|_| is_created)
    }

    /// Adds the events of a key, as [`reversed_number`](Self::reversed_number) numbers them, and with `follow` those
    /// of each file under its former names.
    fn collect(&self, key: u32, follow: bool, events: &mut BTreeSet<u32>) {
        let mut open = vec![(key, self.index.events_len())];
        while let Some((key, end)) = open.pop() {
            for event in self.index.of_key(key).from(0).take_while(|event| *event < end) {
                if events.insert(self.reversed_number(event)) && follow {
                    let source = self.source_of(event);
                    open.extend(source.map(|source| (self.index.event(source).key, source)));
                }
            }
        }
    }
}
