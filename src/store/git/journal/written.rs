//! The files that a running service opens for writing and the folders in which it makes files, so that a check can
//! report missing permissions before a write fails. Each path comes from the code that writes there.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::store::git::journal::GitJournal;
use crate::store::git::journal::open::lock_path;
use crate::store::git::repo::layout::{Layout, REMOTE_FOLDER};
use crate::store::git::repo::refs::branch::Branch;
use crate::store::git::repo::refs::{GitHead, reflog};
use crate::store::git::repo::served;
use crate::store::{KeptHead, StoreError};

const START: &str = "nothing can be served, since the service locks a file there";
const WRITE: &str = "no write can be made";

/// A file that is written in place, or a folder in which files are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTarget {
    /// Its path; for something that does not exist yet, the folder in which it would be made.
    pub path: PathBuf,
    /// The consequence if it can't be written.
    pub consequence: &'static str,
}

impl GitJournal {
    /// Returns what a service writes in the repository, each path once, with the worst consequence of a failure.
    ///
    /// # Errors
    ///
    /// Fails when `HEAD` can't be read.
    pub fn write_targets(&self) -> Result<Vec<WriteTarget>, StoreError> {
        let Layout { git_dir, common_dir, .. } = &*self.layout;
        let is_named = self.layout.head()? == GitHead::Ref(self.branch.name.clone());
        let mut all = vec![(lock_path(&self.layout), START), (self.layout.state(), START)];
        all.extend(self.written_by_a_write(is_named).into_iter().map(|path| (path, WRITE)));
        all.push((
            served::path(&self.layout),
            "a branch that is rewritten while nothing runs is not reported",
        ));
        all.push((common_dir.join(KeptHead::REFS), "a branch that is rewritten is not kept"));
        let logs = [Some((common_dir, &*self.branch.name)), is_named.then_some((git_dir, "HEAD"))];
        for (folder, name) in logs.into_iter().flatten().filter(|_| self.layout.log_new_branches) {
            let log = reflog(folder, name);
            all.push((log.parent().unwrap_or(folder).to_owned(), "no reflog is ever made shorter"));
        }
        let graphs = self.writer.packs.objects().join("info/commit-graphs");
        all.push((
            graphs,
            "the commit-graph grows no further, and `git log` on a file takes longer and longer",
        ));
        all.push((self.writer.packs.objects().to_owned(), "nobody can commit there by hand"));
        if self.layout.has_remote() {
            all.push((
                common_dir.join(REMOTE_FOLDER),
                "nothing comes from the remote, and nothing goes there",
            ));
            let root = self.layout.work_tree.clone();
            all.extend(root.map(|root| (root, "what others have pushed does not come into the work tree")));
        }
        Ok(once(all))
    }

    /// Returns the files that every write opens and the folders in which it makes files.
    fn written_by_a_write(&self, is_named: bool) -> Vec<PathBuf> {
        let Branch { name, layout, .. } = &self.branch;
        let Layout { git_dir, common_dir, .. } = &**layout;
        let mut paths = vec![self.writer.packs.folder().to_owned()];
        paths.extend(common_dir.join(name).parent().map(Path::to_owned));
        let is_logged = |log: &PathBuf| layout.log_new_branches || log.is_file();
        paths.extend(Some(reflog(common_dir, name)).filter(is_logged));
        if is_named {
            // For the locks of `HEAD` and of the index, and the index itself.
            paths.extend([git_dir.clone(), layout.work_tree_state()]);
            paths.extend(Some(reflog(git_dir, "HEAD")).filter(is_logged));
        }
        if matches!(self.checkout.is_shown(), Ok(true)) {
            paths.push(self.checkout.checkpoint.path());
            paths.extend(self.checkout.written_folder());
        }
        paths
    }
}

/// Keeps the first entry of each path; a missing path is replaced by the folder in which it would be made.
fn once(all: Vec<(PathBuf, &'static str)>) -> Vec<WriteTarget> {
    let mut written: Vec<WriteTarget> = Vec::with_capacity(all.len());
    for (path, lost) in all {
        let path = nearest(&path);
        if !written.iter().any(|known| known.path == path) {
            written.push(WriteTarget { path, consequence: lost });
        }
    }
    written
}

/// Returns the path, or its nearest ancestor that exists.
fn nearest(path: &Path) -> PathBuf {
    let is_missing = |path: &&Path| {
        let there = fs::symlink_metadata(path).map_err(|error| error.kind());
        matches!(there, Err(ErrorKind::NotFound | ErrorKind::NotADirectory))
    };
    path.ancestors().find(|path| !is_missing(path)).unwrap_or(path).to_owned()
}
