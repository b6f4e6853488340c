//! Panics while a request is answered.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// The future panicked.
pub(crate) struct Panicked;

/// Keeps a panic from closing the connection and logs it.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            tracing::error!(panic = text.unwrap_or("without a text"), "BUG: answering a request panicked");
            Poll::Ready(Err(Panicked))
        }
    })
    .await
}
