//! The signals that wake the writer thread.

use std::collections::BTreeSet;
use std::time::Instant;

use tokio::sync::oneshot;
use tracing::Span;

use crate::domain::{Actor, Key};
use crate::engine::submission::Submission;
use crate::engine::submission::answer::SubmitAnswer;
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::idempotency_key::IdempotencyKey;

/// A reason for the writer thread to act.
#[derive(Debug)]
pub enum Signal {
    /// A client wants a change.
    Submit(Job),
    /// A client asks again for the answer to a granted request.
    Replay(ReplayRequest),
    /// The repository may have changed.
    Changed(Hint),
    /// Finish the queued work and stop.
    Shutdown,
}

/// What may have changed. It is only a hint: the truth is read from the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// These names inside the collections folder.
    Files(Vec<String>),
    /// The branch, or which branch is checked out.
    Branch,
    /// Anything, so everything must be checked.
    Everything,
}

/// Several hints combined.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    pub(crate) everything: bool,
    pub(crate) branch: bool,
    pub(crate) files: BTreeSet<String>,
}

impl Hints {
    pub(crate) fn add(&mut self, hint: &Hint) {
        match hint {
            Hint::Files(names) => self.files.extend(names.iter().cloned()),
            Hint::Branch => self.branch = true,
            Hint::Everything => (self.everything, self.branch) = (true, true),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.everything && !self.branch && self.files.is_empty()
    }

    /// Returns a hint that covers all of them except the branch.
    pub(crate) fn of_files(&self) -> Hint {
        if self.everything { Hint::Everything } else { Hint::Files(self.files.iter().cloned().collect()) }
    }
}

/// A submission in transit, with the channel for its answer.
#[derive(Debug)]
pub struct Job {
    pub(crate) asked_at: Instant,
    /// The span of the request, for its log lines.
    pub(crate) span: Span,
    pub(crate) submission: Submission,
    pub(crate) reply: oneshot::Sender<Result<SubmitAnswer, SubmitError>>,
}

impl Job {
    /// Sends the answer; a caller that no longer waits is not an error.
    pub(crate) fn answer(self, answer: Result<SubmitAnswer, SubmitError>) {
        drop(self.reply.send(answer));
    }
}

/// A question for the answer to a granted request, with the channel for the reply.
#[derive(Debug)]
pub struct ReplayRequest {
    pub(crate) author: Actor,
    pub(crate) idempotency_key: IdempotencyKey,
    /// The collection that the request changed.
    pub(crate) key: Key,
    /// The span of the request, for its log lines.
    pub(crate) span: Span,
    pub(crate) reply: oneshot::Sender<Result<Option<SubmitAnswer>, SubmitError>>,
}

impl ReplayRequest {
    /// Sends the answer; a caller that no longer waits is not an error.
    pub(crate) fn answer(self, answer: Result<Option<SubmitAnswer>, SubmitError>) {
        drop(self.reply.send(answer));
    }
}
