//! What a group of commits, or a move of the branch, changes of the paths in the collections folder.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::BlobId;
use crate::store::git::object::tree::Pointer;

/// A path that a group changes, from what it was before to what it is after.
#[derive(Debug, Clone)]
pub(crate) struct PathChange {
    pub(crate) before: Option<Pointer>,
    /// What commits between the old head and the new one have: an edit that was committed for a
    /// person stands in the work tree already, and is in the history now.
    pub(crate) passed: BTreeSet<Option<BlobId>>,
    pub(crate) after: Option<Pointer>,
    /// Its content, when there is one.
    pub(crate) content: Option<Vec<u8>>,
}

/// The paths that a group changes, by their names in the collections folder.
pub(crate) type PathChanges = BTreeMap<String, PathChange>;
