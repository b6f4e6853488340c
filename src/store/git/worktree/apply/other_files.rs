//! Brings forward files outside the collections folder where the branch is shared with a remote.
//!
//! Without a remote a person checks them out. With one we move the branch to what others have pushed: in a clone with
//! half of its files, or with an index that is behind, a person's next commit would revert the work of others. The
//! rule is that of `catch_up`: a file and its index entry become what the new head has if they are what the old one
//! had. A symbolic link counts as a file, as in git; a submodule is an empty folder until a person fills it.
//! Names that are not UTF-8 are left as they are.

use std::path::Path;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use crate::store::git::index::git_index::GitIndex;
use crate::store::git::object::tree::{PathChange, PathChanges};
use crate::store::git::read::reader::Reader;
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::apply::update::{UpdateReason, apply_one, is_outdated};
use crate::store::git::worktree::replace::staging::NewFile;
use crate::store::git::worktree::replace::swap::Replacer;
use crate::store::git::worktree::scan::folder::{Folder, FoundFolder};
use crate::store::{BlobId, StoreError};

/// Brings forward a path that was or becomes a submodule, and the file before or after it. A folder that is not empty
/// stays, as in git.
fn bring_submodule(
    replacer: &Replacer<'_>,
    name: &str,
    old: Option<BlobId>,
    change: &PathChange,
    new: Option<NewFile<'_>>,
) -> Result<(), StoreError> {
    let folder = replacer.folder();
    if change.before.is_some_and(|before| before.is_submodule()) {
        let _has_something = rustix::fs::unlinkat(&folder.fd, name, AtFlags::REMOVEDIR).is_err();
    }
    replacer.compare_and_replace(name, &[old], new)?;
    if change.after.is_some_and(|after| after.is_submodule()) {
        return match rustix::fs::mkdirat(&folder.fd, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(folder.failed("make the folder", name, errno)),
        };
    }
    Ok(())
}

impl Checkout {
    /// Brings such files and their entries up to the new head; logs failures.
    pub(crate) fn bring_others(&mut self, reader: &mut Reader, index: &mut GitIndex, others: &PathChanges) {
        if others.is_empty() {
            return;
        }
        self.mark_dirty();
        // Deletions come first, because they make room for other files.
        let (gone, come): (Vec<_>, Vec<_>) = others.iter().partition(|(_, change)| change.after.is_none());
        for (path, change) in gone.into_iter().chain(come) {
            if !is_outdated(&index.get(path), change) {
                continue;
            }
            if let Err(error) = self.bring_other(reader, index, path, change.clone()) {
                tracing::warn!(path, %error, cause = error.cause(), "a file of the work tree could not be brought up to date");
            }
        }
    }

    fn bring_other(
        &self,
        reader: &mut Reader,
        index: &mut GitIndex,
        path: &str,
        mut change: PathChange,
    ) -> Result<(), StoreError> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parts = || above.split('/').filter(|part| !part.is_empty());
        let folder = Folder::inside(&self.layout, parts(), change.after.is_some())?.or_warn();
        let mut replacer = folder.as_ref().map(|folder| Replacer::new(&self.layout, folder)).transpose()?;
        let [before, after] = [change.before, change.after].map(|side| side.filter(|it| !it.is_submodule()));
        let content = after.map(|after| reader.objects.blob(after.blob())).transpose();
        // A file that can't be made is behind. Its entry is not: an old one would revert the work of others.
        let (content, missing) = match content {
            Err(error @ StoreError::Damaged { .. }) => (None, Some(error)),
            content => (content?, None),
        };
        change.content = content;
        if [before, after] != [change.before, change.after]
            && let Some(replacer) = replacer.take()
        {
            let new = NewFile::of(before, after, change.content.as_deref());
            bring_submodule(&replacer, name, before.map(|before| before.blob()), &change, new)?;
        }
        let applied =
            apply_one(replacer.as_ref(), Some(index), [name, path], &change, UpdateReason::BranchMoved);
        missing.map_or(applied, Err)?;
        if change.after.is_none() {
            self.remove_if_empty(parts().collect());
        }
        Ok(())
    }

    /// Removes folders that have become empty, as git does.
    fn remove_if_empty(&self, mut parts: Vec<&str>) {
        while let Some(name) = parts.pop() {
            let Ok(FoundFolder::Folder(above)) = Folder::inside(&self.layout, parts.iter().copied(), false)
            else {
                return;
            };
            if rustix::fs::unlinkat(&above.fd, Path::new(name), AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }
}
