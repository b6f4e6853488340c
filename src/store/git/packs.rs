//! Our packs on disk: written, remembered, merged.
//!
//! One pack a group is cheap to write and poison to keep: every reader looks through all of them.
//! [`Packs::tend`] merges the small ones, and touches only packs that we wrote, listed in
//! `collectory/packs`. The list is a note, not a truth: a pack that it forgets (after a power cut)
//! is left to `git gc`, a name in it that is gone (because `git gc` ran) is dropped.
//!
//! Merging is safe against a kill at any instant: the merged pack is on disk before the first of
//! its parts is removed, and the same object in two packs is harmless. It is safe beside a `git gc`
//! or `git repack` of a person: a pack that has anything to it but its index (`.keep`, `.bitmap`,
//! `.promisor`, `.mtimes`) or that a multi-pack index counts on is left alone.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::barrier::{Barrier, read_if_there, remove_if_there};
use super::object::unhex;
use super::pack::Pack;
use super::place::Place;
use super::repack::merge;
use crate::store::StoreError;

/// So many packs of our own are left alone; more are merged.
pub(super) const PACKS_MAX: usize = 24;

/// A pack from this size on is not merged any more: copying it again and again would cost more
/// than having it.
pub(super) const MERGED_BYTES_MAX: u64 = 64 << 20;

/// What the names of files in the making begin with; git takes no notice of such.
const DRAFT_PREFIX: &str = "collectory-";

/// Our packs.
#[derive(Debug)]
pub(super) struct Packs {
    folder: PathBuf,
    list: PathBuf,
    // Names without their endings.
    ours: BTreeSet<String>,
}

impl Packs {
    /// Reads which packs are ours.
    pub(super) fn open(place: &Place) -> Self {
        let list = place.desk().join("packs");
        let text = read_if_there(&list).ok().flatten().unwrap_or_default();
        let is_name =
            |line: &&[u8]| line.strip_prefix(b"pack-").is_some_and(|digits| unhex(digits).is_some());
        let names = text.split(|byte| *byte == b'\n').filter(is_name);
        let ours = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        Self { folder: place.packs(), list, ours }
    }

