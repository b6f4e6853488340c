//! Drafts of files of the work tree, before they are moved into place; see `swap`.
//!
//! A draft is in the staging folder, on the same file system. After an exchange with a file, the staging folder has
//! that file, which may be what a person saved a moment ago. So a draft that a kill has left is removed only if git
//! has its content.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::store::git::object::id::Oid;
use crate::store::git::object::tree::{EXECUTABLE, FILE, LINK, Pointer};
use crate::store::git::odb::objects::Objects;
use crate::store::git::repo::layout::Layout;
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::{AtPath as _, BlobId, StoreError};

/// The prefix of drafts in the state folder; the name of the file follows.
const DRAFT_PREFIX: &str = "file-";
/// The prefix of drafts in the collections folder itself, if the state folder is on another file system; a mark of the
/// repository and the name of the file follow.
const NEIGHBOUR_PREFIX: &str = ".collectory-";

/// The new content of a file, or the target of a symbolic link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFile<'a> {
    pub(crate) oid: BlobId,
    pub(crate) mode: u32,
    /// The mode that the tree had there before.
    pub(crate) mode_before: Option<u32>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> NewFile<'a> {
    /// Combines an entry of a tree with its content, and with the entry before it if that is known; `None` without an
    /// entry or without content.
    pub(crate) fn of(
        before: Option<Pointer>,
        pointer: Option<Pointer>,
        bytes: Option<&'a [u8]>,
    ) -> Option<Self> {
        pointer.zip(bytes).map(|(pointer, bytes)| Self {
            oid: pointer.blob(),
            mode: pointer.canonical_mode(),
            mode_before: before.map(|before| before.canonical_mode()),
            bytes,
        })
    }

    /// Returns the mode for a file that replaces another: that file's own, unless the mode in the tree has changed.
    /// Any other difference is a person's and is not committed.
    pub(crate) fn mode_over(&self, replaced: Mode) -> Mode {
        let is_executable = replaced.contains(Mode::XUSR);
        match (self.mode_before, self.mode) {
            // Everyone who may read it may execute it.
            (Some(FILE), EXECUTABLE) if !is_executable => {
                replaced | Mode::from_raw_mode((replaced.as_raw_mode() & 0o444) >> 2)
            }
            (Some(EXECUTABLE), FILE) if is_executable => replaced - Mode::from_raw_mode(0o111),
            _ => replaced,
        }
    }
}

/// A folder for drafts of the files of another folder.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) folder: Folder,
    prefix: String,
}

impl Staging {
    /// Returns the staging folder of the collections folder: the state folder in the repository or, if that is on
    /// another file system, the collections folder itself.
    pub(crate) fn near(layout: &Layout, folder: &Folder) -> Result<Self, StoreError> {
        let state = Folder::open(&layout.work_tree_state())?;
        // A rename works only within one file system.
        Ok(match neighbour_prefix(&state, folder)? {
            None => Self { folder: state, prefix: DRAFT_PREFIX.to_owned() },
            Some(prefix) => Self { folder: Folder::open(&folder.path)?, prefix },
        })
    }

    pub(crate) fn draft_of(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Writes the draft of a file over one that was left; `mode_over` is its mode if it replaces a file.
    pub(crate) fn write(
        &self,
        name: &str,
        new: NewFile<'_>,
        mode_over: Option<Mode>,
    ) -> Result<(), StoreError> {
        self.remove(name)?;
        let draft = &self.draft_of(name);
        let failed = |errno| self.folder.failed("make", draft, errno);
        if new.mode == LINK {
            return rustix::fs::symlinkat(OsStr::from_bytes(new.bytes), &self.folder.fd, draft)
                .map_err(failed);
        }
        // The umask takes away permissions, as it does for git.
        let mode = Mode::from_raw_mode(if new.mode == EXECUTABLE { 0o777 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.folder.fd, draft, flags, mode).map_err(failed)?;
        let fill = || {
            let stat = rustix::fs::fstat(&fd)?;
            if let Some(mode) = mode_over.filter(|mode| mode_of(&stat) != *mode) {
                rustix::fs::fchmod(&fd, mode)?;
            }
            File::from(fd).write_all(new.bytes)
        };
        fill().map_err(|source| {
            drop(self.remove(name));
            StoreError::at("write", &self.folder.path.join(draft), source)
        })
    }

    /// Keeps what is in place of a file's draft, which a person saved and which exists nowhere else, under a name that
    /// says so. Beside collection files that name begins with a dot, so that it is not served.
    pub(crate) fn keep(&self, name: &str) -> Result<(), StoreError> {
        let dot = if self.prefix.starts_with('.') { "." } else { "" };
        let kept = free_name(&self.folder.path, &format!("{dot}kept-file-{name}"));
        tracing::warn!(path = %kept.display(), "kept a file that was saved in the instant in which it was replaced; look at it, then remove it");
        let draft = self.folder.path.join(self.draft_of(name));
        fs::rename(&draft, &kept).at("keep", &draft)
    }

    /// Removes the draft of a file, or what was exchanged with it.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        let draft = &self.draft_of(name);
        match rustix::fs::unlinkat(&self.folder.fd, draft, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.folder.failed("remove", draft, errno)),
        }
    }

