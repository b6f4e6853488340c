//! Counters of the exchanges with a remote.

use std::time::Duration;

use crate::store::remote::transport::pushed::PushOutcome;
use crate::telemetry::metrics::{Counter, Gauge, Histogram};

/// Counters and timings, for metrics.
#[derive(Debug, Default)]
pub struct Counters {
    /// Pushes that lost a race.
    pub races: Counter,
    /// Rewrites of the remote that were followed.
    pub rewrites: Counter,
    /// Conflicts that merges have recorded.
    pub conflicts: Counter,
    /// When the last push or fetch began, in seconds since 1970.
    pub attempted_at: Gauge,
    /// How long pushes took, by outcome: accepted, lost a race, refused, and not sent or without an answer.
    pub pushes: [Histogram; 4],
    /// How long fetches took.
    pub fetches: Histogram,
    /// How long others' commits took to arrive here, measured from their commit time.
    pub propagation: Histogram,
}

impl Counters {
    /// The labels of the push outcomes, in the order of `pushes`.
    pub const PUSH_OUTCOMES: [&str; 4] = ["ok", "lost", "refused", "unknown"];

    pub(super) fn note_push(&self, pushed: &PushOutcome, took: Duration) {
        let outcome = match pushed {
            PushOutcome::Accepted => 0,
            PushOutcome::NotSent(why) if why.starts_with("[rejected]") => 1,
            PushOutcome::Answered(_) => 2,
            PushOutcome::NotSent(_) | PushOutcome::NoAnswer(_) => 3,
        };
        self.pushes[outcome].observe(took);
    }
}
