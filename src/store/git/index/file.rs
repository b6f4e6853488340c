//! The file of the index: written aside and put in its place in one step.
//!
//! A new index keeps the time of the old one: what git could not tell from a change by its time ("racy
//! git") it still can't, so it looks into those files.

use std::fs::{self, File, FileTimes};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::store::StoreError;
use crate::store::git::disk::barrier::{make_file, remove_if_there};
use crate::store::git::index::rollback::BEFORE;

/// How far in the past a first index is dated, so that git looks into the files that came with it.
const FIRST_INDEX_AGE: Duration = Duration::from_secs(3);

/// For what an index is written; each has its own name for the file in the making.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is put ahead of the branch.
    Ahead,
    /// It stays.
    Last,
}

impl Purpose {
    const fn name(self) -> &'static str {
        match self {
            Self::Ahead => "index-draft",
            Self::Last => "index-next",
        }
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
    /// Makes the file.
    pub(crate) fn make(desk: &Path, purpose: Purpose) -> Result<Self, StoreError> {
        let path = desk.join(purpose.name());
        let file = make_file(&path).map_err(|source| StoreError::at("make", &path, source))?;
        Ok(Self { path, file: Some(file) })
    }

    /// Writes what is to be in the place of the index; whoever calls has the lock.
    pub(crate) fn write(self, index: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        let time = fs::metadata(index).and_then(|old| old.modified()).unwrap_or_else(|_| before_now());
        let mut file = self.file();
        let written =
            file.write_all(bytes).and_then(|()| file.set_times(FileTimes::new().set_modified(time)));
        written.map_err(|source| StoreError::at("write", &self.path, source))?;
        Ok(self)
    }

    /// Puts it in the place of the index; returns the open file.
    pub(crate) fn put(mut self, index: &Path) -> Result<File, StoreError> {
        fs::rename(&self.path, index).map_err(|source| StoreError::at("replace", index, source))?;
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
pub(crate) fn remove_left(desk: &Path) -> Result<(), StoreError> {
    let left = [Purpose::Ahead.name(), Purpose::Last.name(), BEFORE].map(|name| desk.join(name));
    left.iter().try_for_each(|path| remove_if_there(path))
}

#[expect(clippy::disallowed_methods, reason = "a time for the file system, which no one is told")]
fn before_now() -> SystemTime {
    SystemTime::now() - FIRST_INDEX_AGE
}
