//! Why a submission was not carried out.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::domain::{Refusal, Value};
use crate::engine::projection::Entry;
use crate::engine::projection::problem::Problem;

/// Why a submission was not carried out. Nothing of it is in the repository, except where its outcome is unknown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubmitError {
    /// The domain refuses the change.
    #[error("change {index}: {refusal}")]
    Refused {
        /// Index of the change in the submission, from 0.
        index: usize,
        /// Why.
        refusal: Refusal,
    },
    /// The collection is not in the state that the caller believes.
    #[error("change {index}: the condition does not hold")]
    ConditionFailed {
        /// Index of the change in the submission, from 0.
        index: usize,
        /// The collection as it is.
        current: Option<Arc<Entry>>,
    },
    /// The change builds on an older version, and someone else has changed the same attributes since.
    #[error("change {index}: others changed the same attributes")]
    Clash {
        /// Index of the change in the submission, from 0.
        index: usize,
        /// The collection as it is.
        current: Arc<Entry>,
        /// The attributes that both changed.
        clashes: Vec<Clash>,
    },
    /// The file that the change would build on is broken.
    #[error("change {index}: {problem}")]
    Broken {
        /// Index of the change in the submission, from 0.
        index: usize,
        /// The problem of the file.
        problem: Arc<Problem>,
    },
    /// The entry to remove or replace is not a regular file.
    #[error("change {index}: {problem}")]
    NotAFile {
        /// Index of the change in the submission, from 0.
        index: usize,
        /// The problem that says what is in the place of the file.
        problem: Arc<Problem>,
    },
    /// The file has an uncommitted edit that the service must not commit.
    #[error("change {index}: {path} has an uncommitted edit")]
    EditedByHand {
        /// Index of the change in the submission, from 0.
        index: usize,
        /// The path of the file inside the repository.
        path: String,
    },
    /// The file has an uncommitted edit, and git would change it before committing it.
    #[error("change {index}: {path} has an uncommitted edit, and git would change it before committing it")]
    Converted {
        /// Index of the change in the submission, from 0.
        index: usize,
        /// The path of the file inside the repository.
        path: String,
    },
    /// The file has an uncommitted edit that could not be read in full, so it can't be committed.
    #[error("change {index}: {path} has an uncommitted edit of more than {bytes_max} bytes or in the making")]
    UnreadableEdit {
        /// Index of the change in the submission, from 0.
        index: usize,
        /// The path of the file inside the repository.
        path: String,
        /// Maximum number of bytes that are read of a file.
        bytes_max: usize,
    },
    /// Another program has the file open and is writing it.
    #[error("change {index}: {path} is being written")]
    BeingWritten {
        /// Index of the change in the submission, from 0.
        index: usize,
        /// The path of the file inside the repository.
        path: String,
    },
    /// The files that the changes build on are too large for one submission.
    #[error("change {index}: the files that are changed together have more than {bytes_max} bytes")]
    FilesTooLarge {
        /// Index of the change that exceeds the limit, from 0.
        index: usize,
        /// Maximum total size of the files in bytes.
        bytes_max: usize,
    },
    /// Another request was granted under the same idempotency key.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The queue is full.
    #[error("the write queue is full")]
    Busy,
    /// The repository has not been read yet.
    #[error("the repository is still being read")]
    Loading,
    /// The service is shutting down.
    #[error("the service is shutting down")]
    ShuttingDown,
    /// The remote that shares the branch refuses the write.
    #[error("the remote refuses the write: {why}")]
    RemoteRefused {
        /// The remote's reason, in a form that may be shown.
        why: String,
    },
    /// The remote that shares the branch can't be reached.
    #[error("the remote cannot be reached")]
    RemoteUnreachable,
    /// The remote has not reported whether it took the commit: the commit may be there, or may still arrive.
    #[error("the remote has not said whether it took the write")]
    OutcomeUnknown {
        /// The events that will show whether it did.
        events: Vec<Uuid>,
    },
    /// The repository can't be written now.
    #[error("{reason}")]
    Unavailable {
        /// What prevents it, in a text for the client that names no path outside the repository.
        reason: String,
        /// When to retry.
        retry_after: Duration,
    },
}

/// An attribute that two writers changed in different ways.
#[derive(Debug, Clone, PartialEq)]
pub struct Clash {
    /// The attribute's name on the wire.
    pub attribute: String,
    /// The value in the version that both started from; `None` if the attribute was absent, also below.
    pub base: Option<Value>,
    /// The value that the caller wants.
    pub yours: Option<Value>,
    /// The current value.
    pub theirs: Option<Value>,
}
