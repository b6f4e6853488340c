//! Durable bytes: the only module that knows git.
//!
//! The store knows the files of one folder and the commits of one branch, as bytes and names.
//! [`format`](crate::format) knows what a file means, [`domain`](crate::domain) what may happen to it. [`Journal`] is
//! the write side, owned by the engine's writer thread. [`git`] implements it, [`remote`] wraps it for a shared branch,
//! and tests have one in memory, with injected faults.
//!
//! A file is identified by its name inside the collections folder (`posts.yaml`), never by a path.

mod archive;
pub(crate) mod cache;
mod error;
pub(crate) mod fsck;
pub mod git;
pub(crate) mod git_command;
mod kept;
#[cfg(test)]
pub(crate) mod memory;
mod metrics;
pub mod remote;
pub mod signature;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision, object_id};
pub use crate::store::metrics::Metrics;
pub use archive::{Archive, CommitChanges, FirstParents, RawSignature, ResolveError, SHALLOW};
use error::AtPath;
pub use error::{Damage, StoreError};
pub use kept::KeptHead;

object_id! {
    /// The id of a file's content.
    BlobId
}

object_id! {
    /// The id of a folder's tree.
    TreeId
}

/// The bytes of a file that are kept: one more than a collection file may have, so that excess is noticed.
pub(crate) const FILE_BYTES_KEPT_MAX: usize = 64 * 1024 + 1;

/// A larger file of the work tree is not read whole, because that could take any amount of time while everything else
/// waits, and no collection file is that large. So it can't be committed on a person's behalf either.
pub(crate) const FILE_BYTES_READ_MAX: usize = 1 << 20;

/// An entry of the collections folder in a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreeEntry {
    /// A regular file, executable or not.
    File(BlobId),
    /// Anything else.
    Special(Special),
}

impl TreeEntry {
    /// Returns the content id of a regular file.
    #[must_use]
    pub const fn blob(self) -> Option<BlobId> {
        match self {
            Self::File(blob) => Some(blob),
            Self::Special(_) => None,
        }
    }
}

/// An entry that is not a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Special {
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A nested repository (gitsubmodules(7)); only in a commit.
    Submodule,
    /// A pipe; like all variants below, only in a work tree.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// A file that can't be read now.
    Unreadable,
}

/// Formats it in words, with an article.
impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
            Self::Submodule => "a submodule",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Unreadable => "a file that can't be read now",
        })
    }
}

/// One name that differs between two revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The name inside the collections folder.
    pub name: String,
    /// What the older revision has.
    pub before: Option<TreeEntry>,
    /// What the newer revision has.
    pub after: Option<TreeEntry>,
}

/// A commit to be made.
#[derive(Debug, Clone)]
pub struct Draft {
    /// File names with their new contents, `None` to remove the file. Never empty.
    pub files: Vec<(String, Option<Vec<u8>>)>,
    /// The whole commit message.
    pub message: String,
    /// The author; the committer is the service.
    pub author: Actor,
    /// The time, for author and committer alike.
    pub at: DateTime<Utc>,
}

/// A commit that was made durably; [`Journal::append`] has also moved the branch to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The commit.
    pub revision: Revision,
    /// The content ids of the draft's files, in the same order; `None` for a removed file.
    pub blobs: Vec<Option<BlobId>>,
}

/// The metadata of an existing commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The commit.
    pub revision: Revision,
    /// Its parents: none for a root commit, several for a merge.
    pub parents: Vec<Revision>,
    /// The author.
    pub author: Actor,
    /// The committer.
    pub committer: Actor,
    /// The time of the commit, from its committer line.
    pub at: DateTime<Utc>,
    /// The full message, with invalid UTF-8 replaced.
    pub message: String,
}

/// Which files of the work tree to look at.
#[derive(Debug, Clone, Copy)]
pub enum Paths<'a> {
    /// Every file of the folder.
    All,
    /// Only these names.
    Only(&'a [String]),
}

/// How to treat git's locks when looking at the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitLocks {
    /// Git is at work, so the result is [`WorkTree::Busy`].
    Respect,
    /// The locks may be stale, so look anyway.
    Ignore,
}

/// The work tree of the served branch, compared with the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkTree {
    /// The repository is bare, or the served branch is not checked out, so there are no hand edits to find. The text
    /// gives the reason for `/readyz` and the log ("the branch `x` is checked out").
    Unavailable(String),
    /// Git is changing it (`index.lock` or `HEAD.lock` exists): ask again later.
    Busy,
    /// It shows the served branch.
    Available {
        /// The inspected files that differ from the head, by name.
        edits: Vec<Edit>,
        /// The inspected files, edited or not, that some process was still writing, as far as the system reports that,
        /// and how long ago each was last changed.
        unfinished: BTreeMap<String, Duration>,
        /// The unfinished git operation, if any ("a merge"), for `/readyz` and the log.
        operation_in_progress: Option<&'static str>,
    },
}

