//! All collections as they were at one revision.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::domain::{Key, Revision};
use crate::engine::history::event::PastFault;
use crate::engine::history::{HistoryError, MissingContent};
use crate::engine::projection::{Entry, Snapshot};

/// All collections as they were at one revision.
#[derive(Debug)]
pub struct AsOf {
    /// The revision that is shown.
    pub revision: Revision,
    /// The collections by key. Uncommitted edits of that time are not stored anywhere.
    pub entries: BTreeMap<Key, Arc<Entry>>,
    /// The faults, by path.
    pub problems: BTreeMap<String, PastFault>,
    /// The versions that are not shown because the repository does not have them, by key.
    pub(super) lost: BTreeMap<Key, MissingContent>,
    /// The collections as a list, built when it is first needed.
    pub(super) snapshot: OnceLock<Arc<Snapshot>>,
}

impl AsOf {
    /// Returns the collections as a list.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        let snapshot = || Arc::new(Snapshot::at_revision(self.revision, self.entries.values().cloned()));
        Arc::clone(self.snapshot.get_or_init(snapshot))
    }

    /// Returns the keys with a file that is shown, or would be if the repository had it.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.entries.keys().chain(self.lost.keys())
    }

    /// Returns the file of a key.
    pub(crate) fn get(&self, key: &Key) -> Option<Result<&Entry, &MissingContent>> {
        let shown = self.entries.get(key).map(|entry| Ok(&**entry));
        shown.or_else(|| self.lost.get(key).map(Err))
    }

    /// Fails if a wanted collection can't be shown because a partial clone has not fetched it. That is not damage to
    /// one collection, and a fetch completes them all.
    pub(crate) fn check_fetched(&self, wanted: &dyn Fn(&Key) -> bool) -> Result<(), HistoryError> {
        let promised = self.lost.iter().find(|(key, lost)| lost.is_promised && wanted(key));
        promised.map_or(Ok(()), |(_, lost)| Err(HistoryError::Lost(lost.fault.clone())))
    }
}
