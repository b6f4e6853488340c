//! Pacing: how followers of the same thing share the processor with requests and writes.
//!
//! A thousand followers that wake up at once would all be scheduled before the next request, and a series of writes
//! would keep all of them busy. So only a few look for news at a time, and each rests between two groups of news for
//! as long as serving all followers takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// Maximum number of followers that look for news at a time; other work is scheduled in between.
const TURNS_LEN: usize = 8;

/// Rest between two groups of news, per existing follower. Serving one follower takes about 16 µs, so all of them
/// together take at most a twelfth of a core, however frequent the writes are. A single follower does not rest.
const REST_EACH: Duration = Duration::from_micros(200);

/// Rests shorter than this are skipped.
const REST_MIN: Duration = Duration::from_millis(1);

/// The state shared by all followers of the same thing.
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
    /// Returns whether there are no followers.
    pub(crate) fn is_idle(&self) -> bool {
        self.followers.load(Ordering::Relaxed) == 0
    }
}

/// One follower.
#[derive(Debug)]
pub struct PacedFollower {
    pacing: Arc<Pacing>,
    rests_until: Option<Instant>,
}

impl PacedFollower {
    /// Registers a follower.
    #[must_use]
    pub fn register(pacing: &Arc<Pacing>) -> Self {
        pacing.followers.fetch_add(1, Ordering::Relaxed);
        Self { pacing: Arc::clone(pacing), rests_until: None }
    }

    /// Waits for the end of the rest; cancel safe.
    pub async fn wait_out_pause(&mut self) {
        if let Some(until) = self.rests_until {
            sleep_until(until).await;
            self.rests_until = None;
        }
    }

    /// Waits for a turn to look for news; the turn lasts until the returned permit is dropped.
    pub async fn acquire_permit(&self) -> OwnedSemaphorePermit {
        let turns = Arc::clone(&self.pacing.turns);
        turns.acquire_owned().await.expect("nobody closes it")
    }

    /// Starts the rest after a group of news was delivered, if there are other followers.
    pub fn start_pause(&mut self) {
        let rest = REST_EACH.saturating_mul(self.pacing.followers.load(Ordering::Relaxed));
        self.rests_until = (rest >= REST_MIN).then(|| Instant::now() + rest);
    }
}

impl Drop for PacedFollower {
    fn drop(&mut self) {
        self.pacing.followers.fetch_sub(1, Ordering::Relaxed);
    }
}
