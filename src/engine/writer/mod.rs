//! The writer thread: the only thread that changes anything.
//!
//! Signals arrive through one queue, and everything that is waiting is carried out together. The writer does not
//! decide what a command does (`plan`) or what is served (`mirror`); it asks both and answers the jobs.

mod group;
mod inbox;
mod waiting;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::timeout_at;

use crate::engine::idempotency::{IdempotencyStore, replay};
use crate::engine::mirror::Mirror;
use crate::engine::options::{Options, WriterOptions};
use crate::engine::plan::edits::EditProgress;
use crate::engine::projection::{Projection, Snapshot};
use crate::engine::refuse::{reason, refusal, unavailable};
use crate::engine::signal::{Hint, Hints, Job, ReplayRequest, Signal};
use crate::engine::submission::error::SubmitError;
use crate::engine::writer::group::Group;
use crate::engine::writer::inbox::{Inbox, Received};
use crate::engine::writer::waiting::Waiting;
use crate::store::{Journal, StoreError};
use crate::telemetry::{Limit, error_chain, millis};

/// Owns the journal and everything known about it.
pub(crate) struct Writer {
    inbox: Inbox,
    projection: Projection,
    idempotency: IdempotencyStore,
    options: Options,
    state: State,
    waiting: Waiting,
    /// The error of the last failed reading, so that it is logged once.
    read_error: Option<String>,
    /// When to retry what could not be read.
    retry_at: Option<Instant>,
    /// Number of branch moves since the journal was tended, including appended groups; the start counts as one.
    moves_since_maintenance: usize,
    /// Whether the service is shutting down: all waiting jobs are carried out now.
    is_ending: bool,
}

/// Time without signals after which the journal is tended.
const IDLE_WAIT: Duration = Duration::from_millis(500);

/// Number of branch moves after which the journal is tended even without idle time.
const UNTENDED_MOVES_MAX: usize = 32;

/// Whether the repository has been read yet.
enum State {
    Unread { journal: Option<Box<dyn Journal>>, again_at: Instant },
    Mirrored(Box<Mirror>),
}

impl Writer {
    pub(crate) fn new(
        journal: Box<dyn Journal>,
        inbox: mpsc::Receiver<Signal>,
        projection: Projection,
        idempotency: IdempotencyStore,
        options: Options,
    ) -> Self {
        let state = State::Unread { journal: Some(journal), again_at: Instant::now() };
        Self {
            inbox: Inbox::new(inbox),
            projection,
            idempotency,
            options,
            state,
            waiting: Waiting::default(),
            read_error: None,
            retry_at: None,
            moves_since_maintenance: 1,
            is_ending: false,
        }
    }

    /// Runs until the last handle is dropped or a shutdown is requested.
    ///
    /// Everything that can change the collections arrives here as a [`Signal`], so [`gather`](Self::gather) is the
    /// complete list of reasons for a change. Waiting for one signal and then taking what else has queued up is the
    /// group commit: the disk's own slowness sizes the batch, and an idle service commits at once.
    pub(crate) fn run(mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime with nothing but a timer needs no resources");
        // Followers of the heads must learn that the writer thread has ended, even after a panic.
        let _end = End(self.projection.clone());
        self.read_if_due();
        while let Some(mut received) = runtime.block_on(self.gather()) {
            self.projection.note_busy(Some(Instant::now()));
            self.read_if_due();
            self.is_ending = received.stop;
            if self.is_ending && self.waiting.held_until.take().is_some() {
                // Commits that others made here do not wait any longer either.
                received.hints.add(&Hint::Branch);
            }
            self.act(&received.hints);
            let jobs = self.waiting.take(received.jobs);
            self.commit(jobs);
            self.replay(received.questions);
            if self.is_ending {
                break;
            }
            self.note_next_move();
            if received.idle || self.moves_since_maintenance >= UNTENDED_MOVES_MAX {
                self.start_maintenance();
            }
            self.projection.overdue(self.options.writer.busy_max, &self.options.reached);
            self.projection.note_busy(None);
        }
        tracing::debug!("the writer has stopped");
    }

