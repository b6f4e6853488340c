//! A temporary folder for a command.

use std::path::{Path, PathBuf};
use std::{fs, io};

use uuid::Uuid;

use crate::cli::note;

/// A new folder that is removed with its contents when dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder inside another; its name begins with `name`.
    pub(super) fn inside(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(format!("{name}-{}", Uuid::new_v4().simple()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            note(&format!("cannot remove {}: {error}", self.0.display()));
        }
    }
}
