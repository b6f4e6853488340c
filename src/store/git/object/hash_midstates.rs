//! Hashes what changes a little at a time: trees, and the index.
//!
//! The name of a tree is the SHA-1 of its length and all its bytes, which is what a commit into a
//! folder of many files costs. While the length stays (an update), everything in front of the
//! first change need not be hashed again: the state of the hash is kept every few kilobytes. The index of
//! a work tree ends with the SHA-1 of what is before, and is written twice for a group.

use sha1::{Digest as _, Sha1};

use crate::store::git::object::id::Oid;

/// How far the kept states are apart.
const STEP_LEN: usize = 2 << 10;

/// An index of more bytes is hashed anew, since all of them would have to be kept.
pub(crate) const INDEX_BYTES_KEPT_MAX: usize = 1 << 20;

/// The states of the hash along one version of a tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct HashMidstates {
    len: usize,
    /// The first stands behind the header, each other one step on.
    states: Vec<Sha1>,
}

/// The states of the hash along the index that was hashed last.
#[derive(Debug, Default)]
pub(crate) struct IndexHash {
    last: Vec<u8>,
    states: Vec<Sha1>,
}

impl IndexHash {
    /// The hash of an index, without the twenty bytes of it at the end.
    pub(crate) fn of(&mut self, index: &[u8]) -> Oid {
        let steps = index.chunks_exact(STEP_LEN).zip(self.last.chunks_exact(STEP_LEN));
        let same = steps.take_while(|(new, old)| new == old).count();
        if self.states.is_empty() {
            self.states.push(Sha1::new());
        }
        let hash = finish(&mut self.states, same, index);
        self.last.truncate(same * STEP_LEN);
        match index.len() {
            ..=INDEX_BYTES_KEPT_MAX => self.last.extend_from_slice(&index[same * STEP_LEN..]),
            _ => *self = Self::default(),
        }
        hash
    }
}

/// Goes on from the state after so many steps of the same bytes, and keeps those that follow.
fn finish(states: &mut Vec<Sha1>, same: usize, bytes: &[u8]) -> Oid {
    states.truncate(same + 1);
    let mut hasher = states.last().expect("the first state stays").clone();
    let mut rest = &bytes[(states.len() - 1) * STEP_LEN..];
    while let Some((step, behind)) = rest.split_at_checked(STEP_LEN) {
        hasher.update(step);
        states.push(hasher.clone());
        rest = behind;
    }
    hasher.chain_update(rest).finalize().into()
}

impl HashMidstates {
    /// The name of a tree that is what was named before, up to the byte `same_len`.
    pub(crate) fn name(&mut self, tree: &[u8], same_len: usize) -> Oid {
        if self.states.is_empty() || self.len != tree.len() {
            let header = format!("tree {}\0", tree.len());
            self.states = vec![Sha1::new().chain_update(header)];
            self.len = tree.len();
        }
        finish(&mut self.states, same_len / STEP_LEN, tree)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::cases;
    use crate::store::git::object::id::{Kind, name};

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn a_name_is_that_of_the_whole_tree_whatever_was_named_before(
            len in 0..4 * STEP_LEN,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_usize), 0..12),
        ) {
            let mut tree = vec![7; len];
            let mut midstates = HashMidstates::default();
            prop_assert_eq!(midstates.name(&tree, 0), name(Kind::Tree, &tree).unwrap());
            for (index, byte, more) in changes {
                let at = index.index(tree.len() + 1);
                tree.splice(at..(at + 1).min(tree.len()), vec![byte; more]);
                prop_assert_eq!(midstates.name(&tree, at), name(Kind::Tree, &tree).unwrap());
            }
        }

        #[test]
        fn the_hash_of_an_index_is_that_of_all_its_bytes_whatever_was_hashed_before(
            len in prop_oneof![0..4 * STEP_LEN, Just(INDEX_BYTES_KEPT_MAX)],
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_usize), 0..12),
        ) {
            let mut index = vec![7; len];
            let mut hash = IndexHash::default();
            for (at, byte, more) in changes {
                let at = at.index(index.len() + 1);
                index.splice(at..(at + 1).min(index.len()), vec![byte; more]);
                prop_assert_eq!(hash.of(&index), Oid::from(Sha1::digest(&index)));
            }
        }
    }
}
