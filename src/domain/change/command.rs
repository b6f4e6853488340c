//! What may be asked.

use std::sync::Arc;

use crate::domain::{Collection, Key, Kind, Patch, Revision};

/// The most bytes of the reason for a change, in UTF-8.
pub const REASON_BYTES_MAX: usize = 1024;

/// A wish to change the catalog, not yet decided on.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Add a collection.
    Create(Collection),
    /// Change the attributes of a collection.
    Update {
        /// The collection.
        key: Key,
        /// The kind that the caller takes it for, if it said so.
        kind: Option<Kind>,
        /// What to change.
        patch: Patch,
    },
    /// Remove a collection.
    Delete {
        /// The collection.
        key: Key,
        /// The kind that the caller takes it for, if it said so.
        kind: Option<Kind>,
    },
    /// Bring a collection back to what it was.
    Restore(Box<Restore>),
}

/// A wish to bring a collection back to what it was, as it was planned with the past in view.
#[derive(Debug, Clone, PartialEq)]
pub struct Restore {
    /// The collection.
    pub key: Key,
    /// What the plan saw; it is good for nothing else.
    pub seen: Option<Arc<Collection>>,
    /// What the collection is to be; `None` to remove it.
    pub to: Option<Arc<Collection>>,
    /// The file that comes back byte for byte; without it the values are changed in the file as it
    /// is.
    pub exact: Option<Exact>,
    /// What is taken back, for the commit's message.
    pub reverses: Reverses,
}

/// A file that comes back byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exact {
    /// The name inside the collections folder.
    pub file: String,
    /// The content, which reads as the collection that is to be.
    pub bytes: Arc<[u8]>,
    /// The id of the committed content that the plan saw, if there was a file.
    pub over: Option<[u8; 20]>,
}

/// What is taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reverses {
    /// The event of this id.
    Event(String),
    /// Everything since this revision.
    Since(Revision),
}

impl Command {
    /// The collection that the command is about.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Create(collection) => collection.key(),
            Self::Update { key, .. } | Self::Delete { key, .. } => key,
            Self::Restore(restore) => &restore.key,
        }
    }
}
