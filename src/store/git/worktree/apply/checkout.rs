//! The checkout of the served branch: its files, its index, and the state kept about them.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD};

use crate::domain::Revision;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::disk::lock::HeldLock;
use crate::store::git::index::file::IndexFile;
use crate::store::git::object::tree::PathChanges;
use crate::store::git::read::reader::Reader;
use crate::store::git::repo::checkpoint::Checkpoint;
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::refs::branch::Branch;
use crate::store::git::worktree::apply::lagging::Lagging;
use crate::store::git::worktree::apply::repair::recent::RecentWrites;
use crate::store::git::worktree::scan::folder::{Folder, FoundFolder};
use crate::store::git::worktree::scan::status::{self, Scan};
use crate::store::{AtPath as _, GitLocks, Paths, StoreError, WorkTree};

/// The interval between two looks at what may be half of a checkout.
pub(crate) const RETRY_WAIT: Duration = Duration::from_millis(5);

/// The files and the index of the work tree, as far as it shows the served branch.
pub(crate) struct Checkout {
    pub(crate) layout: Arc<Layout>,
    pub(crate) branch: Branch,
    pub(crate) scan: Scan,
    pub(crate) index: IndexFile,
    pub(crate) checkpoint: Arc<Checkpoint>,
    pub(crate) recent: RecentWrites,
    // Files that could not be brought up to the branch.
    pub(crate) lagging: Lagging,
    // Whether the index is ahead of the files.
    pub(crate) is_index_ahead: bool,
    // Commits whose publication was interrupted; the index may have their entries already.
    pub(crate) interrupted_commits: Vec<Revision>,
    // Whether files were written since they were last flushed.
    is_dirty: bool,
}

impl Checkout {
    /// Creates the checkout of a branch; `writes` says whether files and index may be changed.
    pub(crate) fn new(branch: &Branch, writes: bool, barrier: &Barrier) -> Result<Self, StoreError> {
        let layout = Arc::clone(&branch.layout);
        let state = layout.work_tree_state();
        Ok(Self {
            scan: Scan::new(writes),
            checkpoint: Arc::new(Checkpoint::new(&state, barrier)),
            recent: RecentWrites::default(),
            lagging: Lagging::load(&state, barrier)?,
            index: IndexFile::new(&layout.git_dir, state),
            is_index_ahead: false,
            interrupted_commits: Vec::new(),
            is_dirty: false,
            branch: branch.clone(),
            layout,
        })
    }

    /// Returns whether the work tree shows the served branch.
    pub(crate) fn is_shown(&self) -> Result<bool, StoreError> {
        Ok(status::unavailable_reason(&self.branch)?.is_none())
    }

    /// Takes `index.lock` if the served branch is checked out, waiting up to `wait` for another process.
    pub(crate) fn lock_index(&self, wait: Duration) -> Result<Option<HeldLock>, StoreError> {
        if !self.is_shown()? {
            return Ok(None);
        }
        let lock = self.index.lock(wait)?;
        // The previous holder of the lock may have checked out another branch.
        Ok(self.is_shown()?.then_some(lock))
    }

    /// Compares the work tree with a head; see [`Journal::work_tree`](crate::store::Journal::work_tree).
    pub(crate) fn compare(
        &mut self,
        reader: &mut Reader,
        head: Option<Revision>,
        paths: Paths<'_>,
        locks: GitLocks,
    ) -> Result<WorkTree, StoreError> {
        loop {
            let folder = reader.trees(head)?.folder();
            let mut seen = self.scan.compare(&self.branch, folder, paths, locks)?;
            self.lagging.forget_explained(&mut seen);
            if locks == GitLocks::Ignore {
                // The holder of the lock may have set these files back; a real edit is seen again a moment later.
                self.recent.forget_replaced(&mut seen);
                return Ok(seen);
            }
            let is_mended = self.undo_set_back(reader, &seen)?;
            if !is_mended && !self.may_be_checkout(&seen)? {
                return Ok(seen);
            }
            if self.branch.tip()? != head {
                return Ok(WorkTree::Busy);
            }
            if !is_mended {
                // Git does not announce what it is about to do.
                std::thread::sleep(RETRY_WAIT);
            }
        }
    }

    /// Opens the collections folder, and makes it if there are new files for it.
    pub(crate) fn find_folder(&self, changes: &PathChanges) -> Result<FoundFolder, StoreError> {
        let has_new = changes.values().any(|change| change.before.is_none() && change.after.is_some());
        Folder::collections(&self.layout, has_new)
    }

    /// Fails if files of the work tree can't be changed, because a write would leave them behind.
    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        let Some(folder) = self.written_folder() else { return Ok(()) };
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(CWD, &folder, access, AtFlags::EACCESS).at("write in", &folder)
    }

    /// Returns the collections folder, or the existing folder in which it would be made.
    pub(crate) fn written_folder(&self) -> Option<PathBuf> {
        let mut folder = self.layout.work_tree.clone()?;
        for part in &self.layout.folder {
            let next = folder.join(part);
            if !next.is_dir() {
                break;
            }
            folder = next;
        }
        Some(folder)
    }

    pub(crate) const fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    /// Returns whether files were written since the last call, so that a flush is due.
    pub(crate) const fn take_dirty(&mut self) -> bool {
        mem::replace(&mut self.is_dirty, false)
    }
}
