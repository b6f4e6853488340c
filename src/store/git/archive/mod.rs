//! The archive on a git repository.
//!
//! libgit2's handles can't be shared between threads, so there is a small pool of them: each
//! reader borrows one and gives it back. Only its object database is used, on the `objects` folder
//! by itself, and objects are read raw and parsed here ([`tree`], [`commit`]), since libgit2's own
//! trees cost more than all the rest of a walk. Nothing is written but derived notes.
//!
//! libgit2 adds packs to a handle as they come and never lets go of one that is gone, with its file
//! open and its space on the disk taken. So a handle is given up when the folder of the packs has
//! changed a number of times since ([`Handle::is_worn`]).

mod commit;
mod name;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::SystemTime;

use git2::{ErrorCode, ObjectType, Odb, OdbObject, Oid};

use super::fresh::Fresh;
use super::history::{cut_off, descends};
use super::objects::Objects;
use super::place::Place;
use super::refs;
use crate::domain::Revision;
use crate::store::{
    Archive, BlobId, Commit, FileChange, Line, NameError, RawSignature, Step, StoreError, TreeEntry,
};
pub(super) use commit::RawCommit;

/// How many handles are kept open when nobody uses them.
const IDLE_HANDLES_MAX: usize = 8;

/// How often the folder of the packs may change before a handle is opened anew. Doing so costs about as
/// much as looking into as many packs.
const CHANGES_MAX: u32 = 32;

/// How much work one thread takes at a time, and what is too little to share at all.
const SHARE_LEN: usize = 256;

/// The read side of a git repository.
pub struct GitArchive {
    place: Place,
    branch: String,
    idle: Mutex<Vec<Handle>>,
    notes: AtomicU64,
    fresh: Arc<Fresh>,
}

impl std::fmt::Debug for GitArchive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { place, branch, .. } = self;
        f.debug_struct("GitArchive").field("place", place).field("branch", branch).finish_non_exhaustive()
    }
}

impl GitArchive {
    /// Opens the repository at `path`, bare or with a work tree or a linked work tree, to read the
    /// history of `branch` (with or without `refs/heads/`) in `folder`, a path inside the
    /// repository (`.cms/collections`; empty or `.` for its root).
    ///
    /// Objects are taken as they are stored, as git itself takes them: their names are checked by
    /// `git fsck`, not at each reading.
    ///
    /// # Errors
    ///
    /// Fails when there is no repository, or one that can't be served.
    pub fn open(path: &Path, branch: &str, folder: &str) -> Result<Self, StoreError> {
        let branch = format!("refs/heads/{}", branch.trim_start_matches("refs/heads/"));
        Ok(Self::at(Place::find(path, folder)?, branch, Arc::default()))
    }

    /// The archive of a place, for the branch of this whole name; `fresh` need not be read.
    pub(super) fn at(place: Place, branch: String, fresh: Arc<Fresh>) -> Self {
        // Hashing each tree again costs more than finding it; the setting is of the whole process.
        git2::opts::strict_hash_verification(false);
        Self { place, branch, idle: Mutex::default(), notes: AtomicU64::new(0), fresh }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn borrow(&self) -> Result<Borrowed<'_>, StoreError> {
        let packs = fs::metadata(self.place.packs()).and_then(|folder| folder.modified()).ok();
        let mut idle = self.idle();
        idle.iter_mut().for_each(|handle| handle.see(packs));
        idle.retain(|handle| !handle.is_worn());
        let handle = idle.pop();
        drop(idle);
        let handle = match handle {
            Some(handle) => handle,
            None => Handle { odb: open(&self.place)?, packs, changes: 0 },
        };
        Ok(Borrowed { archive: self, handle: Some(handle) })
    }

    /// Does work by index on all cores, if it is enough to share.
    fn share(&self, len: usize, work: &Work<'_>) -> Result<(), StoreError> {
        // Counting the cores takes a look at files of the system: only where there is much to do.
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = if len > SHARE_LEN { cores().min(len.div_ceil(SHARE_LEN)) } else { 1 };
        if threads == 1 {
            return work(&*self.borrow()?, 0..len);
        }
        let next = AtomicU64::new(0);
        let worker = || -> Result<(), StoreError> {
            let odb = self.borrow()?;
            loop {
                let from = next.fetch_add(SHARE_LEN as u64, Ordering::Relaxed) as usize;
                if from >= len {
                    return Ok(());
                }
                work(&odb, from..(from + SHARE_LEN).min(len))?;
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
            let results = workers.into_iter().map(|worker| worker.join().expect("BUG: a reader panicked"));
            results.collect::<Result<(), _>>()
        })
    }
}

/// Work on a part of what was asked for, by index.
type Work<'a> = dyn Fn(&Odb<'static>, std::ops::Range<usize>) -> Result<(), StoreError> + Sync + 'a;

/// An open object database.
struct Handle {
    odb: Odb<'static>,
    /// When the folder of the packs had changed last when this was lent last.
    packs: Option<SystemTime>,
    /// How often it has been another time.
    changes: u32,
}

