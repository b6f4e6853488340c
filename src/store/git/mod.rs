//! The journal on a git repository.
//!
//! ```text
//! append ── index.lock ── objects ── one pack ── branch.lock ── reflog ── branch ── files, index
//!           lock          object     packs       refs                               worktree, index
//!                         tree       barrier ◀── every flush
//! ```
//!
//! What is promised here, and tested in `tests`:
//!
//! * What [`append`](Journal::append) has answered is on disk; see `barrier` for what that means.
//! * The branch moves only by compare-and-set, under git's own locks.
//! * No byte that a person saved or staged is overwritten; see `worktree`.
//! * Nothing runs that the repository names, and no configuration but the repository's own has a
//!   say: we parse the few files that matter and use libgit2 for nothing but reading objects.
//! * Nothing stays broken: what is cached is checked against the disk, and forgotten after trouble.
//!
//! What is not here: YAML, collections, JSON:API.

mod append;
mod archive;
mod barrier;
mod delta;
mod folder;
mod history;
mod index;
mod init;
mod lock;
mod look;
mod object;
mod objects;
mod pack;
mod packs;
pub mod peek;
mod place;
mod read;
mod refs;
mod repack;
mod swap;
#[cfg(test)]
mod tests;
mod tree;
mod trees;
mod worktree;

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use archive::GitArchive;
#[cfg(test)]
pub(crate) use archive::testing;
use barrier::Barrier;
use look::StatCache;
use objects::Objects;
use packs::Packs;
use place::Place;
use refs::Head;
use trees::Trees;

use super::{Commit, Committed, Draft, FileChange, Journal, Look, StoreError, WorkTree};
use crate::domain::{Actor, Revision};
use crate::store::BlobId;

/// How a repository is to be opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The repository: a work tree, a linked work tree, or a bare repository.
    pub path: PathBuf,
    /// The branch to serve, with or without `refs/heads/`; by default the one that `HEAD` names.
    pub branch: Option<String>,
    /// The collections folder inside the repository, such as `collections` or `.cms/collections`.
    pub folder: String,
    /// The committer of every commit.
    pub committer: Actor,
    /// How long to wait for a lock of another git process.
    pub lock_wait_ms_max: u64,
    /// What to open it for.
    pub access: Access,
}

impl Options {
    /// Options with the defaults of `collectory serve`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            branch: None,
            folder: "collections".to_owned(),
            committer: Actor::service(),
            lock_wait_ms_max: 2_000,
            access: Access::Serve,
        }
    }
}

/// What a repository is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read and write, alone: a second one is refused.
    Serve,
    /// To read, beside whoever serves; nothing is written, not even a note.
    Read,
}

/// A git repository, for the engine.
pub struct GitJournal {
    place: Place,
    branch: String,
    committer: Actor,
    lock_wait: Duration,
    access: Access,
    barrier: Barrier,
    objects: Objects,
    packs: Packs,
    // The trees of the newest revision that was looked at; forgotten after trouble.
    trees: Option<Trees>,
    stats: StatCache,
    #[cfg(test)]
    fault: Option<tests::Fault>,
    // Held as long as we live; the kernel releases it when the process dies.
    _service_lock: Option<File>,
}

impl GitJournal {
    /// Makes a repository with a work tree and the branch `main` when `path` is absent or an empty
    /// folder; answers whether it did.
    ///
    /// # Errors
    ///
    /// Refuses a folder that holds something but no repository.
    pub fn init(path: &Path) -> Result<bool, StoreError> {
        init::init(path)
    }

    /// Opens a repository.
    ///
    /// # Errors
    ///
    /// Refuses a repository that can't be served ([`StoreError::Unsuitable`]) or is being served
    /// already ([`StoreError::Served`]).
    pub fn open(options: Options) -> Result<Self, StoreError> {
        let place = Place::find(&options.path, &options.folder)?;
        let branch = choose_branch(&place, options.branch.as_deref())?;
        let service_lock = match options.access {
            Access::Serve => Some(lock_service(&place)?),
            Access::Read => None,
        };
        let mut journal = Self {
            branch,
            committer: options.committer,
            lock_wait: Duration::from_millis(options.lock_wait_ms_max),
            access: options.access,
            barrier: Barrier::default(),
            objects: Objects::new(&place.common_dir),
            packs: Packs::open(&place),
            trees: None,
            stats: StatCache::default(),
            #[cfg(test)]
            fault: None,
            _service_lock: service_lock,
            place,
        };
        journal.check()?;
        if journal.access == Access::Serve {
            journal.clean_up()?;
        }
        Ok(journal)
    }

