//! How often what has happened with a remote.

use std::time::Duration;

use crate::store::remote::transport::pushed::Pushed;
use crate::telemetry::metrics::{Counter, Gauge, Histogram};

/// How often what has happened, for whoever counts it.
#[derive(Debug, Default)]
pub struct Counters {
    /// Pushes that lost a race.
    pub races: Counter,
    /// How often the remote was rewritten.
    pub rewrites: Counter,
    /// What both sides of a merge had changed in different ways.
    pub conflicts: Counter,
    /// When the remote was asked last, in seconds since 1970.
    pub attempted_at: Gauge,
    /// How long pushes took: those that were accepted, lost a race, were refused, and had no answer.
    pub pushes: [Histogram; 4],
    /// How long fetches took.
    pub fetches: Histogram,
    /// How long others' commits took to come here, from when they were made.
    pub propagation: Histogram,
}

impl Counters {
    /// The names of what became of pushes, as they are counted.
    pub const PUSHED: [&str; 4] = ["ok", "lost", "refused", "unknown"];

    pub(super) fn note_push(&self, pushed: &Pushed, took: Duration) {
        let outcome = match pushed {
            Pushed::Accepted => 0,
            Pushed::NotSent(why) if why.starts_with("[rejected]") => 1,
            Pushed::Answered(_) => 2,
            Pushed::NotSent(_) | Pushed::NoAnswer(_) => 3,
        };
        self.pushes[outcome].observe(took);
    }
}
