//! What the rest of the service may know and want of the remote that the branch is shared with.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::oneshot::{self, error::RecvError};

use crate::domain::Revision;
use crate::store::remote::Link;
pub use crate::store::remote::{Decision, RemoteError};

/// The remote that the branch is shared with, for those who wait for it as tasks do; cheap to clone.
#[derive(Debug, Clone)]
pub struct Remote(Arc<Link>);

impl Deref for Remote {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.0
    }
}

impl Remote {
    /// The remote at the other end of a link.
    #[must_use]
    pub const fn new(link: Arc<Link>) -> Self {
        Self(link)
    }

    /// Does what an operator has decided about a remote that was rewritten; answers where the branch is then.
    ///
    /// # Errors
    ///
    /// Says why it was not done.
    pub async fn decide(&self, decision: Decision) -> Result<Revision, RemoteError> {
        let (tell, told) = oneshot::channel();
        self.0.decide(decision, Box::new(move |decided| drop(tell.send(decided))));
        told.await.map_err(ended)?
    }

    /// Its head, asked for after this call; what it brought is served soon after.
    ///
    /// # Errors
    ///
    /// Fails when it did not answer.
    pub async fn latest(&self) -> Result<Option<Revision>, RemoteError> {
        let (tell, told) = oneshot::channel();
        self.0.look_and_tell(Box::new(move |seen| drop(tell.send(seen))));
        told.await.map_err(ended)?
    }

    /// How many commits here are not there yet, where writes are answered before they are.
    #[must_use]
    pub fn ahead(&self) -> Option<usize> {
        self.is_local().then(|| self.0.ahead())
    }
}

/// Nobody is left who could answer.
fn ended(_: RecvError) -> RemoteError {
    RemoteError::Unreachable("the service is shutting down".to_owned())
}
