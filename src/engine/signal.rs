//! Everything that can wake the writer.

use std::collections::BTreeSet;
use std::time::Instant;

use tokio::sync::oneshot;
use tracing::Span;

use crate::domain::{Actor, Key};
use crate::engine::submission::Submission;
use crate::engine::submission::answer::Written;
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::once::Once;

/// A reason for the writer to act; there is no other.
#[derive(Debug)]
pub enum Signal {
    /// Somebody wants a change.
    Submit(Job),
    /// Somebody wants to hear again what was granted.
    Replay(Question),
    /// Something may have changed in the repository.
    Changed(Hint),
    /// Finish what is queued and stop.
    Shutdown,
}

/// What may have changed; a hint and never the truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// These names inside the collections folder.
    Files(Vec<String>),
    /// The branch, or which branch is checked out.
    Branch,
    /// Anything: look at everything.
    Everything,
}

/// Several hints as one.
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

    /// The hint that asks for all of them, the branch aside.
    pub(crate) fn of_files(&self) -> Hint {
        if self.everything { Hint::Everything } else { Hint::Files(self.files.iter().cloned().collect()) }
    }
}

/// A submission on its way, and where its answer goes.
#[derive(Debug)]
pub struct Job {
    pub(crate) asked_at: Instant,
    /// The request that asks, for what is logged of it.
    pub(crate) span: Span,
    pub(crate) submission: Submission,
    pub(crate) reply: oneshot::Sender<Result<Written, SubmitError>>,
}

impl Job {
    /// Answers; that nobody waits any more is no failure.
    pub(crate) fn answer(self, answer: Result<Written, SubmitError>) {
        drop(self.reply.send(answer));
    }
}

/// A request for what was granted under a name, and where its answer goes.
#[derive(Debug)]
pub struct Question {
    pub(crate) author: Actor,
    pub(crate) once: Once,
    /// The collection that the request was about.
    pub(crate) key: Key,
    /// That request, for what is logged of it.
    pub(crate) span: Span,
    pub(crate) reply: oneshot::Sender<Result<Option<Written>, SubmitError>>,
}

impl Question {
    /// Answers; that nobody waits any more is no failure.
    pub(crate) fn answer(self, answer: Result<Option<Written>, SubmitError>) {
        drop(self.reply.send(answer));
    }
}