    /// The served branch, without `refs/heads/`.
    #[must_use]
    pub fn branch(&self) -> &str {
        self.branch.trim_start_matches("refs/heads/")
    }

    /// The root of the work tree; `None` when the repository is bare.
    #[must_use]
    pub fn work_tree_root(&self) -> Option<&Path> {
        self.place.work_tree.as_deref()
    }

    /// The collections folder of the work tree; `None` when the repository is bare.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        self.place
            .work_tree
            .as_ref()
            .map(|root| self.place.folder.iter().fold(root.clone(), |at, part| at.join(part)))
    }

    /// The folder of `HEAD` and the index (`.git`, or that of a linked work tree).
    #[must_use]
    pub fn git_dir(&self) -> &Path {
        &self.place.git_dir
    }

    /// The folder of the refs and `packed-refs`; the same but in a linked work tree.
    #[must_use]
    pub fn common_dir(&self) -> &Path {
        &self.place.common_dir
    }

    /// How many flushes to disk there have been.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.barrier.flushes()
    }

    /// Refuses what would only show later, and then be harder to understand.
    fn check(&mut self) -> Result<(), StoreError> {
        let obstacle =
            self.place.work_tree.as_ref().and_then(|root| place::find_obstacle(root, &self.place.folder));
        if let Some(obstacle) = obstacle {
            return Err(self.place.unsuitable(obstacle));
        }
        worktree::check_elsewhere(&self.place, &self.branch)?;
        let head = refs::read(&self.place.common_dir, &self.branch)?;
        self.trees = Some(Trees::load(&mut self.objects, &self.place, head)?);
        Ok(())
    }

    /// Removes what a killed predecessor left: its locks, its unfinished files.
    fn clean_up(&mut self) -> Result<(), StoreError> {
        let Place { git_dir, common_dir, .. } = &self.place;
        let roots = [git_dir.join("index.lock"), git_dir.join("HEAD.lock"), common_dir.join("refs")];
        let roots: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
        for desk in [self.place.desk(), self.place.work_tree_desk()] {
            lock::remove_left(&desk, &roots)?;
        }
        self.packs.remove_drafts()?;
        swap::remove_drafts(&self.place, &mut self.objects)
    }

    /// The trees of a revision, from memory when they are the newest.
    fn trees(&mut self, revision: Option<Revision>) -> Result<&Trees, StoreError> {
        let revision = revision.map(|revision| *revision.as_bytes());
        if self.trees.as_ref().is_none_or(|trees| trees.revision != revision) {
            self.trees = None;
            self.trees = Some(Trees::load(&mut self.objects, &self.place, revision)?);
        }
        Ok(self.trees.as_ref().expect("loaded above"))
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        match self.access {
            Access::Serve => Ok(()),
            Access::Read => Err(self.place.unsuitable("it was opened for reading only")),
        }
    }
}