    /// Waits for the first signal, or for the time to look again, and takes what else has arrived.
    async fn gather(&mut self) -> Option<Received> {
        let mut received = Received::default();
        let first = match self.wake_at() {
            _ if !self.waiting.is_empty() => self.inbox.try_next(),
            None => Some(self.inbox.next().await?),
            Some(at) => match timeout_at(at.into(), self.inbox.next()).await {
                Ok(signal) => Some(signal?),
                Err(_) => None,
            },
        };
        let is_timeout = first.is_none() && self.waiting.is_empty();
        let mut next = first;
        while let Some(signal) = next.take() {
            match signal {
                Signal::Submit(job) => received.jobs.push_back(job),
                Signal::Replay(question) => received.questions.push(question),
                Signal::Changed(hint) => received.hints.add(&hint),
                Signal::Shutdown => received.stop = true,
            }
            let waiting = self.waiting.rest.len() + received.jobs.len() + received.questions.len();
            if waiting < self.options.writer.batch_len_max {
                next = self.inbox.try_next();
            } else if !self.inbox.is_empty() {
                self.options.reached.count(Limit::BatchLen);
            }
        }
        if let State::Mirrored(mirror) = &self.state
            && self.rescan_at(mirror).is_some_and(|at| at <= Instant::now())
        {
            received.hints.add(&mirror.rescan_hint());
            // What could not be read may be the branch alone.
            received.hints.branch |= self.retry_at.is_some();
        }
        if self.waiting.held_until.is_some_and(|at| at <= Instant::now()) {
            self.waiting.held_until = None;
            // Commits that others made here may be waiting as well.
            received.hints.add(&Hint::Branch);
        }
        received.idle = is_timeout && received.hints.is_empty() && self.waiting.deferred.is_empty();
        Some(received)
    }

    /// Records when the branch may move, if it may not move now.
    fn note_next_move(&mut self) {
        let State::Mirrored(mirror) = &self.state else { return };
        // If the branch may move earlier than announced, it is looked at now.
        let now = self.waiting.held_until.map(|_| Instant::now());
        self.waiting.held_until = mirror.journal.paused_until().or(now);
    }

    fn wake_at(&self) -> Option<Instant> {
        match &self.state {
            State::Unread { again_at, .. } => Some(*again_at),
            State::Mirrored(mirror) => {
                let idle_at = (self.moves_since_maintenance > 0).then(|| Instant::now() + IDLE_WAIT);
                let waiting = self.waiting.held_until.into_iter().chain(self.waiting.deferred_until());
                self.rescan_at(mirror).into_iter().chain(idle_at).chain(waiting).min()
            }
        }
    }

    fn rescan_at(&self, mirror: &Mirror) -> Option<Instant> {
        self.retry_at.or_else(|| mirror.rescan_at())
    }

    /// Runs the journal's maintenance; a failure costs nothing but speed.
    fn start_maintenance(&mut self) {
        let State::Mirrored(mirror) = &mut self.state else { return };
        if self.moves_since_maintenance == 0 {
            return;
        }
        self.moves_since_maintenance = 0;
        if let Err(error) = mirror.journal.start_maintenance() {
            tracing::warn!(error = %error_chain(&error), "the maintenance of the repository failed");
        }
    }

    /// Reads the repository for the first time, and retries until it succeeds.
    fn read_if_due(&mut self) {
        let State::Unread { journal, again_at } = &mut self.state else { return };
        if *again_at > Instant::now() {
            return;
        }
        let Some(journal) = journal.take() else { return };
        let started = Instant::now();
        let mirror = Mirror::load(journal, self.options.mirror.clone());
        let mirror = mirror.and_then(|mut mirror| match self.read_back(&mut mirror) {
            Ok(()) => Ok(mirror),
            Err(error) => Err((mirror.journal, error)),
        });
        match mirror {
            Ok(mirror) => {
                let snapshot = mirror.snapshot();
                tracing::info!(
                    collections = snapshot.catalog().len(),
                    problems = snapshot.problems.len(),
                    revision = snapshot.revision.map(|revision| revision.to_string()),
                    duration_ms = millis(started.elapsed()),
                    "the repository is read"
                );
                self.projection.publish(snapshot.clone());
                self.state = State::Mirrored(Box::new(mirror));
                self.report_read_error(None);
                (self.options.give_back)();
            }
            Err((journal, error)) => {
                let again_at = Instant::now() + self.options.writer.retry_wait;
                self.state = State::Unread { journal: Some(journal), again_at };
                self.report_read_error(Some(&error));
            }
        }
    }

