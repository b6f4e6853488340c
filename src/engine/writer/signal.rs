//! Everything that can wake the writer.

use crate::engine::handle::{Job, Question};

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
