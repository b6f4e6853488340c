//! The engine: the only part of the service that changes anything.
//!
//! One thread owns the journal. Requests, hand edits, fetched commits and the shutdown arrive at
//! it as [`Signal`]s through one bounded queue, so they happen in one order and that order is the
//! order of the commits.
//!
//! ```text
//! Handle ──Submit──▶ Writer ──▶ plan ──▶ Journal ──▶ Mirror ──▶ Projection
//! watch  ──Changed─▶   │       (pure)    (disk)    (what is)    (readers)
//! ```
//!
//! What is promised here, and tested in `tests`:
//!
//! * A write is answered after it is on disk *and* readable.
//! * Readers never wait: they hold a [`Snapshot`] and share nothing else.
//! * A repository that cannot be read leaves the last good snapshot in place.
//! * A saved file that looks broken, empty or gone, or that somebody has not finished writing, is
//!   believed only after it stayed so for [`MirrorOptions::settle_patience`]; a write to its key, in
//!   whatever letter case, waits for that.
//! * No commit of the service adds a key that differs from another one in it in letter case only.
//!
//! What is not here: HTTP, YAML and libgit2. The engine moves values between layers that know
//! about those.

mod handle;
pub mod history;
mod idempotency;
mod layers;
pub(crate) mod memo;
mod metrics;
mod mirror;
mod options;
mod pacing;
mod plan;
mod projection;
mod refuse;
mod remote;
mod signal;
mod submission;
#[cfg(test)]
mod tests;
mod undo;
mod unified;
mod writer;

use std::sync::Arc;
use std::thread;

use tokio::sync::mpsc;

pub use crate::engine::handle::Handle;
pub use crate::engine::history::{Mark, ServedChange, Shown, SyncToken, VisibleKeys};
use crate::engine::idempotency::Ledger;
pub use crate::engine::idempotency::Retention;
pub use crate::engine::metrics::Metrics;
pub use crate::engine::mirror::MirrorOptions;
pub use crate::engine::options::{Options, WriterOptions};
pub use crate::engine::pacing::Paced;
pub use crate::engine::plan::three_way::Collections;
pub use crate::engine::projection::problem::{Conflict, Conflicted, Gone, Problem, Rewritten, Serving};
pub use crate::engine::projection::{Entry, Projection, PublishedHead, Snapshot};
pub use crate::engine::remote::{Decision, Remote, RemoteError};
pub use crate::engine::signal::{Hint, Signal};
pub use crate::engine::submission::answer::{Outcome, Preview, Written};
pub use crate::engine::submission::error::{Clash, SubmitError};
pub use crate::engine::submission::once::{Fingerprint, Once};
pub use crate::engine::submission::{Condition, ConditionalCommand, Submission, Tags};
pub use crate::engine::undo::Undoer;
pub(crate) use crate::format::Fault;
pub use crate::format::attribute_lines;
use crate::store::{Journal, StoreError};

/// A running engine: what readers, writers and the watcher need of it.
#[derive(Debug)]
pub struct Engine {
    /// Where changes are submitted.
    pub handle: Handle,
    /// Where the present snapshot is read.
    pub projection: Projection,
    /// Where notices of change and the shutdown go.
    pub signals: mpsc::Sender<Signal>,
    /// Ends when the writer has finished its last batch.
    pub writer: thread::JoinHandle<()>,
}

/// Starts the writer on a journal.
///
/// The repository is read on the writer's thread; until that has succeeded the projection is
/// empty and submissions are answered [`SubmitError::Loading`].
///
/// # Errors
///
/// Fails when the system gives no thread.
pub fn start(journal: Box<dyn Journal>, options: Options) -> std::io::Result<Engine> {
    let (signals, inbox) = mpsc::channel(options.writer.queue_len_max);
    let projection = Projection::default();
    let clock = Arc::clone(&options.mirror.clock);
    let ledger = Ledger::new(&options.idempotency, clock, options.reached.clone());
    let writer = writer::Writer::new(journal, inbox, projection.clone(), ledger.clone(), options);
    let writer = thread::Builder::new().name("writer".into()).spawn(move || writer.run())?;
    Ok(Engine { handle: Handle::new(signals.clone(), ledger), projection, signals, writer })
}

/// Reads a repository once, as a start does, and tells what would be served.
///
/// # Errors
///
/// Returns what kept it from being read.
pub fn survey(journal: Box<dyn Journal>, options: MirrorOptions) -> Result<Arc<Snapshot>, StoreError> {
    let mirror = mirror::Mirror::load(journal, options).map_err(|(_, error)| error)?;
    Ok(Arc::clone(mirror.snapshot()))
}
