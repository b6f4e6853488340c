//! The archive on a git repository.
//!
//! libgit2's handles can't be shared between threads, so there is a small pool of them: each
//! reader borrows one and gives it back. Objects are read raw and parsed here ([`tree`],
//! [`commit`]), since libgit2's own trees cost more than all the rest of a walk. Nothing but the
//! repository's own configuration is read, and nothing in it is written but derived notes.

mod commit;
mod name;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tree;

use std::fs;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use git2::{ErrorCode, ObjectType, Odb, OdbObject, Oid, Repository, RepositoryOpenFlags};

use crate::domain::Revision;
use crate::store::{
    Archive, BlobId, Commit, FileChange, Line, NameError, RawSignature, Step, StoreError, TreeEntry,
};
use commit::RawCommit;

/// Our own folder inside the repository.
const DESK: &str = "collectory";

/// How many handles are kept open when nobody uses them.
const IDLE_HANDLES_MAX: usize = 8;

/// How much work one thread takes at a time, and what is too little to share at all.
const SHARE_LEN: usize = 256;

/// The read side of a git repository.
#[derive(Debug)]
pub struct GitArchive {
    path: PathBuf,
    desk: PathBuf,
    branch: String,
    /// The collections folder, part by part; none for the root.
    folder: Vec<String>,
    idle: Mutex<Vec<Handle>>,
    notes: AtomicU64,
}

/// A handle that may wait in the pool.
struct Handle(Repository);

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handle").field(&self.0.path()).finish()
    }
}

impl GitArchive {
    /// Opens the repository at `path`, bare or with a work tree or a linked work tree, to read the
    /// history of `branch` (`main`, without `refs/heads/`) in `folder`, a path inside the
    /// repository (`.cms/collections`; empty or `.` for its root).
    ///
    /// Objects are taken as they are stored, as git itself takes them: their names are checked by
    /// `git fsck`, not at each reading.
    ///
    /// # Errors
    ///
    /// Fails when there is no repository.
    pub fn open(path: &Path, branch: &str, folder: &str) -> Result<Self, StoreError> {
        // Hashing each tree again costs more than finding it; the setting is of the whole process.
        git2::opts::strict_hash_verification(false);
        let repository = open(path)?;
        let parts = folder.split('/').filter(|part| !matches!(*part, "" | "."));
        Ok(Self {
            path: path.to_owned(),
            desk: repository.commondir().join(DESK),
            branch: format!("refs/heads/{branch}"),
            folder: parts.map(str::to_owned).collect(),
            idle: Mutex::new(vec![Handle(repository)]),
            notes: AtomicU64::new(0),
        })
    }

    /// The branch that `HEAD` names, whether or not it has a commit; `None` when it names none.
    ///
    /// # Errors
    ///
    /// Fails when there is no repository, or `HEAD` can't be read.
    pub fn branch_of_head(path: &Path) -> Result<Option<String>, StoreError> {
        let repository = open(path)?;
        let head = repository.find_reference("HEAD").map_err(|source| failed("read HEAD", source))?;
        let target = head.symbolic_target().ok().flatten();
        Ok(target.and_then(|name| name.strip_prefix("refs/heads/")).map(str::to_owned))
    }

    fn borrow(&self) -> Result<Borrowed<'_>, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let handle = match idle {
            Some(handle) => handle,
            None => Handle(open(&self.path)?),
        };
        Ok(Borrowed { archive: self, handle: Some(handle) })
    }

    /// Does work by index on all cores, if it is enough to share.
    fn share(
        &self,
        len: usize,
        work: &(dyn Fn(&Repository, std::ops::Range<usize>) -> Result<(), StoreError> + Sync),
    ) -> Result<(), StoreError> {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = cores.min(len.div_ceil(SHARE_LEN)).max(1);
        if threads == 1 {
            return work(&*self.borrow()?, 0..len);
        }
        let next = AtomicU64::new(0);
        let worker = || -> Result<(), StoreError> {
            let repository = self.borrow()?;
            loop {
                let from = next.fetch_add(SHARE_LEN as u64, Ordering::Relaxed) as usize;
                if from >= len {
                    return Ok(());
                }
                work(&repository, from..(from + SHARE_LEN).min(len))?;
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
            let results = workers.into_iter().map(|worker| worker.join().expect("BUG: a reader panicked"));
            results.collect::<Result<(), _>>()
        })
    }
}

/// A handle on loan.
struct Borrowed<'a> {
    archive: &'a GitArchive,
    handle: Option<Handle>,
}

impl Deref for Borrowed<'_> {
    type Target = Repository;

    fn deref(&self) -> &Repository {
        &self.handle.as_ref().expect("a handle is given back only at the end").0
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut idle = self.archive.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_HANDLES_MAX {
            idle.extend(self.handle.take());
        }
    }
}

fn open(path: &Path) -> Result<Repository, StoreError> {
    let nowhere: [&Path; 0] = [];
    Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, nowhere)
        .map_err(|source| failed(&format!("open the repository at {}", path.display()), source))
}