impl Journal for GitJournal {
    fn head(&mut self) -> Result<Option<Revision>, StoreError> {
        Ok(refs::read(&self.place.common_dir, &self.branch)?.map(Revision::new))
    }

    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        read::changes(&mut self.objects, &self.place, self.trees.as_ref(), [from, to])
    }

    fn read(
        &mut self,
        blobs: &[BlobId],
        each: &(dyn Fn(usize, Result<&[u8], StoreError>) + Sync),
    ) -> Result<(), StoreError> {
        read::contents(&mut self.objects, blobs, each);
        Ok(())
    }

    fn append(&mut self, expected: Option<Revision>, drafts: &[Draft]) -> Result<Vec<Committed>, StoreError> {
        self.check_writable()?;
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        let index = self.lock_index()?;
        let found = self.head()?;
        if found != expected {
            return Err(StoreError::HeadMoved { expected, found });
        }
        // Taken, so that trouble on the way leaves nothing stale behind.
        self.trees(expected)?;
        let trees = self.trees.take().expect("loaded above");
        let group = append::build(&self.place, &trees, drafts, &self.committer)?;
        self.publish(&trees, &group, drafts)?;
        if let Some(index) = index {
            self.bring_up(index, expected, &group);
        }
        self.trees = Some(group.trees);
        Ok(group.committed)
    }

    fn work_tree(
        &mut self,
        head: Option<Revision>,
        look: Look<'_>,
        despite_locks: bool,
    ) -> Result<WorkTree, StoreError> {
        self.trees(head)?;
        let trees = self.trees.as_ref().expect("loaded above");
        look::compare(&self.place, &self.branch, &mut self.stats, trees.folder(), look, despite_locks)
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        match self.access {
            Access::Serve => self.bring_forward(),
            Access::Read => Ok(()),
        }
    }

    fn walk(
        &mut self,
        from: Revision,
        each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
    ) -> Result<(), StoreError> {
        history::walk(&mut self.objects, &self.place, from, each)
    }

    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        history::descends(&mut self.objects, &self.place, *descendant.as_bytes(), *ancestor.as_bytes())
    }

    fn person(&mut self) -> Actor {
        place::person(&self.place.common_dir)
    }

    fn tend(&mut self) -> Result<(), StoreError> {
        self.check_writable()?;
        if self.packs.tend(&self.barrier)? {
            self.objects.close();
        }
        Ok(())
    }
}

impl GitJournal {
    /// Puts a group on disk and moves the branch to it.
    fn publish(&mut self, before: &Trees, group: &append::Group, drafts: &[Draft]) -> Result<(), StoreError> {
        self.packs.write(&group.pack, &self.barrier)?;
        #[cfg(test)]
        self.stop_at(tests::Fault::BeforeTheBranch)?;
        let steps: Vec<_> = group.committed.iter().zip(drafts).map(step).collect();
        let step = refs::Move {
            branch: &self.branch,
            expected: before.revision,
            steps: &steps,
            actor: &self.committer,
            at: drafts.last().expect("a group has commits").at,
            wait: self.lock_wait,
        };
        step.make(&self.place, &self.barrier)?;
        #[cfg(test)]
        self.stop_at(tests::Fault::AfterTheBranch)?;
        Ok(())
    }

    #[cfg(test)]
    fn stop_at(&mut self, fault: tests::Fault) -> Result<(), StoreError> {
        if self.fault == Some(fault) {
            return Err(StoreError::at(
                "go on as",
                Path::new("a test"),
                std::io::Error::other("stopped on demand"),
            ));
        }
        Ok(())
    }
}

/// A commit's part of the move: its name and its reflog message.
fn step((committed, draft): (&Committed, &Draft)) -> (object::Oid, String) {
    let subject = draft.message.lines().next().unwrap_or_default();
    (*committed.revision.as_bytes(), format!("collectory: {subject}"))
}

fn choose_branch(place: &Place, wanted: Option<&str>) -> Result<String, StoreError> {
    let branch = match wanted {
        Some(name) if name.starts_with("refs/heads/") => name.to_owned(),
        Some(name) => format!("refs/heads/{name}"),
        None => match refs::head(&place.git_dir)? {
            Head::Ref(name) if name.starts_with("refs/heads/") => name,
            Head::Ref(name) => return Err(place.unsuitable(format!("HEAD names {name}, which is no branch"))),
            Head::Detached => {
                let why = "HEAD is detached, so it names no branch to serve; check one out or name one with --branch";
                return Err(place.unsuitable(why));
            }
        },
    };
    if git2::Reference::is_valid_name(&branch) {
        return Ok(branch);
    }
    Err(place.unsuitable(format!("{branch} is no name for a branch")))
}

/// Makes sure that nobody else serves the repository; linked work trees of one share the lock.
fn lock_service(place: &Place) -> Result<File, StoreError> {
    let desk = place.desk();
    for folder in [&desk, &place.work_tree_desk()] {
        std::fs::create_dir_all(folder)
            .map_err(|source| StoreError::at("make the folder", folder, source))?;
    }
    let path = desk.join("lock");
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = opened.map_err(|source| StoreError::at("open", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Served { path: place.path.clone() }),
        Err(TryLockError::Error(source)) => Err(StoreError::at("lock", &path, source)),
    }
}
