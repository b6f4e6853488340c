//! What the writer takes up at once: everything that has queued up.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use crate::engine::signal::{Hints, Job, Question, Signal};

/// The queue of signals.
pub(crate) struct Inbox {
    queue: mpsc::Receiver<Signal>,
    /// What was passed over while jobs were taken.
    passed: VecDeque<Signal>,
}

impl Inbox {
    pub(crate) const fn new(queue: mpsc::Receiver<Signal>) -> Self {
        Self { queue, passed: VecDeque::new() }
    }

    /// Waits for the next signal; `None` when there will be none any more.
    pub(crate) async fn next(&mut self) -> Option<Signal> {
        match self.passed.pop_front() {
            Some(signal) => Some(signal),
            None => self.queue.recv().await,
        }
    }

    /// The next signal that has come already.
    pub(crate) fn try_next(&mut self) -> Option<Signal> {
        self.passed.pop_front().or_else(|| self.queue.try_recv().ok())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.passed.is_empty() && self.queue.is_empty()
    }

    /// Takes the jobs that have come already, as far as there is room for them; all else waits for its turn.
    pub(crate) fn take_jobs(&mut self, jobs: &mut Vec<Job>, len_max: usize) {
        while jobs.len() < len_max
            && let Ok(signal) = self.queue.try_recv()
        {
            match signal {
                Signal::Submit(job) if job.reply.is_closed() => {}
                Signal::Submit(job) => jobs.push(job),
                other => self.passed.push_back(other),
            }
        }
    }
}

/// What has come since the loop looked last.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) questions: Vec<Question>,
    pub(crate) hints: Hints,
    pub(crate) stop: bool,
    /// Nothing has come for a while.
    pub(crate) idle: bool,
}