    /// Reads the idempotency keys of the newest commits.
    fn read_back(&self, mirror: &mut Mirror) -> Result<(), StoreError> {
        match mirror.snapshot().revision {
            Some(head) => self.idempotency.load_commits(&mut *mirror.journal, head),
            None => Ok(()),
        }
    }

    /// Follows the hints, and publishes what has changed.
    fn act(&mut self, hints: &Hints) {
        let State::Mirrored(mirror) = &mut self.state else { return };
        if hints.is_empty() {
            return;
        }
        // One look is enough for all hints.
        if hints.branch {
            mirror.expect(&Hint::Branch);
        }
        let (before, started) = (Arc::clone(mirror.snapshot()), Instant::now());
        let outcome = mirror.refresh(&hints.of_files());
        let is_moved = mirror.snapshot().revision != before.revision;
        self.moves_since_maintenance += usize::from(is_moved);
        if is_moved {
            self.options.metrics.committed.observe(started.elapsed());
        }
        count_saved(&self.options, &before, mirror);
        publish(&self.projection, &self.idempotency, mirror);
        let error = outcome.err();
        self.retry_at = error.is_some().then(|| Instant::now() + self.options.writer.retry_wait);
        self.report_read_error(error.as_ref());
    }

    /// Reports to the operator once that the repository can't be read, and once that it can be read again.
    fn report_read_error(&mut self, error: Option<&StoreError>) {
        let now = error.map(|error| error_chain(error));
        if self.read_error == now {
            return;
        }
        match &now {
            Some(error) if self.projection.snapshot().is_none() => {
                tracing::error!(error, "the repository cannot be read; it is tried again");
            }
            Some(error) => {
                tracing::error!(error, "the repository cannot be read; what was read last is served");
            }
            None => tracing::info!("the repository can be read again"),
        }
        let why = error.map(|error| format!("the repository cannot be read: {}", reason(error)));
        self.projection.set_read_error(why);
        self.read_error = now;
    }

    /// Carries out and answers, in order, the jobs that can be carried out now; during shutdown, all waiting jobs.
    fn commit(&mut self, mut jobs: VecDeque<Job>) {
        loop {
            let large = self.carry_out(jobs.into(), &mut EditProgress::default());
            waiting::add(&mut self.waiting.large, large, self.options.writer.queue_len_max);
            self.go_on();
            if !self.is_ending || self.waiting.is_empty() {
                break;
            }
            jobs = self.waiting.take(VecDeque::new());
        }
    }

    /// Carries out one more part of a job that is too large for one turn.
    fn go_on(&mut self) {
        let Some(job) = self.waiting.large.pop_front() else { return };
        let mut progress = std::mem::take(&mut self.waiting.progress);
        let before = progress.bytes();
        progress.begin_turn();
        let mut unfinished = self.carry_out(vec![job], &mut progress).into_iter();
        if let Some(job) = unfinished.next() {
            debug_assert_ne!(progress.bytes(), before, "BUG: a job waits for something that nobody reads");
            if progress.bytes() == before || self.has_retried_enough(&progress) {
                self.options.reached.count(Limit::Races);
                job.answer(Err(unavailable("the collections that it changes keep changing, try again")));
            } else {
                self.waiting.large.push_front(job);
                self.waiting.progress = progress;
            }
        }
        waiting::add(&mut self.waiting.large, unfinished, self.options.writer.queue_len_max);
    }

    /// Returns whether a large job has been read and edited anew so often, because others kept changing its files,
    /// that it is refused.
    fn has_retried_enough(&self, progress: &EditProgress) -> bool {
        let WriterOptions { races_max, operations_bytes_max, .. } = self.options.writer;
        progress.bytes() > operations_bytes_max.saturating_mul(2 * (races_max + 1))
    }

