//! Rebuilds the indexes of our packs that have lost them.
//!
//! Git does not see a pack without an index, so the history has a gap. Nothing is lost, because the pack contains
//! everything that an index does: libgit2 reads each of its objects, computes the object's id from its content, and
//! verifies the checksum at the end (gitformat-pack(5)). An incomplete pack gets no index.
//!
//! An index is lost if the process is killed between naming a pack and naming its index, or if a person removes it,
//! or by `git gc`. At its end `git gc` lists the folder and removes each index beside which it saw no pack
//! (`clean_pack_garbage` in `builtin/gc.c`, `report_pack_garbage` in `packfile.c`). Of two names that are created
//! during a long listing it may see the second and not the first (readdir(3p)). Lost indexes are looked for at the
//! start, before anything is read, and repeatedly while there are writes or git collects garbage. Packs of other
//! programs are left alone: one without an index may be about to get it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};

use git2::{ErrorClass, Indexer};

use crate::store::StoreError;
use crate::store::git::disk::barrier::{UnflushedFile, remove_if_there};
use crate::store::git::packs::store::{Packs, is_ours};

impl Packs {
    /// Repairs our packs that earlier processes left without an index, including packs that were being written.
    /// Only for the holder of the service lock.
    pub(crate) fn rebuild_all_lost_indexes(&self) -> Result<(), StoreError> {
        self.rebuild_where(|name, is_marked| is_marked || is_ours(name)).map(drop)
    }

    /// Repairs our packs that are not being written; returns whether any was repaired.
    pub(crate) fn rebuild_lost_indexes(&self) -> Result<bool, StoreError> {
        self.rebuild_where(|name, is_marked| {
            // In this order: the index has its name by the time the `.keep` file is removed.
            let is_lost = is_ours(name) && !is_marked && !self.file(name, "idx").exists();
            is_lost && !self.damaged().contains(name)
        })
    }

    /// Rebuilds the indexes of the packs without one that `is_lost` selects by name and whether they have a `.keep`
    /// file of ours; returns whether any was rebuilt.
    fn rebuild_where(&self, is_lost: impl Fn(&str, bool) -> bool) -> Result<bool, StoreError> {
        let mut is_mended = false;
        for name in &self.names_with("pack")? - &self.names_with("idx")? {
            let is_marked = self.keep_files.is_ours(&name)?;
            if !is_lost(&name, is_marked) {
                continue;
            }
            match self.index_anew(&name)? {
                true => is_mended = true,
                false if is_marked => {}
                false => self.log_damaged(&name),
            }
        }
        Ok(is_mended)
    }

    /// Rebuilds the index of a pack, durably, unless the pack is damaged or gone; returns whether it did.
    fn index_anew(&self, name: &str) -> Result<bool, StoreError> {
        let pack = self.file(name, "pack");
        let index = match self.index_of(&pack) {
            Ok(index) => index,
            Err(error) if is_damage(&error) => return Ok(false),
            Err(source) => return Err(StoreError::at("make the index of", &pack, source)),
        };
        let draft = UnflushedFile::write(self.draft_path(name, "idx"), &index)?;
        self.barrier.files(&[&draft])?;
        self.give_name(&draft, name, "idx")?;
        self.barrier.folder(self.folder())?;
        if !pack.exists() {
            // Git has removed the pack in the meantime, its index first.
            remove_if_there(&self.file(name, "idx"))?;
            return Ok(false);
        }
        tracing::warn!(path = %pack.display(), "a pack had lost its index; it was rebuilt");
        Ok(true)
    }

    /// Computes the index of a pack from nothing but the pack.
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

    /// Logs a pack that can't be repaired, once.
    fn log_damaged(&self, name: &str) {
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

/// Reports whether the pack is damaged or gone, as opposed to an error of the disk.
fn is_damage(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<git2::Error>());
    error.kind() == io::ErrorKind::NotFound
        || cause.is_some_and(|cause| !matches!(cause.class(), ErrorClass::Os | ErrorClass::NoMemory))
}
