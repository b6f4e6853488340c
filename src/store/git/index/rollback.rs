//! The index, brought up to a new head before the branch is.
//!
//! `git commit` reads `HEAD`, then the index, and only then takes `index.lock` (`prepare_index` in
//! git's `builtin/commit.c`). If the branch moved first, a commit that races with us could pair our
//! new head with the old index and so revert what we wrote. The other way round it pairs the old
//! head with the new index, and git's own compare-and-set of `HEAD` refuses that commit. So the new
//! entries are in place before the branch moves, and `index.lock` is held until the files are too. They
//! come only when the pack with what they name is in its place, since `git diff --cached` reads that.
//!
//! When the branch does not move, the old index comes back. After a kill or a power cut there may be
//! no old one: then the entries go back by the rule of `worktree::apply::catch_up`, which finds the commit that was under way.

use std::fs::{self, File, FileTimes};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use crate::store::git::disk::barrier::make_file;
use crate::store::git::disk::barrier::remove_if_there;
use crate::store::git::disk::links::hard_link;
use crate::store::git::disk::open;
use crate::store::git::index::file::IndexDraft;
use crate::store::{AtPath as _, StoreError};

/// A second name of the old index, or a copy of it.
pub(crate) const BEFORE: &str = "index-before";

/// A new index whose branch may not have moved yet; dropped without [`keep`](Self::keep), the old
/// one comes back.
#[must_use]
#[derive(Debug)]
pub(crate) struct Rollback<G> {
    index: PathBuf,
    before: Option<PathBuf>,
    guard: Option<G>,
    is_kept: bool,
}

impl<G> Rollback<G> {
    /// Puts a draft in the place of the index; the caller holds its lock. The guard of the write is
    /// dropped when nothing is ahead any more.
    pub(crate) fn put(
        [index, state]: [&Path; 2],
        draft: IndexDraft,
        guard: Option<G>,
    ) -> Result<Self, StoreError> {
        let before = state.join(BEFORE);
        remove_if_there(&before)?;
        let before = keep_old(index, &before).at_if_there("keep", index)?.map(|()| before);
        let ahead = Self { index: index.to_owned(), before, guard, is_kept: false };
        drop(draft.put(&ahead.index)?);
        Ok(ahead)
    }

    /// The branch has moved: the new index is the right one. What is returned is to be dropped when
    /// the files are there too, so that a kill before that is noticed.
    pub(crate) fn keep(mut self) -> Self {
        self.is_kept = true;
        self
    }

    fn settle(&self) -> Result<(), StoreError> {
        match (&self.before, self.is_kept) {
            (Some(before), true) => remove_if_there(before),
            (None, true) => Ok(()),
            (Some(before), false) => fs::rename(before, &self.index).at("put back", &self.index),
            (None, false) => remove_if_there(&self.index),
        }
    }
}

impl<G> Drop for Rollback<G> {
    fn drop(&mut self) {
        if let Err(error) = self.settle() {
            tracing::warn!(%error, "the index could not be put back; the next start does it");
            self.guard.take().into_iter().for_each(mem::forget);
        }
    }
}

/// Keeps an index under a second name. A copy does as well where there can be none, as for an index that
/// somebody else has written.
fn keep_old(index: &Path, before: &Path) -> io::Result<()> {
    match hard_link(index, before) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => (),
        linked => return linked,
    }
    io::copy(&mut open::open(index)?, &mut make_file(before)?)?;
    // Git tells by its time which files it has to look into.
    let time = FileTimes::new().set_modified(fs::metadata(index)?.modified()?);
    File::open(before)?.set_times(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with an index and a state folder.
    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (index, state) = (folder.path().join("index"), folder.path().join("desk"));
        fs::write(&index, "old").unwrap();
        fs::create_dir(&state).unwrap();
        (folder, index, state)
    }

    fn put(index: &Path, state: &Path) -> Result<Rollback<()>, StoreError> {
        let draft = IndexDraft::make(state)?.write(index, b"new")?;
        Rollback::put([index, state], draft, None)
    }

    #[test]
    fn the_old_index_comes_back_unless_the_new_one_is_kept() {
        let (_folder, index, state) = place();
        for (is_kept, expected) in [(false, "old"), (true, "new")] {
            let ahead = put(&index, &state).unwrap();
            assert_eq!(fs::read_to_string(&index).unwrap(), "new");
            drop(if is_kept { ahead.keep() } else { ahead });
            assert_eq!(fs::read_to_string(&index).unwrap(), expected);
            assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
        }
    }
}
