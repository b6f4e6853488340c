//! The inbox of the writer thread: everything that has queued up is taken at once.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use crate::engine::signal::{Hints, Job, ReplayRequest, Signal};

pub(crate) struct Inbox {
    queue: mpsc::Receiver<Signal>,
    /// Signals that were passed over while jobs were taken.
    passed: VecDeque<Signal>,
}

impl Inbox {
    pub(crate) const fn new(queue: mpsc::Receiver<Signal>) -> Self {
        Self { queue, passed: VecDeque::new() }
    }

    /// Waits for the next signal; `None` when all senders are gone.
    pub(crate) async fn next(&mut self) -> Option<Signal> {
        match self.passed.pop_front() {
            Some(signal) => Some(signal),
            None => self.queue.recv().await,
        }
    }

    /// Returns the next signal that has already arrived.
    pub(crate) fn try_next(&mut self) -> Option<Signal> {
        self.passed.pop_front().or_else(|| self.queue.try_recv().ok())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.passed.is_empty() && self.queue.is_empty()
    }

    /// Takes the jobs that have already arrived, up to `len_max`; all other signals keep waiting for their turn.
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

/// The signals that have arrived since the last round of the loop.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) questions: Vec<ReplayRequest>,
    pub(crate) hints: Hints,
    pub(crate) stop: bool,
    /// Whether nothing has arrived for a while.
    pub(crate) idle: bool,
}
