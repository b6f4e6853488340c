//! The interface through which the rest of the service reaches the writer thread.

use std::time::Instant;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tracing::Span;

use crate::domain::{Actor, Key};
use crate::engine::idempotency::IdempotencyStore;
use crate::engine::signal::{Job, ReplayRequest, Signal};
use crate::engine::submission::Submission;
use crate::engine::submission::answer::SubmitAnswer;
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::idempotency_key::IdempotencyKey;

/// Submits changes to the writer thread; cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    inbox: mpsc::Sender<Signal>,
    idempotency: IdempotencyStore,
}

impl Handle {
    pub(crate) const fn new(inbox: mpsc::Sender<Signal>, idempotency: IdempotencyStore) -> Self {
        Self { inbox, idempotency }
    }

    /// Returns whether a request was granted under this idempotency key of this author. If so, the submission must
    /// go to the writer thread for its answer, whatever state the collections are in.
    #[must_use]
    pub fn is_recorded(&self, author: &Actor, idempotency_key: &IdempotencyKey) -> bool {
        self.idempotency.is_recorded(author, idempotency_key)
    }

    /// Carries out a submission and returns when it is durable and readable.
    ///
    /// If the future is dropped, a submission that has not been decided yet is dropped too; one that is being committed
    /// is completed without an answer, as after a lost connection.
    ///
    /// # Errors
    ///
    /// Returns why nothing was changed; a full queue is reported at once.
    pub async fn submit(&self, submission: Submission) -> Result<SubmitAnswer, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.send(Signal::Submit(Job {
            asked_at: Instant::now(),
            span: Span::current(),
            submission,
            reply,
        }))?;
        answer.await.unwrap_or(Err(SubmitError::ShuttingDown))
    }

    /// Returns the earlier answer to a request that was granted under this idempotency key of this author and
    /// changed at most one collection; `None` if there is none. It serves callers that can't make the same
    /// submission again, because it was planned on the state before it.
    ///
    /// # Errors
    ///
    /// [`SubmitError::KeyReused`] if the key was used for another request; otherwise why the lookup failed.
    pub async fn replay(
        &self,
        author: &Actor,
        idempotency_key: &IdempotencyKey,
        key: &Key,
    ) -> Result<Option<SubmitAnswer>, SubmitError> {
        if !self.is_recorded(author, idempotency_key) {
            return Ok(None);
        }
        let (reply, answer) = oneshot::channel();
        let (author, idempotency_key, key) = (author.clone(), idempotency_key.clone(), key.clone());
        self.send(Signal::Replay(ReplayRequest {
            author,
            idempotency_key,
            key,
            span: Span::current(),
            reply,
        }))?;
        answer.await.unwrap_or(Err(SubmitError::ShuttingDown))
    }

    fn send(&self, signal: Signal) -> Result<(), SubmitError> {
        self.inbox.try_send(signal).map_err(|error| match error {
            TrySendError::Full(_) => SubmitError::Busy,
            TrySendError::Closed(_) => SubmitError::ShuttingDown,
        })
    }
}

#[cfg(test)]
impl Handle {
    /// Creates a handle whose submissions a function answers, one by one, on a thread that ends with the last clone.
    pub(crate) fn answered_by(
        mut answer: impl FnMut(Submission) -> Result<SubmitAnswer, SubmitError> + Send + 'static,
    ) -> Self {
        let (inbox, mut signals) = mpsc::channel(64);
        std::thread::spawn(move || {
            while let Some(signal) = signals.blocking_recv() {
                if let Signal::Submit(job) = signal {
                    // The caller may be gone; the change is made nevertheless.
                    drop(job.reply.send(answer(job.submission)));
                }
            }
        });
        let clock = std::sync::Arc::new(|| chrono::DateTime::UNIX_EPOCH);
        Self::new(
            inbox,
            IdempotencyStore::new(
                &crate::engine::idempotency::Retention {
                    time: std::time::Duration::from_secs(1),
                    len_max: 1,
                    bytes_max: 0,
                },
                clock,
                crate::telemetry::LimitCounters::default(),
            ),
        )
    }
}
