//! The journal on a git repository.
//!
//! ```text
//! append ── index.lock ── objects ── one pack ── branch.lock ── reflog ── branch ── files, index
//!           lock          object     packs       refs                               worktree, index
//!                         tree       barrier ◀── every flush
//!                         sign
//! ```
//!
//! The promises, which `tests` tests:
//!
//! * What [`append`](Journal::append) has returned is on disk; `disk::barrier` defines what that means.
//! * The branch moves only by compare-and-swap, under git's own locks.
//! * No byte that a person saved or staged is overwritten; see `worktree::apply`.
//! * Nothing runs that the repository names, and only the repository's own configuration affects what is written;
//!   `repo::user_config` reads the user's to know who commits by hand. We parse objects and the few files that matter
//!   ourselves; libgit2 serves for configuration, attributes, names of refs, and the index that a pack has lost.
//! * Nothing stays broken: caches are checked against the disk and dropped after an error.
//!
//! Nothing here knows YAML, collections or JSON:API.

pub(crate) mod open;
pub(crate) mod options;
mod two_phase;
pub(crate) mod written;

use std::collections::BTreeSet;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::BlobId;
use crate::store::git::disk::failpoint::{Failpoint, stop_at};
use crate::store::git::disk::lock::HeldLock;
use crate::store::git::index::rollback::Rollback;
use crate::store::git::maintenance::runner::Maintenance;
use crate::store::git::read::archive::GitArchive;
use crate::store::git::read::reader::Reader;
use crate::store::git::read::walk;
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::refs::branch::{Access, Branch};
use crate::store::git::repo::refs::kept;
use crate::store::git::repo::served;
use crate::store::git::repo::user_config;
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::git::worktree::scan::status;
use crate::store::git::write::writer::Writer;
use crate::store::{
    AtPath as _, Commits, Committed, Draft, GitLocks, Journal, KeptHead, Metrics, Paths, SHALLOW, StoreError,
    WorkTree,
};

/// A git repository, as the engine uses it.
pub struct GitJournal {
    layout: Arc<Layout>,
    branch: Branch,
    access: Access,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) checkout: Checkout,
    pub(crate) maintenance: Maintenance,
    // Held until the journal is dropped.
    service_lock: Option<open::ServiceLock>,
}

impl GitJournal {
    /// Returns the served branch, without `refs/heads/`.
    #[must_use]
    pub fn branch(&self) -> &str {
        self.branch.short_name()
    }

    /// Returns the full name of the branch that a service serves here, or served last.
    ///
    /// # Errors
    ///
    /// Fails when the note about it can't be read.
    pub fn last_served_branch(&self) -> Result<Option<String>, StoreError> {
        Ok(served::read(&self.layout)?.map(|(branch, _)| branch))
    }

    /// Returns the metrics of the store.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(self.writer.barrier.metrics())
    }

    /// Returns the folder of the repository's objects.
    #[must_use]
    pub fn objects(&self) -> &Path {
        self.writer.packs.objects()
    }

    /// Returns the root of the work tree; `None` when the repository is bare.
    #[must_use]
    pub fn work_tree_root(&self) -> Option<&Path> {
        self.layout.work_tree.as_deref()
    }

    /// Returns the collections folder of the work tree; `None` when the repository is bare.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        let mut folder = self.layout.work_tree.clone()?;
        folder.extend(&self.layout.folder);
        Some(folder)
    }

    /// Makes the collections folder in the work tree of a new repository. Git keeps no empty folder, and a person
    /// should not have to make it before saving the first file.
    ///
    /// # Errors
    ///
    /// Fails if it can't be made.
    pub fn make_folder(&self) -> Result<(), StoreError> {
        self.folder().map_or(Ok(()), |folder| fs::create_dir_all(&folder).at("make", &folder))
    }

    /// Returns the folder of `HEAD` and the index: `.git`, or that of a linked work tree.
    #[must_use]
    pub fn git_dir(&self) -> &Path {
        &self.layout.git_dir
    }

    /// Returns the folder of the refs and `packed-refs`; differs from `git_dir` only in a linked work tree.
    #[must_use]
    pub fn common_dir(&self) -> &Path {
        &self.layout.common_dir
    }

    /// Returns the files that git writes when the branch moves or another one is checked out, and those that it
    /// removes at the end of a merge, a rebase and the like.
    #[must_use]
    pub fn branch_files(&self) -> Vec<PathBuf> {
        let Layout { git_dir, common_dir, .. } = &*self.layout;
        let mut files = vec![
            git_dir.join("HEAD"),
            git_dir.join("index"),
            common_dir.join("packed-refs"),
            common_dir.join(&self.branch.name),
        ];
        files.extend(status::OPERATION_FILES.iter().map(|(sign, _)| git_dir.join(sign)));
        files
    }

    /// Returns one sentence about what the clone lacks of the history and how to fetch it; `None` for a full clone.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn incomplete_reason(&self) -> Result<Option<&'static str>, StoreError> {
        if !walk::shallow_boundary(&self.layout)?.is_empty() {
            return Ok(Some(SHALLOW));
        }
        Ok(self.reader.objects.database().is_partial().then_some(
            "this is a partial clone, so contents of the past may be missing; `git fetch --refetch --no-filter` \
             completes it",
        ))
    }

    /// Returns the paths whose file or index entry has what an older revision had, and which a start would bring
    /// forward. Call it only while the repository is not served.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn outdated_paths(&mut self) -> Result<BTreeSet<String>, StoreError> {
        let kept = self.writer.packs.kept_objects()?;
        self.checkout.outdated_paths(&mut self.reader, &kept)
    }

    /// Returns the read side of the same branch; commits made by this journal need not be read for it.
    #[must_use]
    pub fn archive(&self) -> GitArchive {
        GitArchive::beside(&self.reader, &self.branch, &self.writer.barrier)
    }

    pub(crate) fn check_writable(&mut self) -> Result<(), StoreError> {
        match self.access {
            Access::Serve => self.keep_service_lock(),
            Access::Read | Access::Survey => Err(self.layout.unsuitable("it was opened for reading only")),
        }
    }
}

