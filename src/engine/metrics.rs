//! What the writer counts.

use std::time::Duration;

use crate::telemetry::metrics::{Counter, Histogram};

/// What the writer counts, for whoever looks at it.
#[derive(Debug)]
pub struct Metrics {
    /// Writes that became commits, from when they were asked for until they could be read; the commits of hand
    /// edits that stood in their way are counted beside them.
    pub writes: Histogram,
    /// Hand edits that were committed for a person because they stood in the way of a write; each counts for as long as
    /// the slowest write of its group took.
    pub edits_committed: Histogram,
    /// Writes that shared one flush.
    pub groups: Histogram,
    /// Saved files that came to be served, from when they were saved.
    pub saved: Histogram,
    /// Moves of the branch by others, from when they were looked at until they were served.
    pub committed: Histogram,
    /// Commits that people made with git, and that came to be part of the history.
    pub commits_by_git: Counter,
    /// Commits that the command line made, and that came to be part of the history.
    pub commits_by_command: Counter,
    /// Merges with what the remote had.
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
    /// Counts a group of writes of which these became commits, and how many more commits they needed.
    pub(crate) fn committed_group(&self, writes: &[Duration], more: usize) {
        self.groups.count(writes.len() as u64);
        writes.iter().for_each(|took| self.writes.observe(*took));
        let longest = writes.iter().max().copied().unwrap_or_default();
        (0..more).for_each(|_| self.edits_committed.observe(longest));
    }
}