    /// Removes what a killed process of ours left unfinished. Only for the holder of the service
    /// lock.
    pub(super) fn remove_drafts(&self) -> Result<(), StoreError> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(()) };
        let drafts =
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(DRAFT_PREFIX));
        drafts.map(|entry| entry.path()).try_for_each(|path| remove_if_there(&path))
    }

    /// Writes a pack, durably.
    pub(super) fn write(&mut self, pack: &Pack, barrier: &Barrier) -> Result<(), StoreError> {
        barrier.make_folder(&self.folder)?;
        let draft = |ending: &str| self.folder.join(format!("{DRAFT_PREFIX}new.{ending}"));
        barrier.write(&draft("pack"), &pack.pack)?;
        barrier.write(&draft("idx"), &pack.index)?;
        // Readers look for the index first, so the pack gets its name before.
        for ending in ["pack", "idx"] {
            let path = self.file(&pack.name, ending);
            let finish = || {
                fs::set_permissions(draft(ending), Permissions::from_mode(0o444))?;
                fs::rename(draft(ending), &path)
            };
            finish().map_err(|source| StoreError::at("finish", &path, source))?;
        }
        barrier.folder(&self.folder)?;
        self.remember(&pack.name);
        Ok(())
    }

    /// Merges small packs of ours while there are too many; answers whether any was removed.
    pub(super) fn tend(&mut self, barrier: &Barrier) -> Result<bool, StoreError> {
        if self.ours.len() <= PACKS_MAX {
            return Ok(false);
        }
        let mut sized = self.mergeable()?;
        if sized.len() <= PACKS_MAX {
            return Ok(false);
        }
        sized.sort_unstable();
        let names: Vec<String> = chosen(&sized).iter().map(|(_, name)| name.clone()).collect();
        let parts: Vec<_> = names.iter().map(|name| self.file(name, "pack")).collect();
        let merged = merge(&parts)?;
        self.write(&merged, barrier)?;
        for name in names.iter().filter(|name| **name != merged.name) {
            // The index first, so that nobody finds a pack that is about to go.
            remove_if_there(&self.file(name, "idx"))?;
            remove_if_there(&self.file(name, "pack"))?;
            self.ours.remove(name);
        }
        self.rewrite_list();
        Ok(true)
    }

    /// Our packs that may be merged, with their sizes; forgets those that are gone.
    fn mergeable(&mut self) -> Result<Vec<(u64, String)>, StoreError> {
        let counted_on = read_if_there(&self.folder.join("multi-pack-index"))?.unwrap_or_default();
        let chained = self.folder.join("multi-pack-index.d").is_dir();
        let size = |name: &String| fs::metadata(self.file(name, "pack")).ok().map(|metadata| metadata.len());
        let present: BTreeSet<String> =
            self.ours.iter().filter(|name| size(name).is_some()).cloned().collect();
        let free = |name: &String| {
            let attached = ["keep", "bitmap", "promisor", "mtimes"];
            let needle = format!("{name}.");
            !chained
                && !attached.iter().any(|ending| self.file(name, ending).exists())
                && !counted_on.windows(needle.len()).any(|window| window == needle.as_bytes())
        };
        let sized =
            present.iter().filter(|name| free(name)).filter_map(|name| Some((size(name)?, name.clone())));
        let sized = sized.filter(|(size, _)| *size < MERGED_BYTES_MAX).collect();
        self.ours = present;
        Ok(sized)
    }

    fn file(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{name}.{ending}"))
    }

    fn remember(&mut self, name: &str) {
        if self.ours.insert(name.to_owned()) {
            let add = || {
                OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(&self.list)?
                    .write_all(format!("{name}\n").as_bytes())
            };
            note(&self.list, add());
        }
    }

    fn rewrite_list(&self) {
        let text: String = self.ours.iter().map(|name| format!("{name}\n")).collect();
        let draft = self.list.with_extension("new");
        note(&self.list, fs::write(&draft, text).and_then(|()| fs::rename(&draft, &self.list)));
    }
}

/// A note that can't be kept costs only that a pack is merged by `git gc` instead of us.
fn note(path: &Path, result: std::io::Result<()>) {
    if let Err(error) = result {
        tracing::warn!(%error, path = %path.display(), "cannot note a pack; `git gc` will have to merge it");
    }
}

/// Which of the packs, smallest first, to merge into one: as many as leave the others in a
/// geometric row, each at least twice as large as all smaller ones together (the rule of
/// `git repack --geometric=2`), and never so many that the result is too large.
fn chosen(sized: &[(u64, String)]) -> &[(u64, String)] {
    // Find the largest pack that is smaller than twice the sum of those before it.
    let mut total = 0;
    let mut count = 2;
    for (index, (size, _)) in sized.iter().enumerate() {
        if index > 0 && *size < 2 * total {
            count = index + 1;
        }
        total += size;
    }
    let mut sum = 0;
    let fitting = sized.iter().take(count).take_while(|(size, _)| {
        sum += size;
        sum <= MERGED_BYTES_MAX
    });
    &sized[..fitting.count().max(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(sizes: &[u64]) -> usize {
        let sized: Vec<_> = sizes.iter().map(|size| (*size, String::new())).collect();
        chosen(&sized).len()
    }

    #[test]
    fn packs_of_one_size_are_merged_all_together_and_a_geometric_row_hardly() {
        assert_eq!(sizes(&[1; 30]), 30);
        assert_eq!(sizes(&[1, 2, 6, 18, 54]), 2);
        assert_eq!(sizes(&[1, 1, 1, 6, 18, 54]), 3);
    }

    #[test]
    fn a_merged_pack_stays_below_the_largest_size() {
        let third = MERGED_BYTES_MAX / 3;
        assert_eq!(sizes(&[third; 30]), 3);
    }
}