impl Journal for GitJournal {
    fn head(&mut self) -> Result<Option<Revision>, StoreError> {
        stop_at(Failpoint::ReadHead, &self.layout.common_dir)?;
        self.branch.tip()
    }

    fn commits(&mut self) -> &mut dyn Commits {
        &mut self.reader
    }

    fn work_tree_content(&mut self, name: &str, blob: BlobId) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(folder) = Folder::collections(&self.layout, false)?.folder() else { return Ok(None) };
        let content = folder.read_whole(name)?.filter(|content| content.oid == blob);
        Ok(content.map(|content| content.bytes))
    }

    fn is_converted(&mut self, name: &str, content: &[u8]) -> bool {
        user_config::is_converted(&self.layout, name, content)
    }

    fn wait_for_git(&mut self) -> Result<(), StoreError> {
        stop_at(Failpoint::AwaitIndex, &self.layout.git_dir)?;
        self.checkout.lock_index(self.writer.lock_wait).map(drop)
    }

    fn append(&mut self, expected: Option<Revision>, drafts: &[Draft]) -> Result<Vec<Committed>, StoreError> {
        self.check_writable()?;
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        let lock = self.lock_for_append(expected)?;
        // Taken, so that an error on the way leaves no stale trees in the cache.
        let trees = self.reader.take_trees(expected)?;
        let mut group = self.writer.build(trees, None, drafts)?;
        self.checkout.scan.stat_cache.add_converted(&mut group.changes);
        // Built now, so that an index that can't be edited costs no pack.
        let objects = &mut self.reader.objects;
        let next = lock.as_ref().map(|_| self.checkout.index_ahead(objects, &group.changes)).transpose()?;
        // Dropped on an early return, which restores the old index.
        let (mut keep_file, mut rollback) = (None, None);
        let index = &self.checkout.index;
        let published = self.writer.publish(expected, &group, drafts, |made| {
            match lock.zip(next.as_ref()) {
                Some((lock, next)) => rollback = Some(Rollback::put(index, next, lock, made)?),
                None => keep_file = Some(made),
            }
            Ok(())
        });
        if published.is_err() && !self.writer.has_moved_to(&group) {
            return published.map(|()| Vec::new());
        }
        self.reader.recent_commits.remember(mem::take(&mut group.steps));
        stop_at(Failpoint::UpdateWorkTree, &self.layout.git_dir)?;
        // If HEAD has moved to another branch, the old index is restored before its lock is released.
        let kept = match rollback.map(|rollback| (rollback, self.checkout.is_shown())) {
            Some((rollback, Ok(true))) => Some(rollback.keep()),
            Some((rollback, Err(error))) => {
                tracing::warn!(%error, "committed, but it is not known yet which branch the work tree shows");
                self.checkout.is_index_ahead = true;
                rollback.keep().leave();
                None
            }
            Some((_, Ok(false))) | None => None,
        };
        if let (Some(held), Some(next)) = (kept, next) {
            self.checkout.update(held, next, &group.changes, group.tip());
            if let Err(error) = self.checkout.undo_race(&mut self.reader) {
                tracing::debug!(%error, "cannot tell yet whether another branch was checked out meanwhile");
            }
        }
        self.reader.recent_commits.keep(group.changes);
        published?;
        self.reader.keep_trees(group.trees);
        Ok(group.committed)
    }

    fn work_tree(
        &mut self,
        head: Option<Revision>,
        paths: Paths<'_>,
        locks: GitLocks,
    ) -> Result<WorkTree, StoreError> {
        self.checkout.compare(&mut self.reader, head, paths, locks)
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        match self.access {
            Access::Serve => {
                self.keep_service_lock()?;
                self.recover_locks()?;
                self.checkout.undo_race(&mut self.reader)?;
                self.checkout.catch_up(&mut self.reader, Duration::ZERO)?;
                self.checkout.retry_if_lagging(&mut self.reader)?;
                self.checkout.repair_index(&mut self.reader)
            }
            Access::Read | Access::Survey => Ok(()),
        }
    }

    fn make_durable(&mut self, head: Option<Revision>) -> Result<(), StoreError> {
        self.writer.make_durable(head)
    }

    fn last_served(&mut self) -> Result<Option<Revision>, StoreError> {
        let noted = served::read(&self.layout)?.filter(|(branch, _)| *branch == self.branch.name);
        Ok(noted.map(|(_, revision)| revision))
    }

    fn note_served(&mut self, head: Revision) {
        if self.access == Access::Serve {
            served::note(&self.layout, &self.branch.name, head);
        }
    }

    fn keep(&mut self, revision: Revision, now: DateTime<Utc>) -> Result<KeptHead, StoreError> {
        self.check_writable()?;
        kept::keep(&self.layout, KeptHead::new(revision, now), &self.writer.barrier)
    }

    fn kept(&mut self, now: DateTime<Utc>) -> Result<Vec<KeptHead>, StoreError> {
        self.check_writable()?;
        kept::current(&self.layout, now)
    }

    fn remove_kept(&mut self, kept: &[KeptHead]) -> Result<(), StoreError> {
        self.check_writable()?;
        kept::remove(&self.layout, kept)
    }

    fn has_merges(&self) -> bool {
        self.layout.has_remote()
    }

    fn saved_at(&self, name: &str) -> Option<DateTime<Utc>> {
        let file = self.folder()?.join(name);
        Some(file.symlink_metadata().ok()?.modified().ok()?.into())
    }

    fn hand_edit_author(&mut self) -> Actor {
        user_config::hand_edit_author(&self.layout)
    }

    fn start_maintenance(&mut self) -> Result<(), StoreError> {
        self.check_writable()?;
        if self.checkout.take_dirty() {
            self.maintenance.flush();
        }
        self.maintenance.request();
        self.forget_packs();
        Ok(())
    }
}

