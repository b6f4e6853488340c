//! How to deal with a remote.

use std::sync::mpsc::Sender;
use std::time::Duration;

use crate::domain::file_name::{is_collection_file, name_in};
use crate::domain::{Actor, Revision};
use crate::store::remote::merger::Merger;

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// When it is durable here and on the remote.
    Pushed,
    /// When it is durable here; it is pushed right after.
    Local {
        /// How many commits may wait to be pushed.
        ahead_max: usize,
    },
}

impl Ack {
    /// The word for it in `/readyz`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pushed => "pushed",
            Self::Local { .. } => "local",
        }
    }
}

/// How to deal with the remote; see the flags of `collectory serve`.
pub struct RemoteSettings {
    /// When a write is answered.
    pub ack: Ack,
    /// The collections folder, as a path inside the repository.
    pub folder: String,
    /// Knows what collections mean that both sides have changed.
    pub merger: Box<dyn Merger>,
    /// How often the remote is asked when nobody tells of a change; `None` is never.
    pub poll: Option<Duration>,
    /// How long one exchange may take.
    pub timeout: Duration,
    /// The least time between two pushes.
    pub push_interval: Duration,
    /// Whether a remote that was rewritten is followed.
    pub follow_rewrites: bool,
    /// Who merges.
    pub committer: Actor,
    /// Whether nothing is ever pushed.
    pub is_follower: bool,
    /// Siblings, which are told what was pushed.
    pub told: Vec<Sender<Revision>>,
}

impl RemoteSettings {
    /// The name of a file inside the collections folder, if it is one that may be a collection.
    pub(crate) fn collection_name(&self, path: &[u8]) -> Option<String> {
        let name = name_in(&self.folder, std::str::from_utf8(path).ok()?)?;
        (!name.contains('/') && is_collection_file(name)).then(|| name.to_owned())
    }
}
