//! What the rest of the service may know and want of the remote that the branch is shared with.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::domain::Revision;
pub use crate::store::remote::Decision;
use crate::store::remote::{Link, LinkStatus, RemoteError, Since};

/// The remote that the branch is shared with; cheap to clone.
#[derive(Debug, Clone)]
pub struct Remote(Arc<Link>);

/// The remote did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the remote cannot be reached")]
pub struct Away;

/// Why a decision could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// The remote was not reached.
    #[error("the remote cannot be reached")]
    Away,
    /// The remote does not want it.
    #[error("the remote refuses it: {0}")]
    Refused(String),
    /// The remote has not said whether it took it.
    #[error("the remote has not said whether it took it")]
    Unknown,
    /// Others were faster each time.
    #[error("the branch keeps moving, try again")]
    KeepsMoving,
    /// There is nothing to be decided, or not in this way.
    #[error("{0}")]
    Senseless(String),
}

impl From<RemoteError> for Undecided {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Unreachable(_)
            | RemoteError::Unsound(_)
            | RemoteError::Lagging
            | RemoteError::Pending => Self::Away,
            RemoteError::Unknown => Self::Unknown,
            RemoteError::Refused(why) => Self::Refused(why),
            RemoteError::KeepsMoving => Self::KeepsMoving,
            RemoteError::Stopped(why) => Self::Senseless(why),
            error @ RemoteError::FarAhead { .. } => Self::Senseless(error.to_string()),
        }
    }
}

impl Remote {
    /// Does what an operator has decided about a remote that was rewritten; answers where the branch is then.
    ///
    /// # Errors
    ///
    /// Says why it was not done.
    pub async fn decide(&self, decision: Decision) -> Result<Revision, Undecided> {
        let (tell, told) = oneshot::channel();
        self.0.decide(decision, Box::new(move |decided| drop(tell.send(decided))));
        Ok(told.await.map_err(|_| Undecided::Away)??)
    }

    /// The remote at the other end of a link.
    #[must_use]
    pub const fn new(link: Arc<Link>) -> Self {
        Self(link)
    }

    /// How it stands with it.
    #[must_use]
    pub fn status(&self) -> LinkStatus {
        self.0.status()
    }

    /// How many commits here are not there yet, where writes are answered before they are.
    #[must_use]
    pub fn ahead(&self) -> Option<usize> {
        self.0.is_local().then(|| self.0.ahead())
    }

    /// Has it looked at soon, because somebody says that it has changed.
    pub fn look(&self) {
        self.0.look();
    }

    /// Now, as far as looks at it are concerned.
    #[must_use]
    pub fn since_now(&self) -> Since {
        self.0.since_now()
    }

    /// Whether a revision that is served was its head at some time since then; where commits here wait to be pushed,
    /// nobody can say so.
    #[must_use]
    pub fn has_been_at(&self, revision: Revision, since: Since) -> bool {
        self.0.has_been_at(revision, since)
    }

    /// Whether something else was seen since, which may be newer.
    #[must_use]
    pub fn has_gone_on_from(&self, head: Revision) -> bool {
        self.0.has_gone_on_from(head)
    }

    /// Its head, asked for after this call; what it brought is served soon after.
    ///
    /// # Errors
    ///
    /// Fails when it did not answer.
    pub async fn latest(&self) -> Result<Option<Revision>, Away> {
        let (tell, told) = oneshot::channel();
        self.0.look_and_tell(Box::new(move |seen| drop(tell.send(seen))));
        told.await.map_err(|_| Away)?.map_err(|_| Away)
    }
}
