//! Tree objects as raw bytes.
//!
//! A tree is a sequence of entries `<mode in octal> <name>\0<20 bytes of id>`, sorted by name as
//! bytes, where the name of a folder counts as if it ended in `/` (`base_name_compare` in git's
//! `read-cache.c`, `verify_ordered` in `fsck.c`). [`RawTree`] keeps those very bytes, so a write to
//! a folder of many files splices one entry and hashes; nothing is parsed or sorted again.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::CStr;
use std::ops::Range;

use crate::store::git::object::id::Oid;
use crate::store::{BlobId, Special, TreeEntry};

pub(crate) const FOLDER: u32 = 0o040_000;
pub(crate) const FILE: u32 = 0o100_644;
pub(crate) const EXECUTABLE: u32 = 0o100_755;
/// The mode of a symbolic link's entry.
pub(crate) const LINK: u32 = 0o120_000;
/// The mode of a submodule's entry.
const SUBMODULE: u32 = 0o160_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// The mode, as git writes it.
    pub(crate) mode: u32,
    pub(crate) oid: Oid,
}

impl Pointer {
    pub(crate) const fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    pub(crate) const fn is_folder(&self) -> bool {
        self.mode & 0o170_000 == FOLDER
    }

    /// Whether it is a submodule: a commit of another repository.
    pub(crate) const fn is_submodule(&self) -> bool {
        self.canonical_mode() == SUBMODULE
    }

    /// The mode that git takes it for (`canon_mode` in `cache.h`): other tools have written files with
    /// `100664` and more.
    pub(crate) const fn canonical_mode(&self) -> u32 {
        match self.mode & 0o170_000 {
            0o100_000 if self.mode & 0o100 == 0 => FILE,
            0o100_000 => EXECUTABLE,
            kind @ (FOLDER | LINK) => kind,
            _ => SUBMODULE,
        }
    }

    /// The same as the index has it.
    pub(crate) const fn canonical(self) -> Self {
        Self { mode: self.canonical_mode(), oid: self.oid }
    }

    /// The id of the content, of a file or a symbolic link.
    pub(crate) const fn blob(&self) -> BlobId {
        BlobId::new(self.oid)
    }

    /// What the store tells of it.
    pub(crate) const fn entry(&self) -> TreeEntry {
        match self.canonical_mode() {
            FILE | EXECUTABLE => TreeEntry::File(BlobId::new(self.oid)),
            FOLDER => TreeEntry::Special(Special::Folder),
            LINK => TreeEntry::Special(Special::Link),
            _ => TreeEntry::Special(Special::Submodule),
        }
    }
}

/// One entry, borrowed from the bytes of its tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// The name, any bytes but `/` and NUL.
    pub(crate) name: &'a [u8],
    pub(crate) pointer: Pointer,
    len: usize,
}

impl<'a> Entry<'a> {
    /// What it is sorted by.
    const fn place(&self) -> (&'a [u8], bool) {
        (self.name, self.pointer.is_folder())
    }
}

/// A place of a tree where bytes were replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Splice {
    pub(crate) at: usize,
    pub(crate) old: Vec<u8>,
    pub(crate) new: Vec<u8>,
}

/// Up to where a tree is what it was before some splices.
pub(crate) fn same_len_of(splices: &[Splice]) -> usize {
    splices.iter().map(|splice| splice.at).min().unwrap_or(0)
}

