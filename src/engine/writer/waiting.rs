//! The jobs that wait, by what they wait for.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::domain::Actor;
use crate::engine::plan::edits::EditProgress;
use crate::engine::signal::Job;
use crate::engine::submission::error::SubmitError;

/// Maximum time that a job waits for a file of its key to settle or be closed. Then it is decided on what is believed;
/// a change of a file that is still open is refused.
const DEFERRED_WAIT_MAX: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Waiting {
    /// Jobs that wait for a file of their key to be believed.
    pub(crate) deferred: VecDeque<Job>,
    /// Jobs that wait for the next turn.
    pub(crate) rest: VecDeque<Job>,
    /// Jobs that one turn has no time for: each turn continues the first one, after the jobs of others.
    pub(crate) large: VecDeque<Job>,
    /// How far the first large job has got.
    pub(crate) progress: EditProgress,
    /// Jobs that wait for the branch to be allowed to move.
    pub(crate) held: VecDeque<Job>,
    /// When the branch may move.
    pub(crate) held_until: Option<Instant>,
}

impl Waiting {
    /// Returns whether no waiting job can be carried out right away.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.large.is_empty() && (self.held.is_empty() || self.held_until.is_some())
    }

    /// Returns when the first of the deferred jobs has waited for long enough.
    pub(crate) fn deferred_until(&self) -> Option<Instant> {
        self.deferred.iter().map(deferred_until).min()
    }

    /// Returns the jobs to carry out now, including the received ones.
    pub(crate) fn take(&mut self, received: VecDeque<Job>) -> VecDeque<Job> {
        let mut jobs = std::mem::take(&mut self.deferred);
        if self.held_until.is_none() {
            jobs.append(&mut self.held);
        }
        if self.rest.is_empty() {
            jobs.extend(received);
        } else {
            jobs.extend(in_turns(self.rest.drain(..).chain(received)));
        }
        jobs
    }
}

/// Returns the time until which a job may wait for a file of its key.
pub(crate) fn deferred_until(job: &Job) -> Instant {
    job.asked_at + DEFERRED_WAIT_MAX
}

/// Orders jobs in rounds: the first job of each author, then the second of each, and so on. An author with many jobs
/// delays each other author by no more than one of them.
fn in_turns(jobs: impl Iterator<Item = Job>) -> impl Iterator<Item = Job> {
    let mut counts: HashMap<Actor, usize> = HashMap::new();
    let counted = jobs.map(|job| {
        let count = counts.entry(job.submission.author.clone()).or_default();
        *count += 1;
        (*count, job)
    });
    let mut counted: Vec<_> = counted.collect();
    counted.sort_by_key(|(count, _)| *count);
    counted.into_iter().map(|(_, job)| job)
}

/// Adds jobs to a queue; jobs beyond `len_max` are refused.
pub(crate) fn add(waiting: &mut VecDeque<Job>, jobs: impl IntoIterator<Item = Job>, len_max: usize) {
    for job in jobs {
        if waiting.len() < len_max {
            waiting.push_back(job);
        } else {
            job.answer(Err(SubmitError::Busy));
        }
    }
}
