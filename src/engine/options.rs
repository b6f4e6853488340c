//! The options of the engine.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::idempotency::Retention;
use crate::engine::metrics::Metrics;
use crate::engine::mirror::MirrorOptions;
use crate::telemetry::LimitCounters;

/// The options of the engine; every limit has its unit.
#[derive(Clone)]
pub struct Options {
    /// How files become what is served.
    pub mirror: MirrorOptions,
    /// Limits of the writer thread.
    pub writer: WriterOptions,
    /// How long requests with an idempotency key are remembered, and how many.
    pub idempotency: Retention,
    /// Counts how often a limit is reached.
    pub reached: LimitCounters,
    /// The metrics of the writer thread.
    pub metrics: Arc<Metrics>,
    /// Called by a thread that has read much and is about to rest, so that the allocator returns freed memory.
    pub give_back: fn(),
}

/// Limits of the writer thread.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Maximum number of waiting signals; a submission beyond that is answered with
    /// [`Busy`](crate::engine::SubmitError::Busy).
    pub queue_len_max: usize,
    /// Maximum number of submissions that share one durability barrier.
    pub batch_len_max: usize,
    /// Maximum number of times a batch is decided again after a lost race for the branch.
    pub races_max: usize,
    /// Maximum total size in bytes of the files that one submission builds on.
    pub operations_bytes_max: usize,
    /// Time that the writer thread may spend on one thing before that is counted.
    pub busy_max: Duration,
    /// Wait before retrying to read what could not be read.
    pub retry_wait: Duration,
}
