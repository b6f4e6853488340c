//! Trees as raw bytes: found, listed and compared without parsing more than what differs.
//!
//! A tree is a run of `MODE NAME\0ID`, the id as 20 raw bytes (`tree-walk.c`). libgit2 parses
//! every entry of both trees to compare them; two folders of a thousand files that differ in one
//! have long equal ends, and those are skipped by comparing memory.

use std::collections::BTreeMap;

use crate::store::{BlobId, FileChange, TreeEntry};

const ID_BYTES: usize = 20;

/// One entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawEntry<'a> {
    pub(super) mode: &'a [u8],
    pub(super) name: &'a [u8],
    pub(super) id: [u8; ID_BYTES],
}

impl<'a> RawEntry<'a> {
    /// Takes the first entry off a tree; `None` at its end, and at bytes that are no entry.
    fn first(tree: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let blank = tree.iter().position(|byte| *byte == b' ')?;
        let end = blank + 1 + tree[blank + 1..].iter().position(|byte| *byte == 0)?;
        let id = tree.get(end + 1..end + 1 + ID_BYTES)?.try_into().ok()?;
        let entry = Self { mode: &tree[..blank], name: &tree[blank + 1..end], id };
        Some((entry, &tree[end + 1 + ID_BYTES..]))
    }

    fn is_folder(&self) -> bool {
        matches!(self.mode, b"40000" | b"040000")
    }

    /// The entry under its name, if it is one that the folder tells of.
    fn told(&self) -> Option<(&'a str, TreeEntry)> {
        let name = std::str::from_utf8(self.name).ok()?;
        let fits = (name.ends_with(".yaml") || name.ends_with(".yml")) && !name.starts_with('.');
        let entry = match self.mode {
            b"100644" | b"100755" | b"100664" => TreeEntry::File(BlobId::new(self.id)),
            b"120000" => TreeEntry::Special("a symbolic link"),
            b"160000" => TreeEntry::Special("a submodule"),
            _ if self.is_folder() => TreeEntry::Special("a folder"),
            _ => TreeEntry::Special("an entry of an unknown kind"),
        };
        fits.then_some((name, entry))
    }
}

fn entries(tree: &[u8]) -> impl Iterator<Item = RawEntry<'_>> {
    let mut rest = tree;
    std::iter::from_fn(move || {
        let (entry, next) = RawEntry::first(rest)?;
        rest = next;
        Some(entry)
    })
}

/// The id of the folder of this name in a tree.
pub(super) fn folder(tree: &[u8], name: &str) -> Option<[u8; ID_BYTES]> {
    entries(tree).find(|entry| entry.name == name.as_bytes() && entry.is_folder()).map(|entry| entry.id)
}

/// The files of a tree whose names are wanted, by name.
pub(super) fn list(tree: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> Vec<(String, TreeEntry)> {
    let told = entries(tree).filter_map(|entry| entry.told()).filter(|(name, _)| is_wanted(name));
    let mut files: Vec<_> = told.map(|(name, entry)| (name.to_owned(), entry)).collect();
    files.sort_by(|(one, _), (two, _)| one.cmp(two));
    files
}

/// What differs between two trees, by name.
pub(super) fn differences(before: &[u8], after: &[u8]) -> Vec<FileChange> {
    let mut changed: BTreeMap<&str, [Option<TreeEntry>; 2]> = BTreeMap::new();
    let start = common_entries_bytes(before, after);
    let (mut old, mut new) = (&before[start..], &after[start..]);
    loop {
        if old.len() == new.len() && old == new {
            break;
        }
        match (RawEntry::first(old), RawEntry::first(new)) {
            (Some((one, old_rest)), Some((two, new_rest))) if one == two => {
                (old, new) = (old_rest, new_rest);
            }
            (Some((one, rest)), other) if other.is_none_or(|(two, _)| is_first(&one, &two)) => {
                note(&mut changed, &one, 0);
                old = rest;
            }
            (_, Some((two, rest))) => {
                note(&mut changed, &two, 1);
                new = rest;
            }
            (Some(_), None) | (None, None) => break,
        }
    }
    let differing = changed.into_iter().filter(|(_, [before, after])| before != after);
    differing.map(|(name, [before, after])| FileChange { name: name.to_owned(), before, after }).collect()
}

/// Whether an entry stands before another, or in its place, in the order of trees: by name, a
/// folder's as if it ended in `/` (`base_name_compare` in `tree.c`).
fn is_first(one: &RawEntry<'_>, two: &RawEntry<'_>) -> bool {
    let ordered = |entry: &RawEntry<'_>| {
        let mut name = entry.name.to_vec();
        name.extend(entry.is_folder().then_some(b'/'));
        name
    };
    ordered(one) <= ordered(two)
}

