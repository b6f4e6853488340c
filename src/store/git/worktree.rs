//! Brings files and index of the checked-out branch up to a new head.
//!
//! Two occasions, one routine: after our own commits (design section 6 step 6), and when the branch
//! has moved under the work tree, by a push or because we were killed between the branch and the
//! files. In both, only paths that differ between the old and the new head are looked at, and of
//! each the file and the index entry are judged apart:
//!
//! * A **file** that is what the old head had, or what a commit between the two had (an edit that we
//!   committed for a person), becomes what the new head has; any other is a person's and stays.
//! * An **index entry** that is what one of those had becomes what the new head has, also where the
//!   file was edited and stays: a stale entry would make the person's next commit revert the new
//!   head. One that is staged or in conflict stays.
//!
//! The note `collectory/work-tree` holds the revision that the work tree was last brought to. It is
//! needed only for the second occasion. It may be older than the truth, since a person's own commit
//! or checkout brings the work tree forward without us: then files and entries are what the *new*
//! head has, and nothing is to be done. An entry that is new beside a file that is old is a person's
//! edit and stays; we always change the file first and the index after it.
//!
//! All this happens under `index.lock`. The new index keeps the time of the old one: what git could
//! not tell from a change by its time ("racy git") it still can't, so it looks into those files.

use std::fs::{self, FileTimes, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use git2::ObjectType;

use super::append::{Group, PathChange, PathChanges};
use super::barrier::read_if_there;
use super::folder::{Folder, Found, index_stat};
use super::index::{GitIndex, Staged};
use super::lock::LockFile;
use super::object::{hex, unhex};
use super::place::Place;
use super::refs::{self, Head};
use super::swap::{Bench, New};
use super::tree::differences;
use super::trees::Trees;
use super::{GitJournal, history, look};
use crate::domain::Revision;
use crate::store::{StoreError, TreeEntry};

/// The note's name in the desk of the work tree.
const NOTE: &str = "work-tree";

/// How far in the past a first index is dated, so that git looks into the files that came with it.
const FIRST_INDEX_AGE: Duration = Duration::from_secs(3);

/// How many commits are looked through for what a file was in between; a file that was older than
/// that when we were killed is kept as if a person had edited it.
const PASSED_COMMITS_MAX: usize = 1_000;

/// What is done about files whose index entry is new already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// We moved the branch ourselves, and have held `index.lock` since before.
    Ours,
    /// The branch was moved, and the work tree may have been brought along since.
    Found,
}

impl GitJournal {
    /// Takes `index.lock` when the served branch is checked out.
    pub(super) fn lock_index(&self) -> Result<Option<LockFile>, StoreError> {
        let shown = || look::away(&self.place, &self.branch).map(|away| away.is_none());
        if !shown()? {
            return Ok(None);
        }
        let index = self.place.git_dir.join("index");
        let desk = self.place.work_tree_desk();
        let lock = LockFile::take(&desk, &index, b"", self.lock_wait, &self.barrier)?;
        // Whoever held it may have checked out another branch.
        Ok(shown()?.then_some(lock))
    }

    /// Brings the work tree up to the group that was just committed. The commits stand, so trouble
    /// is only told; [`catch_up`](crate::store::Journal::catch_up) makes it good.
    pub(super) fn bring_up(&mut self, index: LockFile, old: Option<Revision>, group: &Group) {
        let known = self.noted();
        let new = group.trees.revision.expect("a group has commits");
        let brought = self.apply(index, &group.changes, Occasion::Ours);
        // Where the work tree was behind before, it still is, and the note must go on saying so.
        let is_whole = known.is_none() || known == old.map(|revision| *revision.as_bytes());
        let noted = brought.and_then(|()| if is_whole { self.note(&hex(&new)) } else { Ok(()) });
        if let Err(error) = noted {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(%error, cause, "committed, but the work tree is not up to date yet");
        }
    }

    /// Brings a work tree forward that is behind; see
    /// [`Journal::catch_up`](crate::store::Journal::catch_up).
    pub(super) fn bring_forward(&mut self) -> Result<(), StoreError> {
        if self.is_noted()? {
            return Ok(());
        }
        let Some(lock) = self.lock_index()? else { return Ok(()) };
        let Some(head) = refs::read(&self.place.common_dir, &self.branch)? else { return Ok(()) };
        if let Some(old) = self.noted()
            && history::descends(&mut self.objects, &self.place, head, old)?
        {
            let mut changes = self.changes_between(&old, &head)?;
            self.add_passed(&mut changes, &old, &head)?;
            self.apply(lock, &changes, Occasion::Found)?;
        }
        self.note(&hex(&head))
    }

