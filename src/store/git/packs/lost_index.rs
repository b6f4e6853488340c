//! Packs of ours that have lost their index get it anew.
//!
//! Without an index git does not see a pack, and the history has a hole. Nothing is lost, as the pack says
//! all that an index does: libgit2 reads each object of it, makes its name from its content, and compares
//! the checksum at the end (gitformat-pack(5)). What is not whole gets no index.
//!
//! An index is lost to a kill between the two names of a pack, to people, and to a `git gc`: at its end that lists the
//! folder and removes each index beside which it has seen no pack (`clean_pack_garbage` in `builtin/gc.c`,
//! `report_pack_garbage` in `packfile.c`), and of two names that are given in the middle of a long listing it may see
//! the second and not the first (readdir(3p)). It is looked for at the start, before anything is read, and again and
//! again while there are writes or git collects. Packs of others are theirs to mend: one without an index may be about
//! to get it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};

use git2::{ErrorClass, Indexer};

use crate::store::StoreError;
use crate::store::git::disk::barrier::{Unflushed, remove_if_there};
use crate::store::git::packs::store::{Packs, is_ours};

impl Packs {
    /// Mends what was left by whoever was here before, also packs that were in the making.
    /// Only for the holder of the service lock.
    pub(crate) fn mend_left(&self) -> Result<(), StoreError> {
        for name in self.without_index() {
            let is_marked = self.keep_files.is_ours(&name);
            let is_ours = is_marked || is_ours(&name);
            if is_ours && !self.index_anew(&name)? && !is_marked {
                self.tell_damaged(&name);
            }
        }
        Ok(())
    }

    /// Mends packs of ours that are not in the making; answers whether there were any.
    pub(crate) fn mend(&self) -> Result<bool, StoreError> {
        let mut is_mended = false;
        for name in self.without_index() {
            // In this order: an index has its name when the mark goes.
            let is_lost = is_ours(&name)
                && !self.keep_files.is_ours(&name)
                && !self.file(&name, "idx").exists()
                && !self.damaged().contains(&name);
            if !is_lost {
                continue;
            }
            if self.index_anew(&name)? {
                is_mended = true;
            } else {
                self.tell_damaged(&name);
            }
        }
        Ok(is_mended)
    }

    /// The packs beside which no index was seen.
    fn without_index(&self) -> BTreeSet<String> {
        &self.names_with("pack") - &self.names_with("idx")
    }

    /// Makes the index of a pack, durably, unless the pack is damaged or gone; answers whether it did.
    fn index_anew(&self, name: &str) -> Result<bool, StoreError> {
        let pack = self.file(name, "pack");
        let index = match self.index_of(&pack) {
            Ok(index) => index,
            Err(error) if is_damage(&error) => return Ok(false),
            Err(source) => return Err(StoreError::at("make the index of", &pack, source)),
        };
        let draft = Unflushed::write(self.draft_path(name, "idx"), &index)?;
        self.barrier.files(&[&draft])?;
        self.give_name(&draft, name, "idx")?;
        self.barrier.folder(self.folder())?;
        if !pack.exists() {
            // Git has tidied it away meanwhile, its index first.
            remove_if_there(&self.file(name, "idx"))?;
            return Ok(false);
        }
        tracing::warn!(path = %pack.display(), "a pack had lost its index; it was made anew");
        Ok(true)
    }

    /// What the index of a pack is, from nothing but the pack.
    fn index_of(&self, pack: &Path) -> io::Result<Vec<u8>> {
        let scratch = &self.scratch;
        fs::create_dir_all(scratch)?;
        let index = || {
            let mut indexer = Indexer::new(None, scratch, 0, false).map_err(io::Error::other)?;
            io::copy(&mut File::open(pack)?, &mut indexer)?;
            let made = indexer.commit().map_err(io::Error::other)?;
            fs::read(scratch.join(format!("pack-{made}.idx")))
        };
        let index = index();
        fs::remove_dir_all(scratch)?;
        index
    }

    /// Tells of a pack that can't be mended, once.
    fn tell_damaged(&self, name: &str) {
        let path = self.file(name, "pack");
        if path.exists() && self.damaged().insert(name.to_owned()) {
            let path = path.display();
            tracing::warn!(%path, "a pack has lost its index and is damaged, so git can't read it; it is kept");
        }
    }

    fn damaged(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a pack is to blame, or is gone, and not the disk.
fn is_damage(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<git2::Error>());
    error.kind() == io::ErrorKind::NotFound
        || cause.is_some_and(|cause| !matches!(cause.class(), ErrorClass::Os | ErrorClass::NoMemory))
}
