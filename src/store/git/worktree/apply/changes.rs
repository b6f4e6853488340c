//! What differs between two revisions, as changes of the work tree: of collection files, and of the other files where
//! the branch is shared with a remote.

use std::collections::btree_map::Entry;

use crate::domain::Revision;
use crate::store::git::object::tree::{PathChange, PathChanges, Pointer, RawTree, differences};
use crate::store::git::read::reader::Reader;
use crate::store::{StoreError, TreeEntry, TreeId};

/// How many commits are searched for what we wrote to a file. Everything is flushed every few dozen commits, so there
/// are this many only if others moved the branch; what is older is kept as if a person had edited it.
const JUDGED_COMMITS_MAX: usize = 100_000;

/// Returns what differs in the collections folder between two revisions.
pub(crate) fn changes_between(
    reader: &mut Reader,
    old: Option<Revision>,
    new: Option<Revision>,
) -> Result<PathChanges, StoreError> {
    let (old, new) = (reader.load_trees(old)?, reader.load_trees(new)?);
    let found = differences(old.folder().bytes(), new.folder().bytes())
        .map_err(|error| reader.layout.unsuitable(error.to_string()))?;
    let mut changes = PathChanges::new();
    for (name, before, after) in found {
        let Ok(name) = String::from_utf8(name) else { continue };
        if let Some(change) = change_of(reader, before, after)? {
            changes.insert(name, change);
        }
    }
    Ok(changes)
}

/// Returns what has changed since a revision: the collection files, and the other files by their full paths.
pub(crate) fn all_changes_since(
    reader: &mut Reader,
    old: Option<Revision>,
    new: Revision,
) -> Result<[PathChanges; 2], StoreError> {
    Ok([changes_since(reader, old, new)?, others_between(reader, old, Some(new))?])
}

/// Like [`changes_between`], with what the commits between the two had. Includes files that changed and changed back.
fn changes_since(
    reader: &mut Reader,
    old: Option<Revision>,
    new: Revision,
) -> Result<PathChanges, StoreError> {
    let mut changes = changes_between(reader, old, Some(new))?;
    let trees = reader.load_trees(Some(new))?;
    for commit in reader.between(old, new, JUDGED_COMMITS_MAX)? {
        let parent = reader.objects.commit(commit, |commit| commit.parents.first().copied())?;
        for passed in reader.differences(parent, Some(commit))? {
            let there = match changes.entry(passed.name) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(slot) => {
                    let pointer = trees.folder().get(slot.key().as_bytes());
                    let Some(change) = change_of(reader, pointer, pointer)? else { continue };
                    slot.insert(change)
                }
            };
            there.intermediate_blobs.insert(passed.before.and_then(TreeEntry::blob));
        }
    }
    Ok(changes)
}

/// Builds the change of a file; `None` if either side is not a file, because a person has to check that out.
fn change_of(
    reader: &mut Reader,
    before: Option<Pointer>,
    after: Option<Pointer>,
) -> Result<Option<PathChange>, StoreError> {
    if [before, after].into_iter().flatten().any(|pointer| !pointer.is_file()) {
        return Ok(None);
    }
    let content = match after.map(|pointer| reader.objects.blob(pointer.blob())).transpose() {
        // Only this file is behind then.
        Err(StoreError::Damaged { .. }) => None,
        content => content?,
    };
    Ok(Some(PathChange::new(before, after, content)))
}

/// Returns what differs outside the collections folder between two revisions, by full path and without contents;
/// nothing without a remote.
pub(crate) fn others_between(
    reader: &mut Reader,
    old: Option<Revision>,
    new: Option<Revision>,
) -> Result<PathChanges, StoreError> {
    let mut found = PathChanges::new();
    if old == new || !reader.layout.has_remote() {
        return Ok(found);
    }
    let mut root = |revision: Option<Revision>| {
        revision.map(|revision| reader.objects.commit(revision, |commit| commit.tree)).transpose()
    };
    let mut left = vec![(String::new(), [root(old)?, root(new)?])];
    let collections = reader.layout.path_in_repository("");
    while let Some((above, trees)) = left.pop() {
        let [old, new] =
            trees.map(|tree| tree.map_or_else(|| Ok(RawTree::default()), |id| reader.objects.tree(id)));
        let differing = differences(old?.bytes(), new?.bytes())
            .map_err(|error| reader.layout.unsuitable(error.to_string()))?;
        for (name, before, after) in differing {
            let Some(name) = String::from_utf8(name).ok().filter(|name| is_harmless(name)) else { continue };
            let path = format!("{above}{name}");
            let sides = [before, after];
            let folders = sides.map(|side| side.filter(Pointer::is_folder).map(|it| TreeId::new(it.oid)));
            if folders.iter().any(Option::is_some) {
                left.push((format!("{path}/"), folders));
            }
            let [before, after] = sides.map(|side| side.filter(|it| !it.is_folder()));
            let is_collection =
                above == collections && [before, after].iter().flatten().all(Pointer::is_file);
            if before != after && !is_collection {
                found.insert(path, PathChange::new(before, after, None));
            }
        }
    }
    Ok(found)
}

/// Returns whether a name can only mean a file of the work tree.
fn is_harmless(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains('/') && !name.eq_ignore_ascii_case(".git")
}
