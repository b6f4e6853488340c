//! Merges many packs into one.
//!
//! Objects that were merged before are copied as they are; only the distance from a delta to its base is rewritten.
//! Objects from a group's pack are deflated (see `zlib`). The folder's trees change: each group's pack has its newest
//! tree whole, and only the very newest has to be.
//!
//! ```text
//! newest ◀─ 0 ◀─ 0 ◀─ 1 ◀─ 0 ◀─ 0 ◀─ 1 ◀─ 0 …      each against the next newer tree of
//!    ▲──────────────── │                │          at least its own rank
//!                      ▲────────────────
//! ```
//!
//! A chain of deltas, each against the next newer tree, would be as long as the history. So trees have ranks, and each
//! is a delta against the next newer one of at least its rank: a skip list. The rank comes from the tree's id (one in
//! sixteen has rank 1, one in 256 rank 2), so it stays the same however often packs are merged, and what was merged
//! before can be copied.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::StoreError;
use crate::store::git::maintenance::packing::source_packs::{Packed, SourcePacks};
use crate::store::git::object::commit::RawCommit;
use crate::store::git::object::delta;
use crate::store::git::object::id::{ObjectKind, Oid};
use crate::store::git::object::pack::{EncodedPack, PackBuilder, distance};
use crate::store::git::object::tree;
use crate::store::git::object::zlib;
use crate::store::git::odb::inflate::damaged;
use crate::store::git::odb::objects::Objects;

/// The highest rank, which one tree in 4,096 has.
const RANK_MAX: usize = 3;

/// The longest chain of deltas; a whole tree ends it.
const CHAIN_LEN_MAX: usize = 200;

/// Makes one pack of several; `None` if it is to stop or if a pack has been removed meanwhile. `folder` is the path of
/// the folder whose trees become deltas, part by part.
pub(crate) fn merge(
    objects: Objects,
    packs: &[PathBuf],
    folder: &[String],
    stop: &AtomicBool,
) -> Result<Option<EncodedPack>, StoreError> {
    let Some(sources) = SourcePacks::read(objects, packs, stop)? else { return Ok(None) };
    let merged = PackBuilder::deflating(sources.bytes());
    let mut merger = Merger { sources, merged, depths: HashMap::new(), stop };
    let rows = merger.rows(folder)?;
    for (tree, base) in rows.iter().flat_map(|row| bases(row)) {
        merger.each(&tree, |merger| merger.add_tree(&tree, base.as_ref()))?;
    }
    for oid in merger.sources.order() {
        merger.each(&oid, |merger| merger.copy(&oid))?;
    }
    Ok((!merger.is_stopped()).then(|| merger.merged.finish()))
}

/// Returns each tree of a row, newest first, with the one that it becomes a delta against.
fn bases(row: &[Oid]) -> Vec<(Oid, Option<Oid>)> {
    let mut seen = HashSet::new();
    // For each rank, the last tree of at least that rank.
    let mut last = [None; RANK_MAX + 1];
    let mut bases = Vec::new();
    for tree in row.iter().filter(|tree| seen.insert(**tree)) {
        let rank = rank(tree);
        let base = last[..=rank].iter().rev().find_map(|last| *last);
        bases.push((*tree, base));
        last[..=rank].fill(Some(*tree));
    }
    bases
}

fn rank(tree: &Oid) -> usize {
    let digits = tree.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.take(RANK_MAX).take_while(|digit| *digit == 0).count()
}

struct Merger<'a> {
    sources: SourcePacks,
    merged: PackBuilder,
    // How many deltas separate an object of the merged pack from a whole one.
    depths: HashMap<Oid, usize>,
    stop: &'a AtomicBool,
}

