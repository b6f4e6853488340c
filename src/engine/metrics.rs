//! The metrics of the writer thread.

use std::time::Duration;

use crate::telemetry::metrics::{Counter, Histogram};

/// The metrics of the writer thread.
#[derive(Debug)]
pub struct Metrics {
    /// Durations of writes that made commits, from the request until the commit is readable. The commits of hand
    /// edits that these writes required are counted separately.
    pub writes: Histogram,
    /// Commits of hand edits that a write required; each is observed with the duration of its group's slowest write.
    pub edits_committed: Histogram,
    /// Number of writes that shared one flush.
    pub groups: Histogram,
    /// Time from a save until the saved file is served.
    pub saved: Histogram,
    /// Time to follow a branch that someone else moved, from looking at it until the new head is served.
    pub committed: Histogram,
    /// Commits made with git that joined the history.
    pub commits_by_git: Counter,
    /// Commits made by the command line that joined the history.
    pub commits_by_command: Counter,
    /// Merges with the remote's commits that joined the history.
    pub commits_by_merge: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            writes: Histogram::default(),
            edits_committed: Histogram::default(),
            groups: Histogram::of_counts(),
            saved: Histogram::default(),
            committed: Histogram::default(),
            commits_by_git: Counter::default(),
            commits_by_command: Counter::default(),
            commits_by_merge: Counter::default(),
        }
    }
}

impl Metrics {
    /// Counts a group: the durations of its writes that made commits, and its number of other commits.
    pub(crate) fn committed_group(&self, writes: &[Duration], more: usize) {
        self.groups.count(writes.len() as u64);
        writes.iter().for_each(|took| self.writes.observe(*took));
        let longest = writes.iter().max().copied().unwrap_or_default();
        (0..more).for_each(|_| self.edits_committed.observe(longest));
    }
}
