//! Housekeeping on a thread of its own, so that no write ever waits for it.
//!
//! There are three chores: files of the work tree are flushed (see `note` for what that is good for),
//! small packs are merged (see `packs`), and loose objects are packed (see `loose`). A flush of a
//! whole file system takes as long as whatever else is written there, and a merge reads and writes up
//! to 64 MB; the writer only says that there is something to do, and goes on. When to look for loose
//! objects again the thread knows by itself, since those that people commit have to grow old first.
//!
//! Tidying takes at most a [share](REST_FACTOR) of one core: after each merge, of whatever outcome, none
//! begins for a multiple of what it took, and so with loose objects. A flush waits for what is under
//! way and not for that rest, and does not shorten it. Only when packs have come to be very many is
//! there no rest, since then every reader pays for them.
//!
//! A chore that panics is a bug and harms nothing but speed: it is told to the operator, and what
//! panicked is not tried again before the next start.

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::barrier::Barrier;
use super::loose::Looked;
use super::note::Note;
use super::object::Oid;
use super::packs::{Packs, SPARES_MAX};
use crate::store::StoreError;

/// How many times as long as it worked the thread rests: it takes a quarter of a core at most.
const REST_FACTOR: u32 = 3;

/// For how long nobody must have written before the parts of merged packs are removed: a person who
/// checks the repository after some writes has done so by then, see `packs`.
const SWEEP_WAIT: Duration = Duration::from_secs(600);

/// How long no one looks for loose objects after nothing was found to do: looking takes a while where
/// they are many.
const LOOSE_LOOK_WAIT: Duration = Duration::from_secs(60);

/// The thread, begun when there is something to do first, and what is told to it.
#[derive(Debug)]
pub(super) struct Upkeep {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    packs: Arc<Packs>,
    note: Arc<Note>,
    barrier: Barrier,
    wishes: Mutex<Wishes>,
    changed: Condvar,
    // Beside the mutex, to be looked at in the middle of a chore.
    stop: AtomicBool,
    // Whether packs or objects were removed that someone may know of.
    removed: AtomicBool,
}

#[derive(Debug, Default)]
struct Wishes {
    flush: Option<(PathBuf, Oid)>,
    merge: bool,
    busy: bool,
    // Someone waits for the end, so there is no rest.
    hurry: bool,
    // No other tidying begins before.
    rested_at: Option<Instant>,
    // When to look for loose objects, and not before when.
    look_at: Option<Instant>,
    no_look_before: Option<Instant>,
    // When to remove the parts of merged packs.
    sweep_at: Option<Instant>,
    // A chore has panicked.
    given_up: bool,
}

/// Something to do.
#[derive(Debug, PartialEq, Eq)]
enum Chore {
    /// The file system of this work tree, which was brought to this revision.
    Flush(PathBuf, Oid),
    /// One merge.
    Merge,
    /// The parts of merged packs.
    Sweep,
    /// One pack of loose objects.
    PackLoose,
}

/// What came of a chore.
#[derive(Debug)]
enum Outcome {
    /// There is no more of it to do.
    Done,
    /// Packs were merged, and there may be more.
    Merged,
    /// Loose objects were looked for.
    Looked(Looked),
}

/// What there is to do now.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// This.
    Now(Chore),
    /// Nothing yet; look again after this time, or when something is wished.
    Later(Option<Duration>),
}

impl Wishes {
    /// Wishes for all that makes reading faster. Somebody has just written, so that parts of merged
    /// packs stay for a while, unless there are `too_many`.
    fn tidy(&mut self, now: Instant, too_many: bool) {
        if self.given_up {
            return;
        }
        self.merge = true;
        self.look_again(now);
        if self.sweep_at.is_some() {
            self.sweep_at = Some(if too_many { now } else { now + SWEEP_WAIT });
        }
    }

    /// Has loose objects looked for at a time, if not earlier.
    fn look_again(&mut self, at: Instant) {
        let at = self.no_look_before.map_or(at, |earliest| at.max(earliest));
        self.look_at = Some(self.look_at.map_or(at, |planned| planned.min(at)));
    }

    /// Plans on what came of a chore that ended now.
    fn go_on(&mut self, now: Instant, outcome: Outcome) {
        match outcome {
            Outcome::Done => (),
            Outcome::Merged => {
                self.merge = true;
                self.sweep_at.get_or_insert(now + SWEEP_WAIT);
            }
            Outcome::Looked(Looked::Packed) => self.look_again(now),
            Outcome::Looked(Looked::Nothing { again_in }) => {
                self.no_look_before = Some(now + LOOSE_LOOK_WAIT);
                again_in.into_iter().for_each(|wait| self.look_again(now + wait));
            }
        }
    }

