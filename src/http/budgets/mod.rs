//! Budgets that callers share: bodies and answers in bytes, long work by number.
//!
//! A reservation is released when its owner is dropped, however that ended. Nothing here depends on what a request
//! asks.

pub(crate) mod answers;
pub(crate) mod bodies;
pub(crate) mod shared_budget;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::{AnswerLimits, RequestLimits};
use crate::http::budgets::answers::AnswerBudget;
use crate::http::budgets::bodies::BodyBudget;
use crate::http::jsonapi::error::ApiError;
use crate::telemetry::Limit;

/// How many lists are built at one time. The others wait, which does not take long.
const LISTS_AT_ONCE: usize = 4;

/// The budgets and what is left of them.
#[derive(Debug)]
pub(crate) struct Budgets {
    pub(crate) bodies: BodyBudget,
    pub(crate) answers: Arc<AnswerBudget>,
    questions: Arc<Semaphore>,
    question_wait_max: Duration,
    lists: Arc<Semaphore>,
}

impl Budgets {
    pub(crate) fn of(requests: &RequestLimits, answers: &AnswerLimits) -> Self {
        Self {
            bodies: BodyBudget::new(requests.bodies_bytes_max),
            answers: Arc::new(AnswerBudget::new(answers.answers_bytes_max)),
            questions: Arc::new(Semaphore::new(answers.history_questions_max)),
            question_wait_max: answers.history_wait_max(),
            lists: Arc::new(Semaphore::new(LISTS_AT_ONCE)),
        }
    }

    /// Waits for a permit to query the history.
    ///
    /// # Errors
    ///
    /// 503 when none is free in time.
    pub(crate) async fn history_permit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = Arc::clone(&self.questions).acquire_owned();
        match tokio::time::timeout(self.question_wait_max, permit).await {
            Ok(permit) => Ok(permit.expect("nobody closes it")),
            Err(_) => {
                let detail = "As many questions about the history are being answered as this service takes at a \
                              time; try again shortly.";
                Err(ApiError::unavailable(detail).with_limit(Limit::HistoryQuestions))
            }
        }
    }

    /// Waits for a permit to build a long list.
    pub(crate) async fn list_permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.lists).acquire_owned().await.expect("nobody closes it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_waits_for_its_place_and_is_told_when_there_is_none() {
        let limits =
            AnswerLimits { history_questions_max: 1, history_wait_ms_max: 50, ..AnswerLimits::DEFAULT };
        let budgets = Budgets::of(&RequestLimits::DEFAULT, &limits);
        let permit = budgets.history_permit().await.unwrap();
        let refused = budgets.history_permit().await.unwrap_err();
        assert_eq!((refused.status().as_u16(), refused.limit()), (503, Some(Limit::HistoryQuestions)));
        let (next, ()) = tokio::join!(budgets.history_permit(), async {
            tokio::task::yield_now().await;
            drop(permit);
        });
        assert!(next.is_ok());
    }
}
