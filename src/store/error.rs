//! Errors of the repository.

use std::io;
use std::path::{Path, PathBuf};

use crate::domain::Revision;
use crate::store::remote::RemoteError;

/// Why the repository could not do what was asked.
///
/// Each variant says what was being done and keeps the cause as its source, so `Display` stays one line and the chain
/// of sources has the details.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process committed between our read and our write, or held the work tree, so that something may have
    /// been saved there.
    ///
    /// This is ordinary: the writer reloads and decides again.
    #[error("the branch moved from {} to {} while committing", shown(.expected), shown(.found))]
    HeadMoved {
        /// The revision that the decision was based on.
        expected: Option<Revision>,
        /// The current revision of the branch.
        found: Option<Revision>,
    },

    /// A lock file that is not ours still existed when our wait ended.
    #[error("{path} is held by another git process; remove it only if none is running")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },

    /// Another Collectory serves this repository.
    #[error("another collectory serves {path} already")]
    Served {
        /// The repository.
        path: PathBuf,
    },

    /// The repository is of a kind that can't be served.
    #[error("{path} can't be served: {why}")]
    Unsuitable {
        /// The repository.
        path: PathBuf,
        /// The obstacle, and what to do about it.
        why: String,
    },

    /// The branch is checked out in another work tree: our commits would leave that one behind, and its next commit
    /// would revert them.
    #[error(
        "{path} can't be served: its branch {branch} is checked out at {at}; serve that work tree, or remove it with `git worktree remove`"
    )]
    CheckedOutElsewhere {
        /// The repository.
        path: PathBuf,
        /// The full name of the branch.
        branch: String,
        /// The other work tree.
        at: PathBuf,
    },

    /// The name is invalid for its kind, in any repository.
    #[error("{0}")]
    Misnamed(String),

    /// A path could not be read or written.
    #[error("cannot {action} {path}")]
    Path {
        /// What was being done: a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A commit could not be signed; nothing of the batch is visible.
    #[error("cannot sign the commit")]
    Sign(#[source] ssh_key::Error),

    /// One object can't be read; the rest of the repository is not affected.
    #[error("the {kind} {id} {damage}")]
    Damaged {
        /// Its actual or expected kind: "commit", "tree", "blob" or "tag".
        kind: &'static str,
        /// Its id.
        id: String,
        /// What is wrong with it.
        damage: Damage,
    },

    /// The remote that shares the branch prevents the operation.
    #[error(transparent)]
    Remote(#[from] RemoteError),

    /// The content was crafted to have the id of other content (SHA-1 is broken); nothing of the batch is visible.
    #[error("cannot name a {kind}: its content was made to collide with other content under SHA-1")]
    Collision {
        /// Its kind: "commit" or "blob".
        kind: &'static str,
    },

    /// libgit2 failed; nothing of the batch is visible.
    #[error("cannot {action}")]
    Git {
        /// What was being done: a verb and its object.
        action: String,
        /// The error of libgit2.
        source: git2::Error,
    },
}

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It does not exist.
    #[error("is missing")]
    Missing,
    /// It is not in this clone, but a remote has promised it (git's partial clones).
    #[error("is not here, as this is a partial clone; `git fetch --refetch --no-filter` completes it")]
    Promised,
    /// It is not as git writes it; the text says how.
    #[error("is corrupt ({0})")]
    Corrupt(String),
    /// It has more bytes than the limit for reading: this many.
    #[error("is too large ({0} bytes)")]
    TooLarge(u64),
}

impl StoreError {
    /// Builds the error for a failed operation on a path.
    pub(super) fn at(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Path { action, path: path.to_owned(), source }
    }

    /// Returns the text of the source, for a log field of its own; empty when there is none.
    pub(super) fn cause(&self) -> String {
        std::error::Error::source(self).map(ToString::to_string).unwrap_or_default()
    }
}

/// Adds the path and the action to an I/O error.
pub(super) trait AtPath<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError>;

    /// Like `at`, but returns `None` when the path does not exist.
    fn at_if_there(self, action: &'static str, path: &Path) -> Result<Option<T>, StoreError>;
}

impl<T, E: Into<io::Error>> AtPath<T> for Result<T, E> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::at(action, path, source.into()))
    }

    fn at_if_there(self, action: &'static str, path: &Path) -> Result<Option<T>, StoreError> {
        match self.map_err(Into::into) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            there => there.at(action, path).map(Some),
        }
    }
}

fn shown(revision: &Option<Revision>) -> String {
    revision.map_or_else(|| "no commit".to_owned(), |revision| revision.to_string())
}