    /// Removes all drafts but those whose content git does not have, which are kept.
    fn sweep(&self, objects: &mut Objects) -> Result<(), StoreError> {
        let entries = fs::read_dir(&self.folder.path).at("read", &self.folder.path)?;
        // What can't be looked for is taken for missing.
        let mut has = |oid: &Oid| objects.has(oid).unwrap_or(false);
        for draft in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            let Some(name) = draft.strip_prefix(&self.prefix) else { continue };
            let is_saved = match self.folder.identify(&draft)? {
                Some(content) => !content.bytes.is_empty() && !has(content.oid.as_bytes()),
                // A link may be a draft too; anything else that can't be read is not a draft, and is kept.
                None => self.folder.link(&draft)?.is_none_or(|target| !has(target.as_bytes())),
            };
            if is_saved { self.keep(name)? } else { self.remove(name)? }
        }
        Ok(())
    }
}

/// Returns the prefix of drafts beside the files themselves, if the state folder is on another file system; no other
/// file has it by chance. `None` if drafts go to the state folder.
fn neighbour_prefix(state: &Folder, folder: &Folder) -> Result<Option<String>, StoreError> {
    let stat = |folder: &Folder| rustix::fs::fstat(&folder.fd).at("look at", &folder.path);
    let (state, folder) = (stat(state)?, stat(folder)?);
    let mark = || format!("{NEIGHBOUR_PREFIX}{:x}-{:x}-", state.st_dev, state.st_ino);
    Ok((state.st_dev != folder.st_dev).then(mark))
}

/// Returns the mode of a file, without its type.
pub(crate) fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode)
}

/// Removes the drafts that a killed process of ours left, but keeps those that have what a person saved: the kill may
/// have come between an exchange and the check after it.
pub(crate) fn remove_left(layout: &Layout, objects: &mut Objects) -> Result<(), StoreError> {
    let own = Folder::open(&layout.work_tree_state())?;
    Staging { folder: own, prefix: DRAFT_PREFIX.to_owned() }.sweep(objects)?;
    let Some(folder) = Folder::collections(layout, false)?.folder() else { return Ok(()) };
    Staging::near(layout, &folder)?.sweep(objects)
}

/// Returns whether this is what a power cut makes of an unflushed file, with nothing worth keeping.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Returns whether this may be what a power cut makes of an unflushed file: nothing, or old bytes of its blocks.
pub(crate) fn is_torn(bytes: &[u8]) -> bool {
    is_blank(bytes) || bytes.contains(&0) || std::str::from_utf8(bytes).is_err()
}

/// Keeps a copy of a file that a power cut has damaged.
pub(crate) fn keep_aside(path: &Path, state: &Path) -> Result<(), StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let kept = free_name(state, &format!("kept-{name}"));
    tracing::warn!(path = %kept.display(), "kept what a power cut has made of a file; look at it, then remove it");
    fs::copy(path, &kept).map(drop).at("keep", path)
}

/// Returns the first of `name`, `name-1`, `name-2` and so on that does not exist yet.
fn free_name(folder: &Path, name: &str) -> PathBuf {
    let others = (1..).map(|number| format!("{name}-{number}"));
    let mut paths = std::iter::once(name.to_owned()).chain(others).map(|name| folder.join(name));
    paths.find(|path| path.symlink_metadata().is_err()).expect("there is no end of numbers")
}
