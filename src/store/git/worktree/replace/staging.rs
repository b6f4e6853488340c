//! Files of the work tree in the making, before they take their places; see `swap`.
//!
//! A draft stands in the staging folder, on the same file system. When it has changed places with a file,
//! that folder has the file, which may be what a person saved a moment ago: so a draft that a kill has left
//! is only removed if git has its content as well.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::store::git::object::tree::{EXECUTABLE, FILE, LINK, Pointer};
use crate::store::git::odb::objects::Objects;
use crate::store::git::repo::layout::Layout;
use crate::store::git::worktree::scan::folder::{Folder, FoundFolder};
use crate::store::{AtPath as _, BlobId, StoreError};

/// What drafts in the state folder begin with; the rest is the file's name.
const DRAFT_PREFIX: &str = "file-";
/// What drafts in the collections folder itself begin with, when that is elsewhere; a mark of the repository and the
/// file's name follow.
const NEIGHBOUR_PREFIX: &str = ".collectory-";

/// The new content of a file, or where a symbolic link leads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFile<'a> {
    pub(crate) oid: BlobId,
    pub(crate) mode: u32,
    /// The mode that a tree had there before.
    pub(crate) mode_before: Option<u32>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> NewFile<'a> {
    /// What a place in a tree names, with its content, after what it named before, if that is known; nothing where
    /// either is missing.
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

    /// The mode to have in place of a file: that file's own, but for what has become of the mode in the tree. Who has
    /// changed it otherwise has not committed that.
    pub(crate) fn mode_over(&self, replaced: Mode) -> Mode {
        let is_executable = replaced.contains(Mode::XUSR);
        match (self.mode_before, self.mode) {
            // Whoever may read it may execute it.
            (Some(FILE), EXECUTABLE) if !is_executable => {
                replaced | Mode::from_raw_mode((replaced.as_raw_mode() & 0o444) >> 2)
            }
            (Some(EXECUTABLE), FILE) if is_executable => replaced - Mode::from_raw_mode(0o111),
            _ => replaced,
        }
    }
}

/// A folder for drafts of the files of another one.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) folder: Folder,
    prefix: String,
}

impl Staging {
    /// The staging folder of the collections folder: the folder of our own in the repository; where that is on another
    /// file system, the collections folder itself.
    pub(crate) fn near(layout: &Layout, folder: &Folder) -> Result<Self, StoreError> {
        let state = Folder::open(&layout.work_tree_state())?;
        // A rename stays within one file system.
        Ok(match neighbour_prefix(&state, folder)? {
            None => Self { folder: state, prefix: DRAFT_PREFIX.to_owned() },
            Some(prefix) => Self { folder: Folder::open(&folder.path)?, prefix },
        })
    }

    /// What the draft of a file is called.
    pub(crate) fn draft_of(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Writes the draft of a file in the place of one that was left, with this mode if it replaces another one.
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
        // The process's own mask takes away what others may not have, as it does for git.
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

    /// Keeps what is in the place of the draft of a file, since a person saved it and it has no other place, under a
    /// name that says so; one that nobody serves where the drafts are, too.
    pub(crate) fn keep(&self, name: &str) -> Result<(), StoreError> {
        let dot = if self.prefix.starts_with('.') { "." } else { "" };
        let kept = free_name(&self.folder.path, &format!("{dot}kept-file-{name}"));
        tracing::warn!(path = %kept.display(), "kept a file that was saved in the instant in which it was replaced; look at it, then remove it");
        let draft = self.folder.path.join(self.draft_of(name));
        fs::rename(&draft, &kept).at("keep", &draft)
    }

    /// Removes the draft of a file, or what has changed places with it.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        let draft = &self.draft_of(name);
        match rustix::fs::unlinkat(&self.folder.fd, draft, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.folder.failed("remove", draft, errno)),
        }
    }

    /// Removes all drafts, and keeps those whose content git does not have.
    fn sweep(&self, objects: &mut Objects) -> Result<(), StoreError> {
        let entries = fs::read_dir(&self.folder.path).at("read", &self.folder.path)?;
        for draft in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            let Some(name) = draft.strip_prefix(&self.prefix) else { continue };
            let is_saved = match self.folder.identify(&draft)? {
                Some(content) => !content.bytes.is_empty() && !objects.has(content.oid.as_bytes()),
                // A link may be a draft too; what else can't be read is none.
                None => self.folder.link(&draft)?.is_none_or(|target| !objects.has(target.as_bytes())),
            };
            if is_saved { self.keep(name)? } else { self.remove(name)? }
        }
        Ok(())
    }
}

/// What drafts begin with that stand beside the files themselves, as the folder of our own is on another file system:
/// nobody else calls a file so by chance. `None` where they stand in that folder.
fn neighbour_prefix(state: &Folder, folder: &Folder) -> Result<Option<String>, StoreError> {
    let stat = |folder: &Folder| rustix::fs::fstat(&folder.fd).at("look at", &folder.path);
    let (state, folder) = (stat(state)?, stat(folder)?);
    let mark = || format!("{NEIGHBOUR_PREFIX}{:x}-{:x}-", state.st_dev, state.st_ino);
    Ok((state.st_dev != folder.st_dev).then(mark))
}

/// The mode of a file, without its kind.
pub(crate) fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode)
}

/// Removes the drafts that a killed process of ours left, unless one holds what a person saved:
/// that happens when the kill came between an exchange and the look after it.
pub(crate) fn remove_left(layout: &Layout, objects: &mut Objects) -> Result<(), StoreError> {
    let own = Folder::open(&layout.work_tree_state())?;
    Staging { folder: own, prefix: DRAFT_PREFIX.to_owned() }.sweep(objects)?;
    let FoundFolder::Folder(folder) = Folder::collections(layout, false)? else { return Ok(()) };
    Staging::near(layout, &folder)?.sweep(objects)
}

/// Whether this is what a power cut makes of a file that was not flushed, and nothing to be kept.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Whether this may be what a power cut makes of a file that was not flushed: nothing, or what the blocks
/// had before.
pub(crate) fn is_torn(bytes: &[u8]) -> bool {
    is_blank(bytes) || bytes.contains(&0) || std::str::from_utf8(bytes).is_err()
}

/// Keeps what a power cut has made of a file.
pub(crate) fn keep_aside(path: &Path, state: &Path) -> Result<(), StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let kept = free_name(state, &format!("kept-{name}"));
    tracing::warn!(path = %kept.display(), "kept what a power cut has made of a file; look at it, then remove it");
    fs::copy(path, &kept).map(drop).at("keep", path)
}

/// The first of `name`, `name-1`, `name-2` and so on that nothing has yet.
fn free_name(folder: &Path, name: &str) -> PathBuf {
    let others = (1..).map(|number| format!("{name}-{number}"));
    let mut paths = std::iter::once(name.to_owned()).chain(others).map(|name| folder.join(name));
    paths.find(|path| path.symlink_metadata().is_err()).expect("there is no end of numbers")
}
