//! The tree of the collections folder and the trees above it, from the root down.

use crate::domain::Revision;
use crate::store::git::object::hash_midstates::HashMidstates;
use crate::store::git::object::tree::{FOLDER, Pointer, RawTree, find};
use crate::store::git::odb::objects::Objects;
use crate::store::git::repo::layout::Layout;
use crate::store::{StoreError, TreeEntry, TreeId};

/// The trees of one revision, as raw bytes.
#[derive(Debug, Clone)]
pub(crate) struct Trees {
    /// The commit of these trees; `None` for the empty trees before the first commit.
    pub(crate) revision: Option<Revision>,
    /// The root first, the collections folder last.
    pub(crate) levels: Vec<RawTree>,
    pub(crate) midstates: Vec<HashMidstates>,
}

impl Trees {
    pub(super) fn empty(layout: &Layout) -> Self {
        let len = layout.folder.len() + 1;
        Self {
            revision: None,
            levels: vec![RawTree::default(); len],
            midstates: vec![HashMidstates::default(); len],
        }
    }

    pub(crate) fn folder(&self) -> &RawTree {
        self.levels.last().expect("there is a root")
    }
}

/// Returns the existing folders on the path to the collections, the root first.
pub(super) fn folders(
    objects: &mut Objects,
    layout: &Layout,
    revision: Revision,
    root: TreeId,
) -> Result<Vec<Pointer>, StoreError> {
    let levels = levels(objects, root, &layout.folder)?;
    let Some(other) = levels.last().filter(|last| !last.is_folder()) else { return Ok(levels) };
    let what = match other.tree_entry() {
        TreeEntry::Special(what) => what.to_string(),
        TreeEntry::File(_) => "a file".to_owned(),
    };
    let path = layout.folder[..levels.len() - 1].join("/");
    Err(layout.unsuitable(format!("`{path}` is {what} in commit {revision}, not a folder")))
}

/// Returns the existing entries along a path below a root tree, the root itself first.
pub(super) fn levels(
    objects: &mut Objects,
    root: TreeId,
    parts: &[String],
) -> Result<Vec<Pointer>, StoreError> {
    let mut above = Pointer { mode: FOLDER, oid: *root.as_bytes() };
    let mut levels = vec![above];
    for part in parts {
        if !above.is_folder() {
            break;
        }
        let Some(found) = find(&objects.raw_tree(TreeId::new(above.oid))?, part.as_bytes()) else { break };
        levels.push(found);
        above = found;
    }
    Ok(levels)
}
