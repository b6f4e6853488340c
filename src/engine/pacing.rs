//! How those who follow the same thing share the processor with requests and writes.
//!
//! A thousand that wake up at once would stand in a row before the next request, and one write after the other would
//! keep all of them busy. So a few look for news at a time, and each rests between two groups of news for as long as
//! telling all of them takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// How many look for news at a time; others' work goes between.
const TURNS_LEN: usize = 8;

/// How long each rests between two groups of news for each of those who follow. Telling one of them takes some
/// 16 µs, so all together take a twelfth of a core at most, however fast others write. Whoever follows alone does
/// not rest.
const REST_EACH: Duration = Duration::from_micros(200);

/// Shorter rests are skipped.
const REST_MIN: Duration = Duration::from_millis(1);

/// What those share who follow the same thing.
#[derive(Debug)]
pub struct Pacing {
    followers: AtomicU32,
    turns: Arc<Semaphore>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { followers: AtomicU32::new(0), turns: Arc::new(Semaphore::new(TURNS_LEN)) }
    }
}

impl Pacing {
    /// Whether nobody follows.
    pub(crate) fn is_idle(&self) -> bool {
        self.followers.load(Ordering::Relaxed) == 0
    }
}

/// One who follows.
#[derive(Debug)]
pub struct Paced {
    pacing: Arc<Pacing>,
    rests_until: Option<Instant>,
}

impl Paced {
    /// Adds one follower.
    #[must_use]
    pub fn by(pacing: &Arc<Pacing>) -> Self {
        pacing.followers.fetch_add(1, Ordering::Relaxed);
        Self { pacing: Arc::clone(pacing), rests_until: None }
    }

    /// Waits for the end of the rest; being dropped meanwhile changes nothing.
    pub async fn rest(&mut self) {
        if let Some(until) = self.rests_until {
            sleep_until(until).await;
            self.rests_until = None;
        }
    }

    /// Waits until it may look for news, and may as long as it holds what is returned.
    pub async fn turn(&self) -> OwnedSemaphorePermit {
        let turns = Arc::clone(&self.pacing.turns);
        turns.acquire_owned().await.expect("nobody closes it")
    }

    /// Rests from now on, if there are others: it was told what there is.
    pub fn note_told(&mut self) {
        let rest = REST_EACH.saturating_mul(self.pacing.followers.load(Ordering::Relaxed));
        self.rests_until = (rest >= REST_MIN).then(|| Instant::now() + rest);
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.pacing.followers.fetch_sub(1, Ordering::Relaxed);
    }
}
