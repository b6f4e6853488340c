//! Accounting of the requests that the server itself refuses, and of the limits that it enforces.

use std::fmt;
use std::sync::Arc;

use hyper::Method;
use hyper::header::HeaderMap;

use crate::http::server::refusal::Refusal;
use crate::http::server::{Answers, HeaderFields};
use crate::telemetry::{Limit, LimitCounters};

/// Counts limits that were reached, and requests that the routes never saw.
#[derive(Clone)]
pub(crate) struct Counts {
    reached: LimitCounters,
    refused: Arc<Refused>,
}

type Refused = dyn Fn(Option<(&Method, &HeaderMap)>, &Refusal) -> HeaderFields + Send + Sync;

impl Counts {
    pub(crate) fn new(reached: LimitCounters, answers: &impl Answers) -> Self {
        let answers = answers.clone();
        let refused = move |head: Option<(&Method, &HeaderMap)>, refusal: &Refusal| {
            answers.refused(head, refusal.status(), refusal.body().len())
        };
        Self { reached, refused: Arc::new(refused) }
    }

    pub(crate) fn count_limit(&self, limit: Limit) {
        self.reached.count(limit);
    }

    /// Records a refused request, whose head is `None` if it could not be read, and returns the header fields
    /// that its answer has besides those of the refusal.
    pub(crate) fn refused(&self, head: Option<(&Method, &HeaderMap)>, refusal: &Refusal) -> HeaderFields {
        refusal.limit().into_iter().for_each(|limit| self.count_limit(limit));
        (self.refused)(head, refusal)
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").field("reached", &self.reached).finish_non_exhaustive()
    }
}
