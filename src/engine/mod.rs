//! The engine: the only part of the service that changes anything.
//!
//! The writer thread owns the journal. Requests, hand edits, fetched commits and the shutdown reach it as
//! [`Signal`]s through one bounded queue, so there is one order of changes, and it is the order of the commits.
//!
//! ```text
//! Handle ──Submit──▶ Writer ──▶ plan ──▶ Journal ──▶ Mirror ──▶ Projection
//! watch  ──Changed─▶   │       (pure)    (disk)    (what is)    (readers)
//! ```
//!
//! What the engine promises, as tested in `tests`:
//!
//! * A write is answered after it is on disk *and* readable.
//! * Readers never wait: they hold a [`Snapshot`] and share nothing else.
//! * A repository that cannot be read leaves the last good snapshot in place.
//! * A saved file that is broken, empty, gone or still being written is believed only after it has stayed so for
//!   [`MirrorOptions::settle_patience`]; a write to its key, in any letter case, waits for that.
//! * No commit of the service adds a key that differs from another key in that commit in letter case only.
//!
//! HTTP, YAML and libgit2 are not used here. The engine moves values between the layers that know them.

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
pub use crate::engine::history::{ServedChange, SyncToken, VersionDigest, VisibleKeys, VisibleState};
use crate::engine::idempotency::IdempotencyStore;
pub use crate::engine::idempotency::Retention;
pub use crate::engine::metrics::Metrics;
pub use crate::engine::mirror::MirrorOptions;
pub use crate::engine::options::{Options, WriterOptions};
pub use crate::engine::pacing::PacedFollower;
pub use crate::engine::plan::three_way::CollectionMerger;
pub use crate::engine::projection::problem::{
    BranchRewrite, Conflict, MergeConflict, Problem, RemovedEvent, Serving,
};
pub use crate::engine::projection::{Entry, Projection, PublishedHead, Snapshot};
pub use crate::engine::remote::{Decision, Remote, RemoteError};
pub use crate::engine::signal::{Hint, Signal};
pub use crate::engine::submission::answer::{Outcome, Preview, SubmitAnswer};
pub use crate::engine::submission::error::{Clash, SubmitError};
pub use crate::engine::submission::idempotency_key::{Fingerprint, IdempotencyKey};
pub use crate::engine::submission::{Condition, ConditionalCommand, Submission, Tags};
pub use crate::engine::undo::UndoRequest;
pub(crate) use crate::format::Fault;
pub use crate::format::attribute_lines;
use crate::store::{Journal, StoreError};

/// A running engine, with the handles that readers, writers and the watcher use.
#[derive(Debug)]
pub struct Engine {
    /// Submits changes.
    pub handle: Handle,
    /// Gives access to the current snapshot.
    pub projection: Projection,
    /// Takes notices of changes and the shutdown.
    pub signals: mpsc::Sender<Signal>,
    /// Ends when the writer thread has finished its last batch.
    pub writer: thread::JoinHandle<()>,
}

/// Starts the writer thread on a journal.
///
/// The writer thread reads the repository. Until that succeeds, the projection is empty and submissions are
/// answered with [`SubmitError::Loading`].
///
/// # Errors
///
/// Fails when the operating system can't start a thread.
pub fn start(journal: Box<dyn Journal>, options: Options) -> std::io::Result<Engine> {
    let (signals, inbox) = mpsc::channel(options.writer.queue_len_max);
    let projection = Projection::default();
    let clock = Arc::clone(&options.mirror.clock);
    let idempotency = IdempotencyStore::new(&options.idempotency, clock, options.reached.clone());
    let writer = writer::Writer::new(journal, inbox, projection.clone(), idempotency.clone(), options);
    let writer = thread::Builder::new().name("writer".into()).spawn(move || writer.run())?;
    Ok(Engine { handle: Handle::new(signals.clone(), idempotency), projection, signals, writer })
}

/// Reads a repository once, as a start does, and returns what would be served.
///
/// # Errors
///
/// Returns the error that kept the repository from being read.
pub fn survey(journal: Box<dyn Journal>, options: MirrorOptions) -> Result<Arc<Snapshot>, StoreError> {
    let mirror = mirror::Mirror::load(journal, options).map_err(|(_, error)| error)?;
    Ok(Arc::clone(mirror.snapshot()))
}
