//! Why a question about the past has no answer.

use uuid::Uuid;

use crate::domain::Key;
use crate::engine::history::event::PastFault;
use crate::store::{Damage, SHALLOW, StoreError};

/// Why a question about the past has no answer.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The index is being made; ask again.
    #[error("the history is being read: {done} of {total} commits")]
    Building {
        /// How many commits are read.
        done: usize,
        /// How many there are to read; 0 until it is known.
        total: usize,
    },
    /// Whoever asked has left.
    #[error("whoever asked has left")]
    Left,
    /// The text can't name a revision.
    #[error("`{text}` names no revision: {why}")]
    BadRevision {
        /// The text.
        text: String,
        /// What would be right.
        why: String,
    },
    /// The served branch reaches no such commit.
    #[error("the served branch has no revision `{0}`")]
    UnknownRevision(String),
    /// No such commit is reached in the part of the history that is here; the rest of it may have one.
    #[error("the served branch has no revision `{0}` here: {SHALLOW}")]
    CutOff(String),
    /// There is such a commit, and the served branch does not reach it.
    #[error("`{0}` names a commit that exists and is no longer, or never was, part of the served branch")]
    NotOnBranch(String),
    /// There never was such a collection, or not at that revision.
    #[error("Collection '{0}' not found.")]
    UnknownKey(Key),
    /// There is no such event.
    #[error("there is no event `{0}`")]
    UnknownEvent(Uuid),
    /// The cursor is none of this list.
    #[error("the cursor is none of this list, begin again without one")]
    BadCursor,
    /// The text is no sync token.
    #[error("this is no sync token")]
    BadToken,
    /// What the sync token names is not known any more, or of a history that was rewritten since.
    #[error(
        "it can not be told what has changed since this token was given; read everything and take a new token"
    )]
    Gone,
    /// What is asked for is not in this clone; the text tells how to have it.
    #[error("{0}")]
    NotFetched(String),
    /// The repository has lost a content that the answer would rest on.
    #[error("{0}")]
    Lost(PastFault),
    /// The repository can't be read.
    #[error(transparent)]
    Store(StoreError),
    /// The index could not be brought up to date; the text tells why, for the log.
    #[error("the history can't be read: {0}")]
    Unreadable(String),
}

impl HistoryError {
    /// Nothing is read any more.
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
