//! What a page shows beside the events themselves: told from the index alone where it can be.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use uuid::Uuid;

use crate::domain::{Actor, Key, Revision};
use crate::engine::history::query::filter::MatchingEvents;
use crate::engine::history::query::page::Filter;
use crate::engine::history::{HistoryError, View};
use crate::store::{BlobId, TreeEntry};

/// The seconds of a day of UTC.
const DAY_S: i64 = 24 * 60 * 60;

/// When and by whom a collection was changed last.
#[derive(Debug, Clone)]
pub struct LastChange {
    /// The event.
    pub id: Uuid,
    /// The committer's time.
    pub at: DateTime<Utc>,
    /// The author.
    pub actor: Arc<Actor>,
}

impl View {
    /// The last event of a collection, up to a revision along the first parents if one is named; `None` where
    /// there is none. No content is read, so a list can ask for each of its rows.
    #[must_use]
    pub fn last_change(&self, key: &Key, until: Option<Revision>) -> Option<LastChange> {
        let number = self.index.find_key(key.as_str())?;
        let commit = until.map_or(Some(u32::MAX), |revision| self.index.find(revision))?;
        let row = self
            .index
            .event(self.index.of_key_until(number, commit).find(|event| !self.index.is_quiet(*event))?);
        let commit = self.index.commit(row.commit);
        let actor = Arc::clone(self.index.actor(commit.actor));
        Some(LastChange { id: row.id, at: commit.time(), actor })
    }

    /// Every key that has events up to a revision along the first parents, if one is named: the one that was
    /// changed last comes first.
    pub fn keys_by_change(&self, until: Option<Revision>) -> impl Iterator<Item = &Key> {
        let commit = until.map_or(Some(u32::MAX), |revision| self.index.find(revision));
        let events = commit.map_or(0, |commit| self.index.events_until(commit));
        let mut is_known = vec![false; self.index.keys_len() as usize];
        let told = (0..events).rev().filter(|event| !self.index.is_quiet(*event));
        let keys = told.map(|event| self.index.event(event).key);
        let fresh = keys.filter(move |key| !std::mem::replace(&mut is_known[*key as usize], true));
        fresh.map(|key| self.index.key(key))
    }

    /// How many of the events that a filter lets through each day of UTC has, the days without one left out.
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

    /// What a file of the collections folder holds at a revision, whether it can be read as a collection or not;
    /// `None` if there is no regular file of this name.
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

    /// What was committed under an id.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn content(&self, blob: BlobId) -> Result<Vec<u8>, HistoryError> {
        Ok(self.shared.archive.content(blob)?)
    }

    /// A file of the collections folder as a path inside the repository.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.shared.path(name)
    }
}