    fn is_done(&self, now: Instant) -> bool {
        let is_swept = self.sweep_at.is_none_or(|at| at > now && !self.hurry);
        let is_looked = self.look_at.is_none_or(|at| at > now);
        !self.busy && !self.merge && self.flush.is_none() && is_swept && is_looked
    }

    /// Takes what is due.
    fn take(&mut self, now: Instant, is_crowd: bool) -> Due {
        if let Some((root, revision)) = self.flush.take() {
            return Due::Now(Chore::Flush(root, revision));
        }
        if self.sweep_at.is_some_and(|at| at <= now || (self.hurry && !self.merge)) {
            self.sweep_at = None;
            return Due::Now(Chore::Sweep);
        }
        let until = |at: Option<Instant>| at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        let rest = if self.hurry || is_crowd { Duration::ZERO } else { until(self.rested_at) };
        let look = self.look_at.map(|at| until(Some(at)));
        let wait = if self.merge { Some(rest) } else { look.map(|look| look.max(rest)) };
        match wait {
            Some(Duration::ZERO) if self.merge => {
                self.merge = false;
                Due::Now(Chore::Merge)
            }
            Some(Duration::ZERO) => {
                self.look_at = None;
                Due::Now(Chore::PackLoose)
            }
            Some(_) | None => {
                Due::Later(wait.into_iter().chain(self.sweep_at.map(|at| until(Some(at)))).min())
            }
        }
    }
}

impl Upkeep {
    /// Prepares to look after these packs and the work tree of this note.
    pub(super) fn new(packs: Arc<Packs>, note: Arc<Note>, barrier: Barrier) -> Self {
        let shared = Shared {
            packs,
            note,
            barrier,
            wishes: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            removed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), thread: None }
    }

    /// Has the file system of a work tree flushed, which was brought to `revision`.
    pub(super) fn flush(&mut self, root: &Path, revision: Oid) {
        self.shared.wishes().flush = Some((root.to_owned(), revision));
        self.wake();
    }

    /// Has small packs merged and loose objects packed; `is_busy` says whether writes go on.
    pub(super) fn tidy(&mut self, is_busy: bool) {
        let too_many = is_busy && self.shared.packs.spares_len() > SPARES_MAX;
        self.shared.wishes().tidy(Instant::now(), too_many);
        self.wake();
    }

    /// Whether packs were removed since this was asked last.
    pub(super) fn take_removed(&self) -> bool {
        self.shared.removed.swap(false, Ordering::AcqRel)
    }

    /// Waits until everything that was asked for is done.
    pub(super) fn finish(&self) {
        let mut wishes = self.shared.wishes();
        wishes.hurry = true;
        self.shared.changed.notify_all();
        while self.thread.is_some() && !wishes.is_done(Instant::now()) {
            wishes = self.shared.wait(wishes, None);
        }
        wishes.hurry = false;
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

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Between the look at `stop` and the wait nobody may slip through.
        drop(self.shared.wishes());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        tell(self.shared.packs.sweep());
    }
}

impl Shared {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        // Each wish is whole by itself.
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, wishes: MutexGuard<'a, Wishes>, time: Option<Duration>) -> MutexGuard<'a, Wishes> {
        match time {
            None => self.changed.wait(wishes).unwrap_or_else(PoisonError::into_inner),
            Some(time) => self.changed.wait_timeout(wishes, time).unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    fn run(&self) {
        while let Some(chore) = self.next() {
            let started = Instant::now();
            let is_flush = matches!(chore, Chore::Flush(..));
            // Whatever a chore leaves half-done, a kill would have left, too.
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| self.carry_out(chore)));
            let mut wishes = self.wishes();
            let now = Instant::now();
            if !is_flush {
                wishes.rested_at = Some(now + started.elapsed() * REST_FACTOR);
            }
            match outcome {
                Ok(outcome) => wishes.go_on(now, outcome),
                Err(_) => {
                    tracing::error!(
                        "BUG: the housekeeping has panicked; writes go on, but packs are not merged any more: \
                         start the service again, or run `git gc` now and then"
                    );
                    (wishes.given_up, wishes.merge, wishes.look_at) = (true, false, None);
                }
            }
            wishes.busy = false;
            self.changed.notify_all();
        }
    }

