//! Opens a repository: chooses the branch, takes the service lock and repairs what a killed service left.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::store::git::disk::barrier::{Barrier, make_folders};
use crate::store::git::disk::lock;
use crate::store::git::disk::open::open_own;
use crate::store::git::disk::state_file;
use crate::store::git::journal::GitJournal;
use crate::store::git::journal::options::Options;
use crate::store::git::maintenance::commit_graph::CommitGraph;
use crate::store::git::maintenance::runner::Maintenance;
use crate::store::git::packs::store::Packs;
use crate::store::git::read::archive::GitArchive;
use crate::store::git::read::reader::Reader;
use crate::store::git::repo::format;
use crate::store::git::repo::init::{self, NewRepository};
use crate::store::git::repo::layout::{self, Layout};
use crate::store::git::repo::owner;
use crate::store::git::repo::refs::branch::{Access, Branch};
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::write::append::Committer;
use crate::store::git::write::writer::Writer;
use crate::store::{AtPath as _, StoreError};

impl GitJournal {
    /// Makes a repository with a work tree and the branch `main` if `path` is absent or an empty folder; returns
    /// whether it did.
    ///
    /// # Errors
    ///
    /// Refuses a folder that is not empty and not a repository.
    pub fn init(path: &Path) -> Result<bool, StoreError> {
        Self::init_as(path, NewRepository::default())
    }

    /// Makes a repository as `new` specifies if `path` is absent or an empty folder; returns whether it did.
    ///
    /// # Errors
    ///
    /// Refuses a folder that is not empty and not a repository.
    pub fn init_as(path: &Path, new: NewRepository<'_>) -> Result<bool, StoreError> {
        init::init(path, new, &Barrier::default())
    }

    /// Returns whether there is a repository at `path`, or at least something in its place.
    #[must_use]
    pub fn is_occupied(path: &Path) -> bool {
        fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Opens a repository.
    ///
    /// # Errors
    ///
    /// Refuses names as [`Options::check`] does, a repository that can't be served, such as one of another user
    /// ([`StoreError::Unsuitable`]), and one that is being served already ([`StoreError::Served`]).
    pub fn open(options: Options) -> Result<Self, StoreError> {
        options.check()?;
        let layout = Layout::find(&options.path, &options.folder)?;
        owner::check(&layout)?;
        Self::open_at(layout, options)
    }

    /// Opens a repository of any owner.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_of_any_owner(options: Options) -> Result<Self, StoreError> {
        options.check()?;
        Self::open_at(Layout::find(&options.path, &options.folder)?, options)
    }

    fn open_at(layout: Layout, options: Options) -> Result<Self, StoreError> {
        let barrier = Barrier::default();
        let branch = Branch::choose(layout, options.branch.as_deref(), options.access)?;
        let layout = Arc::clone(&branch.layout);
        let serves = options.access == Access::Serve;
        if let Some(way) = layout.find_symlinked_part().filter(|_| serves) {
            return Err(layout.unsuitable(way));
        }
        format::check(&layout)?;
        let service_lock = if serves { Some(lock_service(&layout)?) } else { None };
        let packs = Arc::new(Packs::open(&layout, &barrier));
        let checkout = Checkout::new(&branch, serves, &barrier)?;
        let reader = Reader::new(&layout);
        let graph = CommitGraph::new(
            GitArchive::beside(&reader, &branch, &barrier),
            options.git,
            options.graph_commits_min,
            &barrier,
        );
        let checkpoint = Arc::clone(&checkout.checkpoint);
        let maintenance =
            Maintenance::new(Arc::clone(&packs), checkpoint, graph, barrier.clone(), options.maintain);
        let committer = Committer { actor: options.committer, key: options.signing_key };
        let lock_wait = Duration::from_millis(options.lock_wait_ms_max);
        let mut journal = Self {
            reader,
            writer: Writer::new(branch.clone(), committer, lock_wait, barrier, packs),
            access: options.access,
            checkout,
            maintenance,
            service_lock,
            branch,
            layout,
        };
        if serves {
            journal.writer.packs.rebuild_all_lost_indexes()?;
        }
        journal.check()?;
        if serves {
            journal.clean_up()?;
            format::note(&journal.layout)?;
        }
        Ok(journal)
    }

