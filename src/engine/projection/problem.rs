//! The current problems of the repository.

use std::borrow::Cow;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Key, Revision};
use crate::format::Fault;
pub use crate::format::message::Conflict;
use crate::format::turns_text;

/// A file that can't be served as it is, or should not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The path inside the repository, `collections/posts.yaml`.
    pub path: String,
    /// The faults with their places, in the order of the file; at least one.
    pub faults: Vec<Fault>,
    /// The collection of the file, if its name is a key.
    pub collection: Option<Key>,
    /// What is served in its place.
    pub serving: Serving,
    /// When the file was saved, or committed if it is committed.
    pub since: DateTime<Utc>,
    /// The commit that introduced the fault; `None` if the fault exists in the work tree only.
    pub committed: Option<(Revision, Actor)>,
}

/// An event of a commit that was removed from a rewritten branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedEvent {
    /// The commit.
    pub revision: Revision,
    /// The collection.
    pub key: Key,
}

/// Commits that were on the branch before it was rewritten, kept under a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchRewrite {
    /// The name of the ref below `refs/collectory/kept/`.
    pub name: String,
    /// What happened, and how to view the commits, restore them or discard them.
    pub message: String,
    /// When it was noticed, to the second.
    pub since: DateTime<Utc>,
    /// The former head of the branch.
    pub revision: Revision,
    /// The events that were removed, the newest first; if there are many, only the newest.
    pub events: Vec<RemovedEvent>,
}

/// A conflict of a merge: both sides changed the same thing in different ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeConflict {
    /// What both sides changed.
    pub conflict: Conflict,
    /// What happened, and how to settle it.
    pub message: String,
    /// When the merge was made.
    pub since: DateTime<Utc>,
    /// The merge commit.
    pub revision: Revision,
}

/// What readers get in place of a file with faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// The file as it is: what it lacks does not prevent it from being read.
    AsWritten,
    /// The newest valid version.
    LastGood,
    /// Nothing: there has never been a valid version.
    Nothing,
}

impl Serving {
    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AsWritten => "as-written",
            Self::LastGood => "last-good",
            Self::Nothing => "nothing",
        }
    }
}

impl Problem {
    /// The first fault.
    #[must_use]
    pub fn first(&self) -> &Fault {
        &self.faults[0]
    }

    /// Returns the id of a fault: the path for the first one, `PATH#2` for the second, and so on.
    #[must_use]
    pub fn id(&self, number: usize) -> String {
        match number {
            0 => self.path.clone(),
            _ => format!("{}#{}", self.path, number + 1),
        }
    }

    /// Returns a fault as `path:line:column: message`, the format of editors and compilers.
    #[must_use]
    pub fn diagnostic(&self, number: usize) -> String {
        let Fault { line, column, message } = &self.faults[number];
        let [path, message] = [&self.path, message].map(|text| one_line(text));
        format!("{path}:{line}:{column}: {message}")
    }
}

/// Formats the first fault, as [`diagnostic`](Problem::diagnostic) does.
impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.diagnostic(0))
    }
}

/// Escapes a text so that it stays on one line and in its logical order. A file name may contain a line feed, which
/// must not look like another problem.
fn one_line(text: &str) -> Cow<'_, str> {
    let is_odd = |it: char| it.is_control() || turns_text(it);
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let escaped = |it: char| if is_odd(it) { it.escape_default().to_string() } else { it.to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_whatever_the_name_of_its_file() {
        let problem = Problem {
            path: "collections/a\nb.yaml:1:1: forged.yaml".into(),
            faults: vec![Fault { line: 1, column: 2, message: "the name `a\nb` is none".into() }],
            collection: None,
            serving: Serving::Nothing,
            since: DateTime::UNIX_EPOCH,
            committed: None,
        };
        let line = r"collections/a\nb.yaml:1:1: forged.yaml:1:2: the name `a\nb` is none";
        assert_eq!(problem.to_string(), line);
    }
}
