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

use crate::store::StoreError;
use crate::store::git::disk::barrier::remove_if_there;
use crate::store::git::index::file::IndexFile;
use crate::store::git::index::git_index::GitIndex;

/// A new index whose branch may not have moved yet; dropped without [`keep`](Self::keep), the old
/// one comes back.
#[must_use]
#[derive(Debug)]
pub(crate) struct Rollback<'a, G> {
    index: &'a IndexFile,
    /// What the old one held; nothing where there was none.
    before: Option<&'a [u8]>,
    guard: Option<G>,
    is_kept: bool,
}

impl<'a, G> Rollback<'a, G> {
    /// Puts an index with new entries in the place of the one that it was read from; the caller holds its lock. The
    /// guard of the write is dropped when nothing is ahead any more.
    pub(crate) fn put(
        index: &'a IndexFile,
        next: &'a GitIndex,
        guard: Option<G>,
    ) -> Result<Self, StoreError> {
        drop(index.replace(&next.encode())?);
        Ok(Self { index, before: next.before(), guard, is_kept: false })
    }

    /// The branch has moved: the new index is the right one. The guard that is returned is to be dropped when
    /// the files are there too, so that a kill before that is noticed.
    pub(crate) fn keep(mut self) -> Option<G> {
        self.is_kept = true;
        self.guard.take()
    }

    fn put_back(&self) -> Result<(), StoreError> {
        match self.before {
            Some(before) => self.index.replace(before).map(drop),
            None => remove_if_there(&self.index.path),
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

    use super::*;
    use crate::store::git::object::tree::Pointer;

    #[test]
    fn the_old_index_comes_back_unless_the_new_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("desk");
        fs::create_dir(&state).unwrap();
        let index = IndexFile::new(folder.path(), state.clone());
        let old = GitIndex::empty().encode();
        fs::write(&index.path, &old).unwrap();
        let mut next = index.read().unwrap().unwrap();
        next.put("a", Some(Pointer { mode: 0o100_644, oid: [7; 20] }), [0; 10]);
        let new = next.encode();
        for (is_kept, expected) in [(false, &old), (true, &new)] {
            let ahead = Rollback::put(&index, &next, Some(())).unwrap();
            assert_eq!(fs::read(&index.path).unwrap(), new);
            if is_kept {
                assert_eq!(ahead.keep(), Some(()));
            } else {
                drop(ahead);
            }
            assert_eq!(&fs::read(&index.path).unwrap(), expected);
            assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
        }
    }
}
