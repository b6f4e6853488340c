//! The threads of a running service, and how they end.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::engine::history::History;
use crate::engine::{Engine, Hint, PublishedHead, Signal};
use crate::shutdown::Unfinished;
use crate::store::remote::Poller;
use crate::watch::Watch;

/// The shortest time to wait for the threads, however much of the grace period is used up: the writer may be in the
/// middle of making commits durable.
const THREADS_WAIT_MIN: Duration = Duration::from_secs(1);

/// How long before the end of the grace period the exchanges with the remote are ended; at most half of the period.
const EXCHANGES_END_BEFORE: Duration = Duration::from_secs(1);

/// The longest time to wait for the threads while the repository has not been read: nothing has been acknowledged
/// then, and a first reading may take long.
const UNREAD_WAIT_MAX: Duration = Duration::from_secs(1);

/// The parts that run on their own threads.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) engine: Engine,
    pub(crate) history: History,
    /// Reads new history.
    pub(crate) follower: JoinHandle<()>,
    pub(crate) watch: Watch,
    /// Polls the remote, if there is one.
    pub(crate) poll: Option<Poller>,
}

/// Why a service did not stop in order. All acknowledged writes are durable even then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// Requests were cut off.
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
    /// The threads did not end in time.
    #[error("the threads of the service did not end within {} ms", waited.as_millis())]
    Stuck {
        /// How long the service waited for them.
        waited: Duration,
    },
    /// A thread has panicked.
    #[error("BUG: the {thread} thread has panicked")]
    Panicked {
        /// The name of the thread.
        thread: &'static str,
    },
}

impl Running {
    /// Starts delayed pushes now, and ends the exchanges with the remote shortly before the grace period is over:
    /// their waiters get an answer then, and the writer is not held up.
    pub(crate) async fn end_exchanges(&self, grace: Duration) {
        let Some(poll) = &self.poll else { return };
        poll.hurry();
        // If the queue is full, the writer is about to look anyway.
        drop(self.engine.signals.try_send(Signal::Changed(Hint::Branch)));
        tokio::time::sleep(grace - exchanges_end_before(grace)).await;
        // This waits for the processes; a panic in it is reported when the threads are waited for.
        drop(tokio::task::spawn_blocking(poll.ender()).await);
    }

    /// Waits until one of the threads ends, which none does unasked except after a panic; returns its name.
    pub(crate) async fn failed(&self) -> &'static str {
        let thread = tokio::select! {
            () = self.engine.projection.ended() => "writer",
            () = self.history.ended() => "history",
            () = self.watch.ended() => "watch",
        };
        // The others end with the writer, and may be seen to end first.
        let is_writer = *self.engine.projection.heads().borrow() == PublishedHead::Ended;
        if is_writer { "writer" } else { thread }
    }

    /// Asks every thread to end and waits for them, for what is `left` of the grace period.
    pub(crate) async fn stop(self, left: Duration) -> Result<(), StopError> {
        let is_read = self.engine.projection.snapshot().is_some();
        let waited = if is_read { left.max(THREADS_WAIT_MIN) } else { left.min(UNREAD_WAIT_MAX) };
        let until = Instant::now() + left.saturating_sub(exchanges_end_before(left));
        if tokio::time::timeout(waited, self.end()).await.is_ok() {
            // Off the async threads, where a second signal has to be noticed: the last push may take until then.
            let finish = move || {
                self.poll.iter().for_each(|poll| poll.finish(until));
                self.join()
            };
            return tokio::task::spawn_blocking(finish).await.expect("BUG: ending the threads has panicked");
        }
        if is_read {
            return Err(StopError::Stuck { waited });
        }
        tracing::info!("stopped in the middle of the first reading of the repository");
        Ok(())
    }

    /// Asks every thread to end, and waits until they have.
    async fn end(&self) {
        self.watch.stop();
        self.poll.iter().for_each(Poller::hurry);
        // A writer that has ended needs no signal.
        drop(self.engine.signals.send(Signal::Shutdown).await);
        self.engine.projection.ended().await;
        self.history.ended().await;
        self.watch.ended().await;
    }

    fn join(self) -> Result<(), StopError> {
        let Self { engine, follower, watch, poll, history: _ } = self;
        drop(poll);
        let ended = [("writer", engine.writer.join()), ("history", follower.join()), ("watch", watch.join())];
        match ended.iter().find(|(_, outcome)| outcome.is_err()) {
            Some((thread, _)) => Err(StopError::Panicked { thread }),
            None => Ok(()),
        }
    }
}

/// Returns how much of a period is left for what follows the exchanges with the remote.
fn exchanges_end_before(time: Duration) -> Duration {
    EXCHANGES_END_BEFORE.min(time / 2)
}
