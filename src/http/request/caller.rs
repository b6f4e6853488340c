//! Calls of the authorizer: who sends a request, and whether the action is allowed.

use std::sync::Arc;

use crate::http::authorize::{Action, Allowed, Denied, Identity, RequestHead};
use crate::http::context::{Clock, Guard};
use crate::http::metrics::Metrics;
use crate::http::request::caught::{Panicked, caught};
use crate::http::request::head::Head;
use crate::http::request::id::RequestId;

/// The sender of a request whose answer is a stream, to be authorized again from time to time.
pub(crate) struct Caller {
    pub(super) guard: Guard,
    pub(super) metrics: Option<Arc<Metrics>>,
    pub(super) head: Arc<Head>,
    pub(super) id: RequestId,
    pub(super) clock: Clock,
}

impl Caller {
    /// Asks the authorizer again, as if the request came now.
    ///
    /// # Errors
    ///
    /// The authorizer's error; 401 when the session of the request has ended.
    pub(crate) async fn authorize(&self, action: Action<'_>) -> Result<Allowed, Denied> {
        let known = match self.head.has_ended(self.clock.now()) {
            false => identify(&self.guard, &self.head, &self.id).await,
            true => Err(Denied::unauthenticated("The session has ended.")),
        };
        let answer = match known {
            Ok(_) => ask(&self.guard, &self.head, &self.id, action).await,
            Err(denied) => Err(denied),
        };
        self.metrics.iter().for_each(|metrics| metrics.authorized(&action, answer.as_ref().map(drop)));
        answer
    }

    /// Waits until the client seems to have disconnected, see [`Head::client_disconnected`].
    pub(crate) async fn left(&self) {
        self.head.client_disconnected().await;
    }

    /// Counts a stream that ends because its reader may no longer follow it.
    pub(crate) fn note_dropped(&self) {
        self.metrics.iter().for_each(|metrics| metrics.dropped.add_one());
    }

    pub(crate) fn request_id(&self) -> &str {
        self.id.as_str()
    }
}

/// Asks the authorizer, if any, who sends the request.
pub(super) async fn identify(guard: &Guard, head: &Head, id: &RequestId) -> Result<Identity, Denied> {
    let Guard::With(authorizer) = guard else { return Ok(Identity::anybody()) };
    let head = request_head(head, id);
    // The call may panic as well as the future that it returns.
    let asked = async { authorizer.identify(&head).await };
    caught(asked).await.unwrap_or_else(|Panicked| Err(Denied::failed()))
}

/// Asks the authorizer, if any, whether the action is allowed.
pub(super) async fn ask(
    guard: &Guard,
    head: &Head,
    id: &RequestId,
    action: Action<'_>,
) -> Result<Allowed, Denied> {
    let Guard::With(authorizer) = guard else { return Ok(Allowed::anonymous()) };
    let head = request_head(head, id);
    let asked = async { authorizer.authorize(&head, action).await };
    caught(asked).await.unwrap_or_else(|Panicked| Err(Denied::failed()))
}

fn request_head<'a>(head: &'a Head, id: &'a RequestId) -> RequestHead<'a> {
    RequestHead {
        method: &head.method,
        path: head.path(),
        query: head.query(),
        headers: &head.headers,
        remote: head.connection.remote(),
        request_id: id.as_str(),
    }
}
