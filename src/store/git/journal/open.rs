//! Opening a repository: which branch, alone or beside another, and after whom.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::store::StoreError;
use crate::store::git::disk::barrier::{Barrier, make_folders};
use crate::store::git::disk::lock;
use crate::store::git::journal::GitJournal;
use crate::store::git::journal::options::Options;
use crate::store::git::maintenance::commit_graph::Graph;
use crate::store::git::maintenance::runner::Maintenance;
use crate::store::git::object::hash_midstates::IndexHash;
use crate::store::git::packs::store::Packs;
use crate::store::git::read::objects::Objects;
use crate::store::git::read::trees::Trees;
use crate::store::git::repo::access::Access;
use crate::store::git::repo::branch;
use crate::store::git::repo::checkpoint::Note;
use crate::store::git::repo::init;
use crate::store::git::repo::layout::{self, Place};
use crate::store::git::repo::linked_worktrees;
use crate::store::git::worktree::apply::lagging::Behind;
use crate::store::git::worktree::apply::recent::Recent;
use crate::store::git::worktree::scan::checkout_in_progress::CHECKOUT_TIME_MAX;
use crate::store::git::worktree::scan::open_writers::OpenWriters;
use crate::store::git::worktree::scan::stat_cache::StatCache;
use crate::store::git::write::sign::Committer;

impl GitJournal {
    /// Makes a repository with a work tree and the branch `main` when `path` is absent or an empty
    /// folder; answers whether it did.
    ///
    /// # Errors
    ///
    /// Refuses a folder that holds something but no repository.
    pub fn init(path: &Path) -> Result<bool, StoreError> {
        init::init(path, &Barrier::default())
    }

    /// Opens a repository.
    ///
    /// # Errors
    ///
    /// Refuses names as [`Options::check`] does, and a repository that can't be served
    /// ([`StoreError::Unsuitable`]) or is being served already ([`StoreError::Served`]).
    pub fn open(options: Options) -> Result<Self, StoreError> {
        Self::open_with(options, Barrier::default())
    }

    pub(crate) fn open_with(options: Options, barrier: Barrier) -> Result<Self, StoreError> {
        options.check()?;
        let place = Place::find(&options.path, &options.folder)?;
        let branch = branch::choose(&place, options.branch.as_deref(), options.access)?;
        branch::check_born(&place, &branch, options.branch.as_deref(), options.access)?;
        let service_lock = match options.access {
            Access::Serve => Some(lock_service(&place)?),
            Access::Read | Access::Survey => None,
        };
        let packs = Arc::new(Packs::open(&place));
        let note = Arc::new(Note::new(&place.work_tree_desk(), barrier.clone()));
        let graph = Graph::new(place.clone(), branch.clone(), options.git, options.graph_commits_min);
        let maintenance = Maintenance::new(Arc::clone(&packs), Arc::clone(&note), graph, barrier.clone());
        let mut journal = Self {
            branch,
            committer: Committer { actor: options.committer, key: options.signing_key },
            lock_wait: Duration::from_millis(options.lock_wait_ms_max),
            access: options.access,
            barrier,
            objects: Objects::at(&place.common_dir),
            packs,
            maintenance,
            maintain: options.maintain,
            trees: None,
            fresh: Arc::default(),
            appended_at: None,
            stats: StatCache::default(),
            open_writers: (options.access == Access::Serve).then(OpenWriters::default),
            note,
            durable: None,
            recent: Recent::default(),
            index_hash: IndexHash::default(),
            is_index_ahead: false,
            under_way: Vec::new(),
            behind: Behind::load(&place)?,
            is_work_tree_dirty: false,
            checkout_time_max: CHECKOUT_TIME_MAX,
            #[cfg(test)]
            fault: None,
            #[cfg(test)]
            interlude: None,
            service_lock,
            place,
        };
        if journal.access == Access::Serve {
            journal.packs.mend_left(&journal.barrier)?;
        }
        journal.check()?;
        if journal.access == Access::Serve {
            journal.clean_up()?;
        }
        Ok(journal)
    }

    /// Makes sure that we are still the one who serves: in a `.git` that somebody has put in the place of the one
    /// that we opened, as from a copy, another may have begun to, and what we know of the old one does not hold.
    pub(crate) fn keep_service_lock(&mut self) -> Result<(), StoreError> {
        let Some(held) = &self.service_lock else { return Ok(()) };
        if held.is_at(&lock_path(&self.place)) {
            return Ok(());
        }
        self.service_lock = Some(lock_service(&self.place)?);
        tracing::warn!(path = %self.place.path.display(), "the repository was replaced; what is there now is served");
        self.objects.close();
        (self.trees, self.durable) = (None, None);
        Ok(())
    }

    /// Refuses what would only show later, and then be harder to understand.
    fn check(&mut self) -> Result<(), StoreError> {
        let obstacle =
            self.place.work_tree.as_ref().and_then(|root| layout::find_obstacle(root, &self.place.folder));
        if let Some(obstacle) = obstacle {
            return Err(self.place.unsuitable(obstacle));
        }
        linked_worktrees::check_elsewhere(&self.place, &self.branch)?;
        let head = branch::tip(&self.place, &self.branch)?;
        self.trees = Some(Trees::load(&mut self.objects, &self.place, head)?);
        Ok(())
    }

    /// Removes what a killed predecessor left: its locks, its unfinished files.
    fn clean_up(&mut self) -> Result<(), StoreError> {
        self.recover_write()?;
        let Place { git_dir, common_dir, .. } = &self.place;
        let [index, head, packed] =
            [git_dir.join("index"), git_dir.join("HEAD"), common_dir.join("packed-refs")]
                .map(|target| lock::lock_of(&target));
        let roots = [index, head, packed, common_dir.join("refs")];
        let roots: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
        for desk in [self.place.desk(), self.place.work_tree_desk()] {
            lock::remove_left(&desk, &roots)?;
        }
        self.packs.clean_up(&self.barrier)
    }
}

/// The lock of the one who serves; the kernel releases it when the process dies.
pub(crate) struct ServiceLock(File);

impl ServiceLock {
    /// Whether whoever comes next would meet it: somebody may have put another `.git` in the place of this one.
    fn is_at(&self, path: &Path) -> bool {
        let inode = |file: &Metadata| (file.dev(), file.ino());
        let (there, ours) = (fs::metadata(path), self.0.metadata());
        matches!((there, ours), (Ok(there), Ok(ours)) if inode(&there) == inode(&ours))
    }
}

impl Drop for ServiceLock {
    fn drop(&mut self) {
        // Closing the file would not do while a process that someone is just starting has a copy
        // of it. An error leaves that.
        drop(self.0.unlock());
    }
}

fn lock_path(place: &Place) -> PathBuf {
    place.desk().join("lock")
}

/// Makes sure that nobody else serves the repository; linked work trees of one share the lock.
fn lock_service(place: &Place) -> Result<ServiceLock, StoreError> {
    let desk = place.desk();
    make_folders(&place.common_dir, &desk, &mut |_| Ok(()))?;
    make_folders(&place.git_dir, &place.work_tree_desk(), &mut |_| Ok(()))?;
    let path = lock_path(place);
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = opened.map_err(|source| StoreError::at("open", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(ServiceLock(file)),
        Err(TryLockError::WouldBlock) => Err(StoreError::Served { path: place.path.clone() }),
        Err(TryLockError::Error(source)) => Err(StoreError::at("lock", &path, source)),
    }
}
