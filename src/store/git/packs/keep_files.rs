//! Packs that nobody may remove for now: the `.keep` files of ours.
//!
//! Between a pack's writing and the branch's move nothing refers to its objects, and a `git gc --prune=now` of that
//! instant would remove them. A `.keep` beside a pack makes git leave it alone (git-index-pack(1), `--keep`). Ours is
//! there before the pack gets its name, so what has it and is not whole was being made when we were killed.
//!
//! A person's own `.keep` is never removed, so ours must be told from it, also after a power cut, which makes an empty
//! file of one that nobody flushed. So there is one such file in our own folder, flushed once, and the marks are
//! further names (hard links) of it.

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

/// Writes a mark that is a file of its own, so that it can be told from a person's after a power cut.
fn write_whole(path: &Path) -> io::Result<()> {
    let mut file = create_own(path)?;
    file.write_all(REASON).and_then(|()| file.sync_data())
}

impl KeepFiles {
    pub(crate) fn new(layout: &Layout, barrier: &Barrier) -> Self {
        Self { folder: layout.packs(), original: StateFile::new(&layout.state(), "mark", barrier) }
    }

    /// Makes what the marks are names of, durably, unless it is there.
    pub(crate) fn prepare(&self) -> Result<(), StoreError> {
        match self.original.read()? {
            Some(reason) if reason == REASON => Ok(()),
            _ => self.original.replace(REASON),
        }
    }

    /// Marks a pack, there or about to be.
    pub(crate) fn put(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        match hard_link(self.original.path(), &path) {
            Ok(()) => Ok(()),
            // Whoever marked it, it is kept.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // The packs are on a file system of their own, or somebody has cleared our folder.
            Err(_) => write_whole(&path).at("write", &path),
        }
    }

    /// Takes a mark of ours back; a person's stays.
    pub(crate) fn remove(&self, name: &str) {
        if self.is_ours(name)
            && let Err(error) = remove_if_there(&self.path(name))
        {
            tracing::warn!(%error, "a pack stays marked to be kept; the next start tries again");
        }
    }

    pub(crate) fn is_ours(&self, name: &str) -> bool {
        matches!(read_if_there(&self.path(name)), Ok(Some(reason)) if reason == REASON)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.keep"))
    }
}
