//! The committer of the service's commits, and their signature.

use crate::domain::{Actor, Revision};
use crate::store::git::object::commit::{encode_commit, with_signature};
use crate::store::signature::SigningKey;
use crate::store::{Draft, StoreError, TreeId};

/// The committer, and the key that signs its commits.
#[derive(Debug)]
pub(crate) struct Committer {
    pub(crate) actor: Actor,
    pub(crate) key: Option<SigningKey>,
}

impl Committer {
    pub(crate) fn commit(
        &self,
        tree: TreeId,
        parents: &[Revision],
        draft: &Draft,
    ) -> Result<Vec<u8>, StoreError> {
        let commit = encode_commit(tree, parents, [&draft.author, &self.actor], draft.at, &draft.message);
        match &self.key {
            Some(key) => Ok(with_signature(&commit, &key.sign(&commit)?)),
            None => Ok(commit),
        }
    }
}
