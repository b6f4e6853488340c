//! The options of the mirror.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::telemetry::LimitCounters;

/// Returns the current time; fixed in tests.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// The options of the mirror.
#[derive(Clone)]
pub struct MirrorOptions {
    /// The collections folder, as a path inside the repository.
    pub folder: String,
    /// Whether uncommitted hand edits are served.
    pub serve_uncommitted: bool,
    /// How long a file that is broken, empty, gone or being written must stay so before it is believed.
    pub settle_patience: Duration,
    /// How long git may seem to be changing the work tree before the service looks at it nevertheless.
    pub busy_max: Duration,
    /// The clock.
    pub clock: Clock,
    /// The short name of the branch.
    pub branch: String,
    /// The e-mail addresses that the service commits with, current and former.
    pub committers: Vec<String>,
    /// Counts files that exceed a limit.
    pub reached: LimitCounters,
}
