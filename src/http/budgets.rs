//! How much of the service its callers have in use together: bodies and answers in bytes, long work in number.
//!
//! A place is given back when what took it is dropped, however it ended. Nothing here knows what a request asks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::{AnswerLimits, RequestLimits};
use crate::http::jsonapi::error::ApiError;
use crate::telemetry::Limit;

/// How many lists are put together at one time; the others wait for their turn, which comes soon.
const LISTS_AT_ONCE: usize = 4;

/// An answer of up to so many bytes is not counted: as many connections as there may be take less with such
/// ones than a few with large ones.
const ANSWER_FREE_BYTES: usize = 16 * 1_024;

/// Of a body so many bytes are not counted: a small write has room whoever else sends what, and as many connections
/// as there may be take no more with such ones than the counted bodies may.
const BODY_FREE_BYTES: usize = 16 * 1_024;

/// Which part of what bodies may take together is for senders whom nobody knows; they take no other.
const STRANGERS_PART: usize = 8;

/// When it is worth trying again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Whose body it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Known,
    /// Somebody who is not signed in, or says to have the secret of notices.
    Stranger,
}

/// What is left of each budget.
#[derive(Debug)]
pub(crate) struct Budgets {
    bodies: Arc<Semaphore>,
    bodies_of_strangers: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    answers_bytes_max: usize,
    questions: Arc<Semaphore>,
    question_wait_max: Duration,
    lists: Arc<Semaphore>,
}

impl Budgets {
    pub(crate) fn of(requests: &RequestLimits, answers: &AnswerLimits) -> Self {
        let of_strangers = requests.bodies_bytes_max / STRANGERS_PART;
        Self {
            bodies: Arc::new(Semaphore::new(requests.bodies_bytes_max - of_strangers)),
            bodies_of_strangers: Arc::new(Semaphore::new(of_strangers)),
            answers: Arc::new(Semaphore::new(answers.answers_bytes_max)),
            answers_bytes_max: answers.answers_bytes_max,
            questions: Arc::new(Semaphore::new(answers.history_questions_max)),
            question_wait_max: answers.history_wait_max(),
            lists: Arc::new(Semaphore::new(LISTS_AT_ONCE)),
        }
    }

    /// Room for so much more of a body of which so much is there.
    ///
    /// # Errors
    ///
    /// 503 when the bodies of all requests take too much, or those of strangers.
    pub(crate) fn room_for_body(
        &self,
        sender: Sender,
        held: usize,
        bytes: usize,
    ) -> Result<OwnedSemaphorePermit, ApiError> {
        let counted = |bytes: usize| bytes.saturating_sub(BODY_FREE_BYTES);
        let bytes = u32::try_from(counted(held + bytes) - counted(held)).unwrap_or(u32::MAX);
        let room = match sender {
            Sender::Known => &self.bodies,
            Sender::Stranger => &self.bodies_of_strangers,
        };
        Arc::clone(room).try_acquire_many_owned(bytes).map_err(|_| {
            let detail = "The bodies of all requests together are more than this service takes; try again.";
            ApiError::unavailable(detail, RETRY_AFTER).reaching(Limit::BodiesBytes)
        })
    }

    /// A place to look into the past, as soon as there is one.
    ///
    /// # Errors
    ///
    /// 503 when there is none for too long.
    pub(crate) async fn question(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let place = Arc::clone(&self.questions).acquire_owned();
        match tokio::time::timeout(self.question_wait_max, place).await {
            Ok(place) => Ok(place.expect("nobody closes it")),
            Err(_) => {
                let detail = "As many questions about the history are being answered as this service takes at a \
                              time; try again shortly.";
                Err(ApiError::unavailable(detail, RETRY_AFTER).reaching(Limit::HistoryQuestions))
            }
        }
    }