fn failed(action: &str, source: git2::Error) -> StoreError {
    StoreError::Git { action: action.to_owned(), source }
}

fn oid(bytes: &[u8; 20]) -> Oid {
    Oid::from_bytes(bytes).expect("an id has 20 bytes")
}

/// Reads an object; `None` if there is none of this kind.
fn object<'a>(
    odb: &'a Odb<'_>,
    id: &[u8; 20],
    kind: ObjectType,
) -> Result<Option<OdbObject<'a>>, StoreError> {
    match odb.read(oid(id)) {
        Ok(object) => Ok((object.kind() == kind).then_some(object)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(source) => Err(failed(&format!("read the object {}", oid(id)), source)),
    }
}

/// An object that something in the repository names, so that it has to be there.
fn needed<'a>(odb: &'a Odb<'_>, id: &[u8; 20], kind: ObjectType) -> Result<OdbObject<'a>, StoreError> {
    let missing = || git2::Error::from_str("it is missing; run `git fsck --full` in the repository");
    object(odb, id, kind)?.ok_or_else(|| failed(&format!("read the {} {}", kind.str(), oid(id)), missing()))
}

fn odb_of(repository: &Repository) -> Result<Odb<'_>, StoreError> {
    repository.odb().map_err(|source| failed("open the object database", source))
}

fn not_a_commit(revision: Revision) -> StoreError {
    failed(&format!("read the commit {revision}"), git2::Error::from_str("it can't be parsed"))
}

/// Follows the folder from commit to commit, and remembers where the last one led: neighbours
/// mostly share it.
struct Folder<'a> {
    odb: &'a Odb<'a>,
    parts: &'a [String],
    last: Option<(Revision, Option<[u8; 20]>)>,
}

impl Folder<'_> {
    /// The id of the folder's tree below a root tree.
    fn below(&mut self, root: Revision) -> Result<Option<[u8; 20]>, StoreError> {
        if let Some((_, id)) = self.last.filter(|(known, _)| *known == root) {
            return Ok(id);
        }
        let mut id = Some(*root.as_bytes());
        for part in self.parts {
            let Some(tree) = id else { break };
            id = tree::folder(needed(self.odb, &tree, ObjectType::Tree)?.data(), part);
        }
        self.last = Some((root, id));
        Ok(id)
    }

    fn at(&mut self, revision: Revision) -> Result<Option<[u8; 20]>, StoreError> {
        let object = needed(self.odb, revision.as_bytes(), ObjectType::Commit)?;
        let commit = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(revision))?;
        self.below(commit.tree)
    }

    /// The raw bytes of a tree; none for no tree.
    fn bytes(&self, id: Option<[u8; 20]>) -> Result<Vec<u8>, StoreError> {
        match id {
            Some(id) => Ok(needed(self.odb, &id, ObjectType::Tree)?.data().to_vec()),
            None => Ok(Vec::new()),
        }
    }
}

/// Reads steps one after the other; those of neighbours, newest first, share what they read.
struct Walker<'a> {
    folder: Folder<'a>,
    /// The parent of the step before, which is mostly the next to be asked for.
    parent: Option<(Revision, Vec<u8>)>,
    /// The folder's tree of that parent, if it was read.
    tree: Option<([u8; 20], Vec<u8>)>,
}

impl Walker<'_> {
    fn commit_bytes(&mut self, revision: Revision) -> Result<Vec<u8>, StoreError> {
        match self.parent.take() {
            Some((known, bytes)) if known == revision => Ok(bytes),
            _ => Ok(needed(self.folder.odb, revision.as_bytes(), ObjectType::Commit)?.data().to_vec()),
        }
    }

    fn step(&mut self, revision: Revision) -> Result<Step, StoreError> {
        let bytes = self.commit_bytes(revision)?;
        let commit = RawCommit::parse(&bytes).ok_or_else(|| not_a_commit(revision))?;
        let mut before = None;
        if let Some(parent) = commit.parents.first() {
            let bytes = self.commit_bytes(*parent)?;
            let root = RawCommit::parse(&bytes).ok_or_else(|| not_a_commit(*parent))?.tree;
            self.parent = Some((*parent, bytes));
            // The newer root first: the one of the parent is what the next step asks for.
            let after = self.folder.below(commit.tree)?;
            before = self.folder.below(root)?;
            return Ok(Step { commit: commit.told(revision), changes: self.changes(before, after)? });
        }
        let after = self.folder.below(commit.tree)?;
        Ok(Step { commit: commit.told(revision), changes: self.changes(before, after)? })
    }

    fn changes(
        &mut self,
        before: Option<[u8; 20]>,
        after: Option<[u8; 20]>,
    ) -> Result<Vec<FileChange>, StoreError> {
        if before == after {
            return Ok(Vec::new());
        }
        let new = match (self.tree.take(), after) {
            (Some((known, bytes)), Some(id)) if known == id => bytes,
            _ => self.folder.bytes(after)?,
        };
        let old = self.folder.bytes(before)?;
        let changes = tree::differences(&old, &new);
        self.tree = before.map(|id| (id, old));
        Ok(changes)
    }
}

