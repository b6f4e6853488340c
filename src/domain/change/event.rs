//! Events: the changes that commands cause.

use std::sync::Arc;

use crate::domain::{Collection, Key};

/// A change of one collection.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A collection was added.
    Created(Arc<Collection>),
    /// A collection was changed.
    Updated {
        /// The collection before the change.
        before: Arc<Collection>,
        /// The collection after the change.
        after: Arc<Collection>,
    },
    /// A collection was removed.
    Deleted(Arc<Collection>),
}

impl Event {
    /// Returns the event between two versions, either of which may be missing.
    #[must_use]
    pub fn between(before: Option<Arc<Collection>>, after: Option<Arc<Collection>>) -> Option<Self> {
        match (before, after) {
            (None, None) => None,
            (None, Some(after)) => Some(Self::Created(after)),
            (Some(before), Some(after)) => Some(Self::Updated { before, after }),
            (Some(before), None) => Some(Self::Deleted(before)),
        }
    }

    /// The key of the collection that the event is about.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Created(collection) | Self::Deleted(collection) => collection.key(),
            Self::Updated { after, .. } => after.key(),
        }
    }

    /// The collection before the event.
    #[must_use]
    pub const fn before(&self) -> Option<&Arc<Collection>> {
        match self {
            Self::Created(_) => None,
            Self::Updated { before, .. } | Self::Deleted(before) => Some(before),
        }
    }

    /// The collection after the event.
    #[must_use]
    pub const fn after(&self) -> Option<&Arc<Collection>> {
        match self {
            Self::Created(after) | Self::Updated { after, .. } => Some(after),
            Self::Deleted(_) => None,
        }
    }
}
