//! Our latest changes, to distinguish what a racing git command has put back from what a person did.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::domain::Revision;
use crate::store::git::object::tree::{PathChange, PathChanges, RawTree, add_change};
use crate::store::{BlobId, Edit, WorkTree};

/// For how long replaced content that reappears is attributed to a race, and not to a person's intention.
pub(crate) const STALE_AGE_MAX: Duration = Duration::from_secs(2);

/// Our changes of the last [`STALE_AGE_MAX`].
#[derive(Debug, Default)]
pub(crate) struct RecentWrites {
    /// Oldest first.
    groups: VecDeque<RecentGroup>,
    /// The revision that has all of these changes.
    revision: Option<Revision>,
}

#[derive(Debug)]
struct RecentGroup {
    at: Instant,
    revision: Revision,
    changes: PathChanges,
}

impl RecentGroup {
    fn is_recent(&self) -> bool {
        self.at.elapsed() < STALE_AGE_MAX
    }
}

impl RecentWrites {
    /// Remembers the changes of a group; `revision` has them.
    pub(crate) fn note(&mut self, changes: &PathChanges, revision: Revision) {
        while self.groups.front().is_some_and(|group| !group.is_recent()) {
            self.groups.pop_front();
        }
        let mut kept = PathChanges::new();
        for (name, change) in changes {
            let intermediate_blobs = change.intermediate_blobs.clone();
            kept.insert(name.clone(), PathChange { content: None, intermediate_blobs, ..*change });
        }
        self.groups.push_back(RecentGroup { at: Instant::now(), revision, changes: kept });
        self.revision = Some(revision);
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.groups.back().is_some_and(RecentGroup::is_recent)
    }

    /// Returns the recent changes as one per path: from before the first one to after the last.
    pub(crate) fn get(&self) -> PathChanges {
        let mut all = PathChanges::new();
        let recent = self.groups.iter().filter(|group| group.is_recent());
        for (name, change) in recent.flat_map(|group| &group.changes) {
            add_change(&mut all, name, change.clone());
        }
        all
    }

    /// Removes edits that have what we replaced a moment ago.
    pub(crate) fn forget_replaced(&self, seen: &mut WorkTree) {
        if let WorkTree::Available { edits, .. } = seen {
            edits.retain(|edit| !self.has_replaced(edit));
        }
    }

    /// Returns whether an edit has what we replaced a moment ago.
    pub(crate) fn has_replaced(&self, edit: &Edit) -> bool {
        edit.current.blob().is_some_and(|was| self.replaced_by(&edit.name, was).is_some())
    }

    /// Returns our newest revision that replaced this content of a path a moment ago.
    pub(crate) fn replaced_by(&self, name: &str, was: Option<BlobId>) -> Option<Revision> {
        let is_replaced = |change: &PathChange| change.olds().any(|old| old == was);
        let mut recent = self.groups.iter().rev().filter(|group| group.is_recent());
        let group = recent.find(|group| group.changes.get(name).is_some_and(is_replaced))?;
        Some(group.revision)
    }

    /// Returns whether this revision is known to have all of these changes.
    pub(crate) fn is_at(&self, revision: Option<Revision>) -> bool {
        self.groups.is_empty() || self.revision == revision
    }

    /// Forgets changes that a revision with this folder does not have.
    pub(crate) fn keep_what_is_at(&mut self, revision: Option<Revision>, folder: &RawTree) {
        self.revision = revision;
        let mut gone = self.get();
        gone.retain(|name, change| {
            folder.get(name.as_bytes()).map(|pointer| pointer.blob())
                != change.after.map(|after| after.blob())
        });
        self.groups.iter_mut().for_each(|group| group.changes.retain(|name, _| !gone.contains_key(name)));
    }
}
