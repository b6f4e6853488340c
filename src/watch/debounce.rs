//! When a file that is being written is worth reading: the rule, independent of the file system.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// The file is complete: renamed into place, closed after writing, or removed.
    Done,
    /// A process writes to the file and may not have finished.
    Writing,
}

/// Collects touched files until each is worth reading.
///
/// A file that was renamed into place or closed is read immediately. One that is written in place is read when it has
/// been left alone for `quiet`: short if the system does not report closing, long if it does, so that a writer that
/// pauses between two pieces exposes no partial value. Whether the content is believed is up to the engine.
#[derive(Debug)]
pub(crate) struct Debouncer {
    quiet: Duration,
    due: HashMap<String, Instant>,
}

impl Debouncer {
    pub(crate) fn new(quiet: Duration) -> Self {
        Self { quiet, due: HashMap::new() }
    }

    pub(crate) fn note(&mut self, name: String, touch: Touch, now: Instant) {
        let due = match touch {
            Touch::Done => now,
            Touch::Writing => now + self.quiet,
        };
        self.due.insert(name, due);
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Takes the files that are worth reading now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<String> {
        let mut due: Vec<String> = self.due.extract_if(|_, at| *at <= now).map(|(name, _)| name).collect();
        due.sort();
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_millis(100);

    #[test]
    fn a_renamed_file_is_read_at_once() {
        let now = Instant::now();
        let mut settle = Debouncer::new(QUIET);
        settle.note("posts.yaml".into(), Touch::Done, now);
        assert_eq!(settle.take_due(now), ["posts.yaml"]);
        assert_eq!(settle.next_at(), None);
    }

    #[test]
    fn a_file_written_in_pieces_is_read_once_it_is_left_alone() {
        let start = Instant::now();
        let mut settle = Debouncer::new(QUIET);
        for piece in 0..5 {
            let now = start + QUIET / 2 * piece;
            settle.note("posts.yaml".into(), Touch::Writing, now);
            assert!(settle.take_due(now).is_empty());
        }
        let last = start + QUIET * 2;
        assert_eq!(settle.next_at(), Some(last + QUIET));
        assert_eq!(settle.take_due(last + QUIET), ["posts.yaml"]);
    }

    #[test]
    fn closing_ends_the_wait() {
        let now = Instant::now();
        let mut settle = Debouncer::new(QUIET);
        settle.note("posts.yaml".into(), Touch::Writing, now);
        settle.note("posts.yaml".into(), Touch::Done, now);
        assert_eq!(settle.take_due(now), ["posts.yaml"]);
    }

    #[test]
    fn files_wait_each_for_itself() {
        let now = Instant::now();
        let mut settle = Debouncer::new(QUIET);
        settle.note("a.yaml".into(), Touch::Writing, now);
        settle.note("b.yaml".into(), Touch::Done, now);
        assert_eq!(settle.take_due(now), ["b.yaml"]);
        assert_eq!(settle.take_due(now + QUIET), ["a.yaml"]);
    }
}