impl Handle {
    fn see(&mut self, packs: Option<SystemTime>) {
        if self.packs != packs {
            self.packs = packs;
            self.changes += 1;
        }
    }

    /// Whether too many of the packs that it holds may be gone.
    const fn is_worn(&self) -> bool {
        self.changes > CHANGES_MAX
    }
}

/// A handle on loan.
struct Borrowed<'a> {
    archive: &'a GitArchive,
    handle: Option<Handle>,
}

impl Deref for Borrowed<'_> {
    type Target = Odb<'static>;

    fn deref(&self) -> &Odb<'static> {
        &self.handle.as_ref().expect("a handle is given back only at the end").odb
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut idle = self.archive.idle();
        if idle.len() < IDLE_HANDLES_MAX {
            idle.extend(self.handle.take());
        }
    }
}

fn open(place: &Place) -> Result<Odb<'static>, StoreError> {
    let folder = place.common_dir.join("objects");
    let open = || -> Result<Odb<'static>, git2::Error> {
        let path = folder.to_str().ok_or_else(|| git2::Error::from_str("its path is not UTF-8"))?;
        let odb = Odb::new()?;
        odb.add_disk_alternate(path)?;
        Ok(odb)
    };
    open().map_err(|source| failed(&format!("open {}", folder.display()), source))
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

fn not_a_commit(revision: Revision) -> StoreError {
    failed(&format!("read the commit {revision}"), git2::Error::from_str("it can't be parsed"))
}

/// Follows the folder from commit to commit, and remembers where the last one led: neighbours
/// mostly share it.
struct Folder<'a> {
    odb: &'a Odb<'static>,
    parts: &'a [String],
    last: Option<(Revision, Option<[u8; 20]>)>,
}

impl<'a> Folder<'a> {
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

    /// A tree as it is stored; none for no tree.
    fn tree(&self, id: Option<[u8; 20]>) -> Result<Option<OdbObject<'a>>, StoreError> {
        id.map(|id| needed(self.odb, &id, ObjectType::Tree)).transpose()
    }
}

/// The raw bytes of a tree; none where there is none.
fn bytes<'o>(tree: &'o Option<OdbObject<'_>>) -> &'o [u8] {
    tree.as_ref().map_or(&[], |tree| tree.data())
}

/// Reads steps one after the other; those of neighbours, newest first, share what they read.
/// Objects are kept as libgit2 hands them out: copying each tree costs a tenth of a walk.
struct Walker<'a> {
    folder: Folder<'a>,
    /// The commits whose parents a shallow clone does not have.
    cut: &'a HashSet<[u8; 20]>,
    /// The parent of the step before, which is mostly the next to be asked for.
    parent: Option<(Revision, OdbObject<'a>)>,
    /// The folder's tree of that parent, if it was read.
    tree: Option<([u8; 20], OdbObject<'a>)>,
}

impl<'a> Walker<'a> {
    fn commit(&mut self, revision: Revision) -> Result<OdbObject<'a>, StoreError> {
        match self.parent.take() {
            Some((known, commit)) if known == revision => Ok(commit),
            _ => needed(self.folder.odb, revision.as_bytes(), ObjectType::Commit),
        }
    }

    fn step(&mut self, revision: Revision) -> Result<Step, StoreError> {
        let object = self.commit(revision)?;
        let commit = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(revision))?;
        if let Some(parent) = commit.parents.first().filter(|_| !self.cut.contains(revision.as_bytes())) {
            let object = self.commit(*parent)?;
            let root = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(*parent))?.tree;
            self.parent = Some((*parent, object));
            // The newer root first: the one of the parent is what the next step asks for.
            let after = self.folder.below(commit.tree)?;
            let before = self.folder.below(root)?;
            return Ok(Step { commit: commit.told(revision), changes: self.changes(before, after)? });
        }
        let after = self.folder.below(commit.tree)?;
        Ok(Step { commit: commit.told(revision), changes: self.changes(None, after)? })
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
            (Some((known, tree)), Some(id)) if known == id => Some(tree),
            _ => self.folder.tree(after)?,
        };
        let old = self.folder.tree(before)?;
        let changes = tree::differences(bytes(&old), bytes(&new));
        self.tree = before.zip(old);
        Ok(changes)
    }
}

/// The first parent of a commit.
fn first_parent(odb: &Borrowed<'_>, revision: Revision) -> Result<Option<Revision>, StoreError> {
    let object = needed(odb, revision.as_bytes(), ObjectType::Commit)?;
    let commit = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(revision))?;
    Ok(commit.parents.first().copied())
}

impl Archive for GitArchive {
    fn head(&self) -> Result<Option<Revision>, StoreError> {
        Ok(refs::read(&self.place.common_dir, &self.branch)?.map(Revision::new))
    }

    fn resolve(&self, name: &str) -> Result<Revision, NameError> {
        name::resolve(&self.place, &*self.borrow()?, name)
    }

