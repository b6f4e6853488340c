//! The collections folder's tree and those above it, from the root down.

use crate::domain::Revision;
use crate::store::git::object::hash_midstates::HashMidstates;
use crate::store::git::object::tree::{self, FOLDER, Pointer, RawTree, find};
use crate::store::git::odb::objects::Objects;
use crate::store::git::repo::layout::Layout;
use crate::store::{BlobId, StoreError, TreeEntry, TreeId};

/// The trees of one revision, kept as raw bytes.
#[derive(Debug, Clone)]
pub(crate) struct Trees {
    /// The commit that has them; `None` for the empty ones before the first commit.
    pub(crate) revision: Option<Revision>,
    /// The root first, the collections folder last.
    pub(crate) levels: Vec<RawTree>,
    pub(crate) midstates: Vec<HashMidstates>,
}

impl Trees {
    /// Reads the trees of a revision; where the folder is missing, they are empty.
    ///
    /// # Errors
    ///
    /// Refuses a revision in which something else stands where a folder should be.
    pub(crate) fn load(
        objects: &mut Objects,
        layout: &Layout,
        revision: Option<Revision>,
    ) -> Result<Self, StoreError> {
        let Some(revision) = revision else { return Ok(Self::empty(layout)) };
        check_folder(objects, layout, revision)?;
        let root = objects.commit(revision, |commit| commit.tree)?;
        Self::below(objects, layout, revision, root)
    }

    fn empty(layout: &Layout) -> Self {
        let len = layout.folder.len() + 1;
        Self {
            revision: None,
            levels: vec![RawTree::default(); len],
            midstates: vec![HashMidstates::default(); len],
        }
    }

    /// Reads the trees below a root that is to be the ground of a commit on this revision, whose own it need not be.
    pub(crate) fn below(
        objects: &mut Objects,
        layout: &Layout,
        revision: Revision,
        root: TreeId,
    ) -> Result<Self, StoreError> {
        let mut trees = Self { revision: Some(revision), ..Self::empty(layout) };
        trees.levels[0] = objects.tree(root)?;
        for (depth, part) in layout.folder.iter().enumerate() {
            let Some(pointer) = trees.levels[depth].get(part.as_bytes()) else { break };
            trees.levels[depth + 1] = objects.tree(TreeId::new(pointer.oid))?;
        }
        Ok(trees)
    }

    pub(crate) fn folder(&self) -> &RawTree {
        self.levels.last().expect("there is a root")
    }
}

/// The id of what a revision has under a path, if anything.
pub(crate) fn object_at(
    objects: &mut Objects,
    revision: Revision,
    path: &str,
) -> Result<Option<BlobId>, StoreError> {
    let root = objects.commit(revision, |commit| commit.tree)?;
    Ok(find_below(objects, root, path.split('/'))?.map(|found| found.blob()))
}

/// What stands under a path, part by part, below a tree; `None` for nothing.
pub(super) fn find_below<'a>(
    objects: &mut Objects,
    root: TreeId,
    parts: impl IntoIterator<Item = &'a str>,
) -> Result<Option<Pointer>, StoreError> {
    let mut at = Pointer { mode: FOLDER, oid: *root.as_bytes() };
    for part in parts {
        let folder = if at.is_folder() { objects.raw_tree(TreeId::new(at.oid))? } else { return Ok(None) };
        let Some(found) = find(&folder, part.as_bytes()) else { return Ok(None) };
        at = found;
    }
    Ok(Some(at))
}

/// See [`Archive::tree_flaw`](crate::store::Archive::tree_flaw).
pub(crate) fn flaw(
    objects: &mut Objects,
    layout: &Layout,
    revision: Revision,
    known: &mut Vec<TreeId>,
) -> Result<Option<String>, StoreError> {
    let mut ids = vec![objects.commit(revision, |commit| commit.tree)?];
    for part in &layout.folder {
        let above = objects.raw_tree(*ids.last().expect("there is a root"))?;
        let Some(found) = find(&above, part.as_bytes()).filter(Pointer::is_folder) else { break };
        ids.push(TreeId::new(found.oid));
    }
    let mut flaw = None;
    for id in ids.iter().filter(|id| !known.contains(id)) {
        let found = tree::flaw(&objects.raw_tree(*id)?);
        flaw = flaw.or(found.map(|found| format!("the tree {id} is damaged ({found})")));
    }
    *known = ids;
    Ok(flaw)
}

/// Refuses a revision in which something else stands where a folder should be.
pub(crate) fn check_folder(
    objects: &mut Objects,
    layout: &Layout,
    revision: Revision,
) -> Result<(), StoreError> {
    let mut id = objects.commit(revision, |commit| commit.tree)?;
    for (depth, part) in layout.folder.iter().enumerate() {
        let Some(pointer) = find(&objects.raw_tree(id)?, part.as_bytes()) else { break };
        if !pointer.is_folder() {
            let what = match pointer.entry() {
                TreeEntry::Special(what) => what.to_string(),
                TreeEntry::File(_) => "a file".to_owned(),
            };
            let path = layout.folder[..=depth].join("/");
            return Err(layout.unsuitable(format!("`{path}` is {what} in commit {revision}, not a folder")));
        }
        id = TreeId::new(pointer.oid);
    }
    Ok(())
}
