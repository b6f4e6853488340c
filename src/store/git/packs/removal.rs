//! Removes obsolete packs, except those that something depends on.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;

use crate::store::git::disk::barrier::{read_if_there, remove_if_there};
use crate::store::git::object::pack::{NAME_LEN, is_name};
use crate::store::git::packs::store::Packs;
use crate::store::{AtPath as _, StoreError};

/// The name of a pack that is being removed.
const REMOVED: &str = "collectory-removed";

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
            if free.contains(part) && self.is_whole(whole)? {
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
            let is_attached = attached.iter().any(|ending| self.has(name, ending).unwrap_or(true));
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

    #[test]
    fn a_multi_pack_index_tells_on_which_packs_it_counts() {
        let names = [format!("pack-{}", "7".repeat(40)), format!("pack-{}", "a8".repeat(20))];
        let index = format!("MIDX\x01PNAM{}.idx\0{}.idx\0\0pack-9", names[0], names[1]);
        assert_eq!(named_in(index.as_bytes()), names.iter().map(String::as_bytes).collect());
        assert_eq!(named_in(b""), BTreeSet::new());
    }
}
