//! What "on disk" means: what is flushed, in which order, and why that is enough.
//!
//! A group of commits is answered after these flushes, however many commits it has:
//!
//! | | flush | so that after a power cut |
//! |---|---|---|
//! | 1 | the pack's content | its objects are whole |
//! | 2 | the index's content | they can be found |
//! | 3 | the folder `objects/pack` | both files have their names |
//! | 4 | the content of the branch's lock file | the branch never names half an id |
//! | 5 | the branch's reflog, where one is kept | the branch's move has its entry |
//! | 6 | the folder of the branch's file, after the rename | the branch has moved |
//!
//! They are made in three steps, each of which waits for the one before: contents (1, 2 and 4), the
//! folder of the packs and the reflog (3 and 5), the folder of the branch (6). The rename of the
//! lock file comes between the second and the third, so a branch that moved has everything it
//! needs. Within a step no order is needed, since nothing names the new objects before the rename,
//! and so the flushes of a step are made at once: a file system with a journal then often writes
//! for all of them what it would write for each. A file that is new or replaced is flushed before the rename that
//! gives it its name, and a rename is durable once its folder has been flushed (fsync(2): "Calling
//! `fsync()` does not necessarily ensure that the entry in the directory containing the file has also
//! reached disk. For that an explicit `fsync()` on a file descriptor for the directory is also
//! needed"). `fdatasync` is enough for contents: it includes what is needed to read them back, the
//! length among it (fdatasync(2)).
//!
//! What others wrote is not flushed by them: git's own commits, clones and `git init` leave it to
//! the system (`core.fsync` in git-config(1); folders never are). So before our first commit on top
//! of a revision that is not our own, the whole file system is flushed once
//! ([`Barrier::file_system`], syncfs(2)); a chain of our own commits never pays for that.
//!
//! A folder that had to be made is flushed into its parent at once ([`Barrier::make_folder`]).
//!
//! Not flushed, on purpose: the reflog of `HEAD` (it repeats the branch's), the files of the work
//! tree and git's index (all of that can be made again from the commits, and
//! [`catch_up`](crate::store::Journal::catch_up) does), and our own notes. Work tree and index are
//! flushed by [`tend`](crate::store::Journal::tend), when no answer waits.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::store::StoreError;

/// Flushes, and counts what it flushes.
#[derive(Debug, Clone, Default)]
pub(super) struct Barrier {
    flushes: Arc<AtomicU64>,
}

impl Barrier {
    /// How many flushes there have been.
    pub(super) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Flushes the content of a file.
    pub(super) fn file(&self, file: &File, path: &Path) -> Result<(), StoreError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        file.sync_data().map_err(|source| StoreError::at("flush", path, source))
    }

    /// Flushes the contents of several files at once.
    pub(super) fn files(&self, files: &[&Unflushed]) -> Result<(), StoreError> {
        let Some((first, others)) = files.split_first() else { return Ok(()) };
        self.at_once(others, || self.file(&first.file, &first.path))
    }

    /// Flushes the entries of a folder and, at once with them, the contents of some files.
    pub(super) fn folder_and(&self, folder: &Path, files: &[&Unflushed]) -> Result<(), StoreError> {
        self.at_once(files, || self.folder(folder))
    }

    fn at_once(
        &self,
        files: &[&Unflushed],
        here: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        thread::scope(|scope| {
            let flush = |it: &Unflushed| self.file(&it.file, &it.path);
            let spawn = |it| thread::Builder::new().spawn_scoped(scope, move || flush(it));
            let others: Vec<_> = files.iter().map(|it| (*it, spawn(*it))).collect();
            let mut result = here();
            for (it, other) in others {
                result = result.and(match other {
                    Ok(thread) => thread.join().expect("a flush does not panic"),
                    // No thread to be had: one after the other is as good.
                    Err(_) => flush(it),
                });
            }
            result
        })
    }

    /// Flushes the entries of a folder.
    pub(super) fn folder(&self, path: &Path) -> Result<(), StoreError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let flush = || File::open(path)?.sync_all();
        flush().map_err(|source| StoreError::at("flush", path, source))
    }

    /// Flushes everything on the file system of a folder.
    pub(super) fn file_system(&self, path: &Path) -> Result<(), StoreError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let flush = || {
            let folder = File::open(path)?;
            #[cfg(target_os = "linux")]
            return rustix::fs::syncfs(&folder).map_err(io::Error::from);
            #[cfg(not(target_os = "linux"))]
            {
                drop(folder);
                rustix::fs::sync();
                Ok(())
            }
        };
        flush().map_err(|source| StoreError::at("flush the file system of", path, source))
    }

    /// Makes a folder and those above it, each durably.
    pub(super) fn make_folder(&self, path: &Path) -> Result<(), StoreError> {
        if path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(Path::new("/"));
        self.make_folder(parent)?;
        match fs::create_dir(path) {
            Ok(()) => self.folder(parent),
            // Git may have made it just now.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(source) => Err(StoreError::at("make the folder", path, source)),
        }
    }
}

/// A file that was written and is to be flushed yet.
#[must_use]
#[derive(Debug)]
pub(super) struct Unflushed {
    file: File,
    path: PathBuf,
}

impl Unflushed {
    /// Writes a new file; nothing stands at `path` or only what a killed process left.
    pub(super) fn write(path: PathBuf, bytes: &[u8]) -> Result<Self, StoreError> {
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(bytes).map(|()| file)
        };
        remove_if_there(&path)?;
        match write() {
            Ok(file) => Ok(Self { file, path }),
            Err(source) => Err(StoreError::at("write", &path, source)),
        }
    }

    /// A file that was appended to.
    pub(super) const fn appended(file: File, path: PathBuf) -> Self {
        Self { file, path }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub(super) fn into_file(self) -> File {
        self.file
    }
}

/// Removes a file; that it is not there is fine.
pub(super) fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::at("remove", path, error)),
        _ => Ok(()),
    }
}

/// Reads a file; `None` when it is not there.
pub(super) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(source) => Err(StoreError::at("read", path, source)),
    }
}
