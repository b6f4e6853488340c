//! Follows the head of the served branch, and serves subscribers.
//!
//! One thread reads new commits into the index; each subscriber reads from the index at its own pace. Nothing here
//! waits for a reader, and no reader waits for git.

pub(crate) mod feed;

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::watch;

use crate::domain::{Key, Revision};
use crate::engine::history::event::Origin;
use crate::engine::history::follow::feed::BATCH_LEN;
use crate::engine::history::index::build::IndexBuilder;
use crate::engine::history::index::{Index, persist};
use crate::engine::history::{HistoryError, SharedHistory, View};
use crate::engine::metrics::Metrics;
use crate::engine::projection::PublishedHead;
use crate::store::signature::SignatureChecker;
use crate::store::{Archive, StoreError};
use crate::telemetry::{LimitCounters, error_chain, millis};

/// The note beside the repository that stores the index.
const NOTE: &str = "history-index";

/// The minimum number of new commits before the index is saved again.
const KEEP_AFTER_COMMITS: u32 = 1000;

/// The part of the saved index, one in this many commits, that must be new as well. The amount written per commit
/// then does not depend on the length of the history, and a start after a crash rereads no larger part.
const KEEP_AFTER_PART: u32 = 16;

/// How often progress is logged.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// How long a history that could not be read is not tried again: that may read all of it.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// Reports the number of commits read and the number to read.
pub type ReportProgress = Arc<dyn Fn(usize, usize) + Send + Sync>;

/// Finds a key that is already in memory, so that the history need not store its text again.
pub type KnownKey = Arc<dyn Fn(&str) -> Option<Key> + Send + Sync>;

/// Options of the history.
#[derive(Clone)]
pub struct Options {
    /// The collections folder, as a path inside the repository.
    pub folder: String,
    /// The e-mail addresses that the service commits with, now and formerly. A commit by another committer is a
    /// person's, whatever its trailers say, unless they mark a merge of the service.
    pub committers: Vec<String>,
    /// The maximum number of events that a subscriber that had caught up may fall behind before it is reset.
    pub lag_events_max: usize,
    /// Receives the progress of long reads; by default, the log does.
    pub progress: ReportProgress,
    /// Finds keys that are already in memory; by default, none.
    pub known_key: KnownKey,
    /// Checks signatures; by default, each against its own key alone.
    pub checker: SignatureChecker,
    /// The metrics that count new commits.
    pub metrics: Arc<Metrics>,
    /// Counts how often a limit is reached.
    pub reached: LimitCounters,
    /// Called by the follower thread after it has read the history for the first time; does nothing by default.
    pub give_back: fn(),
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("folder", &self.folder)
            .field("committers", &self.committers)
            .field("lag_events_max", &self.lag_events_max)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Returns the defaults for a folder.
    #[must_use]
    pub fn new(folder: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            committers: vec![crate::domain::Actor::service().email().to_owned()],
            lag_events_max: 10_000,
            progress: Arc::new(|done, total| tracing::info!(done, total, "the history is being read")),
            known_key: Arc::new(|_| None),
            checker: SignatureChecker::default(),
            metrics: Arc::default(),
            reached: LimitCounters::default(),
            give_back: || {},
        }
    }
}

/// The present state of the history.
#[derive(Debug, Clone, Default)]
pub(crate) struct FollowState {
    /// The index; `None` until it is first built.
    pub(crate) index: Option<Arc<Index>>,
    /// The number of events in the previous index. A subscriber further behind than that had its chance to catch up.
    pub(crate) events_before: u32,
    /// The head that the index was last brought to, or could not be brought to.
    pub(crate) followed: PublishedHead,
    /// The shallow commits of the repository at that time.
    cut_off: Vec<Revision>,
    /// Why the index could not be brought to that head.
    pub(crate) trouble: Option<Arc<str>>,
    /// When that was last tried.
    tried_at: Option<Instant>,
    done: usize,
    total: usize,
}

