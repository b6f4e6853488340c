//! The answer to a submission that was carried out.

use std::sync::Arc;
use std::time::Instant;

use crate::domain::{Actor, Revision};
use crate::engine::projection::Entry;
use crate::engine::unified::unified;

/// A submission that was carried out.
#[derive(Debug, Clone)]
pub struct SubmitAnswer {
    /// The revision that the answer comes from: the commit that was made for the submission, now or for an earlier
    /// request with the same idempotency key. If no commit was needed, the revision that it was decided on. Readers
    /// are served this revision, or a later one, before the answer is sent.
    pub revision: Option<Revision>,
    /// The outcome of each change, in order.
    pub outcomes: Vec<Outcome>,
    /// The commits that a dry run would make.
    pub preview: Option<Vec<Preview>>,
}

/// A commit that would be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Its message; its ids are new each time.
    pub message: String,
    /// Its author: the caller, or the person who edited the file by hand before.
    pub author: Actor,
    /// Its files.
    pub files: Vec<PreviewedFile>,
}

/// A file of a commit that would be made, with its current and its new content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewedFile {
    /// The path inside the repository.
    pub path: String,
    /// The current content, if the file exists.
    pub before: Option<Vec<u8>>,
    /// The new content, unless the file would be removed.
    pub after: Option<Vec<u8>>,
}

impl PreviewedFile {
    /// Returns the change as unified diff text. This takes time that the writer thread does not have; differences
    /// that are not found by `until` are shown as replaced.
    #[must_use]
    pub fn difference(&self, until: Instant) -> String {
        unified(&self.path, self.before.as_deref(), self.after.as_deref(), until)
    }
}

/// The outcome of one change.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The collection was created.
    Created(Arc<Entry>),
    /// The collection was changed.
    Updated(Arc<Entry>),
    /// The collection already was in this state; no commit was made for it.
    Unchanged(Arc<Entry>),
    /// The collection was deleted.
    Deleted,
}

impl Outcome {
    /// Returns the collection as the change left it, unless it was deleted.
    pub(crate) const fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Created(entry) | Self::Updated(entry) | Self::Unchanged(entry) => Some(entry),
            Self::Deleted => None,
        }
    }

    pub(crate) const fn entry_mut(&mut self) -> Option<&mut Arc<Entry>> {
        match self {
            Self::Created(entry) | Self::Updated(entry) | Self::Unchanged(entry) => Some(entry),
            Self::Deleted => None,
        }
    }
}
