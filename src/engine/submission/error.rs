//! Why a submission was not carried out.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::domain::{Refusal, Value};
use crate::engine::projection::Entry;
use crate::engine::projection::problem::Problem;

/// Why a submission was not carried out; nothing of it is in the repository, unless that is not known.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubmitError {
    /// The domain says no.
    #[error("change {index}: {refusal}")]
    Refused {
        /// Which change of the submission, from 0.
        index: usize,
        /// Why.
        refusal: Refusal,
    },
    /// The collection is not what the caller believes.
    #[error("change {index}: the condition does not hold")]
    Condition {
        /// Which change of the submission, from 0.
        index: usize,
        /// What the collection is.
        current: Option<Arc<Entry>>,
    },
    /// The change builds on an older version, and somebody else changed the same attributes since.
    #[error("change {index}: others changed the same attributes")]
    Clash {
        /// Which change of the submission, from 0.
        index: usize,
        /// What the collection is.
        current: Arc<Entry>,
        /// The attributes.
        clashes: Vec<Clash>,
    },
    /// The file that the change would build on is broken.
    #[error("change {index}: {problem}")]
    Broken {
        /// Which change of the submission, from 0.
        index: usize,
        /// What is wrong with it.
        problem: Arc<Problem>,
    },
    /// What is to be removed or replaced is no regular file.
    #[error("change {index}: {problem}")]
    NoFile {
        /// Which change of the submission, from 0.
        index: usize,
        /// What stands in the place of the file.
        problem: Arc<Problem>,
    },
    /// The file has an uncommitted edit, and those are not to be served or committed.
    #[error("change {index}: {path} has an uncommitted edit")]
    EditedByHand {
        /// Which change of the submission, from 0.
        index: usize,
        /// The file, as a path inside the repository.
        path: String,
    },
    /// The file has an uncommitted edit, and git would have a program change it first.
    #[error("change {index}: {path} has an uncommitted edit, and git would have a filter change it first")]
    Filtered {
        /// Which change of the submission, from 0.
        index: usize,
        /// The file, as a path inside the repository.
        path: String,
    },
    /// The file has an uncommitted edit that could not be read whole, so it can't be committed.
    #[error("change {index}: {path} has an uncommitted edit of more than {bytes_max} bytes or in the making")]
    UnreadEdit {
        /// Which change of the submission, from 0.
        index: usize,
        /// The file, as a path inside the repository.
        path: String,
        /// How many bytes are read of a file.
        bytes_max: usize,
    },
    /// The files that the changes build on are too much for one submission.
    #[error("change {index}: the files that are changed together have more than {bytes_max} bytes")]
    TooMuch {
        /// Which change of the submission goes beyond that, from 0.
        index: usize,
        /// How many bytes they may have.
        bytes_max: usize,
    },
    /// Another request was granted under the same name.
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
    /// The remote that shares the branch does not take it.
    #[error("the remote refuses the write: {why}")]
    RemoteRefused {
        /// What the remote said, fit to be shown.
        why: String,
    },
    /// The remote that shares the branch can't be asked.
    #[error("the remote cannot be reached")]
    RemoteUnreachable,
    /// The remote has not said whether it took the commit: it may be there, or come to be.
    #[error("the remote has not said whether it took the write")]
    OutcomeUnknown {
        /// The events that tell later whether it did.
        events: Vec<Uuid>,
    },
    /// The repository can't be written now; the text is fit for a client and names no path outside
    /// the repository.
    #[error("{reason}")]
    Unavailable {
        /// What stands in the way, for the client.
        reason: String,
        /// When to try again.
        retry_after: Duration,
    },
}

/// One attribute that two people changed in different ways.
#[derive(Debug, Clone, PartialEq)]
pub struct Clash {
    /// The wire name.
    pub attribute: String,
    /// What it was when the two set out; `None` if it was absent, as below.
    pub base: Option<Value>,
    /// What the caller wants.
    pub yours: Option<Value>,
    /// What it is by now.
    pub theirs: Option<Value>,
}
