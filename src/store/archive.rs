//! The read side of the past: commits, trees and contents as they were.
//!
//! An [`Archive`] has any number of readers at once and changes nothing in the repository. It
//! knows bytes, names and the order of commits; what they mean is the business of
//! [`engine::history`](crate::engine::history).
//!
//! ```text
//! head ──first_parents──▶ FirstParents: revisions ──steps──▶ CommitChanges: commit and what it changed
//!                                                              │
//!                                          files, contents ◀───┘ names and blob ids
//! ```

use std::fmt;
use std::sync::OnceLock;

use super::{BlobId, Commit, EachContent, FileChange, StoreError, TreeEntry};
use crate::domain::Revision;

/// What of the history a shallow clone does not have, and how to have it.
pub const SHALLOW: &str = "this is a shallow clone, so its history is cut off and its oldest commit seems to have made \
     everything; `git fetch --unshallow` completes it";

/// Revisions along first parents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstParents {
    /// The revisions, newest first.
    pub revisions: Vec<Revision>,
    /// The known revision that the oldest of them stands on; `None` when it is a root commit.
    pub onto: Option<Revision>,
}

/// One commit and what it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitChanges {
    /// The commit.
    pub commit: Commit,
    /// What differs in the collections folder from the first parent, or from nothing, by name.
    /// Only names that end in `.yaml` or `.yml` and do not begin with `.` are told.
    pub changes: Vec<FileChange>,
    /// Why that may not be what it did: the commit is damaged, or what it is compared with; then it is
    /// compared with the next older commit that can be read, or with nothing.
    pub problem: Option<String>,
}

/// The signature of a commit, as it stands there; nothing is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawSignature {
    /// The armoured signature (header `gpgsig`), whoever made it and in whatever format.
    pub signature: Vec<u8>,
    /// What was signed: the commit object without the signature.
    pub signed: Vec<u8>,
}

/// Why a name stands for no commit.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// The name is none that is understood.
    #[error("{0}")]
    Bad(String),
    /// The name is written like a revision, and there is none.
    #[error("there is no such commit")]
    Unknown,
    /// The repository could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The read side of a repository; shared by all readers.
///
/// # Errors
///
/// Every method returns a [`StoreError`] when the repository can't be read.
pub trait Archive: fmt::Debug + Send + Sync + 'static {
    /// The head of the served branch now; `None` before its first commit.
    fn head(&self) -> Result<Option<Revision>, StoreError>;

    /// The commit that a text names: 7 to 40 hexadecimal digits of its id, a tag or a branch. As
    /// in git, a whole id wins over names and names over abbreviated ids. Git's expressions
    /// (`HEAD~3`, `main@{1}`, `:/text`, `a..b`) are not understood.
    fn resolve(&self, name: &str) -> Result<Revision, NameError>;

    /// A commit; `None` if there is none. A message of more than a megabyte is cut.
    fn commit(&self, revision: Revision) -> Result<Option<Commit>, StoreError>;

    /// The signature of a commit; `None` if it has none.
    fn signature(&self, revision: Revision) -> Result<Option<RawSignature>, StoreError>;

    /// The commits whose parents are not here, as in a shallow clone, in order; mostly none. Asked for
    /// often, so it costs no more than a look at one file.
    fn cut_off(&self) -> Result<Vec<Revision>, StoreError>;

    /// The revisions from `from` (the newest, included) along first parents until one that is
    /// known (excluded), the root or, as if that were cut off, one that can't be read (excluded).
    fn first_parents(
        &self,
        from: Revision,
        is_known: &dyn Fn(&Revision) -> bool,
    ) -> Result<FirstParents, StoreError>;

    /// Reads these commits and what each changed, on all cores when they are many, and hands each
    /// with its index to `each`, in no order. Neighbours along first parents are cheapest.
    fn steps(
        &self,
        revisions: &[Revision],
        each: &(dyn Fn(usize, CommitChanges) + Sync),
    ) -> Result<(), StoreError>;

    /// The files of the folder at a revision whose names are wanted, by name, restricted as
    /// [`CommitChanges::changes`] is. The folder's tree is read once and no content is.
    fn files(
        &self,
        revision: Revision,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<(String, TreeEntry)>, StoreError>;

    /// What differs in the folder between two revisions, by name; `None` is the empty folder.
    fn differences(
        &self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError>;

    /// Reads contents, on all cores when they are many, and hands each with its index to `each`,
    /// in no order, as [`Commits::read`](super::Commits::read) does.
    fn contents(&self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError>;

    /// Reads one content.
    fn content(&self, blob: BlobId) -> Result<Vec<u8>, StoreError> {
        let found = OnceLock::new();
        self.contents(&[blob], &|_, content| drop(found.set(content.map(<[u8]>::to_vec))))?;
        found.into_inner().expect("BUG: the archive left out a content")
    }

    /// Whether `descendant` reaches `ancestor` by whatever parents (a commit reaches itself).
    fn reaches(&self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError>;

    /// What was kept under a name beside the repository, if anything.
    fn read_note(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Keeps something derived under a name beside the repository: whole or not at all, without
    /// waiting for the disk. It may be deleted at any time.
    fn write_note(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError>;
}
