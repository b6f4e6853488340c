//! The files of our own, in the folder `collectory` of the repository: one way to write them, and what each is.
//!
//! | name | holds | written by | how | if it is lost |
//! |---|---|---|---|---|
//! | `lock` | nothing; locked by who serves | `journal::open` | | another may serve beside us; noticed at the next write |
//! | `lock-*` | the private name of a lock of git's | `disk::lock` | | a lock that a kill leaves is a person's to remove |
//! | `spare-packs` | packs whose objects are in another one | `packs::obsolete` | replaced | derived: they are `git gc`'s to remove |
//! | `mark` | what our `.keep` files hold | `packs::keep_files` | replaced | derived: each `.keep` is a file of its own |
//! | `graph` | how far the commit-graph goes | `maintenance::commit_graph` | replaced | derived: it is written once more |
//! | `graph-writer` | which git tidies up, and when it was begun | `maintenance::git_process` | replaced | a lock that a kill leaves there is a person's to remove |
//! | `history-index` | the history, read | `engine::history` | replaced | derived: it is read anew |
//! | `webhook-*` | how far a receiver of events is | `webhooks` | replaced | it begins anew: at `since`, or at now |
//! | `format` | which form these files have | `repo::format` | overwritten | it is taken for the first one |
//! | `doctor-*` | a folder to try the file system in | `cli::doctor` | | it is empty |
//! | `served` | which revision was served last | `repo::served` | overwritten | a branch that was rewritten meanwhile is not told |
//! | `work-tree` | which revision files and index have | `repo::checkpoint` | overwritten | what a kill or a power cut left behind is taken for edits |
//! | `behind` | files that could not be brought forward | `worktree::apply::lagging` | replaced | they are taken for edits |
//! | `index-*` | an index in the making | `index` | | the same as after a kill |
//! | `file-*` | a file of the work tree in the making | `worktree::replace::staging` | | the same as after a kill |
//! | `kept-*` | what a person saved and has no other place | `worktree::replace::staging` | | it is lost: never removed by us |
//! | `remote` | a `GIT_DIR` of our own for a shared branch | `store::remote` | by git | it is made anew, and what was fetched is fetched again |
//! | `scratch-index` | a pack's index in the making | `packs::lost_index` | | it is made anew |
//!
//! The files of one work tree (`work-tree`, `behind`, `lock-index`, `lock-HEAD` and those in the making) stand in
//! its own `.git`, the others in the part that all work trees share.
//!
//! Two ways to write, and no other:
//!
//! * **replaced**: written aside, flushed, renamed, so that it is the old one or the new one and never half.
//! * **overwritten**: where it stands, with as many bytes, and not flushed, for what every write notes. It too is
//!   the old one or the new one, and a power cut may take the last ones back.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::git::disk::barrier::{Barrier, Unflushed, read_own_if_there, remove_if_there};
use crate::store::git::disk::open::open_own;
use crate::store::{AtPath as _, StoreError};

/// What the table says can be deleted at any time.
#[cfg(test)]
pub(crate) const DERIVED: [&str; 3] = ["spare-packs", "mark", "graph"];

/// What the name of one in the making ends with.
const ASIDE: &str = "new";

/// Removes what a killed process of ours left aside in a folder of ours; what another one is writing just now is
/// told as not written. Only for the holder of the service lock.
pub(crate) fn remove_left(folder: &Path) -> Result<(), StoreError> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut aside = entries.filter(|path| path.extension() == Some(OsStr::new(ASIDE)));
    aside.try_for_each(|path| remove_if_there(&path))
}

#[derive(Debug, Clone)]
pub(crate) struct StateFile {
    path: PathBuf,
    barrier: Barrier,
}

impl StateFile {
    /// The file of this name in a folder of our own.
    pub(crate) fn new(folder: &Path, name: &str, barrier: &Barrier) -> Self {
        Self { path: folder.join(name), barrier: barrier.clone() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().expect("it is in a folder of ours")
    }

    /// What it holds; `None` when it is not there.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, StoreError> {
        read_own_if_there(&self.path)
    }

    /// Puts this in the place of what it holds.
    pub(crate) fn replace(&self, bytes: &[u8]) -> Result<(), StoreError> {
        // Several processes may do this at once; each has a file of its own until the rename.
        static TURN: AtomicU64 = AtomicU64::new(0);
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let aside = self.path.with_added_extension(format!("{}.{turn}.{ASIDE}", process::id()));
        let put = || {
            let draft = Unflushed::write(aside.clone(), bytes)?;
            self.barrier.files(&[&draft])?;
            fs::rename(&aside, &self.path).at("write", &self.path)
        };
        put().inspect_err(|_| drop(remove_if_there(&aside)))
    }

    /// Writes this over what it holds; says whether that had as many bytes, as it always has but the first time.
    pub(crate) fn overwrite(&self, bytes: &[u8]) -> Result<bool, StoreError> {
        let write = || {
            let options = &mut OpenOptions::new();
            let file = open_own(options.write(true).create(true).truncate(false), &self.path)?;
            let len = file.metadata()?.len();
            file.write_all_at(bytes, 0)?;
            if len == bytes.len() as u64 {
                return Ok(true);
            }
            file.set_len(bytes.len() as u64).map(|()| false)
        };
        write().at("write", &self.path)
    }

    /// Flushes all that is on its file system, itself among it.
    pub(crate) fn flush_file_system(&self) -> Result<(), StoreError> {
        self.barrier.file_system(self.folder())
    }
}
