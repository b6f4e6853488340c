//! Commits that the journal has just made, shared with the archive.
//!
//! The history follows every commit. Those of this service need not be looked up in packs, unpacked and compared,
//! because the writer knows what they say and change.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::Revision;
use crate::store::cache::SharedCache;
use crate::store::git::object::tree::PathChanges;
use crate::store::{BlobId, CommitChanges, EachContent};

/// How many commits are remembered, some 600 bytes each: how far a busy history may fall behind and still catch up
/// cheaply. Older ones are read like any other commit, which reads the indexes of all packs.
const STEPS_MAX: usize = 4096;

/// How many bytes of contents are kept at least; up to twice as many are. The next edit of a file starts from its
/// content.
const CONTENT_BYTES_MIN: usize = 4 << 20;

/// The newest commits of this service with their changes, and the contents that they wrote.
#[derive(Debug)]
pub(crate) struct RecentCommits {
    known: Mutex<Known>,
    contents: SharedCache<BlobId, Arc<[u8]>>,
}

impl Default for RecentCommits {
    fn default() -> Self {
        Self { known: Mutex::default(), contents: SharedCache::new(CONTENT_BYTES_MIN) }
    }
}

#[derive(Debug, Default)]
struct Known {
    steps: HashMap<Revision, CommitChanges>,
    order: VecDeque<Revision>,
}

impl RecentCommits {
    /// Remembers commits, oldest first.
    pub(crate) fn remember(&self, steps: Vec<CommitChanges>) {
        self.with(|known| {
            for step in steps {
                known.order.push_back(step.commit.revision);
                known.steps.insert(step.commit.revision, step);
            }
            while known.order.len() > STEPS_MAX
                && let Some(oldest) = known.order.pop_front()
            {
                known.steps.remove(&oldest);
            }
        });
    }

    pub(crate) fn commit_changes(&self, revision: Revision) -> Option<CommitChanges> {
        self.with(|known| known.steps.get(&revision).cloned())
    }

    /// Returns the first parent of a remembered commit; the inner `None` for a root commit.
    pub(crate) fn first_parent(&self, revision: Revision) -> Option<Option<Revision>> {
        self.with(|known| known.steps.get(&revision).map(|step| step.commit.parents.first().copied()))
    }

    /// Keeps the contents that a group has written.
    pub(crate) fn keep(&self, changes: PathChanges) {
        for change in changes.into_values() {
            if let Some((after, content)) = change.after.zip(change.content) {
                let bytes = content.len();
                self.contents.put(after.blob(), content.into(), bytes);
            }
        }
    }

    /// Passes the remembered contents to `each`, and returns the other blobs with their indexes.
    pub(crate) fn contents(&self, blobs: &[BlobId], each: &EachContent<'_>) -> (Vec<usize>, Vec<BlobId>) {
        let mut others = (Vec::new(), Vec::new());
        for (index, blob) in blobs.iter().enumerate() {
            match self.contents.get(blob) {
                Some(content) => each(index, Ok(&content)),
                None => {
                    others.0.push(index);
                    others.1.push(*blob);
                }
            }
        }
        others
    }

    fn with<T>(&self, act: impl FnOnce(&mut Known) -> T) -> T {
        // A panic while the lock is held costs at most a commit that has to be read.
        act(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::domain::Actor;
    use crate::store::Commit;

    fn revision(number: usize) -> Revision {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Revision::new(bytes)
    }

    fn step(number: usize) -> CommitChanges {
        let commit = Commit {
            revision: revision(number),
            parents: number.checked_sub(1).map(revision).into_iter().collect(),
            author: Actor::service(),
            committer: Actor::service(),
            at: DateTime::UNIX_EPOCH,
            message: format!("commit {number}"),
        };
        CommitChanges { commit, changes: Vec::new(), problem: None }
    }

    #[test]
    fn the_newest_commits_are_known_and_the_oldest_are_forgotten() {
        let fresh = RecentCommits::default();
        (0..STEPS_MAX + 2).for_each(|number| fresh.remember(vec![step(number)]));
        assert_eq!(fresh.commit_changes(revision(1)), None);
        assert_eq!(fresh.commit_changes(revision(2)), Some(step(2)));
        assert_eq!(fresh.first_parent(revision(STEPS_MAX + 1)), Some(Some(revision(STEPS_MAX))));
        assert_eq!(fresh.first_parent(revision(1)), None);
    }

    #[test]
    fn a_root_commit_has_no_parent_and_is_known_all_the_same() {
        let fresh = RecentCommits::default();
        fresh.remember(vec![step(0)]);
        assert_eq!(fresh.first_parent(revision(0)), Some(None));
    }
}
