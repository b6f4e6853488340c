//! Who is told of what the server refuses and ends by itself.

use std::fmt;
use std::sync::Arc;

use hyper::Method;

use crate::http::server::Answers;
use crate::http::server::refusal::Refusal;
use crate::telemetry::{Limit, Reached};

/// Counts limits that were reached, and requests that nobody else heard of.
#[derive(Clone)]
pub(crate) struct Counts {
    reached: Reached,
    refused: Arc<Refused>,
}

type Refused = dyn Fn(Option<&Method>, &Refusal) + Send + Sync;

impl Counts {
    pub(crate) fn new(reached: Reached, answers: &impl Answers) -> Self {
        let answers = answers.clone();
        let refused = move |method: Option<&Method>, refusal: &Refusal| {
            answers.refused(method, refusal.status(), refusal.body().len());
        };
        Self { reached, refused: Arc::new(refused) }
    }

    pub(crate) fn reached(&self, limit: Limit) {
        self.reached.count(limit);
    }

    /// A request was refused, of a method that is known unless the head could not be read.
    pub(crate) fn refused(&self, method: Option<&Method>, refusal: &Refusal) {
        refusal.limit().into_iter().for_each(|limit| self.reached(limit));
        (self.refused)(method, refusal);
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").field("reached", &self.reached).finish_non_exhaustive()
    }
}
