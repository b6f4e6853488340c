//! The archive on a git repository.
//!
//! Only the object database of libgit2 is used ([`handles`]), and objects are read raw and parsed here
//! ([`tree`], [`commit`]), since libgit2's own trees cost more than all the rest of a walk ([`walk`]).
//! Nothing is written but derived notes.

mod commit;
mod handles;
mod name;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

use std::fs;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use git2::{ObjectType, Odb};

use self::handles::{Borrowed, Handles, needed, not_a_commit, object};
use self::walk::{Folder, Walker, bytes, first_parent};
use crate::domain::Revision;
use crate::store::git::disk::barrier::make_folders;
use crate::store::git::read::history::{cut_off, descends};
use crate::store::git::read::objects::Objects;
use crate::store::git::read::recent_commits::Fresh;
use crate::store::git::repo::layout::Place;
use crate::store::git::repo::refs;
use crate::store::{
    Archive, BlobId, Commit, FileChange, Line, NameError, RawSignature, Step, StoreError, TreeEntry,
};
pub(in crate::store::git) use commit::RawCommit;

/// How much work one thread takes at a time, and what is too little to share at all.
const SHARE_LEN: usize = 256;

/// The read side of a git repository.
pub struct GitArchive {
    place: Place,
    branch: String,
    handles: Handles,
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
    pub(crate) fn at(place: Place, branch: String, fresh: Arc<Fresh>) -> Self {
        // Hashing each tree again costs more than finding it; the setting is of the whole process.
        git2::opts::strict_hash_verification(false);
        Self { place, branch, handles: Handles::default(), notes: AtomicU64::new(0), fresh }
    }

    fn borrow(&self) -> Result<Borrowed<'_>, StoreError> {
        self.handles.borrow(&self.place)
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

impl Archive for GitArchive {
    fn head(&self) -> Result<Option<Revision>, StoreError> {
        Ok(refs::read(&self.place.common_dir, &self.branch)?.map(Revision::new))
    }

    fn resolve(&self, name: &str) -> Result<Revision, NameError> {
        name::resolve(&self.place, &*self.borrow()?, name)
    }

    fn commit(&self, revision: Revision) -> Result<Option<Commit>, StoreError> {
        if let Some(step) = self.fresh.step(revision) {
            return Ok(Some(step.commit));
        }
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
                None => {
                    let odb: &Borrowed<'_> = match &reader {
                        Some(reader) => reader,
                        None => reader.insert(self.borrow()?),
                    };
                    first_parent(odb, revision)?
                }
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
            let mut walker = Walker::new(Folder::new(odb, &self.place.folder), &cut);
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
        let mut folder = Folder::new(&odb, &self.place.folder);
        let id = folder.at(revision)?;
        Ok(tree::list(bytes(&folder.tree(id)?), is_wanted))
    }

    fn differences(
        &self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        let odb = self.borrow()?;
        let mut folder = Folder::new(&odb, &self.place.folder);
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
        let (places, others) = self.fresh.contents(blobs, each);
        if others.is_empty() {
            return Ok(());
        }
        self.share(others.len(), &|odb, range| {
            for index in range {
                match needed(odb, others[index].as_bytes(), ObjectType::Blob) {
                    Ok(blob) => each(places[index], Ok(blob.data())),
                    Err(error) => each(places[index], Err(error)),
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
        make_folders(&self.place.common_dir, &self.place.desk(), &mut |_| Ok(()))?;
        let write = || -> io::Result<()> {
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
