//! Why a query of the history fails.

use uuid::Uuid;

use crate::domain::Key;
use crate::engine::history::event::PastFault;
use crate::store::{Damage, SHALLOW, StoreError};

/// Why a query of the history fails.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The index is being built; ask again.
    #[error("the history is being read: {done} of {total} commits")]
    Building {
        /// The number of commits read.
        done: usize,
        /// The number of commits to read; 0 until it is known.
        total: usize,
    },
    /// The client no longer waits.
    #[error("whoever asked has left")]
    Left,
    /// The text can't name a revision.
    #[error("`{text}` names no revision: {why}")]
    BadRevision {
        text: String,
        /// What is expected instead.
        why: String,
    },
    /// The served branch does not reach such a commit.
    #[error("the served branch has no revision `{0}`")]
    UnknownRevision(String),
    /// The branch had no commit at that time.
    #[error("the served branch had no commit yet at `{0}`")]
    BeforeFirst(String),
    /// The part of the history in this shallow clone has no such commit; the rest may have one.
    #[error("the served branch has no revision `{0}` here: {SHALLOW}")]
    CutOff(String),
    /// The commit exists, but the served branch does not reach it.
    #[error("`{0}` names a commit that exists and is no longer, or never was, part of the served branch")]
    NotOnBranch(String),
    /// The collection never existed, or did not at that revision.
    #[error("Collection '{0}' not found.")]
    UnknownKey(Key),
    #[error("there is no event `{0}`")]
    UnknownEvent(Uuid),
    /// The cursor does not belong to this list.
    #[error("the cursor is none of this list, begin again without one")]
    BadCursor,
    #[error("this is no sync token")]
    BadToken,
    /// The state that the sync token identifies is no longer known, or the history has been rewritten since.
    #[error("what has changed since this token was given is not known; read everything and take a new token")]
    Gone,
    /// The requested data is not in this clone; the text says how to fetch it.
    #[error("{0}")]
    NotFetched(String),
    /// The repository has lost content that the result depends on.
    #[error("{0}")]
    Lost(PastFault),
    /// The repository can't be read.
    #[error(transparent)]
    Store(StoreError),
    /// The index could not be brought up to date; the text says why, for the log.
    #[error("the history can't be read: {0}")]
    Unreadable(String),
}

impl HistoryError {
    /// Returns the error for a service that is shutting down.
    pub(crate) fn stopping() -> Self {
        Self::Unreadable("the service is shutting down".into())
    }
}

impl From<StoreError> for HistoryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged { damage: Damage::Promised, .. } => Self::NotFetched(error.to_string()),
            error => Self::Store(error),
        }
    }
}
