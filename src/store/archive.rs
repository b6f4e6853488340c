//! The read side of the past: earlier commits, trees and contents.
//!
//! An [`Archive`] serves any number of readers at once and changes nothing in the repository. It knows bytes, names
//! and the order of commits; [`engine::history`](crate::engine::history) knows what they mean.
//!
//! ```text
//! head ──first_parents──▶ FirstParents: revisions ──commit_changes──▶ CommitChanges: commit and what it changed
//!                                                              │
//!                                          files, contents ◀───┘ names and blob ids
//! ```

use std::fmt;
use std::sync::OnceLock;

use crate::domain::Revision;
use crate::store::{BlobId, Commit, EachContent, FileChange, StoreError, TreeEntry};

/// The part of the history that a shallow clone lacks, and how to fetch it.
pub const SHALLOW: &str = "this is a shallow clone, so its history is cut off and its oldest commit seems to have made \
     everything; `git fetch --unshallow` completes it";

/// Revisions along first parents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstParents {
    /// The revisions, newest first.
    pub revisions: Vec<Revision>,
    /// The known revision where the walk stopped; `None` after a root, a shallow boundary or an unreadable commit.
    pub stopped_at: Option<Revision>,
}

/// One commit and what it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitChanges {
    /// The commit.
    pub commit: Commit,
    /// The names in the collections folder that differ from the first parent, or from nothing, in order. Contains only
    /// names that end in `.yaml` or `.yml` and do not begin with `.`.
    pub changes: Vec<FileChange>,
    /// Why `changes` may be wrong: the commit, or what it is compared with, is damaged. It is then compared with the
    /// next older commit that can be read, or with nothing.
    pub problem: Option<String>,
}

/// The signature of a commit as stored, unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawSignature {
    /// The armored signature (header `gpgsig`), by any signer and in any format.
    pub signature: Vec<u8>,
    /// The signed bytes: the commit object without the signature.
    pub signed: Vec<u8>,
}

/// Why a name does not resolve to a commit.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The name has no form that is understood.
    #[error("{0}")]
    Bad(String),
    /// The name is written like a revision, but no such commit exists.
    #[error("there is no such commit")]
    Unknown,
    /// The repository could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The read side of a repository, shared by all readers.
///
/// # Errors
///
/// Every method returns a [`StoreError`] when the repository can't be read.
pub trait Archive: fmt::Debug + Send + Sync + 'static {
    /// Returns the current head of the served branch; `None` before its first commit.
    fn head(&self) -> Result<Option<Revision>, StoreError>;

    /// Resolves the name of a commit: 7 to 40 hexadecimal digits of its id, a tag or a branch. As in git, a full id
    /// wins over names, and names win over abbreviated ids. Git's expressions (`HEAD~3`, `main@{1}`, `:/text`, `a..b`)
    /// are not understood.
    fn resolve(&self, name: &str) -> Result<Revision, ResolveError>;

    /// Returns a commit; `None` if it does not exist. A message longer than a megabyte is truncated.
    fn commit(&self, revision: Revision) -> Result<Option<Commit>, StoreError>;

    /// Returns the signature of a commit; `None` if it has none.
    fn signature(&self, revision: Revision) -> Result<Option<RawSignature>, StoreError>;

    /// Returns the commits whose parents a shallow clone lacks, in order; usually none. Costs no more than reading one
    /// small file, because it is called often.
    fn shallow_boundary(&self) -> Result<Vec<Revision>, StoreError>;

    /// Returns the revisions along first parents from `from` (included) until a known one (excluded) or the root. A
    /// commit that can't be read (excluded) ends the line as if the history were cut off there.
    fn first_parents(
        &self,
        from: Revision,
        is_known: &dyn Fn(&Revision) -> bool,
    ) -> Result<FirstParents, StoreError>;

    /// Reads commits and what each changed, on all cores when there are many, and passes each with its index to
    /// `each`, in no particular order. Neighbours along first parents are cheapest.
    fn commit_changes(
        &self,
        revisions: &[Revision],
        each: &(dyn Fn(usize, CommitChanges) + Sync),
    ) -> Result<(), StoreError>;

    /// Returns the wanted files of the folder at a revision, by name, restricted as [`CommitChanges::changes`] is.
    /// Reads the folder's tree once and no content.
    fn files(
        &self,
        revision: Revision,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<(String, TreeEntry)>, StoreError>;

    /// Returns what differs in the folder between two revisions, by name; `None` is the empty folder.
    fn changes(&self, from: Option<Revision>, to: Option<Revision>) -> Result<Vec<FileChange>, StoreError>;

    /// Reads contents, on all cores when there are many, and passes each with its index to `each`, in no particular
    /// order, as [`Commits::contents`](super::Commits::contents) does.
    fn contents(&self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError>;

    /// Reads one content.
    fn content(&self, blob: BlobId) -> Result<Vec<u8>, StoreError> {
        let found = OnceLock::new();
        self.contents(&[blob], &|_, content| drop(found.set(content.map(<[u8]>::to_vec))))?;
        found.into_inner().expect("BUG: the archive left out a content")
    }

    /// Returns whether `descendant` reaches `ancestor` through any parents; a commit reaches itself.
    fn descends(&self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError>;

    /// Returns the note stored under a name beside the repository, if any.
    fn read_cached(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Stores derived data under a name beside the repository, atomically and durably. It may be deleted at any time.
    fn write_cached(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError>;
}