/// What a tree was before some splices.
pub(crate) fn undone(tree: &[u8], splices: &[Splice]) -> Vec<u8> {
    let mut tree = tree.to_vec();
    for Splice { at, old, new } in splices.iter().rev() {
        tree.splice(*at..at + new.len(), old.iter().copied());
    }
    tree
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tree object is damaged at byte {0}; `git fsck --full` tells more")]
pub(crate) struct BadTree(usize);

/// The bytes of a tree and where its entries begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawTree {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl RawTree {
    /// Takes the content of a tree object.
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

    /// The same in git's order, of entries of one name only the first: what other tools have left
    /// otherwise is found all the same, and written as it should be the next time.
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

    /// Whether there are no entries; git has no such trees but the root.
    pub(crate) const fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The entries in git's order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.starts.len()).map(|index| self.entry(index))
    }

    /// What stands under a name, whatever it is.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Pointer> {
        // A folder of that name sorts elsewhere than a file of that name.
        [false, true].into_iter().find_map(|folder| {
            let entry = self.entry(self.search(name, folder).ok()?);
            (entry.name == name).then_some(entry.pointer)
        })
    }

    /// Puts `pointer` under `name`, or removes what stands there; answers which bytes were
    /// replaced, in order.
    pub(crate) fn put(&mut self, name: &[u8], pointer: Option<Pointer>) -> Vec<Splice> {
        let mut splices = Vec::new();
        let folder = pointer.is_some_and(|pointer| pointer.is_folder());
        // What stands there as another kind, and so at another place, must go.
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

    fn entry(&self, index: usize) -> Entry<'_> {
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

/// Git's order of tree entries.
fn order((a, a_folder): (&[u8], bool), (b, b_folder): (&[u8], bool)) -> Ordering {
    let common = a.len().min(b.len());
    let next = |name: &[u8], folder: bool| name.get(common).copied().or(folder.then_some(b'/'));
    a[..common].cmp(&b[..common]).then_with(|| match (next(a, a_folder), next(b, b_folder)) {
        // Names of which one begins the other differ at the next byte, or one has ended.
        (None, None) => Ordering::Equal,
        (x, y) if x == y => a.len().cmp(&b.len()),
        (x, y) => x.unwrap_or(0).cmp(&y.unwrap_or(0)),
    })
}

fn parse_entry(bytes: &[u8], at: usize) -> Result<Entry<'_>, BadTree> {
    let bad = BadTree(at);
    let rest = bytes.get(at..).ok_or(bad)?;
    // Git writes modes of five and six digits, other tools have written others.
    let blank = rest.iter().take(8).position(|byte| *byte == b' ').ok_or(bad)?;
    let mode = rest[..blank].iter().try_fold(0_u32, |mode, digit| match digit {
        b'0'..=b'7' => Some(mode << 3 | u32::from(digit - b'0')),
        _ => None,
    });
    let name_len = CStr::from_bytes_until_nul(&rest[blank + 1..]).map_err(|_| bad)?.count_bytes();
    let end = blank + 1 + name_len;
    let oid = rest.get(end + 1..end + 21).and_then(|oid| oid.try_into().ok()).ok_or(bad)?;
    let pointer = Pointer { mode: mode.ok_or(bad)?, oid };
    Ok(Entry { name: &rest[blank + 1..end], pointer, len: end + 21 })
}

/// In what a tree is not as git writes it, in the words of `git fsck` (`verify_ordered` in `fsck.c`).
pub(crate) fn flaw(bytes: &[u8]) -> Option<&'static str> {
    let mut last = None;
    for entry in entries(bytes) {
        match last.map(|last| order(last, entry.place())) {
            None | Some(Ordering::Less) => last = Some(entry.place()),
            Some(Ordering::Equal) => return Some("duplicateEntries: it has a name twice"),
            Some(Ordering::Greater) => return Some("treeNotSorted: its entries are not in order"),
        }
    }
    None
}

/// The entries of a tree, as far as they make sense.
pub(crate) fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let entry = parse_entry(bytes, at).ok()?;
        at += entry.len;
        Some(entry)
    })
}

/// What stands under a name in a tree.
pub(crate) fn find(bytes: &[u8], name: &[u8]) -> Option<Pointer> {
    entries(bytes).find(|entry| entry.name == name).map(|entry| entry.pointer)
}

/// A name under which two trees have different entries.
pub(crate) type Difference = (Vec<u8>, Option<Pointer>, Option<Pointer>);

