//! What a request asks of the past, and whatever else takes long: off the threads that answer, of not too many at a
//! time, and no longer than somebody waits for it.

use std::sync::OnceLock;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::domain::Key;
use crate::engine::history::{Asker, History, View};
use crate::http::authorize::Action;
use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::telemetry::Limit;

/// Whoever waits for what is looked up for a request, once something is; gone with the request.
#[derive(Default)]
pub(super) struct Asking(OnceLock<Asker>);

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(asker) = self.0.get() {
            asker.leave();
        }
    }
}

impl Call<'_> {
    /// The history up to what is served now, for as long as the request is answered: questions to it end when
    /// the client leaves.
    ///
    /// # Errors
    ///
    /// 503 while it is being read and longer than one likes to wait, or can't be read.
    pub(crate) async fn past(&self) -> Result<View, ApiError> {
        let asker = self.asking.0.get_or_init(Asker::default);
        Ok(self.history().await?.1.asked_by(asker.clone()))
    }

    /// The history as it goes on, and as far as it is known now: for work that lasts longer than the request (a
    /// stream, an undo), so questions to it do not end when the client leaves.
    ///
    /// # Errors
    ///
    /// As [`past`](Self::past).
    pub(crate) async fn history(&self) -> Result<(&History, View), ApiError> {
        // Where nothing can be read that is told: the history begins behind it.
        let late = || {
            let reading = "The history is still being read; try again shortly.";
            let still = || ApiError::unavailable(reading).reaching(Limit::HistoryWait);
            self.snapshot().err().unwrap_or_else(still)
        };
        let history = self.context.history.as_ref().ok_or_else(late)?;
        let view =
            tokio::time::timeout(self.context.settings.limits.answers.history_wait_max(), history.ready())
                .await;
        Ok((history, view.map_err(|_| late())??))
    }

    /// No commit ever had this collection, which may be there all the same, saved and not committed.
    pub(crate) fn no_history_of(&self, key: &Key) -> ApiError {
        let served = self.context.projection.snapshot();
        if served.is_some_and(|snapshot| snapshot.get(key.as_str()).is_some_and(|entry| entry.uncommitted)) {
            let detail = format!("Collection '{key}' has no history yet: its file is not committed.");
            return ApiError::new(Code::NOT_FOUND, detail);
        }
        ApiError::no_such_collection(key.as_str())
    }

    /// There is no such collection; to who may know it says too what became of it.
    pub(crate) async fn not_there(&self, key: &Key) -> ApiError {
        self.explained(key, ApiError::no_such_collection(key.as_str())).await
    }

    /// Adds to an error what became of a collection, for who may know.
    pub(crate) async fn explained(&self, key: &Key, error: ApiError) -> ApiError {
        match Box::pin(self.deletion_of(key)).await {
            Some(deletion) => error.with_more(&deletion),
            None => error,
        }
    }

    /// Who deleted a collection and when, in a sentence, for those who may audit it. A history that is
    /// not there yet is not waited for.
    async fn deletion_of(&self, key: &Key) -> Option<String> {
        let history = self.context.history.as_ref()?;
        self.authorize(Action::ListEvents { key: Some(key) }).await.ok()?;
        let view = history.view().await.ok()?;
        let key = key.clone();
        self.looking(move || Ok(view.became_of(&key)?)).await.ok()?
    }

    /// Looks into the past where waiting for the disk is no harm to other requests, and not with too many at a time.
    ///
    /// # Errors
    ///
    /// What looking says; 503 if there is no room for it in time, 500 if it panics.
    pub(crate) async fn looking<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.looking_on(look).await.map(|(found, _)| found)
    }

    /// Looks into the past for an answer. It is counted among the answers under way before its place is free for the
    /// next question, so no more answers than there are places are ever uncounted.
    ///
    /// # Errors
    ///
    /// As [`looking`](Self::looking); 503 when the answers under way take too much.
    pub(crate) async fn answering(
        &self,
        answer: impl FnOnce() -> Result<Reply, ApiError> + Send + 'static,
    ) -> Result<Reply, ApiError> {
        let room = self.answer_room();
        self.looking(move || answer()?.counted(room)).await
    }

    /// Looks into the past as [`looking`](Self::looking) does, and hands out the place too. Whoever has more to do with
    /// what was found, which may be large, keeps it that long.
    ///
    /// # Errors
    ///
    /// As [`looking`](Self::looking).
    pub(crate) async fn looking_on<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<(T, OwnedSemaphorePermit), ApiError> {
        let place = self.budgets.question().await?;
        // The place is with the thread that looks: it may go on when nobody waits any more.
        let mut looked = off_threads(move || Ok((look()?, place)));
        let looked = tokio::select! {
            looked = &mut looked => looked,
            () = self.head.left() => {
                self.asking.0.get_or_init(Asker::default).leave();
                looked.await
            }
        };
        looked.unwrap_or_else(|_| Err(ApiError::internal()))
    }

    /// Makes something long off the threads that answer, as soon as it is its turn.
    ///
    /// # Errors
    ///
    /// 500 if making it panics.
    pub(crate) async fn making<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = self.budgets.list().await;
        let made = off_threads(move || {
            let made = make();
            drop(place);
            made
        });
        made.await.map_err(|_| ApiError::internal())
    }
}

/// Has a thread that may wait work something out; nothing comes if that panics. The runtime has 3 kB of code for each
/// type of a task, so all of these are of one.
fn off_threads<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (made, result) = oneshot::channel();
    let task: Box<dyn FnOnce() + Send> = Box::new(move || drop(made.send(work())));
    drop(tokio::task::spawn_blocking(task));
    result
}
