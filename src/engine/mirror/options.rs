//! How the mirror treats what it reads.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::engine::Options;

/// Tells the time; fixed in tests.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// How the mirror treats what it reads.
#[derive(Clone)]
pub(crate) struct MirrorOptions {
    /// The folder, as a path inside the repository.
    pub(crate) folder: String,
    /// Whether uncommitted hand edits are served.
    pub(crate) serve_uncommitted: bool,
    /// How long a file that is broken, empty, gone or being written must stay so before it is believed.
    pub(crate) patience: Duration,
    /// How long git may stand in the middle of changing the work tree before we look all the same.
    pub(crate) busy_max: Duration,
    /// Tells the time.
    pub(crate) clock: Clock,
    /// The branch, as people call it.
    pub(crate) branch: String,
    /// The e-mail addresses that the service commits with, now and formerly.
    pub(crate) committers: Vec<String>,
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
