//! Runs maintenance on a thread of its own, so that no write waits for it.
//!
//! It flushes the files of the work tree (`repo::checkpoint`), rebuilds lost indexes of packs (`lost_index`), and
//! tidies up from time to time: it merges small packs (`merge_packs`), packs loose objects (`loose_objects`), expires
//! reflogs (`reflogs`) and has git update the commit-graph (`commit_graph`). `due` decides when. While there are very
//! many packs, tidying only merges them.
//!
//! The operator gets statistics (`statistics`) after something was done, at most once an hour, and at the end. A task
//! that panics is a bug, but only costs speed: it is logged, and not tried again before the next start.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::store::StoreError;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::maintenance::commit_graph::CommitGraph;
use crate::store::git::maintenance::due::{Next, Schedule, Task};
use crate::store::git::maintenance::packing::loose_objects::pack_loose;
use crate::store::git::maintenance::packing::merge_packs::merge_small;
use crate::store::git::maintenance::reflogs;
use crate::store::git::maintenance::statistics::Statistics;
use crate::store::git::packs::store::Packs;
use crate::store::git::repo::checkpoint::Checkpoint;

/// How long nobody must have written before obsolete packs are removed: by then a person who checks the repository
/// after some writes is done, see `merge_packs`.
const SWEEP_WAIT: Duration = Duration::from_secs(600);

/// The pause after a count of loose objects, or of commits missing from the commit-graph, that found few: counting
/// takes a while where there are many.
const RECOUNT_WAIT: Duration = Duration::from_secs(60);

/// How long reflogs are left alone after a look at them, which runs git to find out for how long they are kept.
const REFLOGS_WAIT: Duration = Duration::from_secs(3_600);

/// How long not to look whether a `git gc` that is under way has ended; one that was killed seems to go on for hours.
const COLLECTING_WAIT: Duration = Duration::from_secs(1);

/// The shortest time between two reports of statistics.
const STATISTICS_WAIT: Duration = Duration::from_secs(3_600);

/// The maintenance thread, started with the first task, and its shared state.
#[derive(Debug)]
pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Whether to tidy up as well, and not only to keep the repository whole.
    tidies: bool,
}

#[derive(Debug)]
struct Shared {
    packs: Arc<Packs>,
    checkpoint: Arc<Checkpoint>,
    graph: CommitGraph,
    barrier: Barrier,
    due: Mutex<Schedule>,
    changed: Condvar,
    // Outside the mutex, to be checked in the middle of a task.
    stop: AtomicBool,
    // Whether packs or objects have come or gone, so that readers must reopen them.
    changed_packs: AtomicBool,
}

/// The state of the thread between rounds.
#[derive(Debug, Default)]
struct Rounds {
    sweep_at: Option<Instant>,
    loose_counted_at: Option<Instant>,
    graph_checked_at: Option<Instant>,
    reflogs_checked_at: Option<Instant>,
    statistics_at: Option<Instant>,
    /// Whether something was done that no statistics were logged for.
    owes_statistics: bool,
}

impl Maintenance {
    /// Prepares maintenance of these packs, this graph and the work tree of this checkpoint.
    pub(crate) fn new(
        packs: Arc<Packs>,
        checkpoint: Arc<Checkpoint>,
        graph: CommitGraph,
        barrier: Barrier,
        tidies: bool,
    ) -> Self {
        let shared = Shared {
            packs,
            checkpoint,
            graph,
            barrier,
            due: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            changed_packs: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), thread: None, tidies }
    }

    /// Removes the lock left by a git process of ours that was killed together with us. Only for the holder of the
    /// service lock.
    pub(crate) fn remove_left(&self) -> Result<(), StoreError> {
        self.shared.graph.remove_left()
    }

    /// Requests a flush of the file system of the work tree.
    pub(crate) fn flush(&mut self) {
        self.shared.due().plan(Task::Flush, Instant::now());
        self.wake();
    }

    /// Requests repair of our packs that have lost their index and, where allowed, tidying.
    pub(crate) fn request(&mut self) {
        let now = Instant::now();
        self.shared.due().plan(Task::RebuildIndexes, now);
        if self.tidies {
            self.shared.due().plan(Task::Tidy, now);
        }
        self.wake();
    }

    /// Returns whether packs have come or gone since the last call.
    pub(crate) fn take_changed_packs(&self) -> bool {
        self.shared.changed_packs.swap(false, Ordering::AcqRel)
    }

    /// Waits until everything requested is done.
    pub(crate) fn finish(&self) {
        let mut due = self.shared.due();
        due.hurry = true;
        self.shared.changed.notify_all();
        while self.thread.is_some() && !due.are_done(Instant::now()) {
            due = self.shared.wait(due, None);
        }
        due.hurry = false;
    }

    fn wake(&mut self) {
        if self.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            match thread::Builder::new().name("maintenance".into()).spawn(move || shared.run()) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => tracing::warn!(%error, "no thread for maintenance; it is tried again"),
            }
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.graph.git.stop();
        // Taking the lock ensures that the thread is not between checking `stop` and waiting.
        drop(self.shared.due());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
            log_error(self.shared.packs.remove_obsolete());
        }
    }
}

