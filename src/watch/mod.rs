//! The watcher: turns notifications of the file system into hints for the engine.
//!
//! A hint is never the truth. A lost notification (a queue overflow, a replaced folder, a file system without
//! notifications) costs at most one slow tick, at which the engine compares everything.
//!
//! ```text
//! notify ──▶ event_classifier ──▶ debounce ──▶ Signal::Changed(Files | Branch | Everything)
//!    ▲               │                                ▲
//!    └─── re-arm ────┘                slow tick ──────┘
//! ```
//!
//! Folders are watched one by one and not recursively: a recursive watch loses files that are written right after
//! their folder was created, and reports git's changes to its objects. When a folder on the path to the collections is
//! created, removed or replaced, everything is watched and read anew.
//!
//! This module never reads the contents of files.

mod debounce;
mod event_classifier;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{mpsc, watch};

use crate::engine::{Hint, Signal};
use crate::watch::debounce::Debouncer;
use crate::watch::event_classifier::{EventClassifier, Meaning};

/// The paths to be watched.
#[derive(Debug, Clone, Default)]
pub struct WatchedPaths {
    /// The root of the work tree and the collections folder in it, if there is a work tree.
    pub work_tree: Option<(PathBuf, PathBuf)>,
    /// The files that git writes when a branch moves or another is checked out: `HEAD`, the index, the ref of the
    /// branch, `packed-refs`, and the state files of a merge, a rebase and the like. The removal of a lock file of one
    /// of them is reported too.
    pub branch_files: Vec<PathBuf>,
}

/// The timing of the watcher.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How long a file that is written in place is left alone if the system does not report when it is closed.
    pub quiet: Duration,
    /// How long a file that is written in place is left alone if the system does report when it is closed, and has not
    /// done so.
    pub quiet_unclosed: Duration,
    /// How often everything is compared, with or without notifications.
    pub tick: Duration,
    /// Whether to ask the system for notifications; without them the tick finds every change.
    pub notices: bool,
}

/// A running watcher. Dropping it stops the watcher without waiting for that.
#[derive(Debug)]
pub struct Watch {
    notices: Sender<Notice>,
    /// Taken by [`join`](Self::join).
    thread: Option<thread::JoinHandle<()>>,
    /// Nothing is sent here; it closes when the thread has ended, even by a panic.
    running: watch::Receiver<()>,
}

enum Notice {
    Happened(Meaning),
    Stop,
}

/// Starts watching; any change after this returns is noticed.
///
/// If the system's watcher can't be started, that is a warning and no error: the tick finds the changes.
///
/// # Errors
///
/// Fails when no thread can be started.
pub fn start(
    places: WatchedPaths,
    options: Options,
    signals: mpsc::Sender<Signal>,
) -> std::io::Result<Watch> {
    let make: Option<Make> = options.notices.then_some(system_watcher);
    start_with(make, places, options, signals)
}

fn start_with(
    make: Option<Make>,
    places: WatchedPaths,
    options: Options,
    signals: mpsc::Sender<Signal>,
) -> std::io::Result<Watch> {
    let (notices, inbox) = channel();
    let mut actor = WatchLoop {
        watch: ActiveWatch::new(make, EventClassifier::new(places), &notices),
        settle: Debouncer::new(quiet(&options)),
        tick: options.tick,
        signals,
    };
    actor.watch.renew();
    let (runs, running) = watch::channel(());
    let thread = thread::Builder::new().name("watch".into()).spawn(move || {
        let _runs = runs;
        actor.run(&inbox);
    })?;
    Ok(Watch { notices, thread: Some(thread), running })
}

/// Linux reports when a file is closed (`IN_CLOSE_WRITE`); elsewhere only silence shows that.
const fn quiet(options: &Options) -> Duration {
    if cfg!(target_os = "linux") { options.quiet_unclosed } else { options.quiet }
}

impl Watch {
    /// Asks the watcher to stop.
    pub fn stop(&self) {
        // If this can't be sent, the thread has already ended.
        drop(self.notices.send(Notice::Stop));
    }

    /// Waits until the watcher has ended, even by a panic.
    pub async fn ended(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }

    /// Stops and waits.
    ///
    /// # Errors
    ///
    /// Returns what the watcher panicked with, if it did.
    pub fn join(mut self) -> thread::Result<()> {
        self.stop();
        self.thread.take().map_or(Ok(()), thread::JoinHandle::join)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Creates a watcher that sends its notifications to a channel.
type Make = fn(Arc<EventClassifier>, Sender<Notice>) -> notify::Result<RecommendedWatcher>;

fn system_watcher(
    meanings: Arc<EventClassifier>,
    notices: Sender<Notice>,
) -> notify::Result<RecommendedWatcher> {
    notify::recommended_watcher(move |notice| {
        for meaning in meanings.of(notice) {
            // There is no receiver any more when the watcher ends.
            drop(notices.send(Notice::Happened(meaning)));
        }
    })
}

/// The system's watcher and what it watches.
struct ActiveWatch {
    /// Creates the watcher; `None` if none is wanted.
    make: Option<Make>,
    watcher: Option<RecommendedWatcher>,
    meanings: Arc<EventClassifier>,
    notices: Sender<Notice>,
    /// The folders being watched.
    folders: BTreeSet<PathBuf>,
    /// The warnings logged for what can't be watched.
    trouble: BTreeSet<String>,
}

impl ActiveWatch {
    fn new(make: Option<Make>, meanings: EventClassifier, notices: &Sender<Notice>) -> Self {
        Self {
            make,
            watcher: None,
            meanings: Arc::new(meanings),
            notices: notices.clone(),
            folders: BTreeSet::new(),
            trouble: BTreeSet::new(),
        }
    }

    /// Watches every existing folder with a new watcher, because a folder that was replaced keeps its name but not its
    /// watch. A folder that can't be watched is logged once, and tried again at every tick. A folder that is created
    /// before its parent is watched causes no notification, so the loop looks for existing folders until none is new.
    fn renew(&mut self) {
        let Some(make) = self.make else { return };
        let mut trouble = BTreeSet::new();
        self.folders.clear();
        self.watcher = match make(Arc::clone(&self.meanings), self.notices.clone()) {
            Ok(mut watcher) => {
                let mut tried = BTreeSet::new();
                while let Some(folder) = self.present().difference(&tried).next().cloned() {
                    match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                        Ok(()) => drop(self.folders.insert(folder.clone())),
                        Err(error) => drop(trouble.insert(format!("{}: {error}", folder.display()))),
                    }
                    tried.insert(folder);
                }
                Some(watcher)
            }
            Err(error) => {
                trouble.insert(error.to_string());
                None
            }
        };
        for why in trouble.difference(&self.trouble) {
            tracing::warn!(why, "files cannot be watched; the slow tick finds their changes");
        }
        if trouble.is_empty() && !self.trouble.is_empty() {
            tracing::info!("files are watched again");
        }
        self.trouble = trouble;
    }

    /// Returns whether everything that can be watched is.
    fn is_complete(&self) -> bool {
        self.make.is_none() || (self.watcher.is_some() && self.folders == self.present())
    }

    fn present(&self) -> BTreeSet<PathBuf> {
        self.meanings.folders().iter().filter(|folder| folder.is_dir()).cloned().collect()
    }
}

struct WatchLoop {
    watch: ActiveWatch,
    settle: Debouncer,
    tick: Duration,
    signals: mpsc::Sender<Signal>,
}

impl WatchLoop {
    fn run(mut self, inbox: &Receiver<Notice>) {
        let mut tick_at = Instant::now() + self.tick;
        loop {
            let wake_at = self.settle.next_at().map_or(tick_at, |at| at.min(tick_at));
            let first = inbox.recv_timeout(wake_at.saturating_duration_since(Instant::now()));
            let mut branch = false;
            let mut folders = false;
            let mut next = match first {
                Ok(notice) => Some(notice),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            while let Some(notice) = next.take() {
                match notice {
                    Notice::Stop => return,
                    Notice::Happened(Meaning::File(name, touch)) => {
                        self.settle.note(name, touch, Instant::now());
                    }
                    Notice::Happened(Meaning::Branch) => branch = true,
                    Notice::Happened(Meaning::Folders) => folders = true,
                }
                next = inbox.try_recv().ok();
            }
            if folders {
                self.watch.renew();
            }
            let now = Instant::now();
            let tick = now >= tick_at;
            if tick {
                tick_at = now + self.tick;
                if !self.watch.is_complete() {
                    self.watch.renew();
                }
            }
            let files = self.settle.take_due(now);
            let hints = [
                (folders || tick).then_some(Hint::Everything),
                branch.then_some(Hint::Branch),
                (!files.is_empty()).then_some(Hint::Files(files)),
            ];
            for hint in hints.into_iter().flatten() {
                if self.signals.blocking_send(Signal::Changed(hint)).is_err() {
                    return;
                }
            }
        }
    }
}