/// The history of a served branch, kept up to date; cheap to clone.
#[derive(Debug, Clone)]
pub struct History {
    shared: Arc<SharedHistory>,
    heads: watch::Receiver<PublishedHead>,
    state: watch::Receiver<FollowState>,
}

impl History {
    /// Follows the heads that a running engine publishes ([`Projection::heads`](crate::engine::Projection::heads)),
    /// on a dedicated thread, which ends with the engine. It reads nothing before the first head is published, so
    /// that a start of the service does not wait for its history.
    ///
    /// # Errors
    ///
    /// Fails when the thread can't be spawned.
    pub fn start(
        archive: Arc<dyn Archive>,
        heads: watch::Receiver<PublishedHead>,
        options: Options,
    ) -> io::Result<(Self, thread::JoinHandle<()>)> {
        let (state_sender, state) = watch::channel(FollowState::default());
        let shared = Arc::new(SharedHistory::new(archive, options));
        let history = Self { shared: Arc::clone(&shared), heads: heads.clone(), state };
        let follower = Follower { shared, heads, state_sender, kept: 0 };
        let thread = thread::Builder::new().name("history".into()).spawn(move || follower.run())?;
        Ok((history, thread))
    }

    /// Reads the history of the branch once, for programs without a service.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn read(archive: Arc<dyn Archive>, options: &Options) -> Result<View, StoreError> {
        let shared = Arc::new(SharedHistory::new(archive, options.clone()));
        let mut kept = 0;
        let mut builder = open(&shared, &mut kept)?;
        let head = shared.archive.head()?;
        builder.advance(head, &mut |done, total| {
            (options.progress)(done, total);
            ControlFlow::Continue(())
        })?;
        keep(&shared, &builder.index, &mut kept);
        Ok(View::new(shared, Arc::new(builder.index)))
    }

    /// Returns the history up to the head published now, once it is read. It includes every acknowledged write.
    ///
    /// # Errors
    ///
    /// [`HistoryError::Building`] at once while the history is read for the first time, and
    /// [`HistoryError::Unreadable`] when it can't be read.
    pub async fn view(&self) -> Result<View, HistoryError> {
        let mut state = self.state.clone();
        loop {
            // Cloned to end the borrow: the follower thread waits for that, and a file is read below.
            let now = state.borrow_and_update().clone();
            let trouble = now.trouble.map(|trouble| HistoryError::Unreadable(trouble.to_string()));
            let head = *self.heads.borrow();
            // A failure at this head is returned at once, and tried again for later callers.
            let has_rested = now.tried_at.is_none_or(|at| at.elapsed() >= RETRY_WAIT);
            if trouble.is_some() && now.followed == head && has_rested {
                self.shared.look_again.notify_one();
            }
            let Some(index) = now.index else {
                let building = HistoryError::Building { done: now.done, total: now.total };
                return Err(trouble.unwrap_or(building));
            };
            let is_there =
                now.followed == head && (!self.has_boundary_moved(&now.cut_off) || trouble.is_some());
            if is_there || head == PublishedHead::Ended {
                return trouble.map_or(Ok(View::new(Arc::clone(&self.shared), index)), Err);
            }
            state.changed().await.map_err(|_| HistoryError::stopping())?;
        }
    }

    /// Returns the history as far as it is read; `None` before it has been read for the first time.
    #[must_use]
    pub fn partial_view(&self) -> Option<View> {
        let index = self.state.borrow().index.clone()?;
        Some(View::new(Arc::clone(&self.shared), index))
    }

    /// Reports whether the clone was deepened or shortened, which moves no head; then wakes the follower thread.
    fn has_boundary_moved(&self, cut_off: &[Revision]) -> bool {
        let Ok(now) = self.shared.archive.shallow_boundary() else { return false };
        let elsewhere = now != cut_off;
        if elsewhere {
            self.shared.look_again.notify_one();
        }
        elsewhere
    }

    /// Waits until the history has been read for the first time.
    ///
    /// # Errors
    ///
    /// Fails when the engine ends before that.
    pub async fn ready(&self) -> Result<View, HistoryError> {
        let mut state = self.state.clone();
        let ready = state.wait_for(|state| state.index.is_some()).await;
        drop(ready.map_err(|_| HistoryError::stopping())?);
        self.view().await
    }

    /// Waits until the follower thread has ended.
    pub async fn ended(&self) {
        let mut state = self.state.clone();
        while state.changed().await.is_ok() {}
    }

    /// Returns the committer's time of the head, as far as the history is read.
    #[must_use]
    pub fn head_time(&self) -> Option<DateTime<Utc>> {
        let state = self.state.borrow();
        state.index.as_ref()?.commits().next_back().map(|commit| commit.time())
    }
}

