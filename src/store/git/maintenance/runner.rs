//! Housekeeping on a thread of its own, so that no write ever waits for it.
//!
//! Packs that have lost their index get it anew (`lost_index`), files of the work tree are flushed
//! (`repo::checkpoint`), small packs are merged (`merge_packs`), loose objects are packed (`loose_objects`), the
//! commit-graph is kept up (`commit_graph`) and reflogs are cut (`reflogs`). When, `tasks` says: tidying takes a
//! quarter of a core at most, unless packs have come to be very many. Git writes the graph in a process that a
//! thread of its own waits for, so that meanwhile flushes go on.
//!
//! After something was done the operator is told what there is (`statistics`), once an hour at most and at the end.
//! A task that panics is a bug and harms nothing but speed: it is told, and not tried again before the next start.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::maintenance::commit_graph::Graph;
use crate::store::git::maintenance::loose_objects::pack_loose;
use crate::store::git::maintenance::merge_packs::merge_small;
use crate::store::git::maintenance::reflogs;
use crate::store::git::maintenance::statistics::Statistics;
use crate::store::git::maintenance::tasks::{Due, Outcome, Schedule, Task};
use crate::store::git::packs::store::Packs;
use crate::store::git::repo::checkpoint::Checkpoint;

/// Within this time of a group the next one is about to come.
const WRITING_PAUSE_MAX: Duration = Duration::from_millis(50);

/// The thread, begun when there is something to do first, and what is told to it.
#[derive(Debug)]
pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    // Whether anything may be written, whether to tidy, and whether objects that are elsewhere as well may be removed.
    serves: bool,
    tidies: bool,
    may_remove: bool,
    // When the last group was made visible.
    written_at: Option<Instant>,
}

#[derive(Debug)]
struct Shared {
    packs: Arc<Packs>,
    checkpoint: Arc<Checkpoint>,
    graph: Graph,
    barrier: Barrier,
    schedule: Mutex<Schedule>,
    changed: Condvar,
    // Beside the mutex, to be looked at in the middle of a task.
    stop: AtomicBool,
    // Whether packs or objects have come or gone of which someone may know otherwise.
    changed_packs: AtomicBool,
}

impl Maintenance {
    /// Prepares to look after these packs, this graph and the work tree of this checkpoint; `serves` says whether
    /// anything may be done at all, `tidies` whether more than what keeps the repository whole.
    pub(crate) fn new(
        packs: Arc<Packs>,
        checkpoint: Arc<Checkpoint>,
        graph: Graph,
        barrier: Barrier,
        [serves, tidies]: [bool; 2],
    ) -> Self {
        let may_remove = !graph.layout().keeps_objects;
        let shared = Shared {
            packs,
            checkpoint,
            graph,
            barrier,
            schedule: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            changed_packs: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), thread: None, serves, tidies, may_remove, written_at: None }
    }

    /// Has the file system of the work tree flushed, which was brought to `revision`.
    pub(crate) fn flush(&mut self, revision: Option<Revision>) {
        self.shared.schedule().flush(Instant::now(), revision);
        self.wake();
    }

    /// Removes the lock that a git of ours has left which was killed together with us. Only for the holder of the
    /// service lock.
    pub(crate) fn remove_left(&self) -> Result<(), StoreError> {
        self.shared.graph.remove_left()
    }

    /// Notes that a group was made visible now.
    pub(crate) fn note_write(&mut self) {
        self.written_at = Some(Instant::now());
    }

    /// Has packs of ours that have lost their index mended, the commit-graph kept up and, if objects that are
    /// elsewhere as well may be removed, small packs merged and loose objects packed.
    pub(crate) fn tend(&mut self) {
        let now = Instant::now();
        self.shared.schedule().mend(now);
        if self.tidies {
            let is_busy = self.written_at.is_some_and(|at| at.elapsed() < WRITING_PAUSE_MAX);
            let too_many = is_busy && self.shared.packs.obsolete().are_many();
            self.shared.schedule().tidy(now, self.may_remove, too_many);
        }
        self.wake();
    }

    /// Whether packs have come or gone since this was asked last.
    pub(crate) fn take_changed_packs(&self) -> bool {
        self.shared.changed_packs.swap(false, Ordering::AcqRel)
    }

    /// Waits until everything that was asked for is done.
    pub(crate) fn finish(&self) {
        let mut schedule = self.shared.schedule();
        schedule.hurry(true);
        self.shared.changed.notify_all();
        while self.thread.is_some() && !schedule.are_done(Instant::now()) {
            schedule = self.shared.wait(schedule, None);
        }
        schedule.hurry(false);
    }

    fn wake(&mut self) {
        if self.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            match thread::Builder::new().name("upkeep".into()).spawn(move || shared.run()) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => tracing::warn!(%error, "no thread for the housekeeping; it is tried again"),
            }
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.graph.git.stop();
        // Between the look at `stop` and the wait nobody may slip through.
        drop(self.shared.schedule());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        if self.serves {
            tell(self.shared.packs.sweep());
        }
    }
}

