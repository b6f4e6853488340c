//! Housekeeping on a thread of its own, so that no write ever waits for it.
//!
//! There are two chores: files of the work tree are flushed (see `note` for what that is good for),
//! and small packs are merged (see `packs`). A flush of a whole file system takes as long as
//! whatever else is written there, and a merge reads and writes up to 64 MB; the writer only says
//! that there is something to do, and goes on.
//!
//! Merging takes at most a [share](REST_FACTOR) of one core: after each merge, of whatever outcome, no
//! other begins for a multiple of what it took. A flush waits for the merge that is under way and not
//! for that rest, and does not shorten it. Only when packs have come to be very many is there no rest,
//! since then every reader pays for them.
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
use super::note::Note;
use super::object::Oid;
use super::packs::Packs;
use crate::store::StoreError;

/// How many times as long as it worked the thread rests: it takes a quarter of a core at most.
const REST_FACTOR: u32 = 3;

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
    // Whether packs were removed that someone may know of.
    removed: AtomicBool,
}

#[derive(Debug, Default)]
struct Wishes {
    flush: Option<(PathBuf, Oid)>,
    merge: bool,
    busy: bool,
    // Someone waits for the end, so there is no rest.
    hurry: bool,
    // No other merge begins before.
    rested_at: Option<Instant>,
    // A merge has panicked.
    given_up: bool,
}

/// Something to do.
#[derive(Debug, PartialEq, Eq)]
enum Chore {
    /// The file system of this work tree, which was brought to this revision.
    Flush(PathBuf, Oid),
    /// One merge.
    Merge,
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
    fn is_done(&self) -> bool {
        !self.busy && !self.merge && self.flush.is_none()
    }

    /// Takes what is due.
    fn take(&mut self, now: Instant, is_crowd: bool) -> Due {
        if let Some((root, revision)) = self.flush.take() {
            return Due::Now(Chore::Flush(root, revision));
        }
        if !self.merge {
            return Due::Later(None);
        }
        let rest = self.rested_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        if !rest.is_zero() && !self.hurry && !is_crowd {
            return Due::Later(Some(rest));
        }
        self.merge = false;
        Due::Now(Chore::Merge)
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

    /// Has small packs merged.
    pub(super) fn merge(&mut self) {
        let mut wishes = self.shared.wishes();
        wishes.merge = !wishes.given_up;
        drop(wishes);
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
        while self.thread.is_some() && !wishes.is_done() {
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
            let is_merge = chore == Chore::Merge;
            // Whatever a chore leaves half-done, a kill would have left, too.
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| self.carry_out(chore)));
            let mut wishes = self.wishes();
            if is_merge {
                wishes.rested_at = Some(Instant::now() + started.elapsed() * REST_FACTOR);
            }
            match outcome {
                // There may be more to merge.
                Ok(is_changed) => wishes.merge |= is_merge && is_changed,
                Err(_) => {
                    tracing::error!(
                        "BUG: the housekeeping has panicked; writes go on, but packs are not merged any more: \
                         start the service again, or run `git gc` now and then"
                    );
                    (wishes.given_up, wishes.merge) = (true, false);
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

    /// Answers whether packs were merged.
    fn carry_out(&self, chore: Chore) -> bool {
        let outcome = match chore {
            Chore::Flush(root, revision) => self.flush(&root, &revision).map(|()| false),
            Chore::Merge => self.packs.merge_small(&self.barrier, &self.stop),
        };
        let is_merged = outcome.as_ref().is_ok_and(|is_merged| *is_merged);
        if is_merged {
            self.removed.store(true, Ordering::Release);
        }
        tell(outcome.map(drop));
        is_merged
    }

    fn flush(&self, root: &Path, revision: &Oid) -> Result<(), StoreError> {
        self.barrier.file_system(root)?;
        self.note.write_flushed(revision)
    }
}

/// Trouble with the housekeeping harms nothing but speed.
fn tell(result: Result<(), StoreError>) {
    if let Err(error) = result {
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        tracing::warn!(%error, cause, "the housekeeping of the repository failed");
    }
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
    fn many_packs_and_whoever_waits_for_the_end_allow_no_rest() {
        let now = Instant::now();
        let resting =
            |hurry| Wishes { merge: true, rested_at: Some(now + MINUTE), hurry, ..Wishes::default() };
        assert_eq!(resting(false).take(now, false), Due::Later(Some(MINUTE)));
        assert_eq!(resting(false).take(now, true), Due::Now(Chore::Merge));
        assert_eq!(resting(true).take(now, false), Due::Now(Chore::Merge));
    }
}
