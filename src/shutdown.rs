//! Stopping in order: one token, one tracker, one grace period.
//!
//! ```text
//! begin ──▶ begun() is true: nobody starts anything new, everybody finishes what is under way
//!   └─ grace period ──▶ what still runs is dropped where it stands
//! ```
//!
//! Every task of a service is spawned here, so nothing outlives the service and a test can run
//! many of them in one process.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The shutdown of one service; clones are the same shutdown.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    begun: CancellationToken,
    cut: CancellationToken,
    tasks: TaskTracker,
}

/// Not everything finished within the grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{tasks} tasks were cut off after the grace period of {} ms", grace.as_millis())]
pub struct Unfinished {
    /// How many tasks were cut off.
    pub tasks: usize,
    /// The grace period that they had.
    pub grace: Duration,
}

impl Shutdown {
    /// A shutdown that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everybody to finish; asking again changes nothing.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Whether it has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Waits until it begins.
    pub async fn begun(&self) {
        self.begun.cancelled().await;
    }

    /// Runs a task that the shutdown waits for, and that is dropped when the grace period is over.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        drop(self.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                () = cut.cancelled() => {}
            }
        }));
    }

    /// Begins, if nobody has, and waits for every task.
    ///
    /// # Errors
    ///
    /// Says how many tasks had to be cut off because the grace period was over; they are gone
    /// when this returns.
    pub async fn finish(&self, grace: Duration) -> Result<(), Unfinished> {
        self.begin();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_ok() {
            return Ok(());
        }
        let tasks = self.tasks.len();
        self.cut.cancel();
        self.tasks.wait().await;
        if tasks == 0 { Ok(()) } else { Err(Unfinished { tasks, grace }) }
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
