//! Durable bytes: the only part that knows git.
//!
//! The store knows files of one folder and commits of one branch, in bytes and names; what a file
//! means is the business of [`format`](crate::format), and what may happen to it of
//! [`domain`](crate::domain). [`Journal`] is the write side with one owner, the engine's writer
//! thread. [`git`] is the one implementation; tests have another, in memory, with faults on demand.
//!
//! A file is named by its name inside the collections folder (`posts.yaml`), never by a path.

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
use sha1::Digest as _;

use crate::domain::{Actor, Revision, object_id};
pub use crate::store::metrics::Metrics;
pub use archive::{Archive, CommitChanges, FirstParents, NameError, RawSignature, SHALLOW};
use error::AtPath;
pub use error::{Damage, StoreError};
pub use kept::Kept;

object_id! {
    /// The id of a file's content.
    BlobId
}

object_id! {
    /// The id of a folder's tree.
    TreeId
}

impl BlobId {
    /// The id that git gives to this content: the SHA-1 of `blob`, its length and itself
    /// (gitformat "objects", `git hash-object`), with collision detection.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let mut hasher = sha1_checked::Sha1::new();
        hasher.update(format!("blob {}\0", content.len()));
        hasher.update(content);
        Self((*hasher.try_finalize().hash()).into())
    }
}

/// How many bytes of a file are kept: a little more than a collection file may have, so that one that is too large is
/// seen to be.
pub(crate) const FILE_BYTES_KEPT_MAX: usize = 64 * 1024 + 1;

/// A file of the work tree with more bytes is not read whole, which could take any time: it can't be a
/// collection's, and everybody would wait for it. So it can't be committed for a person either.
pub(crate) const FILE_BYTES_READ_MAX: usize = 1 << 20;

/// What stands under a name in the collections folder of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreeEntry {
    /// A regular file, executable or not.
    File(BlobId),
    /// Anything else.
    Special(Special),
}

impl TreeEntry {
    /// The content of a regular file.
    #[must_use]
    pub const fn blob(self) -> Option<BlobId> {
        match self {
            Self::File(blob) => Some(blob),
            Self::Special(_) => None,
        }
    }
}

/// What is no regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Special {
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A repository of its own (gitsubmodules(7)), in a commit only.
    Submodule,
    /// A pipe, in a work tree only, as all that follows.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// A file that can't be read now.
    Unreadable,
}

/// In words, with an article.
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

/// One commit to be made.
#[derive(Debug, Clone)]
pub struct Draft {
    /// File name to its new content, `None` to remove it. Never empty.
    pub files: Vec<(String, Option<Vec<u8>>)>,
    /// The whole commit message.
    pub message: String,
    /// The author; the committer is the service.
    pub author: Actor,
    /// When, for author and committer alike.
    pub at: DateTime<Utc>,
}

/// One commit that was made, durable and on the branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The commit.
    pub revision: Revision,
    /// The content ids of the draft's files, in their order; `None` for a removed one.
    pub blobs: Vec<Option<BlobId>>,
}

/// The metadata of a commit that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The commit.
    pub revision: Revision,
    /// Its parents; none for a root commit, several for a merge.
    pub parents: Vec<Revision>,
    /// Who wrote it.
    pub author: Actor,
    /// Who committed it.
    pub committer: Actor,
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// The whole message, broken UTF-8 replaced.
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

/// What is made of git's locks on the way to the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitLocks {
    /// Git is in the middle of something, so nothing can be said.
    Respect,
    /// Somebody has left them behind, perhaps: it is looked all the same.
    Ignore,
}

/// The work tree of the served branch, compared with the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkTree {
    /// The repository is bare or serves a branch that is not checked out: there are no hand edits
    /// to find. The text says why, for `/readyz` and the log ("the branch `x` is checked out").
    Away(String),
    /// Git is in the middle of changing it (`index.lock` or `HEAD.lock` exists): ask again later.
    Busy,
    /// It shows the served branch.
    Here {
        /// What differs from the head among the files that were looked at, by name.
        edits: Vec<Edit>,
        /// Which of the files that were looked at somebody was in the middle of writing, edits or not,
        /// as far as the system tells, and for how long they have been left alone.
        unfinished: BTreeMap<String, Duration>,
        /// What stands half-done, if anything ("a merge"), for `/readyz` and the log.
        half_done: Option<&'static str>,
    },
}

/// A file of the work tree that differs from the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The name inside the collections folder.
    pub name: String,
    /// What stands there now.
    pub now: Saved,
}

/// What stands under a name in the work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved {
    /// A regular file; what is longer than a collection's may be is cut behind that length, and `blob` is of the whole.
    File {
        /// The id that the content would have in git.
        blob: BlobId,
        /// The content.
        bytes: Vec<u8>,
    },
    /// Nothing; the head has a file.
    Gone,
    /// Anything else.
    Special(Special),
}

