//! Differences in the collections folder between two revisions.

use crate::domain::Revision;
use crate::domain::file_name::is_collection_file;
use crate::store::git::object::id::ObjectKind;
use crate::store::git::object::tree::differences;
use crate::store::git::odb::objects::corrupt;
use crate::store::git::read::reader::Reader;
use crate::store::git::read::walk::FolderFinder;
use crate::store::{FileChange, StoreError, TreeId};

impl Reader {
    pub(crate) fn differences(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        let mut folder = FolderFinder::new(&mut self.objects, &self.layout.folder);
        let mut side = |revision: Option<Revision>| revision.map_or(Ok(None), |revision| folder.at(revision));
        let (before, after) = (side(from)?, side(to)?);
        if before == after {
            return Ok(Vec::new());
        }
        compare(&folder.bytes(before)?, &folder.bytes(after)?, after)
    }
}

/// Compares the raw trees of two versions of the folder.
pub(super) fn compare(old: &[u8], new: &[u8], after: Option<TreeId>) -> Result<Vec<FileChange>, StoreError> {
    let found = differences(old, new).map_err(|error| {
        corrupt(ObjectKind::Tree, after.as_ref().map_or(&[0; 20], TreeId::as_bytes), error.to_string())
    })?;
    let files = found.into_iter().filter_map(|(name, before, after)| {
        let name = String::from_utf8_lossy(&name).into_owned();
        let [before, after] = [before, after].map(|pointer| pointer.map(|pointer| pointer.tree_entry()));
        // A change of the executable bit alone is not a change.
        (is_collection_file(&name) && before != after).then_some(FileChange { name, before, after })
    });
    Ok(files.collect())
}
