//! What stands in a repository, read: objects, the index of a pack, git's index.

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

/// No content that is read is larger.
const LEN_MAX: usize = 64 * 1_024;

/// And the result of no delta, of which any number of bytes may be copies.
const WHOLE_LEN_MAX: usize = 64 * LEN_MAX;

/// A loose object is read to its end and no further than it may be long, and what it holds as whatever it may be.
pub(crate) fn loose_object(bytes: &[u8]) {
    let mut file: File = memfd_create("object", MemfdFlags::CLOEXEC).expect("there is memory").into();
    file.write_all(bytes).expect("there is memory");
    if let Ok(found) = loose::read(file, &mut Inflater::default(), LEN_MAX) {
        assert!(found.content.len() <= LEN_MAX);
        object(&found.content);
    }
    object(bytes);
}

/// The content of an object, as a commit and as a tree.
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

/// The index of a pack tells of no more objects than it has room for, or is refused.
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

/// A delta makes of a base what it says, whole or only its beginning; the first byte of the input says how much of it
/// is the base.
pub(crate) fn delta(bytes: &[u8]) {
    let Some((part, rest)) = bytes.split_first() else { return };
    let (base, told) = rest.split_at(rest.len() * usize::from(*part) / 256);
    if let Some((len, beginning)) = delta::applied(base, told, LEN_MAX) {
        assert_eq!(beginning.len() as u64, len.min(LEN_MAX as u64));
        let (whole_len, whole) = delta::applied(base, told, WHOLE_LEN_MAX).expect("it makes sense");
        assert!(whole_len == len && whole.starts_with(&beginning));
    }
}
