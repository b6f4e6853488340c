//! The byte budget that answers share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use crate::http::budgets::shared_budget::{BudgetUser, Reservation, SharedBudget};
use crate::http::jsonapi::error::ApiError;
use crate::telemetry::Limit;

/// Answers up to this size are not counted: on as many connections as there may be, they take less memory together
/// than a few large answers.
pub(crate) const FREE_BYTES: usize = 16 * 1_024;

/// The step by which the reservation of an answer grows while it is built.
const STEP_BYTES: usize = 64 * 1_024;

/// The answers under way, being built or sent.
#[derive(Debug)]
pub(crate) struct AnswerBudget {
    budget: Arc<SharedBudget>,
    /// Keyed by the address of the bytes, so that a body sent to many clients is counted once.
    sent: Mutex<HashMap<usize, Weak<Sent>>>,
}

/// The bytes of an answer and their reservation.
#[derive(Debug)]
struct Sent {
    body: Bytes,
    _reservation: Reservation,
}

impl AnswerBudget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { budget: SharedBudget::of(bytes_max), sent: Mutex::default() }
    }

    /// Finds these bytes among those being sent.
    fn find(&self, body: &Bytes) -> Option<Arc<Sent>> {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.get(&body.as_ptr().addr())?.upgrade()
    }

    fn note(&self, sent: &Arc<Sent>) {
        let mut all = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, sent| sent.strong_count() > 0);
        all.insert(sent.body.as_ptr().addr(), Arc::downgrade(sent));
    }
}

#[derive(Debug)]
pub(crate) struct AnswerReservation {
    answers: Arc<AnswerBudget>,
    reservation: Reservation,
}

impl AnswerReservation {
    pub(crate) fn of(answers: &Arc<AnswerBudget>, user: BudgetUser) -> Self {
        Self { answers: Arc::clone(answers), reservation: answers.budget.empty_reservation(user) }
    }

    /// Reserves bytes for an answer that has this many bytes so far.
    ///
    /// # Errors
    ///
    /// 503 when the answers of all requests take too much, or those of this caller.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), ApiError> {
        if bytes <= FREE_BYTES || self.reservation.grow_to(bytes.next_multiple_of(STEP_BYTES)) {
            return Ok(());
        }
        let detail = "The answers that are being sent take as much as this service gives; try again.";
        Err(ApiError::unavailable(detail).with_limit(Limit::AnswersBytes))
    }

    /// Counts an answer until the last of its bytes is sent or dropped.
    ///
    /// # Errors
    ///
    /// As [`grow_to`](Self::grow_to).
    pub(crate) fn counted(mut self, body: Bytes) -> Result<Bytes, ApiError> {
        if body.len() <= FREE_BYTES {
            return Ok(body);
        }
        let sent = match self.answers.find(&body) {
            Some(sent) => sent,
            None => {
                self.grow_to(body.len())?;
                let sent = Arc::new(Sent { body, _reservation: self.reservation });
                self.answers.note(&sent);
                sent
            }
        };
        Ok(Bytes::from_owner(Shared(sent)))
    }
}

struct Shared(Arc<Sent>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Actor;

    fn status<T>(result: Result<T, ApiError>) -> Option<u16> {
        result.err().map(|error| error.status().as_u16())
    }

    fn answer(len: usize) -> Bytes {
        Bytes::from(vec![b'x'; len])
    }

    fn reservation(answers: &Arc<AnswerBudget>, name: &str) -> AnswerReservation {
        AnswerReservation::of(answers, BudgetUser::Named(Actor::new(name, "")))
    }

    #[test]
    fn an_answer_has_its_room_until_the_last_of_it_is_gone() {
        let answers = Arc::new(AnswerBudget::new(3 * STEP_BYTES));
        let counted = |name, body| reservation(&answers, name).counted(body);
        let first = counted("Mara", answer(2 * STEP_BYTES)).unwrap();
        assert_eq!(first, answer(2 * STEP_BYTES));
        assert_eq!(status(counted("Ben", answer(2 * STEP_BYTES))), Some(503));
        assert_eq!(status(counted("Ben", answer(FREE_BYTES))), None, "a small one is sent all the same");
        let rest = first.slice(2 * STEP_BYTES - 1..);
        drop(first);
        assert_eq!(status(counted("Ben", answer(2 * STEP_BYTES))), Some(503));
        drop(rest);
        assert_eq!(status(counted("Ben", answer(2 * STEP_BYTES))), None);
        assert_eq!(
            status(counted("Ben", answer(4 * STEP_BYTES))),
            None,
            "a larger one than all is sent alone"
        );
    }

    #[test]
    fn what_many_are_sent_is_counted_once() {
        let answers = Arc::new(AnswerBudget::new(3 * STEP_BYTES));
        let counted = |name, body| reservation(&answers, name).counted(body);
        let list = answer(2 * STEP_BYTES);
        let sent: Vec<_> = ["Mara", "Ben", "Ada"].map(|name| counted(name, list.clone()).unwrap()).into();
        let once_more = counted("Ben", sent[0].clone()).expect("what is counted is not counted again");
        drop(sent);
        assert_eq!(status(counted("Ben", answer(2 * STEP_BYTES))), Some(503));
        drop(once_more);
        assert_eq!(status(counted("Ben", answer(2 * STEP_BYTES))), None);
    }

    #[test]
    fn an_answer_in_the_making_ends_where_there_is_no_more_room() {
        let answers = Arc::new(AnswerBudget::new(3 * STEP_BYTES));
        let _sent = reservation(&answers, "Mara").counted(answer(2 * STEP_BYTES)).unwrap();
        let mut made = reservation(&answers, "Ben");
        made.grow_to(STEP_BYTES).unwrap();
        let refused = made.grow_to(STEP_BYTES + 1).unwrap_err();
        assert_eq!((refused.status().as_u16(), refused.limit()), (503, Some(Limit::AnswersBytes)));
    }
}
