//! A temporary folder for a command.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::cli::note;

/// A new folder that is removed with its contents when dropped.
pub(super) struct Scratch {
    path: PathBuf,
    /// Locked as long as the command runs, so that what a killed one left is recognised.
    _lock: File,
}

impl Scratch {
    /// Creates the folder inside another; its name begins with `name`. Folders of that name that killed commands left
    /// there are removed.
    pub(super) fn inside(folder: &Path, name: &str) -> io::Result<Self> {
        let prefix = format!("{name}-");
        for entry in fs::read_dir(folder)?.flatten() {
            let is_folder = entry.file_type().is_ok_and(|there| there.is_dir());
            if is_folder && entry.file_name().to_string_lossy().starts_with(&prefix) {
                remove_left(&entry.path());
            }
        }
        let path = folder.join(format!("{prefix}{}", Uuid::new_v4().simple()));
        fs::create_dir(&path)?;
        let lock = File::open(&path)?;
        // Where folders can't be locked (NFS), those that are left can't be either, and stay.
        drop(lock.try_lock());
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes a folder that no command holds. One that can't be locked or removed is left for the next.
fn remove_left(path: &Path) {
    let is_left = File::open(path).is_ok_and(|folder| folder.try_lock().is_ok());
    if is_left && let Err(error) = fs::remove_dir_all(path) {
        note(&format!("cannot remove {}: {error}", path.display()));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            note(&format!("cannot remove {}: {error}", self.path.display()));
        }
    }
}
