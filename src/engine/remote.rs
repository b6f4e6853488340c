//! The remote that the branch is shared with, as the rest of the service sees it.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::oneshot::{self, error::RecvError};

use crate::domain::Revision;
use crate::store::remote::Link;
pub use crate::store::remote::{Decision, RemoteError};

/// An async handle to the remote that the branch is shared with; cheap to clone.
#[derive(Debug, Clone)]
pub struct Remote(Arc<Link>);

impl Deref for Remote {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.0
    }
}

impl Remote {
    /// Wraps the link to the remote.
    #[must_use]
    pub const fn new(link: Arc<Link>) -> Self {
        Self(link)
    }

    /// Carries out an operator's decision about a rewritten remote; returns the resulting head of the branch.
    ///
    /// # Errors
    ///
    /// Returns why it was not carried out.
    pub async fn decide(&self, decision: Decision) -> Result<Revision, RemoteError> {
        let (sender, receiver) = oneshot::channel();
        self.0.decide(decision, Box::new(move |decided| drop(sender.send(decided))));
        receiver.await.map_err(ended)?
    }

    /// Returns the head of the remote from a poll that starts after this call; what it brings is served soon after.
    ///
    /// # Errors
    ///
    /// Fails when the remote does not answer.
    pub async fn latest(&self) -> Result<Option<Revision>, RemoteError> {
        let (sender, receiver) = oneshot::channel();
        self.0.request_poll_for(Box::new(move |seen| drop(sender.send(seen))));
        receiver.await.map_err(ended)?
    }

    /// Returns how many commits the remote lacks, if writes are answered before they are pushed.
    #[must_use]
    pub fn ahead(&self) -> Option<usize> {
        self.is_local().then(|| self.0.ahead())
    }
}

/// Returns the error for a link that has ended without an answer.
fn ended(_: RecvError) -> RemoteError {
    RemoteError::Unreachable("the service is shutting down".to_owned())
}