fn note<'a>(changed: &mut BTreeMap<&'a str, [Option<TreeEntry>; 2]>, entry: &RawEntry<'a>, side: usize) {
    if let Some((name, told)) = entry.told() {
        changed.entry(name).or_default()[side] = Some(told);
    }
}

/// How many bytes of equal entries two trees begin with.
fn common_entries_bytes(one: &[u8], two: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let blocks = one.chunks_exact(BLOCK).zip(two.chunks_exact(BLOCK)).take_while(|(a, b)| a == b).count();
    let equal = blocks * BLOCK;
    let mut rest = one;
    let mut start = 0;
    while let Some((_, next)) = RawEntry::first(rest) {
        let end = one.len() - next.len();
        if end > equal {
            break;
        }
        (start, rest) = (end, next);
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, &str, u8)]) -> Vec<u8> {
        let mut entries = entries.to_vec();
        entries.sort_by_key(|(mode, name, _)| format!("{name}{}", if *mode == "40000" { "/" } else { "" }));
        let mut tree = Vec::new();
        for (mode, name, id) in entries {
            tree.extend(format!("{mode} {name}\0").into_bytes());
            tree.extend([id; ID_BYTES]);
        }
        tree
    }

    fn file(id: u8) -> Option<TreeEntry> {
        Some(TreeEntry::File(BlobId::new([id; ID_BYTES])))
    }

    #[track_caller]
    fn check(
        before: &[(&str, &str, u8)],
        after: &[(&str, &str, u8)],
        told: &[(&str, [Option<TreeEntry>; 2])],
    ) {
        let found = differences(&tree(before), &tree(after));
        let told: Vec<_> = told
            .iter()
            .map(|(name, [before, after])| FileChange {
                name: (*name).to_owned(),
                before: *before,
                after: *after,
            })
            .collect();
        assert_eq!(found, told);
    }

    #[test]
    fn only_what_differs_is_told() {
        let one = [("100644", "a.yaml", 1), ("100644", "b.yaml", 32), ("100644", "c.yaml", 3)];
        check(&one, &one, &[]);
        check(&[], &one[..1], &[("a.yaml", [None, file(1)])]);
        check(&one[..1], &[], &[("a.yaml", [file(1), None])]);
        let two = [("100644", "a.yaml", 1), ("100644", "b.yaml", 0), ("100644", "c.yaml", 3)];
        check(&one, &two, &[("b.yaml", [file(32), file(0)])]);
        check(&one, &[one[0], one[2]], &[("b.yaml", [file(32), None])]);
    }

    #[test]
    fn modes_of_files_and_names_of_others_do_not_count() {
        let before = [("100644", "a.yaml", 1), ("100644", "README.md", 1), ("100644", ".x.yaml", 1)];
        let after = [("100755", "a.yaml", 1), ("100644", "README.md", 2), ("100644", ".x.yaml", 2)];
        check(&before, &after, &[]);
    }

    #[test]
    fn a_file_that_becomes_a_folder_is_one_change() {
        let before = [("100644", "a.yaml", 1), ("100644", "a.yaml-old", 2), ("100644", "b.yml", 3)];
        let after = [("40000", "a.yaml", 1), ("100644", "a.yaml-old", 2), ("120000", "b.yml", 3)];
        check(
            &before,
            &after,
            &[
                ("a.yaml", [file(1), Some(TreeEntry::Special("a folder"))]),
                ("b.yml", [file(3), Some(TreeEntry::Special("a symbolic link"))]),
            ],
        );
    }

    #[test]
    fn bytes_that_are_no_tree_end_the_list() {
        assert_eq!(list(b"100644 a.yaml\0short", &|_| true), []);
        assert_eq!(differences(b"nonsense", b""), []);
    }
}