impl Saved {
    /// The content, the inner `None` for nothing; of anything but a file there is none to tell.
    #[must_use]
    pub const fn blob(&self) -> Option<Option<BlobId>> {
        match self {
            Self::File { blob, .. } => Some(Some(*blob)),
            Self::Gone => Some(None),
            Self::Special(_) => None,
        }
    }

    /// Whether it is what a revision has under the same name.
    #[must_use]
    pub fn is(&self, entry: Option<TreeEntry>) -> bool {
        match (self, entry) {
            (Self::File { blob, .. }, Some(TreeEntry::File(committed))) => *blob == committed,
            (Self::Special(_), Some(TreeEntry::Special(_))) | (Self::Gone, None) => true,
            (Self::File { .. } | Self::Gone | Self::Special(_), _) => false,
        }
    }
}

/// Takes contents as they are read, from several threads at once: the index of each among those
/// that were asked for, and the content.
pub type EachContent<'a> = dyn Fn(usize, Result<&[u8], StoreError>) + Sync + 'a;

/// What is committed, for the thread that owns the journal; an [`Archive`] is for many.
///
/// # Errors
///
/// Every method returns a [`StoreError`] when the repository can't be read.
pub trait Commits {
    /// What differs in the collections folder between two revisions, in the order of the names;
    /// `None` is the empty folder. Only names that end in `.yaml` or `.yml` and do not begin with
    /// `.` are told.
    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError>;

    /// Reads contents, on all cores when they are many, and hands each with its index to `each`:
    /// [`StoreError::Damaged`] when that one object is lost, another error when it is about more. A
    /// content that is longer than a collection's file may be is cut behind that length.
    fn read(&mut self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError>;

    /// Reads one content.
    fn content(&mut self, blob: BlobId) -> Result<Vec<u8>, StoreError> {
        let found = OnceLock::new();
        self.read(&[blob], &|_, content| drop(found.set(content.map(<[u8]>::to_vec))))?;
        found.into_inner().expect("BUG: a content was left out")
    }

    /// Walks the first-parent history from `from` (the newest, included) and hands each commit
    /// with what it changed in the folder to `each`, until that returns `false`, the root, or a commit
    /// that is damaged.
    fn walk(
        &mut self,
        from: Revision,
        each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
    ) -> Result<(), StoreError>;

    /// Tells each commit of the first-parent history from `from` (the newest, included) until
    /// `each` returns `false` or the root, without looking at what it changed.
    fn log(&mut self, from: Revision, each: &mut dyn FnMut(&Commit) -> bool) -> Result<(), StoreError> {
        self.walk(from, &mut |commit, _| each(commit))
    }

    /// One commit, if it is there.
    fn commit(&mut self, revision: Revision) -> Result<Option<Commit>, StoreError> {
        let mut found = None;
        self.log(revision, &mut |commit| {
            found = Some(commit.clone());
            false
        })?;
        Ok(found)
    }

    /// One commit, if it is there and not damaged: for who looks at several, of which each tells of itself only.
    fn intact_commit(&mut self, revision: Revision) -> Result<Option<Commit>, StoreError> {
        match self.commit(revision) {
            Err(StoreError::Damaged { .. }) => Ok(None),
            commit => commit,
        }
    }

    /// Whether `descendant` reaches `ancestor` (a commit reaches itself).
    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError>;

    /// The commits that `old` reaches and `new` does not (`git rev-list new..old`), `old` first; none when `old` is not there (any more).
    fn commits_beyond(&mut self, old: Revision, new: Revision) -> Result<Vec<Revision>, StoreError>;

    /// The id of what a revision has under a path, if anything.
    fn object_at(&mut self, _revision: Revision, _path: &str) -> Result<Option<BlobId>, StoreError> {
        Ok(None)
    }
}

/// The write side of a repository; one thread owns it.
///
/// # Errors
///
/// Every method returns a [`StoreError`] when the repository can't be read or written.
#[expect(clippy::missing_errors_doc, reason = "said once for the whole trait")]
pub trait Journal: Send + 'static {
    /// The head of the served branch now; `None` before its first commit.
    fn head(&mut self) -> Result<Option<Revision>, StoreError>;

    /// What is committed, whether the branch has come to it or not.
    fn commits(&mut self) -> &mut dyn Commits;

    /// When the branch may go on next, where it may not now; all else goes on until then.
    fn goes_on_at(&self) -> Option<Instant> {
        None
    }

    /// Waits until nobody else holds the index of the work tree, as long as [`append`](Self::append) does.
    fn wait_for_git(&mut self) -> Result<(), StoreError>;

    /// This content, to its last byte, from where it stands unchanged under this name in the work tree; `None` if
    /// it doesn't, or is too large to be read whole.
    fn copy_of(&mut self, _name: &str, _blob: BlobId) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    /// Whether git would have a program change what stands under this name in the work tree before it commits it
    /// (`filter` in gitattributes(5)). No program is run here, so the file is not what git would commit.
    fn is_filtered(&mut self, _name: &str) -> bool {
        false
    }

