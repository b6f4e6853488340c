//! Questions about the past and other slow work, off the async threads, with limited concurrency.

use std::sync::OnceLock;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::domain::Key;
use crate::engine::history::{History, QueryClient, View};
use crate::http::authorize::Action;
use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::telemetry::Limit;

/// The client that waits for a request's questions, once there are any; dropping this ends them.
#[derive(Default)]
pub(super) struct CancelOnDrop(OnceLock<QueryClient>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(client) = self.0.get() {
            client.leave();
        }
    }
}

impl Call<'_> {
    /// Returns the history up to the served revision, for use while the request is answered: questions to it end when
    /// the client leaves.
    ///
    /// # Errors
    ///
    /// 503 when it is still being read after the maximum wait, or can't be read.
    pub(crate) async fn history_view(&self) -> Result<View, ApiError> {
        let client = self.questions.0.get_or_init(QueryClient::default);
        Ok(self.live_history().await?.1.asked_by(client.clone()))
    }

    /// Returns the live history and a view of what it contains now, for work that outlives the request (a stream, an
    /// undo): questions to it do not end when the client leaves.
    ///
    /// # Errors
    ///
    /// As [`history_view`](Self::history_view).
    pub(crate) async fn live_history(&self) -> Result<(&History, View), ApiError> {
        // If there is no snapshot yet, its error is reported: the history is read after it.
        let late = || {
            let reading = "The history is still being read; try again shortly.";
            let still = || ApiError::unavailable(reading).with_limit(Limit::HistoryWait);
            self.snapshot().err().unwrap_or_else(still)
        };
        let history = self.context.history.as_ref().ok_or_else(late)?;
        let view =
            tokio::time::timeout(self.context.settings.limits.answers.history_wait_max(), history.ready())
                .await;
        Ok((history, view.map_err(|_| late())??))
    }

    /// The error for a collection without commits, which may still exist as an uncommitted file.
    pub(crate) fn no_history_of(&self, key: &Key) -> ApiError {
        let served = self.context.projection.snapshot();
        if served.is_some_and(|snapshot| snapshot.get(key.as_str()).is_some_and(|entry| entry.uncommitted)) {
            let detail = format!("Collection '{key}' has no history yet: its file is not committed.");
            return ApiError::new(Code::NOT_FOUND, detail);
        }
        ApiError::no_such_collection(key.as_str())
    }

    /// The error for a missing collection, with its deletion if the caller may know about it.
    pub(crate) async fn missing_collection_error(&self, key: &Key) -> ApiError {
        self.with_deletion(key, ApiError::no_such_collection(key.as_str())).await
    }

    /// Adds the deletion of a collection to an error, if the caller may know about it.
    pub(crate) async fn with_deletion(&self, key: &Key, error: ApiError) -> ApiError {
        match Box::pin(self.deletion_of(key)).await {
            Some(deletion) => error.with_extra_sentence(&deletion),
            None => error,
        }
    }

    /// Describes in a sentence who deleted a collection and when, if the caller may audit it. Does not wait for a
    /// history that is not available yet.
    async fn deletion_of(&self, key: &Key) -> Option<String> {
        let history = self.context.history.as_ref()?;
        self.authorize(Action::ListEvents { key: Some(key) }).await.ok()?;
        let view = history.view().await.ok()?;
        let key = key.clone();
        self.query_history(move || Ok(view.fate_of(&key)?)).await.ok()?
    }

    /// Runs a question about the past off the async threads, with limited concurrency.
    ///
    /// # Errors
    ///
    /// The question's error; 503 when no permit becomes free in time, 500 if it panics.
    pub(crate) async fn query_history<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.query_history_with_permit(look).await.map(|(found, _)| found)
    }

    /// Answers a question about the past. The answer is counted among those in progress before its permit is
    /// released, so no more answers than there are permits are ever uncounted.
    ///
    /// # Errors
    ///
    /// As [`query_history`](Self::query_history); 503 when the answers in progress exhaust their budget.
    pub(crate) async fn reply_from_history(
        &self,
        answer: impl FnOnce() -> Result<Reply, ApiError> + Send + 'static,
    ) -> Result<Reply, ApiError> {
        let reservation = self.answer_reservation();
        self.query_history(move || answer()?.counted(reservation)).await
    }

    /// Runs a question as [`query_history`](Self::query_history) does and also returns the permit. A caller that processes a
    /// large result further holds the permit while it does so.
    ///
    /// # Errors
    ///
    /// As [`query_history`](Self::query_history).
    pub(crate) async fn query_history_with_permit<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<(T, OwnedSemaphorePermit), ApiError> {
        let permit = self.budgets.history_permit().await?;
        // The thread that runs the question owns the permit, because it may continue after the client has left.
        let mut answer = off_threads(move || Ok((question()?, permit)));
        let answer = tokio::select! {
            answer = &mut answer => answer,
            () = self.head.client_disconnected() => {
                self.questions.0.get_or_init(QueryClient::default).leave();
                answer.await
            }
        };
        answer.unwrap_or_else(|_| Err(ApiError::internal()))
    }

    /// Builds something large off the async threads, as soon as a permit is free.
    ///
    /// # Errors
    ///
    /// 500 if it panics.
    pub(crate) async fn build_off_thread<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = self.budgets.list_permit().await;
        let made = off_threads(move || {
            let made = make();
            drop(permit);
            made
        });
        made.await.map_err(|_| ApiError::internal())
    }
}

/// Runs work on a blocking thread; the channel closes if it panics. The work is boxed because the runtime has 3 kB of
/// code for each type of task.
fn off_threads<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (made, result) = oneshot::channel();
    let task: Box<dyn FnOnce() + Send> = Box::new(move || drop(made.send(work())));
    drop(tokio::task::spawn_blocking(task));
    result
}
