//! Brings the index up to a new head before the branch moves, and rolls it back if the branch does not.
//!
//! `git commit` reads `HEAD`, then the index, and only then takes `index.lock` (`prepare_index` in git's
//! `builtin/commit.c`). If the branch moved first, a racing commit could pair our new head with the old index and
//! so revert what we wrote. In the reverse order it pairs the old head with the new index, and git's own
//! compare-and-swap of `HEAD` refuses that commit. So the new entries are in place before the branch moves, and
//! `index.lock` is held until the files are too. The entries are written only when the pack with the objects they
//! name is in place, because `git diff --cached` reads those.
//!
//! If the branch does not move, the old index is restored. After a kill or a power cut it is lost, and it may be
//! impossible (no more files may be opened); then the lock and the keep file are left, and
//! `worktree::apply::repair::interrupted`, which finds the commit that was in progress, reverts the entries.

use std::mem;

use crate::store::StoreError;
use crate::store::git::disk::barrier::remove_if_there;
use crate::store::git::disk::lock::HeldLock;
use crate::store::git::index::file::IndexFile;
use crate::store::git::index::git_index::GitIndex;

/// A new index whose branch may not have moved yet; if it is dropped without [`keep`](Self::keep), the old index is
/// restored.
#[must_use]
#[derive(Debug)]
pub(crate) struct Rollback<'a, G> {
    index: &'a IndexFile,
    /// The bytes of the old index; `None` if there was none.
    before: Option<&'a [u8]>,
    held: Option<HeldWrite<G>>,
}

/// What protects a write until everything is in place.
#[must_use]
#[derive(Debug)]
pub(crate) struct HeldWrite<G> {
    /// The lock of the index.
    pub(crate) lock: HeldLock,
    /// Protects the new objects.
    guard: G,
}

impl<G> HeldWrite<G> {
    /// Leaves both as a kill would, so that the next look or start finds out what is to be done.
    pub(crate) fn leave(self) {
        self.lock.leave();
        mem::forget(self.guard);
    }
}

impl<'a, G> Rollback<'a, G> {
    /// Replaces the index that `next` was read from by `next`. The guard of the new objects is dropped, and the lock
    /// released, once the index is no longer ahead of the branch.
    pub(crate) fn put(
        index: &'a IndexFile,
        next: &'a GitIndex,
        lock: HeldLock,
        guard: G,
    ) -> Result<Self, StoreError> {
        lock.check()?;
        drop(index.replace(&next.encode())?);
        Ok(Self { index, before: next.before(), held: Some(HeldWrite { lock, guard }) })
    }

    /// Keeps the new index, because the branch has moved. The caller drops what is returned when the files are updated
    /// too, so that a kill before that is noticed.
    pub(crate) fn keep(mut self) -> HeldWrite<G> {
        self.held.take().expect("taken once")
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
        if self.held.is_some()
            && let Err(error) = self.put_back()
        {
            tracing::warn!(%error, "the index could not be put back; the next write or start does it");
            self.held.take().into_iter().for_each(HeldWrite::leave);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::store::git::disk::lock::lock_file_path;
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
            let lock = index.lock(Duration::ZERO).unwrap();
            let ahead = Rollback::put(&index, &next, lock, ()).unwrap();
            assert_eq!(fs::read(&index.path).unwrap(), new);
            if is_kept {
                drop(ahead.keep());
            } else {
                drop(ahead);
            }
            assert_eq!(&fs::read(&index.path).unwrap(), expected);
            assert!(!lock_file_path(&index.path).exists());
        }
    }
}