/// The thread that keeps the index up to date.
struct Follower {
    shared: Arc<SharedHistory>,
    heads: watch::Receiver<PublishedHead>,
    state_sender: watch::Sender<FollowState>,
    /// The number of commits in the saved index.
    kept: u32,
}

impl Follower {
    fn run(mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime without drivers needs no resources");
        let mut builder = None;
        loop {
            let head = *self.heads.borrow_and_update();
            match head {
                PublishedHead::Unread => {}
                PublishedHead::At(_) => {
                    let is_first = builder.is_none();
                    self.follow(&mut builder, head);
                    if is_first {
                        (self.shared.options.give_back)();
                    }
                }
                PublishedHead::Ended => break,
            }
            let (heads, again) = (&mut self.heads, &self.shared.look_again);
            let is_followed = runtime.block_on(async {
                tokio::select! {
                    changed = heads.changed() => changed.is_ok(),
                    () = again.notified() => true,
                }
            });
            if !is_followed {
                break;
            }
        }
        if let Some(builder) = builder.filter(|builder: &IndexBuilder| builder.index.len() != self.kept) {
            // As if none were saved: what is new need not be much.
            keep(&self.shared, &builder.index, &mut 0);
        }
        tracing::debug!("the history is followed no more");
    }

    fn follow(&mut self, builder: &mut Option<IndexBuilder>, head: PublishedHead) {
        let outcome = self.advance(builder, head);
        if *self.heads.borrow() == PublishedHead::Ended {
            // The result is not needed any more, and it may be half-read.
            return;
        }
        let index = builder.as_ref().map(|builder| Arc::new(builder.index.clone()));
        let cut_off = builder.as_ref().and_then(|builder| builder.cut_off.clone());
        let trouble = outcome.err().map(|error| -> Arc<str> {
            let error = error_chain(&error);
            tracing::error!(error, "the history can't be read; what was read last is shown");
            error.into()
        });
        if trouble.is_some() {
            // What failed halfway is read again, from the index that was kept.
            *builder = None;
        }
        if let (Some(builder), Some(index)) = (builder, &index) {
            keep(&self.shared, &builder.index, &mut self.kept);
            self.cache_newest(index);
            self.count(index);
        }
        self.state_sender.send_modify(|state| {
            // A half-read index is not published.
            if trouble.is_none() {
                state.events_before = state.index.as_ref().map_or(0, |index| index.events_len());
                state.index = index;
            }
            state.trouble = trouble;
            state.tried_at = Some(Instant::now());
            state.followed = head;
            state.cut_off = cut_off.unwrap_or_default();
        });
    }

    /// Counts the new commits that no request to the service made.
    fn count(&self, index: &Index) {
        let published = self.state_sender.borrow();
        let Some(before) = &published.index else { return };
        let new = index.len().saturating_sub(before.len());
        for commit in index.commits().rev().take(new as usize) {
            match commit.origin {
                Origin::Git => self.shared.options.metrics.commits_by_git.add_one(),
                Origin::Command => self.shared.options.metrics.commits_by_command.add_one(),
                Origin::Merge => self.shared.options.metrics.commits_by_merge.add_one(),
                Origin::Api | Origin::WorkTree => {}
            }
        }
    }

