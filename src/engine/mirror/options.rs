//! How the mirror treats what it reads.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::engine::Options;

/// Tells the time; fixed in tests.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// How the mirror treats what it reads.
#[derive(Clone)]
pub(in crate::engine) struct MirrorOptions {
    /// The folder, as a path inside the repository.
    pub(in crate::engine) folder: String,
    /// Whether uncommitted hand edits are served.
    pub(in crate::engine) serve_uncommitted: bool,
    /// How long a file that is broken, empty, gone or being written must stay so before it is believed.
    pub(in crate::engine) patience: Duration,
    /// How long git may stand in the middle of changing the work tree before we look all the same.
    pub(in crate::engine) busy_max: Duration,
    /// Tells the time.
    pub(in crate::engine) clock: Clock,
    /// The branch, as people call it.
    pub(in crate::engine) branch: String,
    /// The e-mail addresses that the service commits with, now and formerly.
    pub(in crate::engine) committers: Vec<String>,
}

impl From<&Options> for MirrorOptions {
    fn from(options: &Options) -> Self {
        Self {
            folder: options.folder.clone(),
            serve_uncommitted: options.serve_uncommitted,
            patience: options.settle_patience,
            busy_max: options.busy_max,
            clock: Arc::clone(&options.clock),
            branch: options.branch.clone(),
            committers: options.committers.clone(),
        }
    }
}