    /// Carries out and answers jobs; returns the jobs that one turn has no time for.
    fn carry_out(&mut self, jobs: Vec<Job>, progress: &mut EditProgress) -> Vec<Job> {
        let State::Mirrored(mirror) = &mut self.state else {
            let answer = if self.is_ending { SubmitError::ShuttingDown } else { SubmitError::Loading };
            jobs.into_iter().for_each(|job| job.answer(Err(answer.clone())));
            return Vec::new();
        };
        let (mut unfinished, mut held) = (Vec::new(), Vec::new());
        let is_large = progress.bytes() > 0;
        let mut group = Group {
            mirror,
            options: &self.options,
            projection: &self.projection,
            idempotency: &self.idempotency,
            deferred: (!self.is_ending).then_some(&mut self.waiting.deferred),
            rest: &mut self.waiting.rest,
            unfinished: &mut unfinished,
            // A job that took several turns would need them again.
            held: (!self.is_ending && !is_large).then_some(&mut held),
            progress,
            inbox: &mut self.inbox,
        };
        self.moves_since_maintenance += usize::from(group.carry_out(jobs));
        waiting::add(&mut self.waiting.held, held, self.options.writer.queue_len_max);
        unfinished
    }

    /// Answers questions about the commits of earlier requests.
    fn replay(&mut self, questions: Vec<ReplayRequest>) {
        for question in questions {
            let answer = question.span.in_scope(|| match &mut self.state {
                State::Unread { .. } => Err(SubmitError::Loading),
                State::Mirrored(mirror) => match confirm(mirror, self.options.writer.races_max) {
                    Ok(()) => replay::answer(mirror, &self.idempotency, &question),
                    Err(error) => Err(refusal(&error)),
                },
            });
            question.answer(answer);
        }
    }
}

/// Announces on drop that the writer thread has ended.
struct End(Projection);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Publishes the mirror's snapshot to readers. The idempotency records in others' commits are read first, so that a
/// reader who sees a change finds its record.
fn publish(projection: &Projection, idempotency: &IdempotencyStore, mirror: &mut Mirror) {
    if let Some(head) = mirror.snapshot().revision
        && let Err(error) = idempotency.load_commits(&mut *mirror.journal, head)
    {
        tracing::warn!(error = %error_chain(&error), "which requests the new commits answer could not be read; it is tried again");
    }
    let next = mirror.snapshot();
    let same = projection.snapshot().is_some_and(|current| Arc::ptr_eq(&current, next));
    if !same {
        projection.publish(next.clone());
    }
    mirror.journal.note_readable(next.revision);
}

/// Observes the saved files for which something else is served than before.
fn count_saved(options: &Options, before: &Snapshot, mirror: &Mirror) {
    let (now, before) = (&mirror.snapshot().hand_edits, &before.hand_edits);
    if Arc::ptr_eq(&now.saved, &before.saved) {
        return;
    }
    for (path, _) in now.saved.iter().filter(|(path, bytes)| before.saved.get(*path) != Some(bytes)) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let age =
            mirror.journal.saved_at(name).and_then(|saved| ((options.mirror.clock)() - saved).to_std().ok());
        options.metrics.saved.observe(age.unwrap_or_default());
    }
}

/// Makes sure that what is served is on disk, for an answer that depends on it although nothing was appended. An
/// earlier attempt of the same request may have moved the branch and failed or been killed at the last flush; a power
/// cut would then undo what was acknowledged.
fn make_durable(mirror: &mut Mirror) -> Result<(), StoreError> {
    let head = mirror.snapshot().revision;
    mirror.journal.make_durable(head)
}

/// Makes the head durable; if the branch has moved, follows it and retries, at most `races_max` times.
fn confirm(mirror: &mut Mirror, races_max: usize) -> Result<(), StoreError> {
    for _ in 0..races_max {
        match make_durable(mirror) {
            Err(StoreError::HeadMoved { .. }) => mirror.refresh(&Hint::Branch)?,
            made => return made,
        }
    }
    make_durable(mirror)
}
