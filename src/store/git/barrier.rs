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
//! 1 to 3 end before 4 begins to matter: the rename of the lock file comes last, so a branch that
//! moved has everything it needs. Within 1 to 3 no order is needed, since nothing names the new
//! objects before the rename. A file that is new or replaced is flushed before the rename that
//! gives it its name, and a rename is durable once its folder has been flushed (fsync(2): "Calling
//! fsync() does not necessarily ensure that the entry in the directory containing the file has also
//! reached disk. For that an explicit fsync() on a file descriptor for the directory is also
//! needed"). `fdatasync` is enough for contents: it includes what is needed to read them back, the
//! length among it (fdatasync(2)).
//!
//! A folder that had to be made is flushed into its parent at once ([`Barrier::make_folder`]).
//!
//! Not flushed, on purpose: the reflog of `HEAD` (it repeats the branch's), the files of the work
//! tree and git's index (all of that can be made again from the commits, and
//! [`catch_up`](crate::store::Journal::catch_up) does), and our own notes.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

    /// Flushes the entries of a folder.
    pub(super) fn folder(&self, path: &Path) -> Result<(), StoreError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let flush = || File::open(path)?.sync_all();
        flush().map_err(|source| StoreError::at("flush", path, source))
    }

    /// Writes a new file and flushes its content; nothing stands at `path` or only what a killed
    /// process left.
    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let failed = |source| StoreError::at("write", path, source);
        remove_if_there(path)?;
        let mut file = File::create_new(path).map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        self.file(&file, path)
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