    fn commit(&self, revision: Revision) -> Result<Option<Commit>, StoreError> {
        let odb = self.borrow()?;
        let Some(object) = object(&odb, revision.as_bytes(), ObjectType::Commit)? else { return Ok(None) };
        let commit = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(revision))?;
        Ok(Some(commit.told(revision)))
    }

    fn signature(&self, revision: Revision) -> Result<Option<RawSignature>, StoreError> {
        let odb = self.borrow()?;
        Ok(commit::signature(needed(&odb, revision.as_bytes(), ObjectType::Commit)?.data()))
    }

    fn cut_off(&self) -> Result<Vec<Revision>, StoreError> {
        let mut cut: Vec<_> = cut_off(&self.place)?.into_iter().map(Revision::new).collect();
        cut.sort_unstable();
        Ok(cut)
    }

    fn first_parents(
        &self,
        from: Revision,
        is_known: &dyn Fn(&Revision) -> bool,
    ) -> Result<Line, StoreError> {
        let cut = cut_off(&self.place)?;
        let mut reader = None;
        let mut line = Line { revisions: Vec::new(), onto: None };
        let mut next = Some(from);
        while let Some(revision) = next {
            if is_known(&revision) {
                line.onto = Some(revision);
                break;
            }
            next = match self.fresh.first_parent(revision) {
                _ if cut.contains(revision.as_bytes()) => None,
                Some(parent) => parent,
                None => match &reader {
                    Some(reader) => first_parent(reader, revision)?,
                    None => first_parent(reader.insert(self.borrow()?), revision)?,
                },
            };
            line.revisions.push(revision);
        }
        Ok(line)
    }

    fn steps(&self, revisions: &[Revision], each: &(dyn Fn(usize, Step) + Sync)) -> Result<(), StoreError> {
        // Those that are remembered are the newest, and stand first.
        let cut = cut_off(&self.place)?;
        let remembered = |revision: &Revision| {
            let is_whole = !cut.contains(revision.as_bytes());
            is_whole.then(|| self.fresh.step(*revision)).flatten()
        };
        let mut fresh = 0;
        while let Some(step) = revisions.get(fresh).and_then(remembered) {
            each(fresh, step);
            fresh += 1;
        }
        if fresh == revisions.len() {
            return Ok(());
        }
        self.share(revisions.len() - fresh, &|odb, range| {
            let folder = Folder { odb, parts: &self.place.folder, last: None };
            let mut walker = Walker { folder, cut: &cut, parent: None, tree: None };
            for index in range {
                each(fresh + index, walker.step(revisions[fresh + index])?);
            }
            Ok(())
        })
    }

    fn files(
        &self,
        revision: Revision,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<(String, TreeEntry)>, StoreError> {
        let odb = self.borrow()?;
        let mut folder = Folder { odb: &odb, parts: &self.place.folder, last: None };
        let id = folder.at(revision)?;
        Ok(tree::list(bytes(&folder.tree(id)?), is_wanted))
    }

    fn differences(
        &self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        let odb = self.borrow()?;
        let mut folder = Folder { odb: &odb, parts: &self.place.folder, last: None };
        let mut tree = |revision: Option<Revision>| {
            let id = revision.map(|revision| folder.at(revision)).transpose()?.flatten();
            folder.tree(id)
        };
        Ok(tree::differences(bytes(&tree(from)?), bytes(&tree(to)?)))
    }

    fn contents(
        &self,
        blobs: &[BlobId],
        each: &(dyn Fn(usize, Result<&[u8], StoreError>) + Sync),
    ) -> Result<(), StoreError> {
        self.share(blobs.len(), &|odb, range| {
            for index in range {
                match needed(odb, blobs[index].as_bytes(), ObjectType::Blob) {
                    Ok(blob) => each(index, Ok(blob.data())),
                    Err(error) => each(index, Err(error)),
                }
            }
            Ok(())
        })
    }

    fn reaches(&self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        let mut objects = Objects::new(&self.place.common_dir);
        descends(&mut objects, &self.place, *descendant.as_bytes(), *ancestor.as_bytes())
    }

    fn recall(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.place.desk().join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Path { action: "read", path, source }),
        }
    }

    fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let write = || -> io::Result<()> {
            fs::create_dir_all(self.place.desk())?;
            // Several processes may do this at once; each has a file of its own until the rename.
            let turn = self.notes.fetch_add(1, Ordering::Relaxed);
            let aside = self.place.desk().join(format!("{name}.{}.{turn}.new", std::process::id()));
            let written = fs::File::create(&aside).and_then(|mut file| file.write_all(bytes));
            written.and_then(|()| fs::rename(&aside, self.place.desk().join(name))).inspect_err(|_| {
                drop(fs::remove_file(&aside));
            })
        };
        write().map_err(|source| StoreError::Path {
            action: "write",
            path: self.place.desk().join(name),
            source,
        })
    }
}