impl Archive for GitArchive {
    fn head(&self) -> Result<Option<Revision>, StoreError> {
        let repository = self.borrow()?;
        let reference = match repository.find_reference(&self.branch) {
            Ok(reference) => reference,
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
            Err(source) => return Err(failed("read the branch", source)),
        };
        let commit = reference.peel_to_commit().map_err(|source| failed("read the branch", source))?;
        Ok(Some(name::told(commit.id())))
    }

    fn resolve(&self, name: &str) -> Result<Revision, NameError> {
        name::resolve(&*self.borrow()?, name)
    }

    fn commit(&self, revision: Revision) -> Result<Option<Commit>, StoreError> {
        let repository = self.borrow()?;
        let odb = odb_of(&repository)?;
        let Some(object) = object(&odb, revision.as_bytes(), ObjectType::Commit)? else { return Ok(None) };
        let commit = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(revision))?;
        Ok(Some(commit.told(revision)))
    }

    fn signature(&self, revision: Revision) -> Result<Option<RawSignature>, StoreError> {
        let repository = self.borrow()?;
        let odb = odb_of(&repository)?;
        Ok(commit::signature(needed(&odb, revision.as_bytes(), ObjectType::Commit)?.data()))
    }

    fn first_parents(
        &self,
        from: Revision,
        is_known: &dyn Fn(&Revision) -> bool,
    ) -> Result<Line, StoreError> {
        let repository = self.borrow()?;
        let odb = odb_of(&repository)?;
        let mut line = Line { revisions: Vec::new(), onto: None };
        let mut next = Some(from);
        while let Some(revision) = next {
            if is_known(&revision) {
                line.onto = Some(revision);
                break;
            }
            let object = needed(&odb, revision.as_bytes(), ObjectType::Commit)?;
            let commit = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(revision))?;
            next = commit.parents.first().copied();
            line.revisions.push(revision);
        }
        Ok(line)
    }

    fn steps(&self, revisions: &[Revision], each: &(dyn Fn(usize, Step) + Sync)) -> Result<(), StoreError> {
        self.share(revisions.len(), &|repository, range| {
            let odb = odb_of(repository)?;
            let folder = Folder { odb: &odb, parts: &self.folder, last: None };
            let mut walker = Walker { folder, parent: None, tree: None };
            for index in range {
                each(index, walker.step(revisions[index])?);
            }
            Ok(())
        })
    }

    fn files(&self, revision: Revision) -> Result<Vec<(String, TreeEntry)>, StoreError> {
        let repository = self.borrow()?;
        let odb = odb_of(&repository)?;
        let mut folder = Folder { odb: &odb, parts: &self.folder, last: None };
        let id = folder.at(revision)?;
        Ok(tree::list(&folder.bytes(id)?))
    }

    fn differences(
        &self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        let repository = self.borrow()?;
        let odb = odb_of(&repository)?;
        let mut folder = Folder { odb: &odb, parts: &self.folder, last: None };
        let mut tree = |revision: Option<Revision>| -> Result<Vec<u8>, StoreError> {
            let id = revision.map(|revision| folder.at(revision)).transpose()?.flatten();
            folder.bytes(id)
        };
        Ok(tree::differences(&tree(from)?, &tree(to)?))
    }

    fn contents(
        &self,
        blobs: &[BlobId],
        each: &(dyn Fn(usize, Result<&[u8], StoreError>) + Sync),
    ) -> Result<(), StoreError> {
        self.share(blobs.len(), &|repository, range| {
            let odb = odb_of(repository)?;
            for index in range {
                match needed(&odb, blobs[index].as_bytes(), ObjectType::Blob) {
                    Ok(blob) => each(index, Ok(blob.data())),
                    Err(error) => each(index, Err(error)),
                }
            }
            Ok(())
        })
    }

    fn reaches(&self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        let (new, old) = (oid(descendant.as_bytes()), oid(ancestor.as_bytes()));
        let repository = self.borrow()?;
        if new == old || repository.find_commit(old).is_err() {
            return Ok(new == old);
        }
        repository.graph_descendant_of(new, old).map_err(|source| failed("compare two commits", source))
    }

    fn recall(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.desk.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Path { action: "read", path, source }),
        }
    }

    fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.desk)?;
            // Several processes may do this at once; each has a file of its own until the rename.
            let turn = self.notes.fetch_add(1, Ordering::Relaxed);
            let aside = self.desk.join(format!("{name}.{}.{turn}.new", std::process::id()));
            let written = fs::File::create(&aside).and_then(|mut file| file.write_all(bytes));
            written.and_then(|()| fs::rename(&aside, self.desk.join(name))).inspect_err(|_| {
                drop(fs::remove_file(&aside));
            })
        };
        write().map_err(|source| StoreError::Path { action: "write", path: self.desk.join(name), source })
    }
}
