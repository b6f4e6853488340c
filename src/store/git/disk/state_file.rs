//! The state files of the service, in the folder `collectory` of the repository: what each is and how it is written.
//!
//! | name | contents | written by | how | if it is lost |
//! |---|---|---|---|---|
//! | `lock` | nothing; locked by the process that serves | `journal::open` | | a second process may serve too; noticed at the next write |
//! | `lock-*` | the private name of a git lock | `disk::lock` | | a lock left by a kill has to be removed by a person |
//! | `spare-packs` | packs whose objects are in another pack | `packs::obsolete` | replaced | derived: `git gc` removes them |
//! | `mark` | the content of our `.keep` files | `packs::keep_files` | replaced | derived: each `.keep` becomes a file of its own |
//! | `graph` | how far the commit-graph reaches | `maintenance::commit_graph` | replaced | derived: the graph is written once more |
//! | `graph-writer` | which git process does maintenance, and when it was started | `maintenance::git_process` | replaced | a lock left by a kill has to be removed by a person |
//! | `history-index` | the index of the history | `engine::history` | replaced | derived: it is rebuilt |
//! | `webhook-*` | how far a webhook receiver has got | `webhooks` | replaced | it starts again: at `since`, or at now |
//! | `format` | the format version of these files | `repo::format` | overwritten | the first version is assumed |
//! | `doctor-*` | a folder for trying out the file system | `cli::doctor` | | it is empty |
//! | `served` | the revision that was served last | `repo::served` | overwritten | a branch rewritten in the meantime is not reported |
//! | `work-tree` | the revision that files and index are at | `repo::checkpoint` | overwritten | what a kill or a power cut left behind looks like edits |
//! | `work-tree-move` | a move of the branch that the work tree has to follow | `repo::checkpoint` | replaced | what a kill in that moment left behind looks like edits |
//! | `behind` | files that could not be updated | `worktree::apply::lagging` | replaced | they look like edits |
//! | `index-*` | a draft of an index | `index` | | the same as after a kill |
//! | `file-*` | a draft of a work tree file | `worktree::replace::staging` | | the same as after a kill |
//! | `kept-*` | a person's content that has no other place | `worktree::replace::staging` | | it is lost: we never remove it |
//! | `remote` | a `GIT_DIR` of our own for a shared branch | `store::remote` | by git | it is recreated, and what was fetched is fetched again |
//! | `scratch-index` | a draft of a pack's index | `packs::lost_index` | | it is made again |
//!
//! The files of one work tree (`work-tree`, `work-tree-move`, `behind`, `lock-index`, `lock-HEAD` and the drafts) are in that work
//! tree's `.git`, the others in the part that all work trees share.
//!
//! A state file is written in one of two ways:
//!
//! * **replaced**: written to a temporary file, flushed and renamed, so that it is either the old or the new
//!   version, never a mixture.
//! * **overwritten**: in place, with the same number of bytes, and not flushed, for what every write records. It
//!   too is either the old or the new version, and a power cut may undo the latest writes.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::git::disk::barrier::{Barrier, UnflushedFile, read_own_if_there, remove_if_there};
use crate::store::git::disk::open::open_own;
use crate::store::{AtPath as _, StoreError};

/// The files that the table marks as derived: they can be deleted at any time.
#[cfg(test)]
pub(crate) const DERIVED: [&str; 3] = ["spare-packs", "mark", "graph"];

/// The extension of a temporary file.
const ASIDE: &str = "new";

/// Removes the temporary files that a killed process of ours left in a folder of ours. A process that is writing
/// one just now gets an error. Only for the holder of the service lock.
pub(crate) fn remove_left(folder: &Path) -> Result<(), StoreError> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut aside = entries.filter(|path| path.extension() == Some(OsStr::new(ASIDE)));
    aside.try_for_each(|path| remove_if_there(&path))
}

/// A state file that is replaced.
#[derive(Debug, Clone)]
pub(crate) struct StateFile {
    path: PathBuf,
    barrier: Barrier,
}

impl StateFile {
    pub(crate) fn new(folder: &Path, name: &str, barrier: &Barrier) -> Self {
        Self { path: folder.join(name), barrier: barrier.clone() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().expect("it is in a folder of ours")
    }

    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, StoreError> {
        read_own_if_there(&self.path)
    }

    pub(crate) fn replace(&self, bytes: &[u8]) -> Result<(), StoreError> {
        // Several processes may do this at once; each has its own temporary file until the rename.
        static TURN: AtomicU64 = AtomicU64::new(0);
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let aside = self.path.with_added_extension(format!("{}.{turn}.{ASIDE}", process::id()));
        let put = || {
            let draft = UnflushedFile::write(aside.clone(), bytes)?;
            self.barrier.files(&[&draft])?;
            fs::rename(&aside, &self.path).at("write", &self.path)
        };
        put().inspect_err(|_| drop(remove_if_there(&aside)))
    }
}

/// Overwrites a state file in place; returns whether its length stayed the same, as it does except for the first write.
pub(crate) fn overwrite(path: &Path, bytes: &[u8]) -> Result<bool, StoreError> {
    let write = || {
        let options = &mut OpenOptions::new();
        let file = open_own(options.write(true).create(true).truncate(false), path)?;
        let len = file.metadata()?.len();
        file.write_all_at(bytes, 0)?;
        if len == bytes.len() as u64 {
            return Ok(true);
        }
        file.set_len(bytes.len() as u64).map(|()| false)
    };
    write().at("write", path)
}