    /// Makes a chain of commits on top of `expected` and moves the branch to the last one, durably.
    /// Answers after everything is on disk.
    ///
    /// The work tree is brought up to the new head as far as it shows the served branch; trouble
    /// there is logged and made good later, since the commits stand.
    ///
    /// A failed append has left nothing but unreachable objects, or, when only the last flush has
    /// failed, the whole chain on the branch; see [`make_durable`](Self::make_durable).
    fn append(&mut self, expected: Option<Revision>, drafts: &[Draft]) -> Result<Vec<Committed>, StoreError>;

    /// Makes sure that the branch with `head`, and all that it needs, is on disk, for an answer that
    /// rests on what is there already. Costs a flush when that is not known, of a head that is another's,
    /// that was there at the start or whose [`append`](Self::append) failed; otherwise nothing.
    fn make_durable(&mut self, head: Option<Revision>) -> Result<(), StoreError>;

    /// Makes sure that whoever shares the branch has this head too, for an answer that rests on it and promises
    /// nothing to be kept.
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

    /// Brings a work tree that is behind the branch forward (after a crash or a push), where
    /// that is safe. Nothing to do is no error; a lock that somebody holds
    /// is one at once, to be tried again when it goes.
    fn catch_up(&mut self) -> Result<(), StoreError>;

    /// The head that [`note_served`](Self::note_served) noted last of this branch, before a restart or after;
    /// `None` when none is known.
    fn last_served(&mut self) -> Result<Option<Revision>, StoreError> {
        Ok(None)
    }

    /// Notes up to which head the branch is known, so that who is started next can tell whether it was rewritten
    /// meanwhile. Costs no flush: a note that a power cut took back names an older head. Trouble is logged.
    fn note_served(&mut self, _head: Revision) {}

    /// Keeps a commit and all that it reaches from `git gc`, durably, under a name that says when; as it is
    /// where it is kept already.
    fn keep(&mut self, revision: Revision, now: DateTime<Utc>) -> Result<Kept, StoreError>;

    /// What is kept, the oldest first, after what has been so for as long as git keeps reflogs
    /// (`gc.reflogExpire`, 90 days by default) was let go.
    fn kept(&mut self, _now: DateTime<Utc>) -> Result<Vec<Kept>, StoreError> {
        Ok(Vec::new())
    }

    /// Lets go what was [kept](Self::keep).
    fn let_go(&mut self, _kept: &[Kept]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Carries out what an operator has decided about the branch, if anything; says whether there was something.
    fn carry_out_decision(&mut self) -> bool {
        false
    }

    /// Hears that everybody can read what the branch had at this head.
    fn note_readable(&mut self, _head: Option<Revision>) {}

    /// Whether the history may have merges that the service made.
    fn has_merges(&self) -> bool {
        false
    }

    /// When a file of the work tree was saved last, as the file system has it; `None` where nobody knows.
    fn saved_at(&self, _name: &str) -> Option<DateTime<Utc>> {
        None
    }

    /// On whose behalf hand edits are committed: `user.name` and `user.email` of the repository.
    fn person(&mut self) -> Actor;

    /// Begins housekeeping that no answer and no write waits for: the engine calls it when it is idle
    /// after a start, a write or another's commit, and every few of them when it is not. Trouble with it harms nothing but speed.
    fn tend(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A journal that can make commits before it is decided whether its branch goes on to them, for who has to ask
/// somebody else in between.
///
/// # Errors
///
/// Every method returns a [`StoreError`] as those of [`Journal`] do, [`StoreError::HeadMoved`] when the branch is
/// not at `expected`.
pub trait TwoPhase: Journal {
    /// Makes a chain of commits on top of `expected`, durably, and leaves the branch where it is. Commits that the
    /// branch never comes to are unreachable objects, which `git gc` removes.
    fn prepare(&mut self, expected: Option<Revision>, drafts: &[Draft])
    -> Result<Vec<Committed>, StoreError>;

    /// Makes a merge, durably, and leaves the branch where it is: of these two parents, with this tree in which the
    /// files of the draft are put.
    fn join(&mut self, parents: [Revision; 2], tree: TreeId, draft: &Draft) -> Result<Revision, StoreError>;

    /// Moves the branch from `expected` to a commit that is here with all that it reaches, durably; `why` stands in
    /// the reflog. The work tree follows with the next [`catch_up`](Journal::catch_up).
    fn advance(
        &mut self,
        expected: Option<Revision>,
        to: Revision,
        why: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError>;

    /// Fails with [`StoreError::Unsuitable`] where something else stands in a revision than the collections folder.
    fn check_folder(&mut self, revision: Revision) -> Result<(), StoreError>;
}
