//! A tree that can be edited. A change in a folder of many files replaces the bytes of one entry; nothing is parsed
//! or sorted again.

use std::collections::HashSet;
use std::ops::Range;

use crate::store::git::object::tree::{BadTree, Pointer, RawEntry, order, parse_entry};

/// The bytes of a tree and the offsets of its entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawTree {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl RawTree {
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, BadTree> {
        let mut starts = Vec::with_capacity(bytes.len() / 36);
        let (mut at, mut is_sorted, mut last) = (0, true, None);
        while at < bytes.len() {
            starts.push(u32::try_from(at).map_err(|_| BadTree(at))?);
            let entry = parse_entry(&bytes, at)?;
            at += entry.len;
            is_sorted &= last.is_none_or(|last| order(last, entry.place()).is_lt());
            last = Some(entry.place());
        }
        let tree = Self { bytes, starts };
        Ok(if is_sorted { tree } else { tree.sorted() })
    }

    /// Sorts the tree into git's order and keeps the first entry of each name. Entries that other tools left in
    /// another order can then be found, and the next write corrects the order.
    fn sorted(&self) -> Self {
        let mut names = HashSet::new();
        let mut entries: Vec<_> = (0..self.starts.len()).map(|index| (self.entry(index), index)).collect();
        entries.retain(|(entry, _)| names.insert(entry.name));
        entries.sort_by(|(one, _), (two, _)| order(one.place(), two.place()));
        let mut sorted = Self::default();
        for (_, index) in entries {
            sorted.starts.push(as_u32(sorted.bytes.len()));
            sorted.bytes.extend_from_slice(&self.bytes[self.range(index)]);
        }
        sorted
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reports whether there are no entries; in git only the root tree can be empty.
    pub(crate) const fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Iterates over the entries in git's order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RawEntry<'_>> {
        (0..self.starts.len()).map(|index| self.entry(index))
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<Pointer> {
        // A folder of that name is sorted differently than a file of that name.
        [false, true].into_iter().find_map(|folder| {
            let entry = self.entry(self.search(name, folder).ok()?);
            (entry.name == name).then_some(entry.pointer)
        })
    }

    /// Sets the entry of `name`, or removes it if `pointer` is `None`; returns the replaced bytes, in order.
    pub(crate) fn put(&mut self, name: &[u8], pointer: Option<Pointer>) -> Vec<Splice> {
        let mut splices = Vec::new();
        let folder = pointer.is_some_and(|pointer| pointer.is_folder());
        // An entry of the other kind is sorted differently, so it must be removed.
        if let Ok(index) = self.search(name, !folder) {
            splices.push(self.splice(index, true, &[]));
        }
        let entry = pointer.map(|pointer| encode(name, &pointer)).unwrap_or_default();
        match self.search(name, folder) {
            Ok(index) => splices.push(self.splice(index, true, &entry)),
            Err(_) if entry.is_empty() => (),
            Err(index) => splices.push(self.splice(index, false, &entry)),
        }
        splices
    }

    fn splice(&mut self, index: usize, replace: bool, entry: &[u8]) -> Splice {
        let range = if replace { self.range(index) } else { self.start(index)..self.start(index) };
        let (start, old_len) = (range.start, range.len());
        let old = self.bytes.splice(range, entry.iter().copied()).collect();
        if replace {
            self.starts.remove(index);
        }
        let moved = |at: u32| at.wrapping_add(as_u32(entry.len())).wrapping_sub(as_u32(old_len));
        self.starts[index..].iter_mut().for_each(|at| *at = moved(*at));
        if !entry.is_empty() {
            self.starts.insert(index, as_u32(start));
        }
        Splice { at: start, old, new: entry.to_vec() }
    }

    fn search(&self, name: &[u8], folder: bool) -> Result<usize, usize> {
        self.starts.binary_search_by(|start| {
            let entry =
                parse_entry(&self.bytes, *start as usize).expect("entries were checked when they came in");
            order(entry.place(), (name, folder))
        })
    }

    fn start(&self, index: usize) -> usize {
        self.starts.get(index).map_or(self.bytes.len(), |start| *start as usize)
    }

    fn range(&self, index: usize) -> Range<usize> {
        self.start(index)..self.start(index + 1)
    }

    fn entry(&self, index: usize) -> RawEntry<'_> {
        parse_entry(&self.bytes, self.start(index)).expect("entries were checked when they came in")
    }
}

fn as_u32(len: usize) -> u32 {
    u32::try_from(len).expect("a tree of 4 GiB can't be read in the first place")
}

fn encode(name: &[u8], pointer: &Pointer) -> Vec<u8> {
    let mut entry = format!("{:o} ", pointer.mode).into_bytes();
    entry.extend_from_slice(name);
    entry.push(0);
    entry.extend_from_slice(&pointer.oid);
    entry
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Splice {
    pub(crate) at: usize,
    pub(crate) old: Vec<u8>,
    pub(crate) new: Vec<u8>,
}

/// Returns the length of the prefix that some splices left unchanged.
pub(crate) fn same_len_of(splices: &[Splice]) -> usize {
    splices.iter().map(|splice| splice.at).min().unwrap_or(0)
}

/// Returns the tree as it was before some splices.
pub(crate) fn undone(tree: &[u8], splices: &[Splice]) -> Vec<u8> {
    let mut tree = tree.to_vec();
    for Splice { at, old, new } in splices.iter().rev() {
        tree.splice(*at..at + new.len(), old.iter().copied());
    }
    tree
}
