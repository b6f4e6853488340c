//! The collections folder's tree and those above it, from the root down.

use crate::store::StoreError;
use crate::store::git::object::hash_midstates::HashMidstates;
use crate::store::git::object::id::{Oid, hex};
use crate::store::git::object::tree::{FOLDER, RawTree};
use crate::store::git::read::objects::Objects;
use crate::store::git::repo::layout::Place;

/// The trees of one revision, kept as raw bytes.
#[derive(Debug, Clone)]
pub(crate) struct Trees {
    /// The commit that has them; `None` for the empty ones before the first commit.
    pub(crate) revision: Option<Oid>,
    /// The root first, the collections folder last.
    pub(crate) levels: Vec<RawTree>,
    /// What is known of the hash of each.
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
        place: &Place,
        revision: Option<Oid>,
    ) -> Result<Self, StoreError> {
        let mut levels = vec![RawTree::default(); place.folder.len() + 1];
        if let Some(revision) = revision {
            levels[0] = objects.commit(&revision).and_then(|commit| objects.tree(&commit.tree))?;
            for (depth, part) in place.folder.iter().enumerate() {
                let Some(pointer) = levels[depth].get(part.as_bytes()) else { break };
                if pointer.mode != FOLDER {
                    let (what, path) = (named(pointer.mode), place.folder[..=depth].join("/"));
                    let at = hex(&revision);
                    return Err(place.unsuitable(format!("`{path}` is {what} in commit {at}, not a folder")));
                }
                levels[depth + 1] = objects.tree(&pointer.oid)?;
            }
        }
        let midstates = vec![HashMidstates::default(); levels.len()];
        Ok(Self { revision, levels, midstates })
    }

    /// The collections folder.
    pub(crate) fn folder(&self) -> &RawTree {
        self.levels.last().expect("there is a root")
    }
}

fn named(mode: u32) -> &'static str {
    match mode & 0o170_000 {
        0o120_000 => "a symbolic link",
        0o160_000 => "a submodule",
        _ => "a file",
    }
}

/// The collections folder's tree in a revision; `None` where there is no such folder.
///
/// Unlike [`Trees::load`] this takes the past as it is: something else in its place is no folder.
pub(crate) fn folder_oid(
    objects: &mut Objects,
    place: &Place,
    revision: &Oid,
) -> Result<Option<Oid>, StoreError> {
    let mut oid = objects.commit(revision)?.tree;
    for part in &place.folder {
        match objects.tree(&oid)?.get(part.as_bytes()) {
            Some(pointer) if pointer.mode == FOLDER => oid = pointer.oid,
            _ => return Ok(None),
        }
    }
    Ok(Some(oid))
}
