//! Small packs of ours are merged, on the thread of `runner` and beside whatever the writer does: one pack a group is
//! cheap to write and poison to keep, since every reader looks through all of them.
//!
//! The parts of a merged pack are not removed at once, since a `git fsck` that has listed the packs fails when one
//! goes before it is read: they are [spare](Packs::sweep) until the service has had nothing to do for a while, or
//! ends, or there are many of them.
//!
//! It is safe against a kill at any instant: the merged pack is on disk before a part is noted to be spare, and the
//! same object in two packs is harmless. It is safe beside the writer, whose newest pack is marked, and beside a
//! `git gc` or `git repack` of a person: while git says in `gc.pid` that it collects, nothing is merged; a part that
//! vanishes while it is read ends the attempt; and a pack that has anything to it but its index (`.keep`, `.bitmap`,
//! `.promisor`, `.mtimes`) or that a multi-pack index counts on is left alone. All that is asked for once more right
//! before the parts are removed.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::StoreError;
use crate::store::git::maintenance::repack::merge;
use crate::store::git::packs::geometry::{MERGED_BYTES_MAX, PackSize, chosen, objects_of};
use crate::store::git::packs::store::{PACKS_MAX, Packs};

/// Merges small packs of ours once, if there are too many; answers whether that was done.
pub(crate) fn merge_small(packs: &Arc<Packs>, stop: &AtomicBool) -> Result<bool, StoreError> {
    if packs.small_len.load(Ordering::Relaxed) <= PACKS_MAX {
        return Ok(false);
    }
    let mut sized = mergeable(packs)?;
    if sized.len() <= PACKS_MAX {
        return Ok(false);
    }
    sized.sort_unstable();
    let parts = chosen(&sized);
    let files: Vec<_> = parts.iter().map(|part| packs.file(&part.name, "pack")).collect();
    let Some(merged) = merge(packs.reader(), &files, &packs.parts, stop)? else { return Ok(false) };
    let whole = packs.write(&merged, &[])?;
    packs.small_len.fetch_sub(parts.len(), Ordering::Relaxed);
    packs.obsolete().add(parts, &whole.name);
    Ok(true)
}

/// Our packs that may be merged, with their sizes.
fn mergeable(packs: &Packs) -> Result<Vec<PackSize>, StoreError> {
    let len = |name: &String, ending| Some(fs::metadata(packs.file(name, ending)).ok()?.len());
    let mut small = packs.ours();
    small.retain(|name| !packs.obsolete().has(name));
    small.retain(|name| len(name, "pack").is_some_and(|bytes| bytes < MERGED_BYTES_MAX));
    packs.small_len.store(small.len(), Ordering::Relaxed);
    let sized = packs.free(&small)?.into_iter().filter_map(|name| {
        let (index_len, bytes) = (len(&name, "idx")?, len(&name, "pack")?);
        Some(PackSize { objects: objects_of(index_len), bytes, name })
    });
    Ok(sized.collect())
}
