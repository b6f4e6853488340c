//! Merges small packs of ours on the thread of `runner`, while the writer continues. One pack per group is cheap to
//! write, but slows down every reader, which looks through all packs.
//!
//! The parts of a merged pack are not removed at once, because a `git fsck` that has listed the packs fails if one
//! vanishes before it is read. They stay [obsolete](Packs::remove_obsolete) until the service has been idle for a
//! while, ends, or has many of them.
//!
//! A kill at any instant is safe: the merged pack is on disk before a part is recorded as obsolete, and an object in
//! two packs is harmless. The writer is safe, because its newest pack has a keep file. A person's `git gc` or `git
//! repack` is safe too: while `gc.pid` says that git collects garbage, nothing is merged; a part that vanishes while
//! it is read ends the attempt; and a pack with any file but its index (`.keep`, `.bitmap`, `.promisor`, `.mtimes`),
//! or in a multi-pack index, is left alone. All of that is checked again right before the parts are removed.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::StoreError;
use crate::store::git::maintenance::packing::repack::merge;
use crate::store::git::packs::geometry::{MERGED_BYTES_MAX, PackSize, objects_of, packs_to_merge};
use crate::store::git::packs::store::{PACKS_MAX, Packs};

/// Merges small packs of ours once, if there are too many; returns whether it did.
pub(crate) fn merge_small(packs: &Arc<Packs>, stop: &AtomicBool) -> Result<bool, StoreError> {
    if packs.small_len.load(Ordering::Relaxed) <= PACKS_MAX {
        return Ok(false);
    }
    let mut sized = mergeable(packs)?;
    if sized.len() <= PACKS_MAX {
        return Ok(false);
    }
    sized.sort_unstable();
    let parts = packs_to_merge(&sized);
    let files: Vec<_> = parts.iter().map(|part| packs.file(&part.name, "pack")).collect();
    let Some(merged) = merge(packs.reader(), &files, &packs.parts, stop)? else { return Ok(false) };
    let whole = packs.write(&merged, &[])?;
    packs.small_len.fetch_sub(parts.len(), Ordering::Relaxed);
    packs.obsolete().add(parts, &whole.name);
    Ok(true)
}

/// Returns our packs that may be merged, with their sizes.
fn mergeable(packs: &Packs) -> Result<Vec<PackSize>, StoreError> {
    let len = |name: &String, ending| Some(fs::metadata(packs.file(name, ending)).ok()?.len());
    let mut small = packs.ours();
    small.retain(|name| !packs.obsolete().has(name));
    small.retain(|name| len(name, "pack").is_some_and(|bytes| bytes < MERGED_BYTES_MAX));
    packs.small_len.store(small.len(), Ordering::Relaxed);
    let sized = packs.removable(&small)?.into_iter().filter_map(|name| {
        let (index_len, bytes) = (len(&name, "idx")?, len(&name, "pack")?);
        Some(PackSize { objects: objects_of(index_len), bytes, name })
    });
    Ok(sized.collect())
}
