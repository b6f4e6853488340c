//! The fast path for committed files that need no further examination.
//!
//! A start and a checkout bring thousands of files, and nearly all of them are good, committed, the only file of
//! their key, and not in conflict with another key. For those the rule of [`layers`](crate::engine::layers) is short:
//! they are served. They are read on all cores, one chunk at a time so that memory is reused from one chunk to the
//! next, and go straight into the next snapshot; all others are left to [`rebuild`](Mirror::rebuild).

use std::collections::HashSet;
use std::sync::Arc;

use crate::domain::Key;
use crate::domain::file_name::{FileExtension, key_of, names_of, with_other_extension};
use crate::engine::mirror::{CommittedChanges, Mirror};
use crate::engine::projection::{Entry, Snapshot};
use crate::store::{FileChange, StoreError, TreeEntry};
use crate::telemetry::Progress;

/// Number of files that are read before they are taken over.
const SHARE_LEN: usize = 16 * 1024;

impl Mirror {
    /// Moves the plain files into `next`; returns the other changes and what was read of them.
    pub(crate) fn take_plain(
        &mut self,
        changes: Vec<FileChange>,
        next: &mut Snapshot,
    ) -> Result<CommittedChanges, StoreError> {
        let twins = twins(&changes);
        let mut progress = Progress::begin("collections", changes.len());
        let mut changes = changes.into_iter();
        let mut step = CommittedChanges::default();
        loop {
            let share: Vec<FileChange> = changes.by_ref().take(SHARE_LEN).collect();
            if share.is_empty() {
                return Ok(step);
            }
            let read = self.read_all(&share)?;
            progress.advance(share.len());
            for (change, reading) in every_other_first(share.into_iter().zip(read)) {
                let FileChange { name, after, .. } = change;
                let plain = match (&after, &reading) {
                    (Some(TreeEntry::File(_)), Some(Ok(good))) if good.missing_status_names.is_empty() => {
                        let key = good.collection.key();
                        !twins.contains(key) && self.is_plain(key, &name, next)
                    }
                    _ => false,
                };
                match (reading, after) {
                    (Some(Ok(good)), _) if plain => {
                        next.insert(Arc::new(Entry::of_file(good.collection, &name, good.blob)));
                    }
                    (reading, after) => {
                        if let (Some(reading), Some(TreeEntry::File(blob))) = (reading, after) {
                            step.readings.insert(name.clone(), (blob, reading));
                        }
                        step.moved.insert(name, after);
                    }
                }
            }
        }
    }

    /// Returns whether a good committed file is simply served for its key: it is or becomes the only file of the key,
    /// has no hand edit, and no other key is in its way.
    fn is_plain(&self, key: &Key, name: &str, next: &Snapshot) -> bool {
        let is_known = |name: &String| {
            self.work_tree.edits.contains_key(name)
                || self.unserved.contains_key(name)
                || self.unbuilt.contains(name)
        };
        let knows_some =
            !(self.work_tree.edits.is_empty() && self.unserved.is_empty() && self.unbuilt.is_empty());
        let known = knows_some && names_of(key).iter().any(is_known);
        let fits =
            |entry: &Arc<Entry>| entry.is_named(name) && entry.is_as_committed() && entry.problem.is_none();
        !known && next.get(key.as_str()).is_none_or(fits) && next.catalog().case_variant(key).is_none()
    }
}

/// Yields the items at even positions, then those between them. If a tree is filled in order, each full node is split
/// in the middle and its first half stays half empty; in this order the later items fill it.
fn every_other_first<T>(items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let (mut even, mut odd) = (Vec::new(), Vec::new());
    for (place, item) in items.enumerate() {
        if place % 2 == 0 { even.push(item) } else { odd.push(item) }
    }
    even.into_iter().chain(odd)
}

/// Returns the keys whose two files both change.
fn twins(changes: &[FileChange]) -> HashSet<Key> {
    let names = |wanted: FileExtension| {
        changes.iter().map(|change| &*change.name).filter(move |name| FileExtension::of(name) == wanted)
    };
    let yml: HashSet<&str> = names(FileExtension::Yml).collect();
    if yml.is_empty() {
        return HashSet::new();
    }
    let has_twin = |name: &&str| with_other_extension(name).is_some_and(|twin| yml.contains(&*twin));
    names(FileExtension::Yaml).filter(has_twin).filter_map(key_of).collect()
}
