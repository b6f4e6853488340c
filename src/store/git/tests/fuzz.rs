//! Fuzz targets for what a repository contains: objects, pack indexes, git's index.

use std::fs::File;
use std::io::Write as _;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::store::git::index::git_index::GitIndex;
use crate::store::git::object::commit::RawCommit;
use crate::store::git::object::delta;
use crate::store::git::object::tree::RawTree;
use crate::store::git::odb::inflate::Inflater;
use crate::store::git::odb::loose;
use crate::store::git::odb::pack::{parse_index, total};

/// Content is read up to this length.
const LEN_MAX: usize = 64 * 1_024;

/// No result of a delta is longer, although it may consist of copies.
const WHOLE_LEN_MAX: usize = 64 * LEN_MAX;

/// Reads a loose object, which may claim any length, and parses its content as an object of every kind.
pub(crate) fn loose_object(bytes: &[u8]) {
    let mut file: File = memfd_create("object", MemfdFlags::CLOEXEC).expect("there is memory").into();
    file.write_all(bytes).expect("there is memory");
    if let Ok(found) = loose::read(file, &mut Inflater::default(), LEN_MAX) {
        assert!(found.content.len() <= LEN_MAX);
        object(&found.content);
    }
    object(bytes);
}

/// Parses the content of an object as a commit and as a tree.
fn object(bytes: &[u8]) {
    for is_cut in [false, true] {
        if let Ok(commit) = RawCommit::parse(bytes, is_cut) {
            drop(commit.to_commit(crate::domain::Revision::new([7; 20])));
        }
    }
    if let Ok(tree) = RawTree::parse(bytes.to_vec()) {
        let again = RawTree::parse(tree.bytes().to_vec()).expect("what was put in order can be read");
        assert!(again == tree, "and is in order");
        assert!(tree.iter().all(|entry| tree.get(entry.name).is_some()));
    }
}

/// A pack index that is accepted has no more objects than its bytes have room for.
pub(crate) fn pack_index(bytes: &[u8]) {
    if let Some(places) = total(bytes).and_then(|count| parse_index(bytes, usize::try_from(count).ok()?)) {
        assert!(places.len() <= bytes.len() / 20);
    }
}

/// Git's index is written as it was read.
pub(crate) fn git_index(bytes: &[u8]) {
    if let Ok(index) = GitIndex::parse(bytes.to_vec()) {
        let written = index.encode();
        let again = GitIndex::parse(written.clone()).expect("what we write can be read");
        assert_eq!(again.encode(), written);
    }
}

/// Applying a delta gives a result of the promised length, whether it is requested whole or truncated; the first
/// byte of the input determines how much of the rest is the base.
pub(crate) fn delta(bytes: &[u8]) {
    let Some((part, rest)) = bytes.split_first() else { return };
    let (base, delta) = rest.split_at(rest.len() * usize::from(*part) / 256);
    if let Some((len, beginning)) = delta::patch(base, delta, LEN_MAX) {
        assert_eq!(beginning.len() as u64, len.min(LEN_MAX as u64));
        let (whole_len, whole) = delta::patch(base, delta, WHOLE_LEN_MAX).expect("it makes sense");
        assert!(whole_len == len && whole.starts_with(&beginning));
    }
}
