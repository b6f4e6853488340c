//! The history: who changed what, when and why, and the collections as they were.
//!
//! Git stores all of it; this module makes it searchable. A dedicated thread follows the head of the served branch
//! and maintains an index of what each commit did to each collection. A reader takes a [`View`], which never
//! changes, and queries it. File contents are read from the [`Archive`] only when they are shown.
//!
//! ```text
//! writer ──publish──▶ Projection ──head──▶ history thread ──▶ Index ──▶ View: events, as of,
//!                                            (Archive)          │       diff, blame, undo …
//!                                                               └─────▶ Subscription
//! ```
//!
//! Guarantees:
//!
//! * Events are the difference of each commit to its first parent; trailers only add to it.
//! * A view taken after a write was acknowledged includes that write ([`History::view`]).
//! * Nothing waits for a reader: a subscriber reads from the index at its own pace.
//! * The index is derived data: it may be deleted, and is checked against the repository when opened.
//!
//! With a service, [`History::start`] follows a running engine; without one, [`History::read`]
//! reads the repository once.
//!
//! # Merges made by the service
//!
//! Where instances acknowledge writes before the remote has the commit, one of them merges its own commits with
//! those that the remote received in the meantime. The first parent of such a merge is the remote's line. The
//! commits that it brings in are indexed right before it, with their own events (`index::forks`), and the merge has
//! events only for what it decided (`event::decided`). A follower that has received the events of the merged-in
//! commits receives those of the other side next, and then those of the merge.
//!
//! # Keys that differ only in letter case
//!
//! Of such keys the catalog serves one: a committed one before an uncommitted one, then the one whose file has
//! existed longest, then the first in byte order. [`View::as_of`] does the same. Events are about files, so both
//! keys have their own.

mod cache_sizes;
mod error;
mod event;
mod follow;
mod index;
mod past;
mod query;
mod received;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use crate::domain::file_name::path_in;
use crate::domain::{Collection, Key, Revision};
pub use crate::engine::history::error::HistoryError;
pub use crate::engine::history::event::blame::Blame;
pub use crate::engine::history::event::difference::CollectionDifference;
pub(crate) use crate::engine::history::event::table::EventTable;
pub use crate::engine::history::event::verify::{CommitOrigin, Disagreement, Rules, Verdict};
pub use crate::engine::history::event::{Action, Effect, EventRecord, Origin, PastFault, Position};
#[cfg(test)]
pub(crate) use crate::engine::history::event::{EventCommit, EventMessage};
pub use crate::engine::history::follow::feed::{Followed, Subscription};
pub use crate::engine::history::follow::{History, Options};
pub use crate::engine::history::past::as_of::AsOf;
pub use crate::engine::history::past::sync_token::{
    ServedChange, SyncToken, VersionDigest, VisibleKeys, VisibleState,
};
pub use crate::engine::history::past::undo::UndoRefusal;
pub use crate::engine::history::query::filter::{Filter, KeyVisibility};
pub(crate) use crate::engine::history::query::glance::LastChange;
pub use crate::engine::history::query::page::{EventPage, EventPageQuery, PageStart};
pub use crate::engine::history::query::time::TimeBound;
use crate::engine::layers::{ParsedVersion, damage_fault, not_a_file};
use crate::engine::pacing::Pacing;
use crate::format::Fault;
use crate::store::cache::SharedCache;
pub use crate::store::signature::SignatureStatus;
use crate::store::{Archive, BlobId, Damage, StoreError, TreeEntry};

use crate::engine::history::index::Index;
use crate::engine::history::index::row::Version;

/// The state shared by all views.
#[derive(Debug)]
pub(crate) struct SharedHistory {
    archive: Arc<dyn Archive>,
    options: Options,
    versions: SharedCache<(Key, Version), PastReading>,
    /// The oldest commit is part of the key because an event depends on the commits before it.
    records: SharedCache<(Option<Revision>, Revision, Key), Arc<EventRecord>>,
    /// The oldest commit is part of the key because a broken file is shown as an older commit has it.
    catalogs: SharedCache<(Option<Revision>, Revision), Arc<AsOf>>,
    /// Paces the subscribers.
    pacing: Arc<Pacing>,
    /// Wakes the follower thread to check the repository again although the head has not moved.
    look_again: Notify,
}

/// The result of reading a file of the past.
#[derive(Debug, Clone)]
pub(crate) enum PastReading {
    Good(ParsedVersion),
    Broken(PastFault),
    /// The repository can't read it at present.
    Lost(MissingContent),
}

/// A version whose content the repository does not have.
#[derive(Debug, Clone)]
pub(crate) struct MissingContent {
    pub(crate) version: Version,
    pub(crate) fault: PastFault,
    /// Whether it was never fetched: this is a partial clone, and a remote has promised the content.
    pub(crate) is_promised: bool,
}

impl PastReading {
    /// Reports whether the result is final.
    const fn is_final(&self) -> bool {
        self.lost().is_none()
    }

