//! Housekeeping on a thread of its own, so that no write ever waits for it.
//!
//! There are two chores: files of the work tree are flushed (see `note` for what that is good for),
//! and small packs are merged (see `packs`). A flush of a whole file system takes as long as
//! whatever else is written there, and a merge reads and writes up to 64 MB; the writer only says
//! that there is something to do, and goes on.
//!
//! Merging takes at most a [share](REST_FACTOR) of one core: after each merge the thread rests for
//! a multiple of what the merge took. Only when packs have come to be very many
//! does it not rest, since then every reader pays for them.

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
        self.shared.wishes().merge = true;
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
        while self.thread.is_some() && (wishes.busy || wishes.merge || wishes.flush.is_some()) {
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
        while let Some((flush, merge)) = self.next() {
            if let Some((root, revision)) = flush {
                tell(self.flush(&root, &revision));
            }
            if merge {
                self.merge();
            }
            self.wishes().busy = false;
            self.changed.notify_all();
        }
    }

    /// Waits for something to do; nothing when the thread is to end.
    fn next(&self) -> Option<(Option<(PathBuf, Oid)>, bool)> {
        let mut wishes = self.wishes();
        loop {
            if self.is_stopped() {
                return None;
            }
            if wishes.merge || wishes.flush.is_some() {
                wishes.busy = true;
                return Some((wishes.flush.take(), std::mem::take(&mut wishes.merge)));
            }
            wishes = self.wait(wishes, None);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn flush(&self, root: &Path, revision: &Oid) -> Result<(), StoreError> {
        self.barrier.file_system(root)?;
        self.note.write_flushed(revision)
    }

    fn merge(&self) {
        loop {
            let started = Instant::now();
            let merged = self.packs.merge_small(&self.barrier, &self.stop);
            let is_merged = matches!(merged, Ok(true));
            tell(merged.map(drop));
            if !is_merged {
                return;
            }
            self.removed.store(true, Ordering::Release);
            self.rest(started.elapsed() * REST_FACTOR);
        }
    }

    fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut wishes = self.wishes();
        while !self.is_stopped() && !wishes.hurry && !self.packs.are_a_crowd() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || wishes.flush.is_some() {
                return;
            }
            wishes = self.wait(wishes, Some(left));
        }
    }
}

/// Trouble with the housekeeping harms nothing but speed.
fn tell(result: Result<(), StoreError>) {
    if let Err(error) = result {
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        tracing::warn!(%error, cause, "the housekeeping of the repository failed");
    }
}
