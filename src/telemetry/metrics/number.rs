//! Numbers that many threads update and that are read occasionally.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The maximum number of buckets of a histogram.
const BUCKETS_MAX: usize = 16;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn add_one(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Returns the count.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that can go up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds one.
    pub fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Subtracts one.
    pub fn take_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sets the value.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the value.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The distribution of values or durations: how many lie within each bound, and their sum.
#[derive(Debug)]
pub struct Histogram {
    /// The upper bounds of the buckets, in units.
    bounds: &'static [u64],
    /// The number of units per exposed unit, for instance nanoseconds per second.
    units: f64,
    /// The bucket after the last bound counts the values beyond all bounds.
    buckets: [AtomicU64; BUCKETS_MAX],
    sum: AtomicU64,
}

/// A microsecond, in nanoseconds.
const US: u64 = 1_000;

/// A millisecond, in nanoseconds.
const MS: u64 = 1_000 * US;

/// A second, in nanoseconds.
const S: u64 = 1_000 * MS;

/// The range is from the read of one collection to a request that waits for another machine.
static TIMES: &[u64] = &[
    50 * US,
    100 * US,
    250 * US,
    MS,
    5 * MS,
    10 * MS,
    25 * MS,
    50 * MS,
    100 * MS,
    250 * MS,
    S,
    5 * S,
    30 * S,
];

/// The range is from one to the maximum number of writes that share a flush.
static COUNTS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

/// A histogram of durations, exposed in seconds.
impl Default for Histogram {
    fn default() -> Self {
        Self::new(TIMES, 1e9)
    }
}

impl Histogram {
    /// Creates a histogram of small numbers.
    #[must_use]
    pub fn of_counts() -> Self {
        Self::new(COUNTS, 1.0)
    }

    fn new(bounds: &'static [u64], units: f64) -> Self {
        assert!(bounds.len() < BUCKETS_MAX, "BUG: a histogram with more bounds than there is room for");
        Self { bounds, units, buckets: Default::default(), sum: AtomicU64::new(0) }
    }

    /// Records a duration.
    pub fn observe(&self, took: Duration) {
        self.count(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Records a value.
    pub fn count(&self, value: u64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Returns the number of recorded values.
    #[must_use]
    pub fn sample_count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Returns the sum of the recorded values, as exposed.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum.load(Ordering::Relaxed) as f64 / self.units
    }

    /// Returns each bound, as exposed, with the count of its bucket alone; the last bound is infinity.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().map(|bound| *bound as f64 / self.units).chain([f64::INFINITY]);
        bounds.zip(&self.buckets).map(|(bound, bucket)| (bound, bucket.load(Ordering::Relaxed))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_by_the_first_bound_that_is_not_passed() {
        let histogram = Histogram::of_counts();
        [1, 2, 3, 1_000].into_iter().for_each(|value| histogram.count(value));
        let counted: Vec<_> = histogram.buckets().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(1.0, 1), (2.0, 1), (4.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((histogram.sample_count(), histogram.sum()), (4, 1_006.0));
    }

    #[test]
    fn durations_are_shown_in_seconds() {
        let histogram = Histogram::default();
        histogram.observe(Duration::from_millis(1_500));
        assert!((histogram.sum() - 1.5).abs() < 1e-9);
        assert!(histogram.buckets().contains(&(5.0, 1)));
    }
}
