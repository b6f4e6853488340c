//! The jobs that wait, and what for.

use std::collections::VecDeque;
use std::time::Instant;

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
    /// For the branch to go on.
    pub(crate) held: VecDeque<Job>,
    /// When it may.
    pub(crate) held_until: Option<Instant>,
}

impl Waiting {
    /// Whether no job waits for nothing but time.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.large.is_empty() && (self.held.is_empty() || self.held_until.is_some())
    }

    /// Those that are carried out before what comes now.
    pub(crate) fn take(&mut self) -> VecDeque<Job> {
        let mut jobs = std::mem::take(&mut self.deferred);
        if self.held_until.is_none() {
            jobs.append(&mut self.held);
        }
        jobs.append(&mut self.rest);
        jobs
    }

    /// Takes jobs that are carried out when the branch may go on, as many as may wait.
    pub(crate) fn hold(&mut self, jobs: Vec<Job>, len_max: usize) {
        add(&mut self.held, jobs, len_max);
    }

    /// Takes jobs that are too large for a turn, as many as may wait.
    pub(crate) fn add_large(&mut self, jobs: impl IntoIterator<Item = Job>, len_max: usize) {
        add(&mut self.large, jobs, len_max);
    }
}

fn add(waiting: &mut VecDeque<Job>, jobs: impl IntoIterator<Item = Job>, len_max: usize) {
    for job in jobs {
        if waiting.len() < len_max {
            waiting.push_back(job);
        } else {
            job.answer(Err(SubmitError::Busy));
        }
    }
}