/// What differs between the contents of two trees, in the order of the names.
///
/// Equal entries are compared as bytes and never parsed on the second side: with 100,000 entries
/// of which one differs, that is about a millisecond.
pub(crate) fn differences(old: &[u8], new: &[u8]) -> Result<Vec<Difference>, BadTree> {
    let mut found: Vec<Difference> = Vec::new();
    for part in parts(old, new)? {
        match part {
            Part::Same { .. } => (),
            Part::Old { at } => {
                let entry = parse_entry(old, at)?;
                found.push((entry.name.to_vec(), Some(entry.pointer), None));
            }
            Part::New { range } => {
                let entry = parse_entry(new, range.start)?;
                found.push((entry.name.to_vec(), None, Some(entry.pointer)));
            }
        }
    }
    // In order but for the names of folders; a stable sort sees that.
    found.sort_by(|(one, ..), (two, ..)| one.cmp(two));
    found.dedup_by(|(name, before, after), (first, first_before, first_after)| {
        // One that has changed, or has changed its kind and stands in two places, is told once.
        let same = name == first;
        if same {
            (*first_before, *first_after) = (first_before.or(*before), first_after.or(*after));
        }
        same
    });
    Ok(found)
}

/// A piece of a comparison of two trees, in the order of the entries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// These bytes stand in both.
    Same {
        /// Where they begin in the old tree.
        old: usize,
        /// Where they stand in the new tree.
        new: Range<usize>,
    },
    /// This entry stands only in the old tree.
    Old { at: usize },
    /// This entry stands only in the new tree.
    New { range: Range<usize> },
}

