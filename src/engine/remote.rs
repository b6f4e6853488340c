//! What the rest of the service may know and want of the remote that the branch is shared with.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::domain::Revision;
use crate::store::remote::{Link, LinkStatus};

/// The remote that the branch is shared with; cheap to clone.
#[derive(Debug, Clone)]
pub struct Remote(Arc<Link>);

/// The remote did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the remote cannot be reached")]
pub struct Away;

impl Remote {
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

    /// Has it looked at soon, because somebody says that it has changed.
    pub fn look(&self) {
        self.0.look();
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
