//! The settings of a remote.

use std::sync::mpsc::Sender;
use std::time::Duration;

use crate::domain::file_name::{is_collection_file, name_in};
use crate::domain::{Actor, Revision};
use crate::store::remote::merger::Merger;

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// Once it is durable here and on the remote.
    Pushed,
    /// Once it is durable here; it is pushed right after.
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

/// The settings of a remote; see the flags of `collectory serve`.
pub struct RemoteSettings {
    /// When a write is answered.
    pub ack: Ack,
    /// The collections folder, as a path inside the repository.
    pub folder: String,
    /// Merges collections that both sides have changed.
    pub merger: Box<dyn Merger>,
    /// How often to poll the remote when no notice of a change arrives; `None` is never.
    pub poll: Option<Duration>,
    /// How long one exchange may take.
    pub timeout: Duration,
    /// The least time between two pushes.
    pub push_interval: Duration,
    /// Whether a remote that was rewritten is followed.
    pub follow_rewrites: bool,
    /// The author of merge commits.
    pub committer: Actor,
    /// Whether this instance is a follower, which never pushes.
    pub is_follower: bool,
    /// The siblings that are notified of each push.
    pub siblings: Vec<Sender<Revision>>,
}

impl RemoteSettings {
    /// Returns the file's name inside the collections folder, if it may be a collection file.
    pub(crate) fn collection_name(&self, path: &[u8]) -> Option<String> {
        let name = name_in(&self.folder, std::str::from_utf8(path).ok()?)?;
        (!name.contains('/') && is_collection_file(name)).then(|| name.to_owned())
    }
}
