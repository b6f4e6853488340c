//! Our `.keep` files, which protect packs from being removed.
//!
//! Between the writing of a pack and the move of the branch nothing refers to the pack's objects, and
//! `git gc --prune=now` at that moment would remove them. A `.keep` file beside a pack makes git leave it alone
//! (git-index-pack(1), `--keep`). Ours is created before the pack gets its name, so an incomplete pack that has one
//! was being written when the process was killed.
//!
//! A person's own `.keep` is never removed, so ours must be distinguishable from it, also after a power cut, which
//! truncates a file that was not flushed. So our own folder contains one such file, which is flushed once, and our
//! `.keep` files are hard links to it.

use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::store::git::disk::barrier::{Barrier, read_if_there, remove_if_there};
use crate::store::git::disk::links::hard_link;
use crate::store::git::disk::open::create_own;
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::repo::layout::Layout;
use crate::store::{AtPath as _, StoreError};

const REASON: &[u8] = b"collectory\n";

#[derive(Debug)]
pub(crate) struct KeepFiles {
    folder: PathBuf,
    original: StateFile,
}

/// Writes a `.keep` file that is not a hard link, and flushes it so that it is recognised after a power cut.
fn write_whole(path: &Path) -> io::Result<()> {
    let mut file = create_own(path)?;
    file.write_all(REASON).and_then(|()| file.sync_data())
}

impl KeepFiles {
    pub(crate) fn new(layout: &Layout, barrier: &Barrier) -> Self {
        Self { folder: layout.packs(), original: StateFile::new(&layout.state(), "mark", barrier) }
    }

    /// Creates the file that the `.keep` files link to, durably, unless it exists.
    pub(crate) fn prepare(&self) -> Result<(), StoreError> {
        match self.original.read()? {
            Some(reason) if reason == REASON => Ok(()),
            _ => self.original.replace(REASON),
        }
    }

    /// Creates the `.keep` file of a pack that exists or is about to.
    pub(crate) fn put(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        match hard_link(self.original.path(), &path) {
            Ok(()) => Ok(()),
            // The pack is protected, no matter who created the file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // The packs are on another file system, or our folder has been cleared.
            Err(_) => write_whole(&path).at("write", &path),
        }
    }

    /// Removes our `.keep` file of a pack; a person's stays.
    pub(crate) fn remove(&self, name: &str) {
        let removed = self.is_ours(name).and_then(|is_ours| match is_ours {
            true => remove_if_there(&self.path(name)),
            false => Ok(()),
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "a pack stays marked to be kept; the next start tries again");
        }
    }

    pub(crate) fn is_ours(&self, name: &str) -> Result<bool, StoreError> {
        Ok(read_if_there(&self.path(name))?.is_some_and(|reason| reason == REASON))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.keep"))
    }
}
