//! How the mirror treats what it reads.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::telemetry::Reached;

/// Tells the time; fixed in tests.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// How the mirror treats what it reads.
#[derive(Clone)]
pub struct MirrorOptions {
    /// The folder, as a path inside the repository.
    pub folder: String,
    /// Whether uncommitted hand edits are served.
    pub serve_uncommitted: bool,
    /// How long a file that is broken, empty, gone or being written must stay so before it is believed.
    pub settle_patience: Duration,
    /// How long git may stand in the middle of changing the work tree before we look all the same.
    pub busy_max: Duration,
    /// Tells the time.
    pub clock: Clock,
    /// The branch, as people call it.
    pub branch: String,
    /// The e-mail addresses that the service commits with, now and formerly.
    pub committers: Vec<String>,
    /// Counts what files have too much of.
    pub reached: Reached,
}
