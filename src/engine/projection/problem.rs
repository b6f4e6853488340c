//! What is wrong in the repository right now.

use std::borrow::Cow;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Key, Revision};
use crate::format::Fault;
pub use crate::format::message::Conflict;
use crate::format::turns_text;

/// One file that can't be served as it stands, or should not.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The path inside the repository, `collections/posts.yaml`.
    pub path: String,
    /// Where and what, in the order of the file; at least one.
    pub faults: Vec<Fault>,
    /// The collection that the file would be, if its name is a key.
    pub collection: Option<Key>,
    /// What is served in its place.
    pub serving: Serving,
    /// When the file was saved; the commit's time if it is committed.
    pub since: DateTime<Utc>,
    /// The commit that brought it, unless it stands in the work tree only.
    pub committed: Option<(Revision, Actor)>,
}

/// What went of a branch that was rewritten: what a commit had done to a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// The commit.
    pub revision: Revision,
    /// The collection.
    pub key: Key,
}

/// Commits that the branch had before somebody rewrote it, kept under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The name below `refs/collectory/kept/`.
    pub name: String,
    /// What happened, and how to look at the commits, get them back or let them go.
    pub message: String,
    /// When it was noticed, to the second.
    pub since: DateTime<Utc>,
    /// What the branch had.
    pub revision: Revision,
    /// The events that went, the newest first; of many only the newest.
    pub events: Vec<Gone>,
}

/// What both sides of a merge had changed in different ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicted {
    /// Of what.
    pub conflict: Conflict,
    /// What happened, and how to settle it.
    pub message: String,
    /// When the merge was made.
    pub since: DateTime<Utc>,
    /// The merge.
    pub revision: Revision,
}

/// What readers get of a file that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// The file as it is: what it lacks keeps nobody from reading it.
    AsWritten,
    /// The newest valid version.
    LastGood,
    /// Nothing: there never was a valid version.
    Nothing,
}

impl Serving {
    /// The word on the wire.
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

    /// The name of each fault: the path, for the second one `PATH#2`, and so on.
    #[must_use]
    pub fn id(&self, number: usize) -> String {
        match number {
            0 => self.path.clone(),
            _ => format!("{}#{}", self.path, number + 1),
        }
    }

    /// A fault as `path:line:column: message`, as editors and compilers write it.
    #[must_use]
    pub fn diagnostic(&self, number: usize) -> String {
        let Fault { line, column, message } = &self.faults[number];
        let [path, message] = [&self.path, message].map(|text| one_line(text));
        format!("{path}:{line}:{column}: {message}")
    }
}

/// The first fault, as [`diagnostic`](Problem::diagnostic).
impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.diagnostic(0))
    }
}

/// A text on one line, in the order in which it stands: a name of a file may hold a line feed, which must not look like
/// another problem.
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
