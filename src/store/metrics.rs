//! Metrics of the store.

use crate::telemetry::metrics::{Counter, Histogram};

/// The metrics that the store counts.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Flushes of the contents of a file.
    pub files_flushed: Histogram,
    /// Flushes of the names in a folder.
    pub folders_flushed: Histogram,
    /// Flushes of a whole file system.
    pub file_systems_flushed: Histogram,
    /// Maintenance tasks that were carried out.
    pub maintenance_runs: Counter,
}
