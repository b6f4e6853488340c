//! Tree objects as raw bytes.
//!
//! A tree is a sequence of entries `<mode in octal> <name>\0<20 bytes of id>`, sorted by name as bytes, where the name
//! of a folder counts as if it ended in `/` (`base_name_compare` in git's `read-cache.c`, `verify_ordered` in
//! `fsck.c`). Trees are kept as these bytes: `raw` replaces single entries, `difference` compares two trees.

mod difference;
mod raw;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;

pub(crate) use crate::store::git::object::tree::difference::{DifferencePart, differences, parts};
pub(crate) use crate::store::git::object::tree::raw::{RawTree, Splice, same_len_of, undone};

use crate::store::git::object::id::Oid;
use crate::store::{BlobId, Special, TreeEntry};

pub(crate) const FOLDER: u32 = 0o040_000;
pub(crate) const FILE: u32 = 0o100_644;
pub(crate) const EXECUTABLE: u32 = 0o100_755;
pub(crate) const LINK: u32 = 0o120_000;
const SUBMODULE: u32 = 0o160_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// The mode as git writes it.
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

    /// Reports whether it is a submodule: a commit of another repository.
    pub(crate) const fn is_submodule(&self) -> bool {
        self.canonical_mode() == SUBMODULE
    }

    /// Returns the mode as git interprets it (`canon_mode` in `cache.h`): other tools have written files with
    /// `100664` and other modes.
    pub(crate) const fn canonical_mode(&self) -> u32 {
        match self.mode & 0o170_000 {
            0o100_000 if self.mode & 0o100 == 0 => FILE,
            0o100_000 => EXECUTABLE,
            kind @ (FOLDER | LINK) => kind,
            _ => SUBMODULE,
        }
    }

    /// Returns the entry with the mode that git's index has for it.
    pub(crate) const fn canonical(self) -> Self {
        Self { mode: self.canonical_mode(), oid: self.oid }
    }

    /// The id of the content of a file or symbolic link.
    pub(crate) const fn blob(&self) -> BlobId {
        BlobId::new(self.oid)
    }

    /// Converts it to the entry that the store exposes.
    pub(crate) const fn tree_entry(&self) -> TreeEntry {
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
pub(crate) struct RawEntry<'a> {
    /// The name: any bytes except `/` and NUL.
    pub(crate) name: &'a [u8],
    pub(crate) pointer: Pointer,
    len: usize,
}

impl<'a> RawEntry<'a> {
    /// The sort key.
    const fn place(&self) -> (&'a [u8], bool) {
        (self.name, self.pointer.is_folder())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tree object is damaged at byte {0}; `git fsck --full` tells more")]
pub(crate) struct BadTree(usize);

/// Git's order of tree entries.
fn order((a, a_folder): (&[u8], bool), (b, b_folder): (&[u8], bool)) -> Ordering {
    let common = a.len().min(b.len());
    let next = |name: &[u8], folder: bool| name.get(common).copied().or(folder.then_some(b'/'));
    // If one name is a prefix of the other, the next byte decides, or the shorter name has ended.
    a[..common]
        .cmp(&b[..common])
        .then_with(|| next(a, a_folder).cmp(&next(b, b_folder)).then(a.len().cmp(&b.len())))
}

fn parse_entry(bytes: &[u8], at: usize) -> Result<RawEntry<'_>, BadTree> {
    let bad = BadTree(at);
    let rest = bytes.get(at..).ok_or(bad)?;
    // Git writes modes of five or six digits; other tools have written others.
    let blank = rest.iter().take(8).position(|byte| *byte == b' ').ok_or(bad)?;
    let mode = rest[..blank].iter().try_fold(0_u32, |mode, digit| match digit {
        b'0'..=b'7' => Some(mode << 3 | u32::from(digit - b'0')),
        _ => None,
    });
    let name_len = CStr::from_bytes_until_nul(&rest[blank + 1..]).map_err(|_| bad)?.count_bytes();
    let end = blank + 1 + name_len;
    let oid = rest.get(end + 1..end + 21).and_then(|oid| oid.try_into().ok()).ok_or(bad)?;
    let pointer = Pointer { mode: mode.ok_or(bad)?, oid };
    Ok(RawEntry { name: &rest[blank + 1..end], pointer, len: end + 21 })
}

/// Iterates over the entries of a tree up to the first one that is damaged.
pub(crate) fn entries(bytes: &[u8]) -> impl Iterator<Item = RawEntry<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let entry = parse_entry(bytes, at).ok()?;
        at += entry.len;
        Some(entry)
    })
}

/// Returns the entry with this name.
pub(crate) fn find(bytes: &[u8], name: &[u8]) -> Option<Pointer> {
    entries(bytes).find(|entry| entry.name == name).map(|entry| entry.pointer)
}

/// The change of one path by a group: what it was before and what it is after.
#[derive(Debug, Clone)]
pub(crate) struct PathChange {
    pub(crate) before: Option<Pointer>,
    /// The contents that the commits between the old head and the new one have. The work tree may already contain
    /// one of them: an edit that was committed on behalf of a person.
    pub(crate) intermediate_blobs: BTreeSet<Option<BlobId>>,
    pub(crate) after: Option<Pointer>,
    /// The content of `after`, if it is known.
    pub(crate) content: Option<Vec<u8>>,
}

impl PathChange {
    pub(crate) const fn new(
        before: Option<Pointer>,
        after: Option<Pointer>,
        content: Option<Vec<u8>>,
    ) -> Self {
        Self { before, intermediate_blobs: BTreeSet::new(), after, content }
    }

    /// Returns the contents that a file may have from before the change; `None` for no file.
    pub(crate) fn olds(&self) -> impl Iterator<Item = Option<BlobId>> {
        let before = self.before.map(|pointer| pointer.blob());
        self.intermediate_blobs.iter().copied().chain([before])
    }

    /// Adds a change that follows this one.
    fn extend(&mut self, next: Self) {
        self.intermediate_blobs.extend(next.olds());
        (self.after, self.content) = (next.after, next.content);
    }
}

/// The paths that a group changes, by name in the collections folder.
pub(crate) type PathChanges = BTreeMap<String, PathChange>;

/// Adds the change of a path, which may have changed before.
pub(crate) fn add_change(changes: &mut PathChanges, name: &str, change: PathChange) {
    match changes.get_mut(name) {
        Some(known) => known.extend(change),
        None => drop(changes.insert(name.to_owned(), change)),
    }
}
