//! What a page shows besides the events themselves, taken from the index alone where possible.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use uuid::Uuid;

use crate::domain::{Actor, Key, Revision};
use crate::engine::history::query::filter::Filter;
use crate::engine::history::query::matching::MatchingEvents;
use crate::engine::history::{HistoryError, View};
use crate::store::{BlobId, TreeEntry};

/// The number of seconds in a UTC day.
const DAY_S: i64 = 24 * 60 * 60;

/// When a collection was last changed, and by whom.
#[derive(Debug, Clone)]
pub struct LastChange {
    pub id: Uuid,
    /// The committer's time.
    pub at: DateTime<Utc>,
    /// The author.
    pub actor: Arc<Actor>,
}

impl View {
    /// Returns the last event of a collection, up to an indexed revision if one is given; `None` where there is
    /// none. It reads no contents, so a list can call it for each row.
    #[must_use]
    pub fn last_change(&self, key: &Key, until: Option<Revision>) -> Option<LastChange> {
        let number = self.index.find_key(key.as_str())?;
        let commit = until.map_or(Some(u32::MAX), |revision| self.index.find(revision))?;
        let mut events = self.index.of_key_until(number, commit);
        let row = self.index.event(events.find(|event| !self.index.is_suppressed(*event))?);
        let commit = self.index.commit(row.commit);
        let actor = Arc::clone(self.index.actor(commit.actor));
        Some(LastChange { id: row.id, at: commit.time(), actor })
    }

    /// Returns every key that has events, most recently changed first, up to an indexed revision if one is given.
    pub fn keys_by_change(&self, until: Option<Revision>) -> impl Iterator<Item = &Key> {
        let commit = until.map_or(Some(u32::MAX), |revision| self.index.find(revision));
        let mut is_known = vec![false; self.index.keys_len() as usize];
        let is_reached = move |event: &u32| {
            commit.is_some_and(|commit| self.index.forks().reaches(commit, self.index.event(*event).commit))
        };
        let newest_first = (0..self.index.events_len()).rev();
        let reported = newest_first.filter(is_reached).filter(|event| !self.index.is_suppressed(*event));
        let keys = reported.map(|event| self.index.event(event).key);
        let fresh = keys.filter(move |key| !std::mem::replace(&mut is_known[*key as usize], true));
        fresh.map(|key| self.index.key(key))
    }

    /// Returns the number of matching events of each UTC day, without the days that have none.
    ///
    /// # Errors
    ///
    /// As [`events`](Self::events).
    pub fn events_by_day(&self, filter: &Filter) -> Result<BTreeMap<NaiveDate, usize>, HistoryError> {
        let matching = MatchingEvents::new(self, filter)?;
        let mut days: BTreeMap<i64, usize> = BTreeMap::new();
        let mut last = (0, 0);
        matching.count_by_commit(|commit, events| {
            let day = commit.at.div_euclid(DAY_S);
            if day != last.0 {
                *days.entry(last.0).or_default() += last.1;
                last = (day, 0);
            }
            last.1 += events;
        });
        *days.entry(last.0).or_default() += last.1;
        matching.check()?;
        let date = |day: i64| DateTime::from_timestamp(day * DAY_S, 0).unwrap_or_default().date_naive();
        Ok(days.into_iter().filter(|(_, count)| *count > 0).map(|(day, count)| (date(day), count)).collect())
    }

    /// Reads a file of the collections folder at a revision, whether it is a valid collection or not; `None` if
    /// there is no regular file with this name.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn file(&self, revision: Revision, name: &str) -> Result<Option<Vec<u8>>, HistoryError> {
        let files = self.shared.archive.files(revision, &|other| other == name)?;
        match files.into_iter().find(|(found, _)| found == name) {
            Some((_, TreeEntry::File(blob))) => Ok(Some(self.shared.archive.content(blob)?)),
            Some((_, TreeEntry::Special(_))) | None => Ok(None),
        }
    }

    /// Reads a blob.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn content(&self, blob: BlobId) -> Result<Vec<u8>, HistoryError> {
        Ok(self.shared.archive.content(blob)?)
    }

    /// Returns the path inside the repository of a file of the collections folder.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.shared.path(name)
    }

    /// Returns the name in the collections folder of a file with this path inside the repository.
    #[must_use]
    pub fn name_of<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(&self.path("")).unwrap_or(path)
    }
}
