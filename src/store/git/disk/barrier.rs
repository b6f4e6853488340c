//! Durability: what is flushed, in which order, and why that is enough.
//!
//! A group of commits is acknowledged after these flushes, however many commits it has:
//!
//! | step | flush | so that after a power cut |
//! |---|---|---|
//! | 1 | the pack's content | its objects are whole |
//! | 1 | the content of its index | its objects can be found |
//! | 1 | the content of the branch's lock file | the branch never names a partial id |
//! | 2 | the folder `objects/pack` | pack and index have their names |
//! | 3 | the folder of the branch's file, after the rename | the branch has moved |
//! | 3 | the branch's reflog, if one is kept | its entry for the move is whole |
//!
//! The files of step 1, except the lock file, are renamed before step 2. Between steps 2 and 3 the index is
//! replaced, the reflog is written and the lock file is renamed. Written data may reach the disk before it is
//! flushed, so nothing that names new objects is written before everything it needs is durable: `git fsck` rejects
//! a reflog that names a missing commit, and an index that names a missing blob.
//!
//! Within a step no order is needed. The kernel starts to write all files of a step before the first one is waited
//! for, so that a journaling file system commits once. A file is flushed before the rename that gives it its name,
//! and a rename is durable once its folder has been flushed (fsync(2)). `fdatasync` is enough for contents, because
//! it includes their length (fdatasync(2)).
//!
//! Other programs leave flushing to the kernel: git's own commits, clones and `git init` (`core.fsync` in
//! git-config(1); folders are never flushed). So before the first commit on top of a revision that this process has
//! not made, the whole file system is flushed once ([`Barrier::file_system`], syncfs(2)). When a folder has to be
//! created, its parent is flushed at once ([`Barrier::make_folder`]).
//!
//! Deliberately not flushed: the reflog of `HEAD` (it repeats the branch's), the directory entry of a new reflog, the
//! removal of a pack's `.keep`, our own state files after their first version, and the files of the work tree and
//! git's index. `worktree::apply::catch_up` restores those from the commits, and
//! [`start_maintenance`](crate::store::Journal::start_maintenance) flushes them when no client waits. After a power
//! cut git may find the index damaged until the service is started.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::store::git::disk::failpoint::{Failpoint, reach};
use crate::store::git::disk::open;
use crate::store::{AtPath as _, Metrics, StoreError};
use crate::telemetry::metrics::Histogram;

/// Flushes files and folders, and counts the flushes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Barrier {
    /// Where the number and the duration of flushes are recorded.
    metrics: Arc<Metrics>,
}

impl Barrier {
    pub(crate) const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    fn flush(
        &self,
        step: Failpoint<'_>,
        flushed: &Histogram,
        path: &Path,
        flush: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let began = Instant::now();
        let outcome = reach(step, path).and_then(|()| flush());
        flushed.observe(began.elapsed());
        outcome
    }

    pub(crate) fn files(&self, files: &[&UnflushedFile]) -> Result<(), StoreError> {
        files.iter().for_each(|it| it.begin_writing());
        let flushed = &self.metrics.files_flushed;
        files.iter().try_for_each(|it| {
            self.flush(Failpoint::Flush, flushed, &it.path, || it.file.sync_data()).at("flush", &it.path)
        })
    }

    pub(crate) fn folder(&self, path: &Path) -> Result<(), StoreError> {
        let flushed = &self.metrics.folders_flushed;
        self.flush(Failpoint::Flush, flushed, path, || File::open(path)?.sync_all()).at("flush", path)
    }

    /// Flushes the whole file system that contains a folder.
    pub(crate) fn file_system(&self, path: &Path) -> Result<(), StoreError> {
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
        self.flush(Failpoint::FlushFileSystem, &self.metrics.file_systems_flushed, path, flush)
            .at("flush the file system of", path)
    }

    /// Creates a folder and its missing ancestors below `base`, as [`make_folders`] does, each durably.
    pub(crate) fn make_folder(&self, base: &Path, path: &Path) -> Result<(), StoreError> {
        make_folders(base, path)?.iter().try_for_each(|parent| self.folder(parent))
    }
}

/// Creates a folder and its missing ancestors below `base`. `base` itself is not created, so that a repository that
/// is temporarily absent is not recreated. Returns the parents of the new folders.
pub(crate) fn make_folders(base: &Path, path: &Path) -> Result<Vec<PathBuf>, StoreError> {
    if path == base || path.is_dir() {
        return Ok(Vec::new());
    }
    let parent = path.parent().unwrap_or(base);
    let mut changed = make_folders(base, parent)?;
    match fs::create_dir(path) {
        Ok(()) => {
            changed.push(parent.to_owned());
            Ok(changed)
        }
        // Git may have created it at the same time.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(changed),
        Err(error) => Err(error).at("make the folder", path),
    }
}

#[must_use]
#[derive(Debug)]
pub(crate) struct UnflushedFile {
    file: File,
    path: PathBuf,
}

impl UnflushedFile {
    /// Writes a new file; at `path` there is nothing, or only what a killed process left.
    pub(crate) fn write(path: PathBuf, bytes: &[u8]) -> Result<Self, StoreError> {
        let written = make_file(&path).and_then(|mut file| file.write_all(bytes).map(|()| file));
        Ok(Self { file: written.at("write", &path)?, path })
    }

    pub(crate) fn appended(file: File, path: PathBuf) -> Self {
        Self { file, path }
    }

    /// Asks the kernel to start writing the content, without waiting. Advising that the pages are no longer needed
    /// starts their writeback (`generic_fadvise` in `mm/fadvise.c`); they stay in memory until they are written.
    fn begin_writing(&self) {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed) {
            tracing::debug!(%error, path = %self.path.display(), "a file is written only when it is flushed");
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn into_file(self) -> File {
        self.file
    }
}

/// Creates a new file where nothing exists except perhaps a leftover of a killed process. The leftover is removed
/// and not overwritten, because it may be a hard link to a file in use.
pub(crate) fn make_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

pub(crate) fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).at_if_there("remove", path).map(drop)
}

pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    if_there(path, open::read(path))
}

pub(crate) fn read_own_if_there(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    if_there(path, open::read_own(path))
}

fn if_there(path: &Path, read: io::Result<Vec<u8>>) -> Result<Option<Vec<u8>>, StoreError> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error).at("read", path),
    }
}
