//! Commands: requested changes to the catalog.

use std::sync::Arc;

use crate::domain::{Collection, Key, Kind, Patch, Revision};

/// Maximum length of the reason for a change, in bytes of UTF-8.
pub const REASON_BYTES_MAX: usize = 1024;

/// A requested change to the catalog, not yet decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Add a collection.
    Create(Collection),
    /// Change the attributes of a collection.
    Update {
        /// The collection.
        key: Key,
        /// The kind that the caller expects, if it named one.
        kind: Option<Kind>,
        /// What to change.
        patch: Patch,
    },
    /// Remove a collection.
    Delete {
        /// The collection.
        key: Key,
        /// The kind that the caller expects, if it named one.
        kind: Option<Kind>,
    },
    /// Restore an earlier state of a collection.
    Restore(Box<Restore>),
}

/// A request to restore an earlier state of a collection, planned from the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Restore {
    /// The collection.
    pub key: Key,
    /// The state that the plan was made for; the plan is invalid for any other state.
    pub expected: Option<Arc<Collection>>,
    /// The state to restore; `None` removes the collection.
    pub to: Option<Arc<Collection>>,
    /// The file to restore byte for byte. If `None`, the values are changed in the current file.
    pub exact_file: Option<ExactFile>,
    /// What the restore reverses, for the commit message.
    pub reverses: Reversal,
}

/// A file to restore byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactFile {
    /// The name inside the collections folder.
    pub file: String,
    /// The content, which parses as the collection to restore.
    pub bytes: Arc<[u8]>,
    /// The blob id of the committed file that the plan saw, if there was one.
    pub expected_blob: Option<[u8; 20]>,
}

/// What a restore reverses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reversal {
    /// The event with this id.
    Event(String),
    /// Every change since this revision.
    Since(Revision),
}

impl Command {
    /// The key of the collection that the command is about.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Create(collection) => collection.key(),
            Self::Update { key, .. } | Self::Delete { key, .. } => key,
            Self::Restore(restore) => &restore.key,
        }
    }
}
