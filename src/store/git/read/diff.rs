//! What the folder has in a revision, what differs between two, and contents.

use crate::domain::Revision;
use crate::domain::file_name::is_collection_file;
use crate::store::git::object::id::Kind;
use crate::store::git::object::tree::{differences, entries};
use crate::store::git::odb::objects::{Objects, corrupt};
use crate::store::git::odb::parallel::share;
use crate::store::git::read::recent_commits::RecentCommits;
use crate::store::git::read::walk::FollowedFolder;
use crate::store::git::repo::layout::Layout;
use crate::store::{BlobId, EachContent, FileChange, StoreError, TreeEntry, TreeId};

pub(crate) fn changes(
    objects: &mut Objects,
    layout: &Layout,
    [from, to]: [Option<Revision>; 2],
) -> Result<Vec<FileChange>, StoreError> {
    let mut folder = FollowedFolder::new(objects, &layout.folder);
    let mut side = |revision: Option<Revision>| revision.map_or(Ok(None), |revision| folder.at(revision));
    let (before, after) = (side(from)?, side(to)?);
    if before == after {
        return Ok(Vec::new());
    }
    compare(&folder.bytes(before)?, &folder.bytes(after)?, after)
}

/// What differs between the contents of two versions of the folder.
pub(super) fn compare(old: &[u8], new: &[u8], after: Option<TreeId>) -> Result<Vec<FileChange>, StoreError> {
    let found = differences(old, new).map_err(|error| {
        corrupt(Kind::Tree, after.as_ref().map_or(&[0; 20], TreeId::as_bytes), error.to_string())
    })?;
    let files = found.into_iter().filter_map(|(name, before, after)| {
        let name = String::from_utf8_lossy(&name).into_owned();
        let [before, after] = [before, after].map(|pointer| pointer.map(|pointer| pointer.entry()));
        // A file that became executable is the same file.
        (is_collection_file(&name) && before != after).then_some(FileChange { name, before, after })
    });
    Ok(files.collect())
}

/// The files of the folder at a revision whose names are wanted, by name.
pub(crate) fn files(
    objects: &mut Objects,
    layout: &Layout,
    revision: Revision,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<(String, TreeEntry)>, StoreError> {
    let mut folder = FollowedFolder::new(objects, &layout.folder);
    let id = folder.at(revision)?;
    let bytes = folder.bytes(id)?;
    let named = entries(&bytes).filter_map(|entry| {
        let name = String::from_utf8_lossy(entry.name);
        (is_collection_file(&name) && is_wanted(&name)).then(|| (name.into_owned(), entry.pointer.entry()))
    });
    let mut files: Vec<_> = named.collect();
    files.sort_by(|(one, _), (two, _)| one.cmp(two));
    files.dedup_by(|(one, _), (two, _)| one == two);
    Ok(files)
}

/// Reads contents; see [`Commits::read`](crate::store::Commits::read).
pub(crate) fn contents(
    objects: &mut Objects,
    recent_commits: &RecentCommits,
    blobs: &[BlobId],
    each: &EachContent<'_>,
) -> Result<(), StoreError> {
    let (places, others) = recent_commits.contents(blobs, each);
    share(objects, others.len(), &|objects, range| {
        for index in range {
            match objects.content(others[index]) {
                Ok(content) => each(places[index], Ok(&content)),
                Err(error) => each(places[index], Err(error)),
            }
        }
        Ok(())
    })
}
