//! Moves the served branch by compare-and-swap.
//!
//! As in git's `refs/files-backend.c`: `HEAD.lock` if `HEAD` names the branch (`split_head_update`), then `x.lock` with
//! the new id, the comparison under the lock, the reflogs, the rename.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::git::disk::barrier::{Barrier, UnflushedFile, make_folders};
use crate::store::git::disk::lock::{HeldLock, LockDraft};
use crate::store::git::disk::open;
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::refs::{GitHead, NO_COMMIT, packed, packed_lines, read, reflog};
use crate::store::{AtPath as _, StoreError};

/// A move of the branch over one or more new commits.
#[derive(Debug)]
pub(crate) struct BranchMove<'a> {
    pub(crate) branch: &'a str,
    pub(crate) expected: Option<Revision>,
    /// The new commits in order, each with its reflog message; the last one is the new head.
    pub(crate) commits: &'a [(Revision, String)],
    pub(crate) actor: &'a Actor,
    pub(crate) at: DateTime<Utc>,
    /// How long to wait for locks that others hold.
    pub(crate) wait: Duration,
}

impl BranchMove<'_> {
    /// Writes the branch's new content; the caller flushes it before [`make`](Self::make).
    pub(crate) fn draft(&self, layout: &Layout) -> Result<LockDraft, StoreError> {
        let new = self.commits.last().expect("a move goes somewhere").0;
        let path = layout.common_dir.join(self.branch);
        LockDraft::write(&layout.state(), &path, format!("{new}\n").as_bytes())
    }

    /// Moves the branch, durably. After an error the branch may have moved anyway, and then it is not known to be
    /// on disk.
    pub(crate) fn make(
        &self,
        layout: &Layout,
        draft: LockDraft,
        barrier: &Barrier,
    ) -> Result<(), StoreError> {
        let head_lock = self.lock_head(layout)?;
        let path = layout.common_dir.join(self.branch);
        let folder = path.parent().expect("a branch is below refs/heads");
        barrier.make_folder(&layout.common_dir, folder)?;
        let lock = draft.take(self.wait)?;
        self.compare(layout)?;
        remove_empty_folders(&path)?;
        let log = self.log(&layout.common_dir, self.branch, layout.log_new_branches)?;
        if head_lock.is_some() {
            drop(self.log(&layout.git_dir, "HEAD", layout.log_new_branches)?);
        }
        lock.commit()?;
        barrier.folder(folder)?;
        barrier.files(log.as_ref().as_slice())
    }

    /// Locks `HEAD` if it names the branch, so that `HEAD` can't be switched to another branch in the meantime.
    fn lock_head(&self, layout: &Layout) -> Result<Option<HeldLock>, StoreError> {
        let named = || layout.head().map(|head| head == GitHead::Ref(self.branch.to_owned()));
        if !named()? {
            return Ok(None);
        }
        let path = layout.git_dir.join("HEAD");
        let lock = HeldLock::take(&layout.work_tree_state(), &path, self.wait)?;
        Ok(named()?.then_some(lock))
    }

    fn compare(&self, layout: &Layout) -> Result<(), StoreError> {
        let found = read(&layout.common_dir, self.branch)?.map(Revision::new);
        if found != self.expected {
            return Err(StoreError::HeadMoved { expected: self.expected, found });
        }
        if found.is_none() {
            self.check_packed_names(layout)?;
        }
        Ok(())
    }

    /// A branch `a` and a branch `a/b` can't both exist (`refs_verify_refname_available`). For loose refs the file
    /// system enforces that.
    fn check_packed_names(&self, layout: &Layout) -> Result<(), StoreError> {
        let refs = packed(&layout.common_dir)?.unwrap_or_default();
        let within = |inner: &[u8], outer: &[u8]| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        let name = self.branch.as_bytes();
        match packed_lines(&refs).find(|(_, other)| within(name, other) || within(other, name)) {
            None => Ok(()),
            Some((_, other)) => Err(layout.unsuitable(format!(
                "the branch {} can't be made beside {}; choose another name",
                self.branch,
                String::from_utf8_lossy(other)
            ))),
        }
    }

    /// Appends a reflog entry for each step, like `log_ref_write_fd` in `refs/files-backend.c`.
    fn log(&self, git_dir: &Path, name: &str, make: bool) -> Result<Option<UnflushedFile>, StoreError> {
        let path = reflog(git_dir, name);
        let is_new = !path.is_file();
        if is_new && !make {
            return Ok(None);
        }
        if is_new {
            remove_empty_folders(&path)?;
            make_folders(git_dir, path.parent().expect("a reflog is below logs"))?;
        }
        // Unlike git we do not follow a symbolic link here: it may lead out of the repository.
        let opened = open::open_own(OpenOptions::new().append(true).create(true), &path);
        let log = |mut file: File| {
            let len = file.metadata()?.len();
            let written = file.write_all(self.log_lines().as_bytes());
            // On a full disk a part of a line may be there; the next entry would be lost with it.
            written.inspect_err(|_| drop(file.set_len(len))).map(|()| file)
        };
        let file = opened.and_then(log).at("write the reflog", &path)?;
        Ok(Some(UnflushedFile::appended(file, path)))
    }

    fn log_lines(&self) -> String {
        let mut old = self.expected.unwrap_or(NO_COMMIT);
        let mut lines = String::new();
        for (new, message) in self.commits {
            let message = message.replace(['\n', '\r', '\t', '\0'], " ");
            let (name, email, seconds) = (self.actor.name(), self.actor.email(), self.at.timestamp().max(0));
            lines.push_str(&format!("{old} {new} {name} <{email}> {seconds} +0000\t{message}\n"));
            old = *new;
        }
        lines
    }
}

/// Removes empty folders that are in the way of a file, as git does: a deleted branch `a/b` leaves them behind.
fn remove_empty_folders(path: &Path) -> Result<(), StoreError> {
    if !fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        return Ok(());
    }
    let entries = fs::read_dir(path).at("read", path)?;
    let inner: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    inner.iter().try_for_each(|inner| remove_empty_folders(inner))?;
    fs::remove_dir(path).at("replace the folder", path)
}