    /// Whether there is nothing to do: no work tree, another branch, or the note names the head.
    fn is_noted(&self) -> Result<bool, StoreError> {
        if look::away(&self.place, &self.branch)?.is_some() {
            return Ok(true);
        }
        let head = refs::read(&self.place.common_dir, &self.branch)?;
        Ok(head.is_none() || head == self.noted())
    }

    fn changes_between(&mut self, old: &[u8; 20], new: &[u8; 20]) -> Result<PathChanges, StoreError> {
        let old = Trees::load(&mut self.objects, &self.place, Some(*old))?;
        let new = Trees::load(&mut self.objects, &self.place, Some(*new))?;
        let found = differences(old.folder().bytes(), new.folder().bytes())
            .map_err(|error| self.place.unsuitable(error.to_string()))?;
        let mut changes = PathChanges::new();
        for (name, before, after) in found {
            let Ok(name) = String::from_utf8(name) else { continue };
            // What is or was no file is a person's to check out.
            if [before, after].into_iter().flatten().any(|pointer| !pointer.is_file()) {
                continue;
            }
            let content = after
                .map(|pointer| self.objects.read(&pointer.oid, ObjectType::Blob, <[u8]>::to_vec))
                .transpose()?;
            changes.insert(name, PathChange { before, passed: Vec::new(), after, content });
        }
        Ok(changes)
    }

    /// Adds what the commits between the two revisions had.
    fn add_passed(
        &mut self,
        changes: &mut PathChanges,
        old: &[u8; 20],
        new: &[u8; 20],
    ) -> Result<(), StoreError> {
        let mut left = PASSED_COMMITS_MAX;
        history::walk(&mut self.objects, &self.place, Revision::new(*new), &mut |commit, made| {
            for change in made {
                if let Some(known) = changes.get_mut(&change.name) {
                    known.passed.push(match change.before {
                        Some(TreeEntry::File(blob)) => Some(*blob.as_bytes()),
                        Some(TreeEntry::Special(_)) | None => None,
                    });
                }
            }
            left -= 1;
            left > 0 && commit.parents.first().is_some_and(|parent| parent.as_bytes() != old)
        })
    }

    /// Changes files, then the index, and releases its lock.
    fn apply(&self, mut lock: LockFile, changes: &PathChanges, occasion: Occasion) -> Result<(), StoreError> {
        let path = self.place.git_dir.join("index");
        let bytes = read_if_there(&path)?;
        let mut index = match bytes.as_deref().map_or_else(|| Ok(GitIndex::empty()), GitIndex::parse) {
            Ok(index) => Some(index),
            Err(error) => {
                tracing::warn!(path = %path.display(), "{error}; the next `git commit` there may revert what the API wrote");
                None
            }
        };
        let folder = match Folder::collections(
            &self.place,
            changes.values().any(|change| change.after.is_some()),
        )? {
            Found::Folder(folder) => Some(folder),
            Found::Nothing => None,
            Found::Obstacle(path) => {
                tracing::warn!(path = %path.display(), "no folder, so no file there is brought up to date");
                None
            }
        };
        for (name, change) in changes {
            if let Err(error) = self.apply_one(folder.as_ref(), index.as_mut(), name, change, occasion) {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::warn!(%error, cause, "a file of the work tree could not be brought up to date");
            }
        }
        let Some(index) = index else { return Ok(()) };
        write_index(&mut lock, &path, &index.encode())?;
        lock.commit()
    }

