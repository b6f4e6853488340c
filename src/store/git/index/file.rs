//! The file of the index: read, locked, written aside and put in its place in one step.
//!
//! A new index keeps the time of the old one: what git could not tell from a change by its time ("racy
//! git") it still can't, so it looks into those files.

use std::fs::{self, File, FileTimes, Metadata};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::store::git::disk::barrier::{make_file, read_if_there, remove_if_there};
use crate::store::git::disk::lock::HeldLock;
use crate::store::git::index::git_index::{GitIndex, UnreadableIndex};
use crate::store::{AtPath as _, StoreError};

/// How far in the past a first index is dated, so that git looks into the files that came with it.
const FIRST_INDEX_AGE: Duration = Duration::from_secs(3);

/// What the file in the making is called; only who holds the lock of the index makes one.
const DRAFT: &str = "index-next";

/// The file of the index, and what is known of it because we wrote it.
#[derive(Debug)]
pub(crate) struct IndexFile {
    pub(crate) path: PathBuf,
    state: PathBuf,
    left: Option<LeftIndex>,
}

impl IndexFile {
    /// The index of this work tree; `state` is the folder for files in the making, on the same file system.
    pub(crate) fn new(git_dir: &Path, state: PathBuf) -> Self {
        Self { path: git_dir.join("index"), state, left: None }
    }

    /// Takes its lock; `wait` is how long to wait for someone else.
    pub(crate) fn lock(&self, wait: Duration) -> Result<HeldLock, StoreError> {
        HeldLock::take(&self.state, &self.path, wait)
    }

    /// Takes its lock unless somebody has it.
    pub(crate) fn try_lock(&self) -> Result<Option<HeldLock>, StoreError> {
        match self.lock(Duration::ZERO) {
            Err(StoreError::Locked { .. }) => Ok(None),
            taken => taken.map(Some),
        }
    }

    /// What it holds; `None` when there is none.
    pub(crate) fn bytes(&self) -> Result<Option<Vec<u8>>, StoreError> {
        read_if_there(&self.path)
    }

    /// What these bytes of it say; without any it is empty.
    pub(crate) fn parse(&self, bytes: Option<Vec<u8>>) -> Result<GitIndex, UnreadableIndex> {
        bytes.map_or_else(|| Ok(GitIndex::empty()), |bytes| parse(&self.path, bytes))
    }

    /// What it says, as [`read`] does.
    pub(crate) fn read(&self) -> Result<Option<GitIndex>, StoreError> {
        read(&self.path)
    }

    /// Whether nobody has written it since we did.
    pub(crate) fn is_as_we_left_it(&self) -> bool {
        let left = self.left.as_ref();
        left.is_some_and(|left| fs::symlink_metadata(&self.path).is_ok_and(|there| left.is(&there)))
    }

    pub(crate) fn draft(&self) -> Result<IndexDraft, StoreError> {
        IndexDraft::make(&self.state)
    }

    /// Puts these bytes in its place; whoever calls has its lock.
    pub(super) fn replace(&self, bytes: &[u8]) -> Result<(), StoreError> {
        self.draft()?.write(&self.path, bytes)?.put(&self.path).map(drop)
    }

    /// Puts a new index in place, releases its lock, and remembers that it is ours.
    pub(crate) fn leave(
        &mut self,
        lock: HeldLock,
        draft: IndexDraft,
        index: &GitIndex,
    ) -> Result<(), StoreError> {
        let draft = draft.write(&self.path, &index.encode())?;
        lock.check()?;
        self.left = LeftIndex::of(draft.put(&self.path)?);
        Ok(())
    }
}

/// What an index says; `None` when there is none, or none that can be edited.
pub(crate) fn read(path: &Path) -> Result<Option<GitIndex>, StoreError> {
    Ok(read_if_there(path)?.and_then(|bytes| parse(path, bytes).ok()))
}

/// What the bytes of an index say, with what it shares with others where it is split.
pub(crate) fn parse(path: &Path, bytes: Vec<u8>) -> Result<GitIndex, UnreadableIndex> {
    GitIndex::parse_with(bytes, |name| read_if_there(&path.with_file_name(name)).ok().flatten())
}

/// The index file that we wrote last.
#[derive(Debug)]
struct LeftIndex {
    written: Metadata,
    // Held open, so that its number can't become another file's.
    _open: File,
}

impl LeftIndex {
    fn of(file: File) -> Option<Self> {
        Some(Self { written: file.metadata().ok()?, _open: file })
    }

    /// Whether this is it, and nobody has written into it.
    fn is(&self, there: &Metadata) -> bool {
        let look = |it: &Metadata| (it.dev(), it.ino(), it.len(), it.mtime(), it.mtime_nsec());
        look(&self.written) == look(there)
    }
}

/// An index in the making, empty until it is [written](Self::write); dropped before it is
/// [put](Self::put) in its place, it is removed.
#[must_use]
#[derive(Debug)]
pub(crate) struct IndexDraft {
    path: PathBuf,
    file: Option<File>,
}

impl IndexDraft {
    fn make(state: &Path) -> Result<Self, StoreError> {
        let path = state.join(DRAFT);
        let file = make_file(&path).at("make", &path)?;
        Ok(Self { path, file: Some(file) })
    }

    /// Writes what is to be in the place of the index; whoever calls has the lock.
    fn write(self, index: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        let time = fs::metadata(index).and_then(|old| old.modified()).unwrap_or_else(|_| before_now());
        let mut file = self.file();
        let written =
            file.write_all(bytes).and_then(|()| file.set_times(FileTimes::new().set_modified(time)));
        written.at("write", &self.path)?;
        Ok(self)
    }

    /// Puts it in the place of the index; returns the open file.
    fn put(mut self, index: &Path) -> Result<File, StoreError> {
        fs::rename(&self.path, index).at("replace", index)?;
        Ok(self.file.take().expect("there until it is put in its place"))
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("there until it is put in its place")
    }
}

impl Drop for IndexDraft {
    fn drop(&mut self) {
        if self.file.is_some() {
            drop(remove_if_there(&self.path));
        }
    }
}

/// Removes what a killed process of ours left.
pub(crate) fn remove_left(state: &Path) -> Result<(), StoreError> {
    remove_if_there(&state.join(DRAFT))
}

#[expect(clippy::disallowed_methods, reason = "a time for the file system, which no one is told")]
fn before_now() -> SystemTime {
    SystemTime::now() - FIRST_INDEX_AGE
}
