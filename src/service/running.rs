//! The threads of a running service, and how they end.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::engine::history::History;
use crate::engine::{Engine, Hint, PublishedHead, Signal};
use crate::shutdown::Unfinished;
use crate::store::remote::Poll;
use crate::watch::Watch;

/// How long the threads are waited for at least, however much of the grace period is used up: the
/// writer may be in the middle of making commits durable.
const THREADS_WAIT_MIN: Duration = Duration::from_secs(1);

/// How long before the end of the grace period exchanges with the remote are ended; of a shorter period, after half.
const EXCHANGES_END_BEFORE: Duration = Duration::from_secs(1);

/// How long the threads are waited for while the repository has not been read: nothing was
/// acknowledged then, and a first reading may take long.
const UNREAD_WAIT_MAX: Duration = Duration::from_secs(1);

/// What runs on threads of its own.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) engine: Engine,
    pub(crate) history: History,
    /// Reads the history along.
    pub(crate) follower: JoinHandle<()>,
    pub(crate) watch: Watch,
    /// Asks the remote, if there is one.
    pub(crate) poll: Option<Poll>,
}

/// Why a service did not stop in order. Everything that was acknowledged is durable all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// Requests were cut off.
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
    /// The threads did not end in time.
    #[error("the threads of the service did not end within {} ms", waited.as_millis())]
    Stuck {
        /// How long they were waited for.
        waited: Duration,
    },
    /// A thread has panicked.
    #[error("BUG: the {thread} thread has panicked")]
    Panicked {
        /// Which one.
        thread: &'static str,
    },
}

impl Running {
    /// Has what waits for its turn pushed now, and ends the exchanges with the remote shortly before the grace period is
    /// over: whoever waits for one is told what became of it then, and the writer is not held up.
    pub(crate) async fn end_exchanges(&self, grace: Duration) {
        let Some(poll) = &self.poll else { return };
        poll.hurry();
        // Where the queue is full the writer is about to look anyway.
        drop(self.engine.signals.try_send(Signal::Changed(Hint::Branch)));
        tokio::time::sleep(grace - exchanges_end_before(grace)).await;
        // It waits for the processes; a panic there is told by whoever waits for the threads.
        drop(tokio::task::spawn_blocking(poll.ender()).await);
    }

    /// Waits until one of the threads ends, which none does before it is asked to; tells which.
    pub(crate) async fn failed(&self) -> &'static str {
        let thread = tokio::select! {
            () = self.engine.projection.ended() => "writer",
            () = self.history.ended() => "history",
            () = self.watch.ended() => "watch",
        };
        // The others end with the writer, and may be seen to before it is.
        let is_writer = *self.engine.projection.heads().borrow() == PublishedHead::Ended;
        if is_writer { "writer" } else { thread }
    }

    /// Asks every thread to end and waits for them, for what is `left` of the grace period.
    pub(crate) async fn stop(self, left: Duration) -> Result<(), StopError> {
        let is_read = self.engine.projection.snapshot().is_some();
        let waited = if is_read { left.max(THREADS_WAIT_MIN) } else { left.min(UNREAD_WAIT_MAX) };
        let until = Instant::now() + left.saturating_sub(exchanges_end_before(left));
        if tokio::time::timeout(waited, self.end()).await.is_ok() {
            self.poll.iter().for_each(|poll| poll.finish(until));
            return self.join();
        }
        if is_read {
            return Err(StopError::Stuck { waited });
        }
        tracing::info!("stopped in the middle of the first reading of the repository");
        Ok(())
    }

    /// Asks every thread to end; done when they have.
    async fn end(&self) {
        self.watch.stop();
        self.poll.iter().for_each(Poll::hurry);
        // A writer that is gone already needs no signal.
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

/// How much of a time is left for what has to be done after the exchanges with the remote.
fn exchanges_end_before(time: Duration) -> Duration {
    EXCHANGES_END_BEFORE.min(time / 2)
}
