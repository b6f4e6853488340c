//! The index file: read, locked, written as a draft and renamed into place.
//!
//! A new index keeps the modification time of the old one. Git still examines every file whose change it could not
//! detect by that time ("racy git").

use std::fs::{self, File, FileTimes};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::store::git::disk::barrier::{make_file, read_if_there, remove_if_there};
use crate::store::git::disk::lock::HeldLock;
use crate::store::git::disk::stamp::Stamp;
use crate::store::git::index::git_index::{GitIndex, UnreadableIndex};
use crate::store::{AtPath as _, StoreError};

/// How far a first index is backdated, so that git examines the files that were written with it.
const FIRST_INDEX_AGE: Duration = Duration::from_secs(3);

/// The name of the draft; only the holder of the index lock makes one.
const DRAFT: &str = "index-next";

/// The index file, and the version of it that we wrote last.
#[derive(Debug)]
pub(crate) struct IndexFile {
    pub(crate) path: PathBuf,
    state: PathBuf,
    /// Kept open, so that its inode number can't be reused.
    left: Option<(Stamp, File)>,
}

impl IndexFile {
    /// The index of this work tree; `state` is the folder for drafts, on the same file system.
    pub(crate) fn new(git_dir: &Path, state: PathBuf) -> Self {
        Self { path: git_dir.join("index"), state, left: None }
    }

    pub(crate) fn lock(&self, wait: Duration) -> Result<HeldLock, StoreError> {
        HeldLock::take(&self.state, &self.path, wait)
    }

    pub(crate) fn try_lock(&self) -> Result<Option<HeldLock>, StoreError> {
        match self.lock(Duration::ZERO) {
            Err(StoreError::Locked { .. }) => Ok(None),
            taken => taken.map(Some),
        }
    }

    pub(crate) fn read(&self) -> Result<Option<GitIndex>, StoreError> {
        read(&self.path)
    }

    /// Reports whether nobody has written the index since we did.
    pub(crate) fn is_unchanged(&self) -> bool {
        let there = rustix::fs::lstat(&self.path).map(|stat| Stamp::of(&stat));
        self.left.as_ref().is_some_and(|(left, _)| there.is_ok_and(|there| there == *left))
    }

    /// Replaces the index by these bytes and returns the open file; the caller holds the lock.
    pub(super) fn replace(&self, bytes: &[u8]) -> Result<File, StoreError> {
        let draft = self.state.join(DRAFT);
        let put = || {
            let old = fs::metadata(&self.path).and_then(|old| old.modified());
            let times = FileTimes::new().set_modified(old.unwrap_or_else(|_| before_now()));
            let mut file = make_file(&draft).at("make", &draft)?;
            file.write_all(bytes).and_then(|()| file.set_times(times)).at("write", &draft)?;
            fs::rename(&draft, &self.path).at("replace", &self.path)?;
            Ok(file)
        };
        put().inspect_err(|_| drop(remove_if_there(&draft)))
    }

    /// Puts a new index in place and remembers that the index is ours; the caller holds the lock.
    pub(crate) fn commit(&mut self, lock: &HeldLock, index: &GitIndex) -> Result<(), StoreError> {
        let bytes = index.encode();
        lock.check()?;
        let file = self.replace(&bytes)?;
        self.left = rustix::fs::fstat(&file).ok().map(|stat| (Stamp::of(&stat), file));
        Ok(())
    }
}

/// Reads an index; `None` if there is none, or none that can be edited.
pub(crate) fn read(path: &Path) -> Result<Option<GitIndex>, StoreError> {
    Ok(read_if_there(path)?.and_then(|bytes| parse(path, Some(bytes)).ok()))
}

/// Parses the bytes of an index, together with the shared index if it is split; no bytes give an empty index.
pub(crate) fn parse(path: &Path, bytes: Option<Vec<u8>>) -> Result<GitIndex, UnreadableIndex> {
    let Some(bytes) = bytes else { return Ok(GitIndex::empty()) };
    GitIndex::parse_with(bytes, |name| read_if_there(&path.with_file_name(name)).ok().flatten())
}

/// Like [`parse`], and refuses an index with a wrong checksum: written again, the damage would be declared sound.
pub(crate) fn parse_verified(path: &Path, bytes: Option<Vec<u8>>) -> Result<GitIndex, UnreadableIndex> {
    if bytes.as_deref().is_some_and(GitIndex::is_torn) {
        return Err(UnreadableIndex::Damaged);
    }
    parse(path, bytes)
}

/// Removes the draft that a killed process of ours left.
pub(crate) fn remove_left(state: &Path) -> Result<(), StoreError> {
    remove_if_there(&state.join(DRAFT))
}

#[expect(clippy::disallowed_methods, reason = "a time for the file system, which no one is told")]
fn before_now() -> SystemTime {
    SystemTime::now() - FIRST_INDEX_AGE
}
