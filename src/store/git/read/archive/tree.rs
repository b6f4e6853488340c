//! Trees as raw bytes: found, listed and compared without parsing more than what differs.
//!
//! A tree is a run of `MODE NAME\0ID`, the id as 20 raw bytes (`tree-walk.c`). libgit2 parses
//! every entry of both trees to compare them; two folders of a thousand files that differ in one
//! have long equal ends, and those are skipped by comparing memory.

use std::ffi::CStr;

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
        let (blank, end) = parts(tree)?;
        let (entry, rest) = tree.split_at_checked(end + 1 + ID_BYTES)?;
        let id = entry[end + 1..].try_into().expect("that many bytes are left");
        Some((Self { mode: &entry[..blank], name: &entry[blank + 1..end], id }, rest))
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

/// Where the mode and the name of the first entry of a tree end.
fn parts(tree: &[u8]) -> Option<(usize, usize)> {
    // Git writes modes of five and of six digits.
    let blank = match (tree.get(5)?, tree.get(6)?) {
        (b' ', _) => 5,
        (_, b' ') => 6,
        _ => tree.iter().position(|byte| *byte == b' ')?,
    };
    let name = CStr::from_bytes_until_nul(&tree[blank + 1..]).ok()?;
    Some((blank, blank + 1 + name.count_bytes()))
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

/// What differs between two trees, by name. A first commit has as many changes as files, so no
/// more is kept for a moment than what is returned.
pub(super) fn differences(before: &[u8], after: &[u8]) -> Vec<FileChange> {
    let mut changed = Vec::new();
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
                let change = |(name, entry)| FileChange { name, before: Some(entry), after: None };
                changed.extend(one.told().map(|(name, entry)| change((name.to_owned(), entry))));
                old = rest;
            }
            (_, Some((two, rest))) => {
                let change = |(name, entry)| FileChange { name, before: None, after: Some(entry) };
                changed.extend(two.told().map(|(name, entry)| change((name.to_owned(), entry))));
                new = rest;
            }
            (Some(_), None) | (None, None) => break,
        }
    }
    merged(changed)
}

/// The two sides of each name as one change, by name. They stand beside each other, and in order,
/// where no file became a folder.
fn merged(mut changed: Vec<FileChange>) -> Vec<FileChange> {
    if !changed.is_sorted_by(|one, two| one.name <= two.name) {
        changed.sort_by(|one, two| one.name.cmp(&two.name));
    }
    changed.dedup_by(|two, one| {
        let is_same = one.name == two.name;
        if is_same {
            (one.before, one.after) = (one.before.or(two.before), one.after.or(two.after));
        }
        is_same
    });
    changed.retain(|change| change.before != change.after);
    changed
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

/// How many bytes of equal entries two trees begin with.
fn common_entries_bytes(one: &[u8], two: &[u8]) -> usize {
    let equal = common_blocks_bytes(one, two);
    let mut start = 0;
    while let Some((_, end)) = parts(&one[start..]) {
        let next = start + end + 1 + ID_BYTES;
        if next > equal {
            break;
        }
        start = next;
    }
    start
}

/// How many bytes two trees begin with in common, in whole blocks: large ones, then smaller ones.
fn common_blocks_bytes(one: &[u8], two: &[u8]) -> usize {
    const BLOCKS: [usize; 2] = [4096, 64];
    BLOCKS.into_iter().fold(0, |equal, block| {
        let blocks = one[equal..].chunks_exact(block).zip(two[equal..].chunks_exact(block));
        equal + blocks.take_while(|(a, b)| a == b).count() * block
    })
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
    fn the_two_sides_of_a_name_are_one_change_though_another_stands_between_them() {
        let before = [("100644", "a.yaml", 1), ("100644", "a.yaml-b.yaml", 2)];
        let after = [("40000", "a.yaml", 1), ("100644", "a.yaml-b.yaml", 3)];
        check(
            &before,
            &after,
            &[
                ("a.yaml", [file(1), Some(TreeEntry::Special("a folder"))]),
                ("a.yaml-b.yaml", [file(2), file(3)]),
            ],
        );
    }

    #[test]
    fn bytes_that_are_no_tree_end_the_list() {
        assert_eq!(list(b"100644 a.yaml\0short", &|_| true), []);
        assert_eq!(differences(b"nonsense", b""), []);
    }
}