impl Shared {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        // Each wish is whole by itself.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        schedule: MutexGuard<'a, Schedule>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, Schedule> {
        match time {
            None => self.changed.wait(schedule).unwrap_or_else(PoisonError::into_inner),
            Some(time) => self.changed.wait_timeout(schedule, time).unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    fn run(self: &Arc<Self>) {
        let mut beside: Option<JoinHandle<()>> = None;
        while let Some(task) = self.next() {
            if task != Task::Graph {
                self.attend_to(task);
                continue;
            }
            // The one before is done, or this would not be due.
            beside.take().into_iter().for_each(|thread| drop(thread.join()));
            let shared = Arc::clone(self);
            let spawned = thread::Builder::new().name("graph".into());
            match spawned.spawn(move || shared.attend_to(Task::Graph)) {
                Ok(thread) => beside = Some(thread),
                // As well here, if not beside anything else.
                Err(_) => self.attend_to(Task::Graph),
            }
        }
        beside.into_iter().for_each(|thread| drop(thread.join()));
        if self.schedule().owe_statistics() {
            self.tell_figures();
        }
    }

    /// Carries out a task, and plans on.
    fn attend_to(&self, task: Task) {
        let started = Instant::now();
        // Whatever a task leaves half-done, a kill would have left, too.
        self.barrier.metrics().maintenance_runs.add_one();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| self.carry_out(task)));
        let mut schedule = self.schedule();
        if outcome.is_err() {
            tracing::error!(
                "BUG: the housekeeping has panicked; writes go on, but packs are not merged any more: \
                 start the service again, or run `git gc` now and then"
            );
            schedule.give_up();
        }
        schedule.go_on(Instant::now(), task, started.elapsed(), outcome.unwrap_or_default());
        self.changed.notify_all();
    }

    /// Waits for something to do; nothing when the thread is to end.
    fn next(&self) -> Option<Task> {
        let mut schedule = self.schedule();
        while !self.is_stopped() {
            match schedule.take(Instant::now(), self.packs.are_a_crowd()) {
                Due::Now(task) => return Some(task),
                Due::Later(time) => schedule = self.wait(schedule, time),
            }
        }
        None
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn carry_out(&self, task: Task) -> Outcome {
        let mut outcome = Outcome::default();
        match task {
            Task::Flush => {
                tell(self.flush());
            }
            Task::Mend => {
                // Once more when it is done.
                let is_collecting = self.packs.is_git_collecting();
                self.note_packs(tell(self.packs.mend(&self.barrier)));
                outcome.again_in = is_collecting.then_some(Duration::ZERO);
            }
            Task::Sweep => self.note_packs(tell(self.packs.sweep())),
            Task::Merge => {
                let merged = tell(merge_small(&self.packs, &self.barrier, &self.stop));
                outcome.is_tidier = merged == Some(true);
                // There may be more.
                outcome.again_in = outcome.is_tidier.then_some(Duration::ZERO);
            }
            Task::PackLoose => {
                outcome = tell(pack_loose(&self.packs, &self.barrier, &self.stop)).unwrap_or_default();
                self.note_packs(Some(outcome.is_tidier));
            }
            Task::Graph if self.packs.is_git_collecting() => (),
            Task::Graph => {
                tell(reflogs::expire(&self.graph, &self.barrier));
                outcome.is_tidier = tell(self.graph.keep_up()) == Some(true);
            }
            Task::Statistics => self.tell_figures(),
        }
        outcome
    }

    /// Notes whether packs or objects have come or gone.
    fn note_packs(&self, have_changed: Option<bool>) {
        if have_changed == Some(true) {
            self.changed_packs.store(true, Ordering::Release);
        }
    }

    fn flush(&self) -> Result<(), StoreError> {
        let Some(root) = &self.graph.layout().work_tree else { return Ok(()) };
        let revision = self.schedule().unflushed;
        self.barrier.file_system(root)?;
        self.checkpoint.write_flushed(revision)
    }

    fn tell_figures(&self) {
        Statistics::of(self.packs.objects()).tell(tell(self.graph.commits()).flatten());
    }
}

/// Trouble with the maintenance harms nothing but speed.
fn tell<T>(result: Result<T, StoreError>) -> Option<T> {
    result
        .inspect_err(|error| {
            tracing::warn!(%error, cause = error.cause(), "the housekeeping of the repository failed");
        })
        .ok()
}