    fn apply_one(
        &self,
        folder: Option<&Folder>,
        index: Option<&mut GitIndex<'_>>,
        name: &str,
        change: &PathChange,
        occasion: Occasion,
    ) -> Result<(), StoreError> {
        let path = self.place.inside(name);
        let staged = index.as_ref().map(|index| index.get(&path));
        let is_old = staged.is_some_and(|staged| is_known(&staged, change));
        let may_touch = match occasion {
            Occasion::Ours => true,
            Occasion::Found => is_old,
        };
        let mut is_new = Ok(false);
        if let Some(folder) = folder.filter(|_| may_touch) {
            is_new = Bench::new(&self.place, folder).and_then(|bench| {
                let new = change.after.zip(change.content.as_deref());
                let new = new.map(|(pointer, bytes)| New { oid: pointer.oid, mode: pointer.mode, bytes });
                let before = change.before.map(|pointer| pointer.oid);
                for old in std::iter::once(before).chain(change.passed.iter().copied()) {
                    if bench.change(name, old, new)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            });
        }
        if let Some(index) = index.filter(|_| is_old) {
            // Zeros make git look into the file.
            let stat = match (folder, &is_new) {
                (Some(folder), Ok(true)) => folder.stat(name)?.as_ref().map(index_stat),
                _ => None,
            };
            match change.after {
                Some(after) => index.set(&path, after.file_mode(), &after.oid, stat.unwrap_or_default()),
                None => index.remove(&path),
            }
        }
        is_new.map(drop)
    }

    /// The revision that the work tree was last brought to.
    fn noted(&self) -> Option<[u8; 20]> {
        let note = read_if_there(&self.place.work_tree_desk().join(NOTE)).ok()??;
        unhex(note.get(..40)?)
    }

    /// Notes it. The file is overwritten where it stands, with as many bytes as before, so a power
    /// cut leaves the old note or the new one and never an empty file.
    fn note(&self, revision: &str) -> Result<(), StoreError> {
        let path = self.place.work_tree_desk().join(NOTE);
        let write = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
            let is_first = file.metadata()?.len() == 0;
            file.write_all(format!("{revision}\n").as_bytes())?;
            if is_first { file.sync_all() } else { Ok(()) }
        };
        write().map_err(|source| StoreError::at("write", &path, source))
    }
}

/// Whether an index entry is what a revision before the new head had.
fn is_known(staged: &Staged, change: &PathChange) -> bool {
    let (before, passed) = (change.before, &change.passed);
    match staged {
        Staged::Nothing => before.is_none() || passed.contains(&None),
        Staged::File { mode, oid } => {
            before.is_some_and(|pointer| pointer.oid == *oid && pointer.file_mode() == *mode)
                || passed.contains(&Some(*oid))
        }
        Staged::Conflict => false,
    }
}

fn write_index(lock: &mut LockFile, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let time = match fs::metadata(path).and_then(|metadata| metadata.modified()) {
        Ok(time) => time,
        Err(_) => before_now(),
    };
    let file = lock.file();
    let write = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.write_all(bytes))
        .and_then(|()| file.set_times(FileTimes::new().set_modified(time)));
    write.map_err(|source| StoreError::at("write", path, source))
}

#[expect(clippy::disallowed_methods, reason = "a time for the file system, which no one is told")]
fn before_now() -> SystemTime {
    SystemTime::now() - FIRST_INDEX_AGE
}

/// Refuses a branch that another work tree of the repository shows: our commits would leave that
/// one behind, and its next commit would revert them.
pub(super) fn check_elsewhere(place: &Place, branch: &str) -> Result<(), StoreError> {
    let linked = fs::read_dir(place.common_dir.join("worktrees"));
    let linked = linked.into_iter().flatten().flatten().map(|entry| entry.path());
    let main = (place.git_dir != place.common_dir).then(|| place.common_dir.clone());
    for git_dir in linked.chain(main).filter(|git_dir| *git_dir != place.git_dir) {
        if !matches!(refs::head(&git_dir), Ok(Head::Ref(name)) if name == branch) {
            continue;
        }
        let at = read_if_there(&git_dir.join("gitdir"))?
            .map(|text| String::from_utf8_lossy(&text).trim().to_owned());
        let Some(at) =
            at.map_or_else(|| main_work_tree(&git_dir), |at| Path::new(&at).parent().map(Path::to_owned))
        else {
            continue;
        };
        if at.exists() {
            let why = format!("its branch {branch} is checked out at {}; serve that work tree", at.display());
            return Err(place.unsuitable(why));
        }
    }
    Ok(())
}

/// The main work tree of a repository, unless it is bare.
fn main_work_tree(common_dir: &Path) -> Option<std::path::PathBuf> {
    Place::find(common_dir, ".").ok()?.work_tree
}
