//! Obsolete packs: all their objects are in another pack, and they are removed when nobody reads them any more.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;

use crate::store::git::disk::barrier::{read_if_there, remove_if_there};
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::object::pack::{NAME_LEN, is_name};
use crate::store::git::packs::geometry::PackSize;
use crate::store::git::packs::store::Packs;
use crate::store::{AtPath as _, StoreError};

/// How many parts of merged packs may be left while writes continue.
const OBSOLETE_LEN_MAX: usize = 300;

/// The name of a pack that is being removed.
const REMOVED: &str = "collectory-removed";

/// How many bytes these may have: the pack of each group contains a whole tree, which is large if there are many
/// collections.
const OBSOLETE_BYTES_MAX: u64 = 512 << 20;

/// Parts of merged packs, oldest merge first, each with the pack that now has its objects.
#[derive(Debug)]
pub(crate) struct ObsoletePacks {
    note: StateFile,
    pub(crate) parts: Vec<(String, String)>,
    /// The total size of the parts merged since the start or the last sweep.
    pub(crate) bytes: u64,
}

impl ObsoletePacks {
    pub(crate) fn read(note: StateFile) -> Self {
        let text = note.read().ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        let pairs = pairs.filter(|(part, whole)| is_name(part.as_bytes()) && is_name(whole.as_bytes()));
        Self {
            note,
            parts: pairs.map(|(part, whole)| (part.to_owned(), whole.to_owned())).collect(),
            bytes: 0,
        }
    }

    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Vec<(String, String)>)) {
        let before = self.parts.len();
        change(&mut self.parts);
        if self.parts.len() != before {
            let text: String = self.parts.iter().map(|(part, whole)| format!("{part} {whole}\n")).collect();
            if let Err(error) = self.note.replace(text.as_bytes()) {
                tracing::warn!(%error, cause = error.cause(), "cannot note which packs are in another one");
            }
        }
    }

    pub(crate) fn add(&mut self, parts: &[PackSize], whole: &str) {
        self.bytes += parts.iter().map(|part| part.bytes).sum::<u64>();
        let parts = parts.iter().map(|part| (part.name.clone(), whole.to_owned()));
        self.change(|obsolete| obsolete.extend(parts));
    }

    pub(crate) const fn len(&self) -> usize {
        self.parts.len()
    }

    /// Reports whether there are so many that they are removed although writes continue.
    pub(crate) const fn are_many(&self) -> bool {
        self.parts.len() > OBSOLETE_LEN_MAX || self.bytes > OBSOLETE_BYTES_MAX
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.parts.iter().any(|(part, _)| part == name)
    }
}

impl Packs {
    /// Removes the parts of merged packs, except those that something has come to depend on; those stay as
    /// duplicates. Returns whether any were removed.
    pub(crate) fn remove_obsolete(&self) -> Result<bool, StoreError> {
        let parts = self.obsolete().parts.clone();
        if parts.is_empty() {
            return Ok(false);
        }
        let names: Vec<String> = parts.iter().map(|(part, _)| part.clone()).collect();
        let free: BTreeSet<String> = self.removable(&names)?.into_iter().collect();
        let mut removed_len = 0;
        // In this order the pack that a part was merged into exists even if it is obsolete itself.
        for (part, whole) in &parts {
            if free.contains(part) && self.is_whole(whole) {
                self.remove(part)?;
                removed_len += 1;
            }
        }
        let mut obsolete = self.obsolete();
        obsolete.change(|obsolete| obsolete.retain(|spare| !parts.contains(spare)));
        obsolete.bytes = 0;
        self.small_len.fetch_add(parts.len() - removed_len, Ordering::Relaxed);
        Ok(removed_len > 0)
    }

    /// Removes a pack whose objects are in another one. The pack is renamed before its index is removed, so that a
    /// kill never leaves a pack without an index, which might look like one that is needed.
    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let (pack, removed) = (self.file(name, "pack"), self.folder().join(REMOVED));
        fs::rename(&pack, &removed).at_if_there("remove", &pack)?;
        for ending in ["idx", "rev"] {
            remove_if_there(&self.file(name, ending))?;
        }
        remove_if_there(&removed)
    }

    /// Returns those of some packs that nothing depends on at this moment; none while git collects garbage.
    pub(crate) fn removable(&self, names: &[String]) -> Result<Vec<String>, StoreError> {
        if self.is_git_collecting() || self.folder().join("multi-pack-index.d").is_dir() {
            return Ok(Vec::new());
        }
        let index = read_if_there(&self.folder().join("multi-pack-index"))?.unwrap_or_default();
        let counted_on = named_in(&index);
        let is_free = |name: &&String| {
            let attached = ["keep", "bitmap", "promisor", "mtimes"];
            let is_attached = attached.iter().any(|ending| self.file(name, ending).exists());
            !is_attached && !counted_on.contains(name.as_bytes())
        };
        Ok(names.iter().filter(is_free).cloned().collect())
    }
}

/// Returns the packs on which a multi-pack index depends: it contains their names verbatim (gitformat-pack(5),
/// chunk `PNAM`).
fn named_in(index: &[u8]) -> BTreeSet<&[u8]> {
    index.windows(NAME_LEN).filter(|bytes| is_name(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::git::disk::barrier::Barrier;

    #[test]
    fn a_multi_pack_index_tells_on_which_packs_it_counts() {
        let names = [format!("pack-{}", "7".repeat(40)), format!("pack-{}", "a8".repeat(20))];
        let index = format!("MIDX\x01PNAM{}.idx\0{}.idx\0\0pack-9", names[0], names[1]);
        assert_eq!(named_in(index.as_bytes()), names.iter().map(String::as_bytes).collect());
        assert_eq!(named_in(b""), BTreeSet::new());
    }

    #[test]
    fn spare_packs_are_many_by_number_or_by_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let note = |name| StateFile::new(folder.path(), name, &Barrier::default());
        let part = |n: usize, bytes| PackSize { objects: 1, bytes, name: format!("pack-{n:040x}") };
        let mut obsolete = ObsoletePacks::read(note("spare-packs"));
        obsolete.add(&(0..OBSOLETE_LEN_MAX).map(|n| part(n, 1)).collect::<Vec<_>>(), "whole");
        assert!(!obsolete.are_many());
        obsolete.add(&[part(OBSOLETE_LEN_MAX, 1)], "whole");
        assert!(obsolete.are_many());
        let mut obsolete = ObsoletePacks::read(note("others"));
        obsolete.add(&[part(0, OBSOLETE_BYTES_MAX)], "whole");
        assert!(!obsolete.are_many());
        obsolete.add(&[part(1, 1)], "whole");
        assert!(obsolete.are_many());
    }
}
