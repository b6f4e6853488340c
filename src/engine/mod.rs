//! The engine: the only part of the service that changes anything.

mod handle;
mod problem;
mod projection;
mod signal;

pub use handle::{Condition, Handle, Outcome, Submission, SubmitError, Tags, Wish, Written};
pub use problem::{Problem, Serving};
pub use projection::{Entry, Projection, Snapshot};
pub use signal::{Hint, Signal};
