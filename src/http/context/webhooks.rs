//! The progress of each webhook receiver, as the deliverer reports it.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::domain::Revision;

/// A webhook receiver and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiverStatus {
    /// Its name.
    pub name: String,
    /// Its URL without the query, which may contain secrets.
    pub url: String,
    /// The last commit whose events were delivered; `None` before the first one.
    pub revision: Option<Revision>,
    /// How many events are still to be delivered.
    pub lag: usize,
    /// The last failure since the last delivery, and when it happened.
    pub failure: Option<(DateTime<Utc>, String)>,
    /// Whether the receiver is gone (410) and nothing more is delivered.
    pub ended: bool,
}

/// Returns the progress of every receiver. `None` if there are no receivers.
#[derive(Clone, Default)]
pub struct ReceiverStatuses(pub Option<Arc<dyn Fn() -> Vec<ReceiverStatus> + Send + Sync>>);

impl fmt::Debug for ReceiverStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReceiverStatuses(..)")
    }
}