    /// A place to put a long list together.
    pub(crate) async fn list(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.lists).acquire_owned().await.expect("nobody closes it")
    }

    /// The same answer, counted until the last byte of it is sent or dropped. One that is shared with others costs
    /// nothing more, and a small one next to nothing.
    ///
    /// # Errors
    ///
    /// 503 when the answers of all requests take too much.
    pub(crate) fn counted(&self, body: Bytes) -> Result<Bytes, ApiError> {
        if body.len() <= ANSWER_FREE_BYTES || !body.is_unique() {
            return Ok(body);
        }
        // One that is larger than the whole budget is sent when it is the only one.
        let bytes = u32::try_from(body.len().min(self.answers_bytes_max)).unwrap_or(u32::MAX);
        match Arc::clone(&self.answers).try_acquire_many_owned(bytes) {
            Ok(room) => Ok(Bytes::from_owner(Counted { body, _room: room })),
            Err(_) => {
                let detail = "The answers that are being sent take as much as this service gives; try again.";
                Err(ApiError::unavailable(detail, RETRY_AFTER).reaching(Limit::AnswersBytes))
            }
        }
    }
}

/// An answer and its room.
struct Counted {
    body: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status<T>(result: Result<T, ApiError>) -> Option<u16> {
        result.err().map(|error| error.status().as_u16())
    }

    #[test]
    fn an_answer_has_its_room_until_the_last_of_it_is_gone() {
        let limits = AnswerLimits { answers_bytes_max: 50_000, ..AnswerLimits::DEFAULT };
        let budgets = Budgets::of(&RequestLimits::DEFAULT, &limits);
        let answer = |len: usize| Bytes::from(vec![b'x'; len]);
        let first = budgets.counted(answer(40_000)).unwrap();
        assert_eq!(first, answer(40_000));
        assert_eq!(status(budgets.counted(answer(20_000))), Some(503));
        assert_eq!(
            status(budgets.counted(answer(ANSWER_FREE_BYTES))),
            None,
            "a small one is sent all the same"
        );
        let shared = answer(40_000);
        assert_eq!(status(budgets.counted(shared.clone())), None, "so is one that is there anyway");
        let rest = first.slice(39_999..);
        drop(first);
        assert_eq!(status(budgets.counted(answer(20_000))), Some(503));
        drop(rest);
        assert_eq!(status(budgets.counted(answer(20_000))), None);
        assert_eq!(status(budgets.counted(answer(60_000))), None, "a larger one than all is sent alone");
    }

    #[test]
    fn bodies_have_their_room_together() {
        let limits = RequestLimits { bodies_bytes_max: 8_000, ..RequestLimits::DEFAULT };
        let budgets = Budgets::of(&limits, &AnswerLimits::DEFAULT);
        let room = |sender, bytes| budgets.room_for_body(sender, BODY_FREE_BYTES, bytes);
        let held = room(Sender::Known, 5_000).unwrap();
        assert_eq!(status(room(Sender::Known, 5_000)), Some(503));
        drop(held);
        assert_eq!(status(room(Sender::Known, 7_000)), None);
    }

    #[test]
    fn strangers_take_no_room_of_others_and_a_small_body_always_has_some() {
        let limits = RequestLimits { bodies_bytes_max: 8_000, ..RequestLimits::DEFAULT };
        let budgets = Budgets::of(&limits, &AnswerLimits::DEFAULT);
        let room = |sender, held, bytes| budgets.room_for_body(sender, held, bytes);
        let _strangers = room(Sender::Stranger, BODY_FREE_BYTES - 1, 1_001).unwrap();
        assert_eq!(status(room(Sender::Stranger, BODY_FREE_BYTES, 1)), Some(503));
        let _known = room(Sender::Known, 0, BODY_FREE_BYTES + 7_000).unwrap();
        assert_eq!(status(room(Sender::Known, BODY_FREE_BYTES, 1)), Some(503));
        for sender in [Sender::Known, Sender::Stranger] {
            assert_eq!(status(room(sender, 0, BODY_FREE_BYTES)), None);
        }
    }

    #[tokio::test]
    async fn a_question_waits_for_its_place_and_is_told_when_there_is_none() {
        let limits =
            AnswerLimits { history_questions_max: 1, history_wait_ms_max: 50, ..AnswerLimits::DEFAULT };
        let budgets = Budgets::of(&RequestLimits::DEFAULT, &limits);
        let place = budgets.question().await.unwrap();
        let refused = budgets.question().await.unwrap_err();
        assert_eq!((refused.status().as_u16(), refused.limit()), (503, Some(Limit::HistoryQuestions)));
        let (next, ()) = tokio::join!(budgets.question(), async {
            tokio::task::yield_now().await;
            drop(place);
        });
        assert!(next.is_ok());
    }
}