    /// Waits for something to do; nothing when the thread is to end.
    fn next(&self) -> Option<Chore> {
        let mut wishes = self.wishes();
        while !self.is_stopped() {
            match wishes.take(Instant::now(), self.packs.are_a_crowd()) {
                Due::Now(chore) => {
                    wishes.busy = true;
                    return Some(chore);
                }
                Due::Later(time) => wishes = self.wait(wishes, time),
            }
        }
        None
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn carry_out(&self, chore: Chore) -> Outcome {
        let outcome = match chore {
            Chore::Flush(root, revision) => {
                tell(self.flush(&root, &revision));
                Outcome::Done
            }
            Chore::Merge => match tell(self.packs.merge_small(&self.barrier, &self.stop)) {
                Some(true) => Outcome::Merged,
                Some(false) | None => Outcome::Done,
            },
            Chore::Sweep => {
                if tell(self.packs.sweep()) == Some(true) {
                    self.removed.store(true, Ordering::Release);
                }
                Outcome::Done
            }
            Chore::PackLoose => {
                let looked = tell(self.packs.pack_loose(&self.barrier, &self.stop));
                Outcome::Looked(looked.unwrap_or(Looked::Nothing { again_in: None }))
            }
        };
        if matches!(outcome, Outcome::Looked(Looked::Packed)) {
            self.removed.store(true, Ordering::Release);
        }
        outcome
    }

    fn flush(&self, root: &Path, revision: &Oid) -> Result<(), StoreError> {
        self.barrier.file_system(root)?;
        self.note.write_flushed(revision)
    }
}

/// Trouble with the housekeeping harms nothing but speed.
fn tell<T>(result: Result<T, StoreError>) -> Option<T> {
    result
        .inspect_err(|error| {
            let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(%error, cause, "the housekeeping of the repository failed");
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn flush() -> (PathBuf, Oid) {
        (PathBuf::from("work tree"), [1; 20])
    }

    #[test]
    fn a_flush_waits_for_no_merge_that_rests_and_does_not_shorten_the_rest() {
        let now = Instant::now();
        let mut wishes =
            Wishes { merge: true, flush: Some(flush()), rested_at: Some(now + MINUTE), ..Wishes::default() };
        let (root, revision) = flush();
        assert_eq!(wishes.take(now, false), Due::Now(Chore::Flush(root, revision)));
        assert_eq!(wishes.take(now, false), Due::Later(Some(MINUTE)));
        assert_eq!(wishes.take(now + MINUTE, false), Due::Now(Chore::Merge));
        assert_eq!(wishes.take(now + MINUTE, false), Due::Later(None));
    }

    #[test]
    fn loose_objects_are_looked_for_again_when_they_are_old_enough_and_not_too_often() {
        let now = Instant::now();
        let mut wishes = Wishes::default();
        wishes.tidy(now, false);
        assert_eq!(wishes.take(now, false), Due::Now(Chore::Merge));
        assert_eq!(wishes.take(now, false), Due::Now(Chore::PackLoose));
        let again_in = Some(2 * LOOSE_LOOK_WAIT);
        wishes.go_on(now, Outcome::Looked(Looked::Nothing { again_in }));
        assert_eq!(wishes.take(now, false), Due::Later(again_in));
        wishes.tidy(now, false);
        assert_eq!(wishes.take(now, false), Due::Now(Chore::Merge));
        assert_eq!(wishes.take(now, false), Due::Later(Some(LOOSE_LOOK_WAIT)));
        assert!(wishes.is_done(now), "nobody waits for what is planned");
        assert_eq!(wishes.take(now + LOOSE_LOOK_WAIT, false), Due::Now(Chore::PackLoose));
        wishes.go_on(now + LOOSE_LOOK_WAIT, Outcome::Looked(Looked::Packed));
        assert!(!wishes.is_done(now + LOOSE_LOOK_WAIT), "there may be more");
    }

    #[test]
    fn parts_of_merged_packs_stay_until_nobody_has_written_for_a_while_or_they_are_too_many() {
        let now = Instant::now();
        let mut wishes = Wishes { rested_at: Some(now), ..Wishes::default() };
        wishes.go_on(now, Outcome::Merged);
        wishes.merge = false;
        assert_eq!(wishes.take(now, false), Due::Later(Some(SWEEP_WAIT)));
        let later = now + SWEEP_WAIT / 2;
        wishes.tidy(later, false);
        (wishes.merge, wishes.look_at) = (false, None);
        assert_eq!(wishes.take(now + SWEEP_WAIT, false), Due::Later(Some(SWEEP_WAIT / 2)));
        assert_eq!(wishes.take(later + SWEEP_WAIT, false), Due::Now(Chore::Sweep));
        wishes.go_on(now, Outcome::Merged);
        wishes.tidy(later, true);
        assert_eq!(wishes.take(later, false), Due::Now(Chore::Sweep));
    }

    #[test]
    fn many_packs_and_whoever_waits_for_the_end_allow_no_rest() {
        let now = Instant::now();
        let resting =
            |hurry| Wishes { merge: true, rested_at: Some(now + MINUTE), hurry, ..Wishes::default() };
        assert_eq!(resting(false).take(now, false), Due::Later(Some(MINUTE)));
        assert_eq!(resting(false).take(now, true), Due::Now(Chore::Merge));
        assert_eq!(resting(true).take(now, false), Due::Now(Chore::Merge));
    }
}
