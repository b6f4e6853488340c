//! Orderly shutdown: one token, one tracker, one grace period.
//!
//! ```text
//! begin ──▶ begun() is true: nothing new is started, what is under way finishes
//!   └─ grace period ──▶ what still runs is dropped at its current await point
//! ```
//!
//! Every task of a service is spawned here, so nothing outlives the service, and a test can run many services in one
//! process.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The shutdown of one service; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    begun: Mark,
    cut: Mark,
    tasks: TaskTracker,
}

/// Some tasks did not finish within the grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{tasks} tasks were cut off after the grace period of {} ms", grace.as_millis())]
pub struct Unfinished {
    /// The number of tasks that were cut off.
    pub tasks: usize,
    /// The grace period that they had.
    pub grace: Duration,
}

impl Shutdown {
    /// Creates a shutdown that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks all tasks to finish; asking again changes nothing.
    pub fn begin(&self) {
        self.begun.set();
    }

    /// Returns whether the shutdown has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.is_set()
    }

    /// Waits until the shutdown begins.
    pub async fn begun(&self) {
        self.begun.wait().await;
    }

    /// Spawns a task that the shutdown waits for, and that is dropped at the end of the grace period.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        drop(self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = task => {}
                () = cut.wait() => {}
            }
        }));
    }

    /// Begins, unless it has begun, and waits for every task.
    ///
    /// # Errors
    ///
    /// Fails with the number of tasks that were cut off at the end of the grace period; they are gone when this
    /// returns.
    pub async fn finish(&self, grace: Duration) -> Result<(), Unfinished> {
        self.begin();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_ok() {
            return Ok(());
        }
        let tasks = self.tasks.len();
        self.cut.set();
        self.tasks.wait().await;
        if tasks == 0 { Ok(()) } else { Err(Unfinished { tasks, grace }) }
    }
}

/// An event that happens once; clones share it.
///
/// A connection waits for it at every request, so waiting costs one check of a flag; a token alone would cost two
/// locks that all connections share.
#[derive(Debug, Clone, Default)]
struct Mark {
    flag: Arc<AtomicBool>,
    token: CancellationToken,
}

impl Mark {
    fn set(&self) {
        // The flag first, because woken tasks check it.
        self.flag.store(true, Ordering::Release);
        self.token.cancel();
    }

    fn is_set(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    async fn wait(&self) {
        let mut cancelled = pin!(self.token.cancelled());
        let mut registered: Option<Waker> = None;
        poll_fn(|cx| {
            if self.is_set() {
                return Poll::Ready(());
            }
            if registered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            registered = Some(cx.waker().clone());
            cancelled.as_mut().poll(cx)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_under_way_is_finished_first() {
        let shutdown = Shutdown::new();
        let (done, was_done) = tokio::sync::oneshot::channel();
        let inside = shutdown.clone();
        shutdown.spawn(async move {
            inside.begun().await;
            tokio::task::yield_now().await;
            done.send(()).unwrap();
        });
        assert_eq!(shutdown.finish(Duration::from_secs(60)).await, Ok(()));
        assert_eq!(was_done.await, Ok(()));
    }

    #[tokio::test]
    async fn what_never_ends_is_cut_off_after_the_grace_period() {
        let shutdown = Shutdown::new();
        shutdown.spawn(std::future::pending());
        shutdown.spawn(async {});
        let grace = Duration::from_millis(5);
        assert_eq!(shutdown.finish(grace).await, Err(Unfinished { tasks: 1, grace }));
    }
}
