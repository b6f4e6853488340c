//! Small packs of ours are merged.
//!
//! One pack a group is cheap to write and poison to keep: every reader looks through all of them.
//! [`Packs::merge_small`] merges the small ones, on the thread of `runner` and beside whatever the
//! writer does, and touches only packs that we wrote.
//!
//! A `git fsck` that has looked which packs there are fails when one goes before it is read. So the
//! parts of a merged pack are not removed at once: they are [spare](Packs::sweep) until the service
//! has had nothing to do for a while, or ends, or there are many of them and writes go on, when a
//! check would not be expected to stand still.
//!
//! Merging is safe against a kill at any instant. The merged pack is on disk before the first of
//! its parts is noted to be spare, and the same object in two packs is harmless. Spare parts are removed
//! at the next start, if what they were merged into is there.
//! Merging is safe beside the writer, whose newest pack is marked. It is safe beside a `git gc` or
//! `git repack` of a person: while git says in `gc.pid` that it collects, nothing is merged; a part
//! that vanishes while it is read ends the attempt; and a pack that has anything to it but its index
//! (`.keep`, `.bitmap`, `.promisor`, `.mtimes`) or that a multi-pack index counts on is left alone.
//! All that is asked for once more right before the parts are removed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::StoreError;
use crate::store::git::disk::barrier::{Barrier, remove_if_there};
use crate::store::git::maintenance::repack::merge;
use crate::store::git::packs::geometry::{MERGED_BYTES_MAX, Sized, chosen, objects_of};
use crate::store::git::packs::multi_pack_index;
use crate::store::git::packs::store::{PACKS_MAX, Packs, Purpose};

/// A pack that is being removed.
pub(crate) const REMOVED: &str = "collectory-removed";

impl Packs {
    /// Merges small packs of ours once, if there are too many; answers whether that was done.
    pub(crate) fn merge_small(&self, barrier: &Barrier, stop: &AtomicBool) -> Result<bool, StoreError> {
        if self.small_len() <= PACKS_MAX {
            return Ok(false);
        }
        let mut sized = self.mergeable()?;
        if sized.len() <= PACKS_MAX {
            return Ok(false);
        }
        sized.sort_unstable();
        let parts = chosen(&sized);
        let packs: Vec<_> = parts.iter().map(|part| self.file(&part.name, "pack")).collect();
        let Some(merged) = merge(&packs, &self.parts, stop)? else { return Ok(false) };
        let name = self.write_whole(Purpose::Merge, &merged, None, barrier)?;
        self.obsolete().add(parts, &name);
        Ok(true)
    }

    /// Removes the parts of merged packs, but those that somebody has come to count on, which are as
    /// good in two packs. Answers whether there were any.
    pub(crate) fn sweep(&self) -> Result<bool, StoreError> {
        let parts = self.obsolete().parts.clone();
        if parts.is_empty() {
            return Ok(false);
        }
        let names: Vec<String> = parts.iter().map(|(part, _)| part.clone()).collect();
        let free: BTreeSet<String> = self.free(&names)?.into_iter().collect();
        let mut removed = Vec::new();
        // In this order, what a part was merged into is there even if it is spare itself.
        for (part, whole) in &parts {
            if free.contains(part) && self.is_whole(whole) {
                self.remove(part)?;
                removed.push(part);
            }
        }
        self.forget(removed.iter().copied());
        let mut obsolete = self.obsolete();
        obsolete.change(|obsolete| obsolete.retain(|spare| !parts.contains(spare)));
        obsolete.bytes = 0;
        Ok(!removed.is_empty())
    }

    /// Removes a pack whose objects are in another one. The pack goes before its index, by a rename,
    /// so that a kill never leaves the one without the other that might be needed.
    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let (pack, removed) = (self.file(name, "pack"), self.folder().join(REMOVED));
        if let Err(error) = fs::rename(&pack, &removed)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(StoreError::at("remove", &pack, error));
        }
        for ending in ["idx", "rev"] {
            remove_if_there(&self.file(name, ending))?;
        }
        remove_if_there(&removed)
    }

    /// Our packs that may be merged, with their sizes; forgets those that are gone.
    fn mergeable(&self) -> Result<Vec<Sized>, StoreError> {
        let mut ours = self.ours().clone();
        let obsolete = self.obsolete();
        ours.retain(|name| !obsolete.has(name));
        drop(obsolete);
        // One without an index gets it anew, and one in the making has a mark before it has its pack.
        let is_there = |name: &String| ["keep", "pack"].iter().any(|ending| self.file(name, ending).exists());
        let (present, gone): (Vec<String>, Vec<String>) = ours.into_iter().partition(is_there);
        self.forget(gone.iter());
        let len = |name: &String, ending| Some(fs::metadata(self.file(name, ending)).ok()?.len());
        let is_small = |name: &String| len(name, "pack").is_some_and(|bytes| bytes < MERGED_BYTES_MAX);
        let (small, large): (Vec<String>, Vec<String>) = present.into_iter().partition(is_small);
        self.large_len.store(large.len(), Ordering::Relaxed);
        let sized = self.free(&small)?.into_iter().filter_map(|name| {
            let (index_len, bytes) = (len(&name, "idx")?, len(&name, "pack")?);
            Some(Sized { objects: objects_of(index_len), bytes, name })
        });
        Ok(sized.collect())
    }

    /// Those of some packs that nobody counts on at this instant; none while git collects.
    fn free(&self, names: &[String]) -> Result<Vec<String>, StoreError> {
        if self.is_git_collecting() || self.folder().join("multi-pack-index.d").is_dir() {
            return Ok(Vec::new());
        }
        let Some(counted_on) = multi_pack_index::packs_in(self.folder())? else { return Ok(Vec::new()) };
        let is_free = |name: &&String| {
            let attached = ["keep", "bitmap", "promisor", "mtimes"];
            !attached.iter().any(|ending| self.file(name, ending).exists()) && !counted_on.contains(*name)
        };
        Ok(names.iter().filter(is_free).cloned().collect())
    }
}