/// A file of the work tree that differs from the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The name inside the collections folder.
    pub name: String,
    /// Its current state.
    pub current: WorkTreeEntry,
}

/// The state of a name in the work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkTreeEntry {
    /// A regular file. Content beyond the limit of a collection file is cut off; `blob` covers the whole file.
    File {
        /// The id that the content would have in git.
        blob: BlobId,
        /// The content.
        bytes: Vec<u8>,
    },
    /// It does not exist, but the head has a file.
    Deleted,
    /// Anything else.
    Special(Special),
}

impl WorkTreeEntry {
    /// Returns the content id: `Some(None)` if the file is gone, `None` if it is something other than a file.
    #[must_use]
    pub const fn blob(&self) -> Option<Option<BlobId>> {
        match self {
            Self::File { blob, .. } => Some(Some(*blob)),
            Self::Deleted => Some(None),
            Self::Special(_) => None,
        }
    }

    /// Returns whether a revision has the same under this name.
    #[must_use]
    pub fn is(&self, entry: Option<TreeEntry>) -> bool {
        match (self, entry) {
            (Self::File { blob, .. }, Some(TreeEntry::File(committed))) => *blob == committed,
            (Self::Special(_), Some(TreeEntry::Special(_))) | (Self::Deleted, None) => true,
            (Self::File { .. } | Self::Deleted | Self::Special(_), _) => false,
        }
    }
}

/// Receives contents as they are read, from several threads at once, each with its index among those requested.
pub type EachContent<'a> = dyn Fn(usize, Result<&[u8], StoreError>) + Sync + 'a;

/// Access to what is committed, for the thread that owns the journal; an [`Archive`] serves many threads.
///
/// # Errors
///
/// Every method returns a [`StoreError`] when the repository can't be read.
pub trait Commits {
    /// Returns what differs in the collections folder between two revisions, ordered by name; `None` is the empty
    /// folder. Contains only names that end in `.yaml` or `.yml` and do not begin with `.`.
    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError>;

    /// Reads contents, on all cores when there are many, and passes each with its index to `each`:
    /// [`StoreError::Damaged`] when only that object is lost, another error when more than that object is affected.
    /// Content longer than a collection file may be is truncated behind that length.
    fn contents(&mut self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError>;

    /// Reads one content.
    fn content(&mut self, blob: BlobId) -> Result<Vec<u8>, StoreError> {
        let found = OnceLock::new();
        self.contents(&[blob], &|_, content| drop(found.set(content.map(<[u8]>::to_vec))))?;
        found.into_inner().expect("BUG: a content was left out")
    }

    /// Walks the first-parent history from `from` (the newest, included) and passes each commit with what it changed
    /// in the folder to `each`. Stops when `each` returns `false`, at the root, or at an older commit that is damaged.
    fn walk(
        &mut self,
        from: Revision,
        each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
    ) -> Result<(), StoreError>;

    /// Passes each commit of the first-parent history from `from` (the newest, included) to `each`, without looking at
    /// what it changed. Stops when `each` returns `false` or at the root.
    fn log(&mut self, from: Revision, each: &mut dyn FnMut(&Commit) -> bool) -> Result<(), StoreError> {
        self.walk(from, &mut |commit, _| each(commit))
    }

    /// Returns a commit, if it exists.
    fn commit(&mut self, revision: Revision) -> Result<Option<Commit>, StoreError> {
        let mut found = None;
        self.log(revision, &mut |commit| {
            found = Some(commit.clone());
            false
        })?;
        Ok(found)
    }

    /// Returns a commit, if it exists and is not damaged: for callers that look at several independent commits.
    fn intact_commit(&mut self, revision: Revision) -> Result<Option<Commit>, StoreError> {
        match self.commit(revision) {
            Err(StoreError::Damaged { .. }) => Ok(None),
            commit => commit,
        }
    }

    /// Returns whether `descendant` reaches `ancestor`; a commit reaches itself.
    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError>;

    /// Returns what `old` reaches and `new` does not (`git rev-list new..old`), `old` first; nothing without `old`.
    fn commits_beyond(&mut self, old: Revision, new: Revision) -> Result<Vec<Revision>, StoreError>;

    /// Returns the id of the object at a path in a revision, if any.
    fn object_at(&mut self, revision: Revision, path: &str) -> Result<Option<BlobId>, StoreError>;
}

/// The write side of a repository, owned by one thread.
///
/// # Errors
///
/// Every method returns a [`StoreError`] when the repository can't be read or written.
#[expect(clippy::missing_errors_doc, reason = "said once for the whole trait")]
pub trait Journal: Send + 'static {
    /// Returns the current head of the served branch; `None` before its first commit.
    fn head(&mut self) -> Result<Option<Revision>, StoreError>;

