//! The jobs that wait, and what for.

use std::collections::VecDeque;

use crate::engine::handle::{Job, SubmitError};
use crate::engine::plan::edits::Progress;

/// The jobs that wait.
#[derive(Default)]
pub(crate) struct Waiting {
    /// For a file of their key to be believed.
    pub(crate) deferred: VecDeque<Job>,
    /// For the next turn.
    pub(crate) rest: VecDeque<Job>,
    /// For what one turn has no time for: the first goes on in each turn, behind the others' jobs.
    pub(crate) large: VecDeque<Job>,
    /// How far the first of them is.
    pub(crate) progress: Progress,
}

impl Waiting {
    /// Whether no job waits for nothing but time.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.large.is_empty()
    }

    /// Those that are carried out before what comes now.
    pub(crate) fn take(&mut self) -> VecDeque<Job> {
        let mut jobs = std::mem::take(&mut self.deferred);
        jobs.append(&mut self.rest);
        jobs
    }

    /// Takes jobs that are too large for a turn, as many as may wait.
    pub(crate) fn add_large(&mut self, jobs: impl IntoIterator<Item = Job>, len_max: usize) {
        for job in jobs {
            if self.large.len() < len_max {
                self.large.push_back(job);
            } else {
                job.answer(Err(SubmitError::Busy));
            }
        }
    }
}