    /// Returns why the repository can't read the file, if it can't.
    const fn lost(&self) -> Option<&MissingContent> {
        match self {
            Self::Lost(lost) => Some(lost),
            Self::Good(_) | Self::Broken(_) => None,
        }
    }
}

/// A good version of a collection, and the file that contains it.
#[derive(Debug, Clone)]
pub(crate) struct GoodVersion {
    version: Version,
    good: ParsedVersion,
}

fn collection_of(version: &Option<GoodVersion>) -> Option<&Collection> {
    version.as_ref().map(|version| &*version.good.collection)
}

impl SharedHistory {
    fn new(archive: Arc<dyn Archive>, options: Options) -> Self {
        Self {
            archive,
            options,
            versions: SharedCache::new(cache_sizes::VERSIONS_BYTES_MIN),
            records: SharedCache::new(cache_sizes::RECORDS_BYTES_MIN),
            catalogs: SharedCache::new(cache_sizes::CATALOGS_LEN_MIN),
            pacing: Arc::default(),
            look_again: Notify::new(),
        }
    }

    /// Parses a key, reusing one that is already in memory where possible.
    fn key(&self, text: &str) -> Option<Key> {
        (self.options.known_key)(text).or_else(|| Key::parse(text).ok())
    }

    /// Reads the file of a key at a version.
    fn read(&self, key: &Key, version: Version) -> Result<PastReading, StoreError> {
        if let Some(reading) = self.versions.get(&(key.clone(), version)) {
            return Ok(reading);
        }
        let reading = match version.entry {
            TreeEntry::File(blob) => match self.archive.content(blob) {
                Ok(bytes) => self.parse(key, version, blob, &bytes),
                Err(error) => self.lost(key, version, error)?,
            },
            TreeEntry::Special(what) => PastReading::Broken(self.fault(key, version, not_a_file(what))),
        };
        self.keep(key, version, &reading);
        Ok(reading)
    }

    /// Caches a reading, unless an intact copy of a lost content may come back.
    fn keep(&self, key: &Key, version: Version, reading: &PastReading) {
        if reading.is_final() {
            self.versions.put((key.clone(), version), reading.clone(), reading.bytes());
        }
    }

    fn parse(&self, key: &Key, version: Version, blob: BlobId, bytes: &[u8]) -> PastReading {
        // An event reports only the first fault; a person who fixes the file reads `/problems`.
        ParsedVersion::read(key, blob, bytes).map_or_else(
            |faults| PastReading::Broken(self.first_fault(&version.name(key), faults)),
            PastReading::Good,
        )
    }

    /// Turns an error about lost content into a reading; an error about more than this file stays an error.
    fn lost(&self, key: &Key, version: Version, error: StoreError) -> Result<PastReading, StoreError> {
        let is_final = matches!(error, StoreError::Damaged { damage: Damage::TooLarge(_), .. });
        let is_promised = matches!(error, StoreError::Damaged { damage: Damage::Promised, .. });
        match damage_fault(&error).map(|fault| self.fault(key, version, fault)) {
            Some(fault) if is_final => Ok(PastReading::Broken(fault)),
            Some(fault) => Ok(PastReading::Lost(MissingContent { version, fault, is_promised })),
            None => Err(error),
        }
    }

    fn fault(&self, key: &Key, version: Version, fault: Fault) -> PastFault {
        self.first_fault(&version.name(key), vec![fault])
    }

    /// Returns the first of a file's faults, the only one that the history reports.
    fn first_fault(&self, name: &str, mut faults: Vec<Fault>) -> PastFault {
        PastFault { path: self.path(name), fault: faults.swap_remove(0) }
    }

    /// Returns the path inside the repository of a file of the collections folder.
    fn path(&self, name: &str) -> String {
        path_in(&self.options.folder, name)
    }
}

/// The history as it was when the view was taken; cheap to clone.
///
/// Queries read from the disk, so run them where blocking is allowed (`spawn_blocking`).
#[derive(Debug, Clone)]
pub struct View {
    shared: Arc<SharedHistory>,
    index: Arc<Index>,
    client: Option<QueryClient>,
}

/// A client that waits for the result of a query, until it leaves.
#[derive(Debug, Clone, Default)]
pub struct QueryClient(Arc<AtomicBool>);

