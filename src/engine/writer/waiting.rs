//! The jobs that wait, and what for.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::domain::Actor;
use crate::engine::plan::edits::EditProgress;
use crate::engine::signal::Job;
use crate::engine::submission::error::SubmitError;

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
    pub(crate) progress: EditProgress,
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

    /// Those that are carried out now, with what has come.
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

/// The first job of each author, then the second of each, and so on: who asks for much is waited for by nobody else
/// for longer than one of theirs takes.
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

/// Has jobs wait, as many as may.
pub(crate) fn add(waiting: &mut VecDeque<Job>, jobs: impl IntoIterator<Item = Job>, len_max: usize) {
    for job in jobs {
        if waiting.len() < len_max {
            waiting.push_back(job);
        } else {
            job.answer(Err(SubmitError::Busy));
        }
    }
}
