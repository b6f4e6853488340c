//! A folder for what a command makes and looks at, and nobody needs afterwards.

use std::path::{Path, PathBuf};
use std::{fs, io};

use uuid::Uuid;

use crate::cli::note;

/// A new folder, which is gone with all that is in it when this is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it inside a folder; the name begins so.
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