/// Compares the contents of two trees entry by entry.
pub(crate) fn parts(old: &[u8], new: &[u8]) -> Result<Vec<Part>, BadTree> {
    let mut parts = Vec::new();
    let (mut a, mut b) = (0, 0);
    while a < old.len() || b < new.len() {
        let same = same_len(&old[a..], &new[b..]);
        if same > 0 {
            parts.push(Part::Same { old: a, new: b..b + same });
            (a, b) = (a + same, b + same);
            continue;
        }
        let left = (a < old.len()).then(|| parse_entry(old, a)).transpose()?;
        let right = (b < new.len()).then(|| parse_entry(new, b)).transpose()?;
        let ordering = match (&left, &right) {
            (Some(left), Some(right)) => order(left.place(), right.place()),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        if let Some(left) = left.filter(|_| ordering.is_le()) {
            parts.push(Part::Old { at: a });
            a += left.len;
        }
        if let Some(right) = right.filter(|_| ordering.is_ge()) {
            parts.push(Part::New { range: b..b + right.len });
            b += right.len;
        }
    }
    Ok(parts)
}

/// How many bytes of whole entries both begin with.
fn same_len(old: &[u8], new: &[u8]) -> usize {
    if old == new {
        return old.len();
    }
    let equal = same_blocks_len(old, new);
    let mut at = 0;
    while let Ok(entry) = parse_entry(old, at) {
        let end = at + entry.len;
        if end > equal && old.get(at..end) != new.get(at..end) {
            break;
        }
        at = end;
    }
    at
}

/// How many bytes both begin with, in whole blocks: comparing memory is faster than parsing it.
fn same_blocks_len(old: &[u8], new: &[u8]) -> usize {
    const BLOCKS: [usize; 2] = [4096, 64];
    BLOCKS.into_iter().fold(0, |equal, block| {
        let blocks = old[equal..].chunks_exact(block).zip(new[equal..].chunks_exact(block));
        equal + blocks.take_while(|(one, two)| one == two).count() * block
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::random::cases;

    fn file(byte: u8) -> Pointer {
        Pointer { mode: FILE, oid: [byte; 20] }
    }

    fn tree(names: &[(&str, Pointer)]) -> RawTree {
        let mut tree = RawTree::default();
        names.iter().for_each(|(name, pointer)| drop(tree.put(name.as_bytes(), Some(*pointer))));
        tree
    }

    #[test]
    fn a_folder_sorts_as_if_its_name_ended_in_a_slash() {
        let folder = Pointer { mode: FOLDER, oid: [0; 20] };
        let tree = tree(&[("a", folder), ("a.b", file(1)), ("a0", file(2)), ("a-", file(3))]);
        let names: Vec<_> =
            tree.iter().map(|entry| String::from_utf8_lossy(entry.name).into_owned()).collect();
        assert_eq!(names, ["a-", "a.b", "a", "a0"]);
        assert_eq!(tree.get(b"a"), Some(folder));
        assert_eq!(tree.get(b"a.b"), Some(file(1)));
        assert_eq!(tree.get(b"b"), None);
    }

    #[test]
    fn a_name_has_one_entry_whatever_its_kind_was() {
        let mut tree = tree(&[("a", Pointer { mode: FOLDER, oid: [0; 20] }), ("a.b", file(1))]);
        tree.put(b"a", Some(file(2)));
        assert_eq!(tree.iter().filter(|entry| entry.name == b"a").count(), 1);
        assert_eq!(tree.get(b"a"), Some(file(2)));
    }

    #[test]
    fn a_name_that_becomes_a_folder_is_one_difference() {
        let old = tree(&[("a", file(1)), ("a.b", file(1))]);
        let folder = Pointer { mode: FOLDER, oid: [0; 20] };
        let new = tree(&[("a", folder), ("a.b", file(1))]);
        let found = differences(old.bytes(), new.bytes()).unwrap();
        assert_eq!(found, [(b"a".to_vec(), Some(file(1)), Some(folder))]);
    }

    #[test]
    fn damaged_trees_are_refused() {
        let good = tree(&[("a", file(1))]).bytes().to_vec();
        for len in 1..good.len() {
            assert!(RawTree::parse(good[..len].to_vec()).is_err(), "{len}");
        }
        assert!(RawTree::parse(b"10x644 a\0aaaaaaaaaaaaaaaaaaaa".to_vec()).is_err());
    }

    fn names() -> impl Strategy<Value = Vec<(String, Option<(bool, u8)>)>> {
        prop::collection::vec(
            ("[ab.-]{1,3}", prop::option::weighted(0.7, (any::<bool>(), any::<u8>()))),
            0..40,
        )
    }

    fn apply(
        tree: &mut RawTree,
        model: &mut BTreeMap<String, Pointer>,
        steps: Vec<(String, Option<(bool, u8)>)>,
    ) -> Vec<Splice> {
        let mut splices = Vec::new();
        for (name, value) in steps {
            let pointer = value
                .map(|(folder, byte)| Pointer { mode: if folder { FOLDER } else { FILE }, oid: [byte; 20] });
            splices.extend(tree.put(name.as_bytes(), pointer));
            match pointer {
                Some(pointer) => drop(model.insert(name, pointer)),
                None => drop(model.remove(&name)),
            }
        }
        splices
    }

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn spliced_trees_are_sorted_whole_and_compare_as_their_maps_do(first in names(), second in names()) {
            let (mut tree, mut model) = (RawTree::default(), BTreeMap::new());
            apply(&mut tree, &mut model, first);
            let (old, old_model) = (tree.clone(), model.clone());
            let splices = apply(&mut tree, &mut model, second);
            prop_assert_eq!(undone(tree.bytes(), &splices), old.bytes());
            prop_assert_eq!(&RawTree::parse(tree.bytes().to_vec()).unwrap(), &tree);
            let keys: Vec<_> = tree.iter().map(|e| (e.name, e.pointer.mode == FOLDER)).collect();
            prop_assert!(keys.is_sorted_by(|a, b| order(*a, *b).is_lt()));
            prop_assert!(model.iter().all(|(name, pointer)| tree.get(name.as_bytes()) == Some(*pointer)));
            prop_assert_eq!(keys.len(), model.len());
            let found = differences(old.bytes(), tree.bytes()).unwrap();
            let names: std::collections::BTreeSet<_> = old_model.keys().chain(model.keys()).collect();
            let expected: Vec<Difference> = names.into_iter()
                .map(|name| (name.clone().into_bytes(), old_model.get(name).copied(), model.get(name).copied()))
                .filter(|(_, before, after)| before != after)
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