impl Shared {
    fn due(&self) -> MutexGuard<'_, Schedule> {
        // Each plan is consistent by itself.
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, due: MutexGuard<'a, Schedule>, time: Option<Duration>) -> MutexGuard<'a, Schedule> {
        match time {
            None => self.changed.wait(due).unwrap_or_else(PoisonError::into_inner),
            Some(time) => self.changed.wait_timeout(due, time).unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    fn run(&self) {
        let mut rounds = Rounds::default();
        while let Some(task) = self.next() {
            let started = Instant::now();
            self.barrier.metrics().maintenance_runs.add_one();
            // A task leaves nothing half-done that a kill could not leave too.
            let done = panic::catch_unwind(AssertUnwindSafe(|| self.carry_out(task, &mut rounds)));
            let mut due = self.due();
            due.end(task, Instant::now(), started.elapsed());
            if done.is_err() {
                tracing::error!(
                    "BUG: maintenance has panicked; writes go on, but packs are not merged any more: \
                     start the service again, or run `git gc` now and then"
                );
                due.give_up();
            }
            self.changed.notify_all();
        }
        if rounds.owes_statistics {
            self.log_statistics();
        }
    }

    /// Waits for a task; `None` when the thread is to end.
    fn next(&self) -> Option<Task> {
        let mut due = self.due();
        while !self.is_stopped() {
            match due.next(Instant::now(), self.packs.is_merge_urgent()) {
                Next::Now(task) => return Some(task),
                Next::Later(time) => due = self.wait(due, time),
            }
        }
        None
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn carry_out(&self, task: Task, rounds: &mut Rounds) {
        match task {
            Task::Flush => drop(log_error(self.flush())),
            Task::RebuildIndexes => {
                // If git collects garbage, once more when it is done.
                let is_collecting = self.packs.is_git_collecting();
                self.note_packs(log_error(self.packs.rebuild_lost_indexes()));
                if is_collecting {
                    self.due().plan(Task::RebuildIndexes, Instant::now() + COLLECTING_WAIT);
                }
            }
            Task::Tidy => self.tidy(rounds),
        }
    }

    /// Does a round of tidying, and plans another one if there may be more to do.
    fn tidy(&self, rounds: &mut Rounds) {
        let is_long_ago = |at: Option<Instant>| at.is_none_or(|at| at.elapsed() >= RECOUNT_WAIT);
        let mut is_tidier = false;
        if !self.graph.layout().has_precious_objects {
            is_tidier = log_error(merge_small(&self.packs, &self.stop)) == Some(true);
            if is_long_ago(rounds.loose_counted_at) && !self.packs.is_merge_urgent() {
                let packed = log_error(pack_loose(&self.packs, &self.stop)) == Some(true);
                rounds.loose_counted_at = (!packed).then(Instant::now);
                self.note_packs(Some(packed));
                is_tidier |= packed;
            }
            self.sweep(rounds);
        }
        if is_long_ago(rounds.graph_checked_at)
            && !self.packs.is_merge_urgent()
            && !self.packs.is_git_collecting()
        {
            if rounds.reflogs_checked_at.is_none_or(|at| at.elapsed() >= REFLOGS_WAIT) {
                log_error(reflogs::expire(&self.graph, &self.barrier));
                rounds.reflogs_checked_at = Some(Instant::now());
            }
            rounds.owes_statistics |= log_error(self.graph.write_if_due()) == Some(true);
            rounds.graph_checked_at = Some(Instant::now());
        }
        rounds.owes_statistics |= is_tidier;
        if is_tidier {
            self.due().plan(Task::Tidy, Instant::now());
        } else if rounds.owes_statistics
            && rounds.statistics_at.is_none_or(|at| at.elapsed() >= STATISTICS_WAIT)
        {
            self.log_statistics();
            (rounds.statistics_at, rounds.owes_statistics) = (Some(Instant::now()), false);
        }
    }

    /// Removes obsolete packs if nobody has written for a while, they are many, or someone waits for the end.
    fn sweep(&self, rounds: &mut Rounds) {
        let is_quiet = rounds.sweep_at.is_some_and(|at| at <= Instant::now());
        if is_quiet || self.due().hurry || self.packs.obsolete().are_many() {
            self.note_packs(log_error(self.packs.remove_obsolete()));
        }
        let is_left = self.packs.obsolete().len() > 0;
        rounds.sweep_at = is_left.then(|| Instant::now() + SWEEP_WAIT);
        rounds.sweep_at.into_iter().for_each(|at| self.due().plan(Task::Tidy, at));
    }

    /// Records whether packs or objects have come or gone.
    fn note_packs(&self, have_changed: Option<bool>) {
        if have_changed == Some(true) {
            self.changed_packs.store(true, Ordering::Release);
        }
    }

    fn flush(&self) -> Result<(), StoreError> {
        let known = self.checkpoint.read()?.filter(|known| !known.after_reboot);
        let (Some(root), Some(known)) = (&self.graph.layout().work_tree, known) else { return Ok(()) };
        self.barrier.file_system(root)?;
        self.checkpoint.write_flushed(known.revision)
    }

    fn log_statistics(&self) {
        Statistics::of(self.packs.objects()).log();
    }
}

/// Logs an error, which costs nothing but speed.
fn log_error<T>(result: Result<T, StoreError>) -> Option<T> {
    result
        .inspect_err(|error| {
            tracing::warn!(%error, cause = error.cause(), "the maintenance of the repository failed");
        })
        .ok()
}
