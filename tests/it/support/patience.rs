//! The only place where a test waits.
//!
//! A test never sleeps for a guessed time. It checks repeatedly whether something has become true, and gives up after
//! one deadline for the whole suite. The short pause between two attempts only keeps a waiting test from taking the
//! processor away from what it waits for; no outcome depends on its length.

use std::time::{Duration, Instant};

use super::answer::{Answer, CheckedAnswer};

/// After this time a test stops waiting and fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(3);

/// Repeats `attempt` until it returns a value.
pub(crate) async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(started.elapsed() < DEADLINE, "after {DEADLINE:?} still not: {what}");
        tokio::time::sleep(BETWEEN_ATTEMPTS).await;
    }
}

/// Repeats a request until the answer has a status.
pub(crate) async fn eventually_status(
    what: &str,
    status: u16,
    ask: impl AsyncFn() -> Answer,
) -> CheckedAnswer {
    eventually(what, async || {
        let answer = ask().await;
        (answer.status() == status).then(|| answer.is(status))
    })
    .await
}

/// Like [`eventually`], for code that is not asynchronous.
pub(crate) fn eventually_sync<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(started.elapsed() < DEADLINE, "after {DEADLINE:?} still not: {what}");
        std::thread::park_timeout(BETWEEN_ATTEMPTS);
    }
}
