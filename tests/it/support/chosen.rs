//! Environment variables that select a run: a longer one, or the same one again.

use std::ops::RangeInclusive;

/// Returns the number in an environment variable, if it is set.
fn number(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
    let text = std::env::var(name).ok();
    text.map(|text| text.parse().expect("a number"))
}

/// Returns the number in an environment variable, or the usual one.
pub(crate) fn env_or(name: &str, usual: u64) -> u64 {
    number(name).unwrap_or(usual)
}

/// Returns the seeds of random stories: `COLLECTORY_STORY_SEED`, or as many as `COLLECTORY_STORIES` says.
pub(crate) fn story_seeds(usual: u64) -> RangeInclusive<u64> {
    number("COLLECTORY_STORY_SEED")
        .map_or_else(|| 1..=env_or("COLLECTORY_STORIES", usual), |seed| seed..=seed)
}
