//! What the store counts.

use crate::telemetry::metrics::{Counter, Histogram};

/// What the store counts, for whoever looks at it.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Flushes of the contents of a file.
    pub files_flushed: Histogram,
    /// Flushes of the names in a folder.
    pub folders_flushed: Histogram,
    /// Flushes of a whole file system.
    pub file_systems_flushed: Histogram,
    /// Tasks of the housekeeping that were carried out.
    pub maintenance_runs: Counter,
}
