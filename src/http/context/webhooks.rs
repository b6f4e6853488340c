//! How far each receiver of events is, as whoever delivers them tells it.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::domain::Revision;

/// A receiver of events, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// What it is called.
    pub name: String,
    /// Where it is, without a query: there may be secrets in it.
    pub url: String,
    /// The commit up to which it was told; `None` before the first one.
    pub revision: Option<Revision>,
    /// How many events came after it.
    pub lag: usize,
    /// What went wrong last since something was delivered, and when.
    pub failure: Option<(DateTime<Utc>, String)>,
    /// Whether it wants nothing any more.
    pub ended: bool,
}

/// Tells how far every receiver is; without one there are none.
#[derive(Clone, Default)]
pub struct Webhooks(pub Option<Arc<dyn Fn() -> Vec<Webhook> + Send + Sync>>);

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Webhooks(..)")
    }
}
