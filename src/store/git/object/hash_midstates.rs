//! Incremental hashing of trees that change a little at a time.
//!
//! The id of a tree is the SHA-1 of its length and all its bytes, and computing it is the main cost of a commit to
//! a folder with many files. While the length stays the same (an update), the bytes before the first change need
//! not be hashed again, because the state of the hash is kept every 2 KiB.

use sha1::{Digest as _, Sha1};

use crate::store::git::object::id::Oid;

const STEP_LEN: usize = 2 << 10;

/// The states of the hash along one version of a tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct HashMidstates {
    len: usize,
    /// The first is the state after the header; each of the others is one step further.
    states: Vec<Sha1>,
}

impl HashMidstates {
    /// Returns the id of a tree that equals the previously hashed tree up to the byte `same_len`.
    pub(crate) fn hash_tree(&mut self, tree: &[u8], same_len: usize) -> Oid {
        if self.states.is_empty() || self.len != tree.len() {
            let header = format!("tree {}\0", tree.len());
            self.states = vec![Sha1::new().chain_update(header)];
            self.len = tree.len();
        }
        self.states.truncate(same_len / STEP_LEN + 1);
        let mut hasher = self.states.last().expect("the first state stays").clone();
        let mut rest = &tree[(self.states.len() - 1) * STEP_LEN..];
        while let Some((step, behind)) = rest.split_at_checked(STEP_LEN) {
            hasher.update(step);
            self.states.push(hasher.clone());
            rest = behind;
        }
        hasher.chain_update(rest).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::cases;
    use crate::store::git::object::id::{ObjectKind, hash_object};

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn a_name_is_that_of_the_whole_tree_whatever_was_named_before(
            len in 0..4 * STEP_LEN,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_usize), 0..12),
        ) {
            let mut tree = vec![7; len];
            let mut midstates = HashMidstates::default();
            prop_assert_eq!(midstates.hash_tree(&tree, 0), hash_object(ObjectKind::Tree, &tree).unwrap());
            for (index, byte, more) in changes {
                let at = index.index(tree.len() + 1);
                tree.splice(at..(at + 1).min(tree.len()), vec![byte; more]);
                prop_assert_eq!(midstates.hash_tree(&tree, at), hash_object(ObjectKind::Tree, &tree).unwrap());
            }
        }
    }
}