    /// Returns access to all commits, whether or not the branch has reached them.
    fn commits(&mut self) -> &mut dyn Commits;

    /// Returns when the branch may be written next, if it may not be now; everything else continues until then.
    fn paused_until(&self) -> Option<Instant> {
        None
    }

    /// Waits, as long as [`append`](Self::append) does, until no other process holds the index of the work tree.
    fn wait_for_git(&mut self) -> Result<(), StoreError>;

    /// Returns this content in full from the unchanged file of this name in the work tree; `None` if the file differs
    /// or is too large to be read whole.
    fn work_tree_content(&mut self, _name: &str, _blob: BlobId) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    /// Returns whether git would change this content of a file of the work tree before committing it: by a program, or
    /// its line ends (gitattributes(5)). The service does neither, and committed as it is, the file would be an edit to
    /// git forever.
    fn is_converted(&mut self, _name: &str, _content: &[u8]) -> bool {
        false
    }

    /// Makes a chain of commits on top of `expected` and moves the branch to the last one, durably. Returns after
    /// everything is on disk.
    ///
    /// The work tree is brought up to the new head if it shows the served branch. Failures there are logged and
    /// repaired later, because the commits are already made.
    ///
    /// A failed append leaves nothing but unreachable objects or, when only the last flush failed, the whole chain on
    /// the branch; see [`make_durable`](Self::make_durable).
    fn append(&mut self, expected: Option<Revision>, drafts: &[Draft]) -> Result<Vec<Committed>, StoreError>;

    /// Ensures that the branch at `head`, and everything that it needs, is on disk, for an answer that relies on
    /// existing commits. Costs a flush when that is not known: for a head of another process, for one that existed at
    /// the start, and after a failed [`append`](Self::append). Otherwise it costs nothing.
    fn make_durable(&mut self, head: Option<Revision>) -> Result<(), StoreError>;

    /// Ensures that the remote that shares the branch has this head too, for an answer that relies on it but does not
    /// promise that anything is durable.
    fn confirm_head(&mut self, _head: Option<Revision>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Compares the work tree with `head`.
    fn work_tree(
        &mut self,
        head: Option<Revision>,
        paths: Paths<'_>,
        locks: GitLocks,
    ) -> Result<WorkTree, StoreError>;

    /// Brings a work tree that is behind the branch forward (after a crash or a push), where that is safe. Fails at
    /// once if another process holds a lock; the caller tries again once that is gone. Being up to date is no error.
    fn catch_up(&mut self) -> Result<(), StoreError>;

    /// Returns the head of this branch that [`note_served`](Self::note_served) recorded last, possibly before a
    /// restart; `None` when none is known.
    fn last_served(&mut self) -> Result<Option<Revision>, StoreError> {
        Ok(None)
    }

    /// Records up to which head the branch is known, so that the next start can tell whether it was rewritten. Costs
    /// no flush: after a power cut the record may name an older head. Failures are logged.
    fn note_served(&mut self, _head: Revision) {}

    /// Protects a commit and everything that it reaches from `git gc`, durably, under a name that contains the time.
    /// Returns the existing entry if the commit is kept already.
    fn keep(&mut self, revision: Revision, now: DateTime<Utc>) -> Result<KeptHead, StoreError>;

    /// Returns what is kept, oldest first, after removing the entries that are older than git keeps reflogs
    /// (`gc.reflogExpire`, 90 days by default).
    fn kept(&mut self, _now: DateTime<Utc>) -> Result<Vec<KeptHead>, StoreError> {
        Ok(Vec::new())
    }

    /// Removes entries that were [kept](Self::keep).
    fn remove_kept(&mut self, _kept: &[KeptHead]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Carries out an operator's pending decision about the branch; returns whether there was one.
    fn carry_out_decision(&mut self) -> bool {
        false
    }

    /// Notes that readers can now see the branch at this head.
    fn note_readable(&mut self, _head: Option<Revision>) {}

    /// Returns whether the history may contain merges made by the service.
    fn has_merges(&self) -> bool {
        false
    }

    /// Returns the modification time of a file in the work tree; `None` if unknown.
    fn saved_at(&self, _name: &str) -> Option<DateTime<Utc>> {
        None
    }

    /// Returns the author for commits of hand edits: `user.name` and `user.email` of the repository.
    fn hand_edit_author(&mut self) -> Actor;

    /// Starts maintenance that no answer and no write waits for. The engine calls this when idle after a start, a
    /// write or a commit of another process, and otherwise after every few of them. Failures only cost speed.
    fn start_maintenance(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
