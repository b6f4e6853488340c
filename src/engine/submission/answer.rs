//! What became of a submission.

use std::sync::Arc;
use std::time::Instant;

use crate::domain::{Actor, Revision};
use crate::engine::projection::Entry;
use crate::engine::unified::unified;

/// A submission that was carried out.
#[derive(Debug, Clone)]
pub struct Written {
    /// The revision that the answer comes from: the commit that was made for it, now or for an earlier request under the
    /// same name; where none was needed, what it was decided on. Readers are served it, or what came after it, before
    /// this answer.
    pub revision: Option<Revision>,
    /// What became of each change, in order.
    pub outcomes: Vec<Outcome>,
    /// The commits that were not made, of a dry run.
    pub preview: Option<Vec<Preview>>,
}

/// A commit that would be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Its message; the ids in it are new each time.
    pub message: String,
    /// Its author: the caller, or whoever edited the file by hand before.
    pub author: Actor,
    /// Its files.
    pub files: Vec<PreviewedFile>,
}

/// A file of a commit that would be made: what stands there, and what would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewedFile {
    /// The path inside the repository.
    pub path: String,
    /// What the file holds, if it is there.
    pub before: Option<Vec<u8>>,
    /// What it would hold, if it would be there.
    pub after: Option<Vec<u8>>,
}

impl PreviewedFile {
    /// What would change, as unified text. It takes its time, which the writer does not have; what
    /// is not found until then is shown as replaced.
    #[must_use]
    pub fn difference(&self, until: Instant) -> String {
        unified(&self.path, self.before.as_deref(), self.after.as_deref(), until)
    }
}

/// What became of one change.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The collection is new.
    Created(Arc<Entry>),
    /// The collection is changed.
    Updated(Arc<Entry>),
    /// The collection was so already; no commit was made for it.
    Unchanged(Arc<Entry>),
    /// The collection is gone.
    Deleted,
}

impl Outcome {
    /// The collection as the change has left it, unless it is gone.
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
