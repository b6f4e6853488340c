//! How the engine works.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::idempotency::Retention;
use crate::engine::metrics::Metrics;
use crate::engine::mirror::MirrorOptions;
use crate::telemetry::Reached;

/// How the engine works; every limit with its unit.
#[derive(Clone)]
pub struct Options {
    /// How files become what is served.
    pub mirror: MirrorOptions,
    /// What the writer takes up, and how long it tries.
    pub writer: WriterOptions,
    /// What is remembered of requests under the names that their callers gave to them.
    pub idempotency: Retention,
    /// Counts who reaches a limit.
    pub reached: Reached,
    /// Where it is counted what happens.
    pub metrics: Arc<Metrics>,
    /// Called by a thread that has read much and will rest.
    pub give_back: fn(),
}

/// What the writer takes up, and how long it tries.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// How many signals may wait; a submission beyond that is answered [`Busy`](crate::engine::SubmitError::Busy).
    pub queue_len_max: usize,
    /// How many submissions share one durability barrier at most.
    pub batch_len_max: usize,
    /// How often a batch is decided again after it lost a race for the branch.
    pub races_max: usize,
    /// How many bytes the files that one submission builds on may have together.
    pub operations_bytes_max: usize,
    /// How long the writer may be at one thing before that is counted.
    pub busy_max: Duration,
    /// How long to wait before trying again to read what could not be read.
    pub retry_wait: Duration,
}