impl GitJournal {
    /// Waits for the maintenance that [`start_maintenance`](Journal::start_maintenance) has started.
    pub fn finish_maintenance(&mut self) {
        self.maintenance.finish();
        self.forget_packs();
    }

    fn forget_packs(&mut self) {
        if self.maintenance.take_changed_packs() {
            self.reader.objects.clear_caches();
        }
    }

    /// Takes git's index lock if the branch is checked out, and makes sure that the branch is at `expected` and that
    /// the work tree is not behind.
    fn lock_for_append(&mut self, expected: Option<Revision>) -> Result<Option<HeldLock>, StoreError> {
        self.recover_locks()?;
        self.branch.check_other_work_trees()?;
        // After a move that was not ours, the work tree or the checkpoint may be behind.
        self.checkout.catch_up(&mut self.reader, self.writer.lock_wait)?;
        let lock = match self.checkout.lock_index(Duration::ZERO) {
            Err(StoreError::Locked { .. }) => {
                // Hand edits saved while git held the lock must be looked at first.
                self.wait_for_git()?;
                return Err(StoreError::HeadMoved { expected, found: self.head()? });
            }
            lock => lock?,
        };
        if lock.is_none() && self.checkout.wait_for_rebase(self.writer.lock_wait) {
            return Err(StoreError::HeadMoved { expected, found: self.head()? });
        }
        let found = self.head()?;
        if found != expected {
            return Err(StoreError::HeadMoved { expected, found });
        }
        self.checkout.forget_what_is_not_on_the_branch(&mut self.reader, found)?;
        if let Some(lock) = &lock {
            self.checkout.check_writable()?;
            self.checkout.retry_lagging(&mut self.reader, lock)?;
        }
        Ok(lock)
    }

    /// Repairs what a failed write of this process could not undo.
    fn recover_locks(&mut self) -> Result<(), StoreError> {
        self.checkout.recover_locks(&mut self.reader, || self.writer.packs.kept_objects())
    }
}
