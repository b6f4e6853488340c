//! Changes of paths in the collections folder, by a group of commits or a move of the branch.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::BlobId;
use crate::store::git::object::tree::Pointer;

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

/// The paths that a group changes, by name in the collections folder.
pub(crate) type PathChanges = BTreeMap<String, PathChange>;
