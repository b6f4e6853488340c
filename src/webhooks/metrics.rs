//! What is counted of deliveries.

use crate::telemetry::metrics::Counter;

/// What became of deliveries, for whoever looks at it.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Those that a receiver has taken.
    pub delivered: Counter,
    /// Those that it has not; each is tried again.
    pub failed: Counter,
    /// Those that it answered with 410, after which it is told nothing more.
    pub gone: Counter,
}
