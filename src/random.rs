//! How many random cases the property tests try.

use proptest::test_runner::{Config, RngSeed};

/// `usual` cases, the same in every run: a change is judged by what it changes, not by luck.
///
/// `COLLECTORY_CASES=100` tries a hundred times as many, others in each run; `PROPTEST_RNG_SEED` then
/// replays one.
pub(crate) fn cases(usual: u32) -> Config {
    let usual = Config { failure_persistence: None, ..Config::with_cases(usual) };
    #[expect(clippy::disallowed_methods, reason = "how long a run is, is the tester's to say")]
    let times = std::env::var("COLLECTORY_CASES").ok().and_then(|times| times.parse::<u32>().ok());
    match times {
        Some(times) => Config { cases: usual.cases.saturating_mul(times), ..usual },
        None => Config { rng_seed: RngSeed::Fixed(1), ..usual },
    }
}
