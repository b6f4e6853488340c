//! What may be asked.

use super::{Collection, Key, Kind, Patch};

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
    },
}

impl Command {
    /// The collection that the command is about.
    #[must_use]
    pub const fn key(&self) -> &Key {
        match self {
            Self::Create(collection) => collection.key(),
            Self::Update { key, .. } | Self::Delete { key } => key,
        }
    }
}
