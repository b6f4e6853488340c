//! The number of random cases in property tests.

use proptest::test_runner::{Config, RngSeed};

/// Configures `usual` cases, the same in every run, so that results depend on the change alone.
///
/// `COLLECTORY_CASES=100` runs a hundred times as many, different in each run; `PROPTEST_RNG_SEED` replays one.
pub(crate) fn cases(usual: u32) -> Config {
    let usual = Config { failure_persistence: None, ..Config::with_cases(usual) };
    #[expect(clippy::disallowed_methods, reason = "how long a run is, is the tester's to say")]
    let times = std::env::var("COLLECTORY_CASES").ok().and_then(|times| times.parse::<u32>().ok());
    match times {
        Some(times) => Config { cases: usual.cases.saturating_mul(times), ..usual },
        None => Config { rng_seed: RngSeed::Fixed(1), ..usual },
    }
}