    /// Makes sure that we still hold the service lock. If someone replaced the `.git` that we opened, for instance by
    /// a copy, another service may have locked the new one, and nothing that we cached is valid for it.
    pub(crate) fn keep_service_lock(&mut self) -> Result<(), StoreError> {
        let Some(held) = &self.service_lock else { return Ok(()) };
        if held.is_at(&lock_path(&self.layout))? {
            return Ok(());
        }
        self.service_lock = Some(lock_service(&self.layout)?);
        tracing::warn!(path = %self.layout.path.display(), "the repository was replaced; what is there now is served");
        self.reader.clear_caches();
        self.writer.forget();
        Ok(())
    }

    /// Refuses early what would only fail later, with an error that is harder to understand.
    fn check(&mut self) -> Result<(), StoreError> {
        let obstacle =
            self.layout.work_tree.as_ref().and_then(|root| layout::find_obstacle(root, &self.layout.folder));
        if let Some(obstacle) = obstacle {
            return Err(self.layout.unsuitable(obstacle));
        }
        if self.access == Access::Serve {
            self.branch.check_other_work_trees()?;
        }
        self.reader.trees(self.branch.tip()?).map(drop)
    }

    /// Removes the locks and unfinished files of a killed predecessor.
    fn clean_up(&mut self) -> Result<(), StoreError> {
        self.checkout.recover_write(&mut self.reader, &self.writer.packs.kept_objects()?)?;
        self.checkout.load_recent(&mut self.reader, self.writer.committer.actor.email())?;
        let Layout { git_dir, common_dir, .. } = &*self.layout;
        let [index, head] = ["index", "HEAD"].map(|name| lock::lock_file_path(&git_dir.join(name)));
        let roots = [index, head, common_dir.join("refs")];
        let roots: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
        self.maintenance.remove_left()?;
        // What is not mended yet must be known after another kill.
        let is_unmended = self.checkout.is_ahead();
        for state in [self.layout.state(), self.layout.work_tree_state()] {
            if !is_unmended {
                lock::remove_left(&state, &roots)?;
            }
            state_file::remove_left(&state)?;
        }
        self.writer.packs.clean_up(is_unmended)
    }
}

/// How long to wait for the lock of a killed service to be released: a child process that it was just starting has
/// copies of its open files until the child calls exec.
const HANDOVER_WAIT: Duration = Duration::from_millis(500);

/// The interval between attempts to take the lock.
const HANDOVER_RETRY: Duration = Duration::from_millis(5);

/// The lock of the serving process; the kernel releases it when the process dies.
pub(crate) struct ServiceLock(File);

impl ServiceLock {
    /// Returns whether the next service would meet this lock: someone may have replaced the `.git` folder.
    fn is_at(&self, path: &Path) -> Result<bool, StoreError> {
        let Some(there) = fs::symlink_metadata(path).at_if_there("look at", path)? else { return Ok(false) };
        let ours = self.0.metadata().at("look at", path)?;
        Ok(lock::same_inode(&there, &ours))
    }
}

impl Drop for ServiceLock {
    fn drop(&mut self) {
        // Closing the file would not release the lock while a child process that is just starting has a copy of it. An
        // error is ignored: it leaves that case only.
        drop(self.0.unlock());
    }
}

pub(crate) fn lock_path(layout: &Layout) -> PathBuf {
    layout.state().join("lock")
}

/// Locks the repository against other services; all its linked work trees share the lock.
fn lock_service(layout: &Layout) -> Result<ServiceLock, StoreError> {
    let state = layout.state();
    make_folders(&layout.common_dir, &state)?;
    make_folders(&layout.git_dir, &layout.work_tree_state())?;
    let path = lock_path(layout);
    let opened = open_own(OpenOptions::new().write(true).create(true).truncate(false), &path);
    let file = opened.at("open", &path)?;
    let until = Instant::now() + HANDOVER_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(ServiceLock(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(HANDOVER_RETRY),
            Err(TryLockError::WouldBlock) => return Err(StoreError::Served { path: layout.path.clone() }),
            Err(TryLockError::Error(source)) => return Err(StoreError::at("lock", &path, source)),
        }
    }
}
