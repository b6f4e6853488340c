//! What can go wrong with the repository.

use std::io;
use std::path::{Path, PathBuf};

use crate::domain::Revision;
use crate::store::remote::RemoteError;

/// Why the repository could not do what it was asked.
///
/// Each variant says what we were doing and keeps what went wrong as its source, so `Display`
/// stays one line and the chain tells the rest.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Someone else committed between our read and our write, or held the work tree, in which something may have been
    /// saved.
    ///
    /// Ordinary, not exceptional: the writer reloads and decides again.
    #[error("the branch moved from {} to {} while committing", shown(.expected), shown(.found))]
    HeadMoved {
        /// The revision that was decided on.
        expected: Option<Revision>,
        /// The revision that the branch has now.
        found: Option<Revision>,
    },

    /// A lock file that is not ours stayed for as long as we wait.
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
        /// What stands in the way and what to do.
        why: String,
    },

    /// Another work tree shows the branch: our commits would leave it behind, and its next commit
    /// would revert them.
    #[error(
        "{path} can't be served: its branch {branch} is checked out at {at}; serve that work tree, or remove it with `git worktree remove`"
    )]
    ShownElsewhere {
        /// The repository.
        path: PathBuf,
        /// The whole name of the branch.
        branch: String,
        /// The other work tree.
        at: PathBuf,
    },

    /// A name that was asked for can name nothing of its kind, in whatever repository.
    #[error("{0}")]
    Misnamed(String),

    /// A path could not be read or written.
    #[error("cannot {action} {path}")]
    Path {
        /// What we were doing, a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A commit could not be signed; nothing of the batch is visible.
    #[error("cannot sign the commit")]
    Sign(#[source] ssh_key::Error),

    /// One object can't be read, and nothing but itself is to blame.
    #[error("the {kind} {id} {damage}")]
    Damaged {
        /// What it is or should be: "commit", "tree", "blob" or "tag".
        kind: &'static str,
        /// Its id.
        id: String,
        /// What is wrong with it.
        damage: Damage,
    },

    /// The remote that shares the branch stands in the way.
    #[error(transparent)]
    Remote(#[from] RemoteError),

    /// The content was made to have the id of another one (SHA-1 is broken); nothing of the batch is visible.
    #[error("cannot name a {kind}: its content was made to collide with other content under SHA-1")]
    Collision {
        /// What it is: "commit" or "blob".
        kind: &'static str,
    },

    /// libgit2 refused; nothing of the batch is visible.
    #[error("cannot {action}")]
    Git {
        /// What we were doing, a verb and its object.
        action: String,
        /// What libgit2 said.
        source: git2::Error,
    },
}

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// There is none.
    #[error("is missing")]
    Missing,
    /// There is none in this clone, and a remote has promised it (git's partial clones).
    #[error("is not here, as this is a partial clone; `git fetch --refetch --no-filter` completes it")]
    Promised,
    /// It is not as git writes it; the text says in what.
    #[error("is corrupt ({0})")]
    Corrupt(String),
    /// It has more bytes than are read: this many.
    #[error("is too large ({0} bytes)")]
    TooLarge(u64),
}

impl StoreError {
    /// What went wrong with a path.
    pub(super) fn at(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Path { action, path: path.to_owned(), source }
    }

    /// What is behind it, for a field of its own in the log; empty where nothing is.
    pub(super) fn cause(&self) -> String {
        std::error::Error::source(self).map(ToString::to_string).unwrap_or_default()
    }
}

/// Says at which path something went wrong.
pub(super) trait AtPath<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError>;

    /// Says at which path something went wrong; that nothing is there is fine, and `None`.
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