    /// Reads the newest events once for all subscribers.
    fn cache_newest(&self, index: &Arc<Index>) {
        let known = self.state_sender.borrow().index.as_ref().map_or(0, |index| index.events_len());
        let new = known..index.events_len();
        if self.shared.pacing.is_idle() || new.len() > BATCH_LEN {
            return;
        }
        let view = View::new(Arc::clone(&self.shared), Arc::clone(index));
        for event in new {
            // A subscriber tries again, and reports the error.
            drop(view.record(event));
        }
    }

    fn advance(&mut self, builder: &mut Option<IndexBuilder>, head: PublishedHead) -> Result<(), StoreError> {
        let builder = match builder {
            Some(builder) => builder,
            None => builder.insert(open(&self.shared, &mut self.kept)?),
        };
        let PublishedHead::At(head) = head else { return Ok(()) };
        let started = Instant::now();
        let mut reported_at = started;
        builder.advance(head, &mut |done, total| {
            self.state_sender.send_if_modified(|state| {
                (state.done, state.total) = (done, total);
                false
            });
            if reported_at.elapsed() >= PROGRESS_EVERY {
                reported_at = Instant::now();
                (self.shared.options.progress)(done, total);
            }
            if *self.heads.borrow() == PublishedHead::Ended {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let (commits, events) = (builder.index.len(), builder.index.events_len());
        let duration_ms = millis(started.elapsed());
        tracing::debug!(commits, events, duration_ms, "the history is read");
        Ok(())
    }
}

/// Opens the saved index, or an empty one.
fn open(shared: &Arc<SharedHistory>, kept: &mut u32) -> Result<IndexBuilder, StoreError> {
    let fingerprint = persist::fingerprint(&shared.options.folder, &shared.options.committers);
    let index = match shared.archive.read_cached(NOTE) {
        Ok(Some(bytes)) => {
            let index = persist::read(&bytes, &fingerprint, &|text| shared.key(text));
            if index.is_none() {
                tracing::info!("the kept index of the history does not fit, it is made anew");
            }
            index.unwrap_or_default()
        }
        Ok(None) => Index::default(),
        Err(error) => {
            tracing::warn!(
                error = error_chain(&error),
                "the kept index of the history can't be read, it is made anew"
            );
            Index::default()
        }
    };
    // A repository that was replaced or pruned may lack the commits that the index ends with.
    let stands = match index.head() {
        Some(head) => match shared.archive.commit(head) {
            Err(StoreError::Damaged { .. }) => false,
            commit => commit?.is_some(),
        },
        None => true,
    };
    let index = if stands { index } else { Index::default() };
    *kept = index.len();
    IndexBuilder::new(index, shared)
}

/// Reports whether an index of `len` commits is to replace a saved one of `kept` commits.
fn is_worth_keeping(len: u32, kept: u32) -> bool {
    len.abs_diff(kept) >= KEEP_AFTER_COMMITS.max(kept / KEEP_AFTER_PART)
}

/// Saves the index if much is new; a failure only makes the next start slower.
fn keep(shared: &SharedHistory, index: &Index, kept: &mut u32) {
    if !is_worth_keeping(index.len(), *kept) {
        return;
    }
    let fingerprint = persist::fingerprint(&shared.options.folder, &shared.options.committers);
    *kept = index.len();
    if let Err(error) = shared.archive.write_cached(NOTE, &persist::write(index, &fingerprint)) {
        tracing::warn!(
            error = error_chain(&error),
            "the index of the history can't be kept; the next start reads it again"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_a_million_commits_is_written_to_the_kept_index_less_than_twenty_times() {
        const COMMITS: u32 = 1_000_000;
        let (mut kept, mut written) = (0, 0_u64);
        for len in 1..=COMMITS {
            if is_worth_keeping(len, kept) {
                (kept, written) = (len, written + u64::from(len));
            }
            assert!(len - kept <= KEEP_AFTER_COMMITS.max(len / KEEP_AFTER_PART), "so much is read anew");
        }
        assert!(written < 20 * u64::from(COMMITS), "{written}");
    }
}
