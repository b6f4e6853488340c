//! The rows of the index: 40 bytes per commit and 48 per event, whatever their contents.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::file_name::FileExtension;
use crate::domain::{Key, Revision};
use crate::engine::history::event::{Action, Origin};
use crate::store::TreeEntry;

/// One indexed commit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CommitRow {
    pub(crate) revision: Revision,
    /// The committer's time, in seconds since 1970.
    pub(crate) at: i64,
    /// The author, by number.
    pub(crate) actor: u32,
    /// The number of its first event; its events end where those of the next commit begin.
    pub(crate) events: u32,
    pub(crate) origin: Origin,
    /// Whether the commit, or the commit it is compared with, is damaged.
    pub(crate) is_damaged: bool,
}

impl CommitRow {
    pub(crate) fn time(&self) -> DateTime<Utc> {
        DateTime::from_timestamp(self.at, 0).unwrap_or_default()
    }
}

/// What one commit did to one collection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct EventRow {
    pub(crate) id: Uuid,
    /// The commit, by number.
    pub(crate) commit: u32,
    /// The key, by number.
    pub(crate) key: u32,
    pub(crate) action: Action,
    /// The effective file of the key from here on.
    pub(crate) after: Option<Version>,
}

/// The effective file of a key in a commit: `.yaml`, or `.yml` where there is no `.yaml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    pub(crate) ending: FileExtension,
    /// The tree entry with this name.
    pub(crate) entry: TreeEntry,
}

impl Version {
    /// Returns the name inside the collections folder.
    pub(crate) fn name(self, key: &Key) -> String {
        self.ending.file_of(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_costs_what_it_says() {
        assert_eq!(size_of::<CommitRow>(), 40);
        assert_eq!(size_of::<EventRow>(), 48);
    }
}