impl Merger<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Does a part of the work, unless it is to stop; an error names the pack of the object.
    fn each(&mut self, oid: &Oid, work: impl FnOnce(&mut Self) -> io::Result<()>) -> Result<(), StoreError> {
        if self.is_stopped() {
            return Ok(());
        }
        work(self).map_err(|error| self.sources.failed(oid, error))
    }

    /// Returns the trees of the folder and of those above it, each level newest first, and packs the commits on the
    /// way. Incomplete if it is to stop.
    fn rows(&mut self, folder: &[String]) -> Result<Vec<Vec<Oid>>, StoreError> {
        let order = self.sources.order();
        let (mut commits, mut followed) = (HashMap::new(), HashSet::new());
        for oid in &order {
            self.each(oid, |merger| {
                if merger.sources.packed(oid)?.kind == Ok(ObjectKind::Commit) {
                    let raw = merger.sources.content(oid)?;
                    let commit = RawCommit::parse(&raw, false).map_err(damaged)?;
                    let parent = commit.parents.first().map(|parent| *parent.as_bytes());
                    followed.extend(parent);
                    commits.insert(*oid, (*commit.tree.as_bytes(), parent));
                }
                Ok(())
            })?;
        }
        let mut rows = vec![Vec::new(); folder.len() + 1];
        for newest in order.iter().filter(|oid| !followed.contains(*oid)) {
            let mut next = Some(*newest);
            while let Some((oid, (tree, parent))) = next.and_then(|oid| commits.remove_entry(&oid)) {
                self.each(&oid, |merger| merger.copy(&oid))?;
                self.each(&tree, |merger| merger.add_to_rows(&mut rows, tree, folder))?;
                next = parent;
            }
        }
        Ok(rows)
    }

    fn add_to_rows(&mut self, rows: &mut [Vec<Oid>], root: Oid, folder: &[String]) -> io::Result<()> {
        let mut tree = root;
        for (depth, row) in rows.iter_mut().enumerate() {
            // A tree that is not here came with an earlier commit, or is not ours.
            if !self.sources.has(&tree) {
                break;
            }
            row.push(tree);
            let Some(part) = folder.get(depth) else { break };
            match tree::find(&self.sources.content(&tree)?, part.as_bytes()) {
                Some(pointer) if pointer.is_folder() => tree = pointer.oid,
                _ => break,
            }
        }
        Ok(())
    }

    /// Adds a tree as a delta against `base`; copies it if it is that delta already.
    fn add_tree(&mut self, tree: &Oid, base: Option<&Oid>) -> io::Result<()> {
        let depth = base.and_then(|base| self.depths.get(base)).map_or(0, |depth| depth + 1);
        let base = base.filter(|_| depth < CHAIN_LEN_MAX);
        if let Some(base) = base {
            if self.sources.packed(tree)?.kind == Err(*base) {
                self.depths.insert(*tree, depth);
                return self.copy(tree);
            }
            let (against, content) = (self.sources.content(base)?, self.sources.content(tree)?);
            let delta = delta::between(&against, &content).map_err(io::Error::other)?;
            // If most of it has changed, the whole tree is faster to read and hardly longer.
            if delta.len() < content.len() / 2 {
                self.merged.add_delta(*tree, base, &delta);
                self.depths.insert(*tree, depth);
                return Ok(());
            }
        }
        self.depths.insert(*tree, 0);
        self.merged.add(ObjectKind::Tree, *tree, &self.sources.content(tree)?);
        Ok(())
    }

    /// Adds an object as it is, after its base.
    fn copy(&mut self, oid: &Oid) -> io::Result<()> {
        let mut wanted = vec![*oid];
        while let Some(oid) = wanted.pop() {
            if self.merged.offset(&oid).is_some() {
                continue;
            }
            let Packed { kind, len, head, body } = self.sources.packed(&oid)?;
            let mut head = head.to_vec();
            if let Err(base) = kind {
                let Some(at) = self.merged.offset(&base) else {
                    wanted.extend([oid, base]);
                    continue;
                };
                head.extend(distance((self.merged.len() - at as usize) as u64));
            }
            if zlib::is_untried(body) {
                self.merged.put(oid, &head, &zlib::inflated(body, len)?);
            } else {
                self.merged.add_packed(oid, &head, body);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(number: u16) -> Oid {
        // The digits of the number come first, because they determine the rank.
        let mut oid = [0xff; 20];
        oid[..2].copy_from_slice(&number.to_be_bytes());
        oid
    }

    #[test]
    fn a_merge_that_is_to_stop_makes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut pack = PackBuilder::new();
        pack.add(ObjectKind::Blob, [7; 20], b"seven");
        let pack = pack.finish();
        let path = folder.path().join("x.pack");
        std::fs::write(&path, &pack.pack).unwrap();
        std::fs::write(path.with_extension("idx"), &pack.index).unwrap();
        let objects = || Objects::at(folder.path());
        let merged =
            |stop| merge(objects(), std::slice::from_ref(&path), &[], &AtomicBool::new(stop)).unwrap();
        assert!(merged(false).is_some());
        assert!(merged(true).is_none());
    }

    #[test]
    fn each_tree_is_told_by_the_next_newer_one_of_at_least_its_rank() {
        let [plain, other, first, second] = [tree(0x1000), tree(0x2000), tree(0x0100), tree(0x0010)];
        assert_eq!([plain, first, second].map(|oid| rank(&oid)), [0, 1, 2]);
        let older = tree(0x0200);
        let found = bases(&[plain, first, other, second, plain, older]);
        let expected = [
            (plain, None),
            (first, Some(plain)),
            (other, Some(first)),
            (second, Some(first)),
            (older, Some(second)),
        ];
        assert_eq!(found, expected);
    }
}
