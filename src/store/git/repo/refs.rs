//! The served branch: read, and moved by compare-and-swap.
//!
//! A branch is a file `refs/heads/x` that contains an id or, if there is no such file, a line of `packed-refs`
//! (gitrepository-layout(5)). It is moved as in git's `refs/files-backend.c`: `HEAD.lock` if `HEAD` names the branch
//! (`split_head_update`), then `x.lock` with the new id, the comparison under the lock, the reflogs, the rename.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::git::disk::barrier::{Barrier, UnflushedFile, make_folders, read_if_there};
use crate::store::git::disk::lock::{HeldLock, LockDraft};
use crate::store::git::disk::open;
use crate::store::git::object::id::{Oid, unhex};
use crate::store::git::repo::layout::Layout;
use crate::store::{AtPath as _, StoreError};

/// Longer than an id: a ref file with anything else need not be read whole to be refused.
const REF_BYTES_MAX: usize = 256;

/// The null id, which stands for "no commit" in reflogs and in the checkpoint.
pub(crate) const NO_COMMIT: Revision = Revision::new([0; 20]);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GitHead {
    /// The full name of a ref, which may be unborn.
    Ref(String),
    Detached(Revision),
}

pub(crate) fn head(git_dir: &Path) -> Result<GitHead, StoreError> {
    let path = git_dir.join("HEAD");
    // In 2005 git made `HEAD` a symbolic link, and it still reads one.
    if let Ok(target) = fs::read_link(&path) {
        return Ok(GitHead::Ref(target.to_string_lossy().into_owned()));
    }
    let text = open::read(&path).at("read", &path)?;
    let text = text.trim_ascii();
    if let Some(name) = text.strip_prefix(b"ref:") {
        return Ok(GitHead::Ref(String::from_utf8_lossy(name.trim_ascii()).into_owned()));
    }
    let commit = unhex(text).map(|oid| GitHead::Detached(Revision::new(oid)));
    commit.ok_or_else(|| damaged(&path, "it names neither a branch nor a commit"))
}

/// Returns the commit that a branch names; `None` if the branch is unborn.
pub(crate) fn read(common_dir: &Path, name: &str) -> Result<Option<Oid>, StoreError> {
    let loose = common_dir.join(name);
    // Git packs refs by writing `packed-refs` before it removes the file, so checking the file first can miss both.
    // A second check of the file finds out what happened.
    for _ in 0..2 {
        if let Some(text) = read_ref(&loose)? {
            let oid = unhex(text.trim_ascii());
            return oid.map(Some).ok_or_else(|| damaged(&loose, "it holds no commit id"));
        }
        if let Some(oid) = packed(common_dir)?.and_then(|refs| find_packed(&refs, name)) {
            return Ok(Some(oid));
        }
    }
    Ok(None)
}

/// Reads a ref file; `None` if it does not exist, is a folder of other refs, or has a name that no file can have.
fn read_ref(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let mut text = Vec::with_capacity(REF_BYTES_MAX);
    let read = open::open(path).and_then(|file| file.take(REF_BYTES_MAX as u64).read_to_end(&mut text));
    match read {
        Ok(_) => Ok(Some(text)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::InvalidFilename
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error).at("read", path),
    }
}

fn damaged(path: &Path, why: &str) -> StoreError {
    StoreError::at("read", path, io::Error::new(io::ErrorKind::InvalidData, why.to_owned()))
}

pub(crate) fn packed(common_dir: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    read_if_there(&common_dir.join("packed-refs"))
}

/// Iterates over the ids and full names in `packed-refs`.
pub(crate) fn packed_lines(refs: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    // The first line is `# pack-refs with: ...`; a line `^<id>` is the target of the tag above it.
    refs.split(|byte| *byte == b'\n')
        .filter(|line| line.len() > 41 && line[40] == b' ')
        .map(|line| (&line[..40], line[41..].trim_ascii_end()))
}

/// Returns the full names of all refs with this prefix, sorted.
pub(crate) fn names(common_dir: &Path, prefix: &str) -> Result<Vec<String>, StoreError> {
    let refs = packed(common_dir)?.unwrap_or_default();
    let packed = packed_lines(&refs).map(|(_, name)| String::from_utf8_lossy(name).into_owned());
    let mut names: Vec<String> = packed.filter(|name| name.starts_with(prefix)).collect();
    add_loose(&common_dir.join(prefix), prefix, &mut names)?;
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Adds the refs that have files of their own. Locks and empty folders are not refs.
fn add_loose(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Result<(), StoreError> {
    for entry in fs::read_dir(folder).at_if_there("read", folder)?.into_iter().flatten() {
        let entry = entry.at("read", folder)?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        // Symbolic links to folders are not followed, because they may form a loop.
        if entry.file_type().is_ok_and(|there| there.is_dir()) {
            add_loose(&entry.path(), &format!("{name}/"), names)?;
        } else if git2::Reference::is_valid_name(&name) {
            names.push(name);
        }
    }
    Ok(())
}

fn find_packed(refs: &[u8], name: &str) -> Option<Oid> {
    packed_lines(refs).find(|(_, found)| *found == name.as_bytes()).and_then(|(oid, _)| unhex(oid))
}

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
        let log = |mut file: File| file.write_all(self.log_lines().as_bytes()).map(|()| file);
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

pub(crate) fn reflog(git_dir: &Path, name: &str) -> PathBuf {
    git_dir.join("logs").join(name)
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