impl QueryClient {
    /// Signals that the client no longer waits.
    pub fn leave(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl View {
    const fn new(shared: Arc<SharedHistory>, index: Arc<Index>) -> Self {
        Self { shared, index, client: None }
    }

    /// Makes long queries end when this client leaves.
    #[must_use]
    pub fn asked_by(self, client: QueryClient) -> Self {
        Self { client: Some(client), ..self }
    }

    /// Fails if the client no longer waits, to end a long query.
    fn check_client(&self) -> Result<(), HistoryError> {
        match &self.client {
            Some(QueryClient(has_left)) if has_left.load(Ordering::Relaxed) => Err(HistoryError::Left),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the head of the served branch; `None` before its first commit.
    #[must_use]
    pub fn head(&self) -> Option<Revision> {
        self.index.head()
    }

    /// Returns the number of commits, those that the service's merges brought in included.
    #[must_use]
    pub fn commits_len(&self) -> usize {
        self.index.len() as usize
    }

    /// Returns the number of reported events.
    #[must_use]
    pub fn events_len(&self) -> usize {
        self.index.reported_len(0..self.index.events_len())
    }

    /// Returns the number of events after a position that match a filter; without a position, of all that match.
    /// An event that can't be examined without waiting counts.
    #[must_use]
    pub fn events_after(&self, position: Option<Position>, filter: &Filter) -> usize {
        let position = position.filter(|position| self.index.find(position.revision).is_some());
        let received = position.and_then(|position| self.received(position).ok().flatten());
        let (received, end) = (received.unwrap_or_default(), self.index.events_len());
        if received.beside.is_none() && *filter == Filter::default() {
            return self.index.reported_len(received.until..end);
        }
        let is_owed = |event: &u32| {
            received.is_new(&self.index, *event) && filter.matches_in_memory(self, *event) != Some(false)
        };
        (received.until..end).filter(is_owed).count()
    }

    /// Reports whether the served branch reaches a commit, through any parents.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn reaches(&self, revision: Revision) -> Result<bool, HistoryError> {
        match (self.index.find(revision), self.head()) {
            (Some(_), _) => Ok(true),
            (None, Some(head)) => Ok(self.shared.archive.descends(head, revision)?),
            (None, None) => Ok(false),
        }
    }

    /// Returns the commit nearest the head, along first parents, whose committer time is at or before `time`; `None`
    /// when all are later. Times need not increase along a branch.
    #[must_use]
    pub fn at_time(&self, time: DateTime<Utc>) -> Option<Revision> {
        let is_main = |number: usize| self.index.forks().is_main(u32::try_from(number).unwrap_or(u32::MAX));
        let mut newest_first = self.index.commits().enumerate().rev();
        newest_first.find(|(number, row)| row.time() <= time && is_main(*number)).map(|(_, row)| row.revision)
    }

    /// Returns the number of an indexed commit.
    fn commit_number(&self, revision: Revision) -> Result<u32, HistoryError> {
        self.index.find(revision).ok_or_else(|| HistoryError::UnknownRevision(revision.to_string()))
    }

    /// Returns the number of the newest indexed commit that a revision reaches.
    fn newest_reached(&self, revision: Revision) -> Result<Option<u32>, HistoryError> {
        if let Some(commit) = self.index.find(revision) {
            return Ok(Some(commit));
        }
        let mut open = vec![revision];
        let mut visited = HashSet::new();
        let mut newest = None;
        while let Some(revision) = open.pop() {
            match self.index.find(revision) {
                Some(commit) => newest = newest.max(Some(commit)),
                None if visited.insert(revision) => {
                    let commit = match self.shared.archive.commit(revision) {
                        Err(StoreError::Damaged { .. }) => None,
                        commit => commit?,
                    };
                    open.extend(commit.into_iter().flat_map(|commit| commit.parents));
                }
                None => {}
            }
        }
        Ok(newest)
    }

    /// Returns the good version in effect after an event, if any: its own, else the last one before it.
    fn good_version_after(&self, event: u32) -> Result<Option<GoodVersion>, StoreError> {
        let row = self.index.event(event);
        self.good_version_at(row.key, row.commit)
    }

    /// Returns the good version in effect before an event, if any.
    fn good_version_before(&self, event: u32) -> Result<Option<GoodVersion>, StoreError> {
        self.index.before(event).map_or(Ok(None), |before| self.good_version_after(before))
    }

    /// Returns the good version in effect before an event, if any. If the repository lacks a newer version, returns
    /// that one as the inner error, because its effect is unknown.
    fn known_good_version_before(
        &self,
        event: u32,
    ) -> Result<Result<Option<GoodVersion>, MissingContent>, StoreError> {
        let Some(before) = self.index.before(event) else { return Ok(Ok(None)) };
        let row = self.index.event(before);
        for event in self.index.of_key_until(row.key, row.commit) {
            let Some(version) = self.index.event(event).after else { break };
            match self.shared.read(self.index.key(row.key), version)? {
                PastReading::Good(good) => return Ok(Ok(Some(GoodVersion { version, good }))),
                PastReading::Lost(lost) => return Ok(Err(lost)),
                PastReading::Broken(_) => {}
            }
        }
        Ok(Ok(None))
    }

    /// Returns the good version of a key in effect at a commit: none where the key has no file, and where its file
    /// is broken, the last good version since the file was created.
    fn good_version_at(&self, key: u32, commit: u32) -> Result<Option<GoodVersion>, StoreError> {
        for event in self.index.of_key_until(key, commit) {
            let Some(version) = self.index.event(event).after else { return Ok(None) };
            match self.shared.read(self.index.key(key), version)? {
                PastReading::Good(good) => return Ok(Some(GoodVersion { version, good })),
                PastReading::Broken(_) | PastReading::Lost(_) => {}
            }
        }
        Ok(None)
    }
}
