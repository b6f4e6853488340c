//! The index, brought up to a new head before the branch is.
//!
//! `git commit` reads `HEAD`, then the index, and only then takes `index.lock` (`prepare_index` in
//! git's `builtin/commit.c`). If the branch moved first, a commit that races with us could pair our
//! new head with the old index and so revert what we wrote. The other way round it pairs the old
//! head with the new index, and git's own compare-and-set of `HEAD` refuses that commit. So the new
//! entries are in place before the branch moves, and `index.lock` is held until the files are too. They
//! come only when the pack with what they name is in its place, since `git diff --cached` reads that.
//!
//! When the branch does not move, the old index comes back. After a kill or a power cut nobody has it: then the entries
//! go back by the rule of `worktree::apply::catch_up`, which finds the commit that was under way.

use std::mem;
use std::path::Path;

use crate::store::StoreError;
use crate::store::git::disk::barrier::remove_if_there;
use crate::store::git::index::file::IndexDraft;

/// A new index whose branch may not have moved yet; dropped without [`keep`](Self::keep), the old
/// one comes back.
#[must_use]
#[derive(Debug)]
pub(crate) struct Rollback<'a, G> {
    index: &'a Path,
    state: &'a Path,
    /// What the old one held; nothing where there was none.
    before: Option<&'a [u8]>,
    guard: Option<G>,
    is_kept: bool,
}

impl<'a, G> Rollback<'a, G> {
    /// Puts a draft in the place of the index, which holds `before`; the caller holds its lock. The guard of the
    /// write is dropped when nothing is ahead any more.
    pub(crate) fn put(
        [index, state]: [&'a Path; 2],
        draft: IndexDraft,
        before: Option<&'a [u8]>,
        guard: Option<G>,
    ) -> Result<Self, StoreError> {
        drop(draft.put(index)?);
        Ok(Self { index, state, before, guard, is_kept: false })
    }

    /// The branch has moved: the new index is the right one. The guard that is returned is to be dropped when
    /// the files are there too, so that a kill before that is noticed.
    pub(crate) fn keep(mut self) -> Option<G> {
        self.is_kept = true;
        self.guard.take()
    }

    fn put_back(&self) -> Result<(), StoreError> {
        match self.before {
            Some(before) => {
                IndexDraft::make(self.state)?.write(self.index, before)?.put(self.index).map(drop)
            }
            None => remove_if_there(self.index),
        }
    }
}

impl<G> Drop for Rollback<'_, G> {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = self.put_back()
        {
            tracing::warn!(%error, "the index could not be put back; the next write or start does it");
            self.guard.take().into_iter().for_each(mem::forget);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A folder with an index and a state folder.
    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (index, state) = (folder.path().join("index"), folder.path().join("desk"));
        fs::write(&index, "old").unwrap();
        fs::create_dir(&state).unwrap();
        (folder, index, state)
    }

    fn put<'a>(index: &'a Path, state: &'a Path) -> Result<Rollback<'a, ()>, StoreError> {
        let draft = IndexDraft::make(state)?.write(index, b"new")?;
        Rollback::put([index, state], draft, Some(b"old"), None)
    }

    #[test]
    fn the_old_index_comes_back_unless_the_new_one_is_kept() {
        let (_folder, index, state) = place();
        for (is_kept, expected) in [(false, "old"), (true, "new")] {
            let ahead = put(&index, &state).unwrap();
            assert_eq!(fs::read_to_string(&index).unwrap(), "new");
            if is_kept {
                assert_eq!(ahead.keep(), None);
            } else {
                drop(ahead);
            }
            assert_eq!(fs::read_to_string(&index).unwrap(), expected);
            assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
        }
    }
}
