//! What the writer takes up at once: everything that has queued up.

use std::collections::{BTreeSet, VecDeque};

use crate::engine::handle::{Job, Question};
use crate::engine::writer::signal::Hint;

/// What has come since the loop looked last.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) questions: Vec<Question>,
    pub(crate) hints: Hints,
    pub(crate) stop: bool,
    /// Nothing has come for a while.
    pub(crate) idle: bool,
}

/// The notices of one batch of signals, merged.
#[derive(Default)]
pub(crate) struct Hints {
    everything: bool,
    branch: bool,
    files: BTreeSet<String>,
}

impl Hints {
    pub(crate) fn add(&mut self, hint: Hint) {
        match hint {
            Hint::Everything => self.everything = true,
            Hint::Branch => self.branch = true,
            Hint::Files(names) => self.files.extend(names),
        }
    }

    pub(crate) fn merged(self) -> Vec<Hint> {
        let files: Vec<String> = self.files.into_iter().collect();
        match (self.everything, self.branch, files.is_empty()) {
            (true, ..) => vec![Hint::Everything],
            (false, true, true) => vec![Hint::Branch],
            (false, true, false) => vec![Hint::Branch, Hint::Files(files)],
            (false, false, false) => vec![Hint::Files(files)],
            (false, false, true) => Vec::new(),
        }
    }
}
