//! What is wrong in the repository right now.

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Key, Revision};

/// One file that can't be served as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The path inside the repository, `collections/posts.yaml`.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong and what would be right.
    pub message: String,
    /// The collection that the file would be, if its name is a key.
    pub collection: Option<Key>,
    /// What is served in its place.
    pub serving: Serving,
    /// When it was found; the commit's time if it is committed.
    pub since: DateTime<Utc>,
    /// The commit that brought it, unless it stands in the work tree only.
    pub committed: Option<(Revision, Actor)>,
}

/// What readers get in place of a broken file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
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
            Self::LastGood => "last-good",
            Self::Nothing => "nothing",
        }
    }
}

/// `path:line:column: message`, as editors and compilers write it.
impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}: {}", self.path, self.line, self.column, self.message)
    }
}
