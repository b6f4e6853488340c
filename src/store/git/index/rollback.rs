//! The index, brought up to a new head before the branch is.
//!
//! `git commit` reads `HEAD`, then the index, and only then takes `index.lock` (`prepare_index` in
//! git's `builtin/commit.c`). If the branch moved first, a commit that races with us could pair our
//! new head with the old index and so revert what we wrote. The other way round it pairs the old
//! head with the new index, and git's own compare-and-set of `HEAD` refuses that commit. So the new
//! entries are in place before the branch moves, and `index.lock` is held until the files are too. They
//! come only when the pack with what they name is in its place, since `git diff --cached` reads that.
//!
//! When the branch does not move, the old index comes back: at once, or, after a kill, at the next
//! start, which finds it beside the revision that the branch was to have.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::store::StoreError;
use crate::store::git::disk::barrier::{read_if_there, remove_if_there};
use crate::store::git::disk::scratch::Drawers;
use crate::store::git::index::file::IndexDraft;
use crate::store::git::object::id::{Oid, hex, unhex};

/// The second name of the old index.
const BEFORE: &str = "index-before";
/// A further name of the old index, on its way back.
const BACK: &str = "index-back";
/// The revision that the branch is to have.
const TARGET: &str = "index-target";

/// A new index whose branch may not have moved yet; dropped without [`keep`](Self::keep), the old
/// one comes back.
#[must_use]
#[derive(Debug)]
pub(crate) struct AheadIndex {
    index: PathBuf,
    desk: PathBuf,
    drawers: Drawers,
    before: Option<File>,
    is_kept: bool,
}

impl AheadIndex {
    /// Puts a draft in the place of the index; the caller holds its lock.
    pub(crate) fn put(
        drawers: &Drawers,
        [index, desk]: [&Path; 2],
        draft: IndexDraft,
        target: &Oid,
    ) -> Result<Self, StoreError> {
        let failed = |source| StoreError::at("write", index, source);
        // One that was left would mean this index.
        remove_if_there(&desk.join(TARGET))?;
        let held = drawers.hold(index);
        let before = desk.join(BEFORE);
        let link = || fs::hard_link(index, &before);
        let linked = match link() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                remove_if_there(&before)?;
                link()
            }
            linked => linked,
        };
        match linked {
            // There is no index yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => remove_if_there(&before)?,
            linked => linked.map_err(failed)?,
        }
        // Only now: a target without an old index beside it says that there was no index.
        fs::write(desk.join(TARGET), hex(target)).map_err(failed)?;
        let (index, desk, drawers) = (index.to_owned(), desk.to_owned(), drawers.clone());
        let ahead = Self { index, desk, drawers, before: held, is_kept: false };
        drop(draft.put(&ahead.index)?);
        Ok(ahead)
    }

    /// The branch has moved: the new index is the right one. What is returned is to be dropped when
    /// the files are there too, so that a kill before that is noticed.
    pub(crate) fn keep(mut self) -> Self {
        self.is_kept = true;
        self
    }
}

impl Drop for AheadIndex {
    fn drop(&mut self) {
        let restored = if self.is_kept { Ok(()) } else { restore(&self.index, &self.desk) };
        if let Err(error) = restored.and_then(|()| forget(&self.desk)) {
            tracing::warn!(%error, "the index could not be put back; the next start does it");
        }
        self.drawers.let_go(self.before.take());
    }
}

/// Puts the old index back after a kill, unless the branch has come to where it was to go; answers
/// whether it has, so that the index is ahead of the files.
///
/// Only for the holder of the service lock, and while the killed one's `index.lock` still stands.
pub(crate) fn recover(
    index: &Path,
    desk: &Path,
    is_locked: bool,
    has_moved: impl FnOnce(Oid) -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    let Some(target) = read_if_there(&desk.join(TARGET))? else { return Ok(false) };
    let is_ahead = match unhex(&target).filter(|_| is_locked) {
        Some(target) => has_moved(target)?,
        None => return forget(desk).map(|()| false),
    };
    if !is_ahead {
        tracing::info!(path = %index.display(), "putting back the index of before an unfinished write");
        restore(index, desk)?;
    }
    forget(desk).map(|()| is_ahead)
}

fn restore(index: &Path, desk: &Path) -> Result<(), StoreError> {
    let before = desk.join(BEFORE);
    if !before.exists() {
        return remove_if_there(index);
    }
    // Under a further name, so that the old index is there until the target is forgotten: a kill in
    // between restores once more.
    let back = desk.join(BACK);
    remove_if_there(&back)?;
    let put_back = fs::hard_link(&before, &back).and_then(|()| fs::rename(&back, index));
    put_back.map_err(|source| StoreError::at("put back", index, source))?;
    // It is still there if both were one file already (rename(2)).
    remove_if_there(&back)
}

/// Removes the target first: without it the others mean nothing.
fn forget(desk: &Path) -> Result<(), StoreError> {
    [TARGET, BEFORE].into_iter().try_for_each(|name| remove_if_there(&desk.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::git::index::file::Purpose;

    const WANTED: Oid = [1; 20];

    /// A folder with an index and a desk.
    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (index, desk) = (folder.path().join("index"), folder.path().join("desk"));
        fs::write(&index, "old").unwrap();
        fs::create_dir(&desk).unwrap();
        (folder, index, desk)
    }

    fn put(index: &Path, desk: &Path) -> Result<AheadIndex, StoreError> {
        let drawers = Drawers::new(desk);
        let draft = IndexDraft::make(&drawers, desk, Purpose::Ahead)?.write(index, b"new")?;
        AheadIndex::put(&drawers, [index, desk], draft, &WANTED)
    }

    fn start_after_a_kill(index: &Path, desk: &Path) -> bool {
        recover(index, desk, true, |_| Ok(false)).unwrap()
    }

    #[test]
    fn a_kill_before_the_branch_moved_brings_the_old_index_back() {
        let (_folder, index, desk) = place();
        std::mem::forget(put(&index, &desk).unwrap());
        assert_eq!(fs::read(&index).unwrap(), b"new");
        assert!(!start_after_a_kill(&index, &desk));
        assert_eq!(fs::read(&index).unwrap(), b"old");
        assert_eq!(fs::read_dir(&desk).unwrap().count(), 0);
    }

    #[test]
    fn a_kill_while_the_old_index_is_put_back_does_not_cost_the_index() {
        let (_folder, index, desk) = place();
        std::mem::forget(put(&index, &desk).unwrap());
        restore(&index, &desk).unwrap();
        assert!(!start_after_a_kill(&index, &desk));
        assert_eq!(fs::read(&index).unwrap(), b"old");
    }

    #[test]
    fn a_write_that_could_not_set_the_old_index_aside_leaves_it_alone() {
        let (_folder, index, desk) = place();
        // A folder can't have a second name, so the write ends where a kill may end it.
        fs::remove_file(&index).unwrap();
        fs::create_dir(&index).unwrap();
        assert!(put(&index, &desk).is_err());
        assert!(!desk.join(TARGET).exists(), "nothing may ask for an index that was not set aside");
    }
}
