//! The collections folder of the work tree: opened without following links, its files hashed.
//!
//! Everything is reached from an open folder by plain names, so a folder that is replaced or a link that appears
//! meanwhile can't lead elsewhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::store::git::disk::failpoint::{Failpoint, reach};
use crate::store::git::disk::stamp::{Stamp, kind};
use crate::store::git::object::id::BlobHasher;
use crate::store::git::odb::objects::OBJECT_BYTES_MAX;
use crate::store::git::repo::layout::Layout;
use crate::store::{AtPath as _, BlobId, FILE_BYTES_KEPT_MAX, FILE_BYTES_READ_MAX, StoreError};

/// How often a file that keeps changing is read.
const READS_MAX: usize = 3;

const OPEN_FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
// `NONBLOCK`: opening a pipe must not wait for its writer.
const OPEN_FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// An open folder, with its path for errors.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) fd: OwnedFd,
    pub(crate) path: PathBuf,
}

/// What was found in place of the collections folder.
#[derive(Debug)]
pub(crate) enum FoundFolder {
    Folder(Folder),
    Nothing,
    /// A link or a file at this path.
    Obstacle(PathBuf),
}

impl FoundFolder {
    pub(crate) fn folder(self) -> Option<Folder> {
        if let Self::Folder(folder) = self { Some(folder) } else { None }
    }

    /// Returns the folder, for changing files in it; logs what is in its way.
    pub(crate) fn or_warn(self) -> Option<Folder> {
        if let Self::Obstacle(path) = &self {
            tracing::warn!(path = %path.display(), "no folder, so no file there is brought up to date");
        }
        self.folder()
    }
}

/// Returns whether an error concerns the process or the system, and not the file that could not be read.
pub(crate) fn is_shortage(error: &StoreError) -> bool {
    let StoreError::Path { source, .. } = error else { return false };
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM]
        .iter()
        .any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let fd = rustix::fs::open(path, OPEN_FOLDER, Mode::empty()).at("open the folder", path)?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens the collections folder, making what is missing of it if `make` is set.
    pub(crate) fn collections(layout: &Layout, make: bool) -> Result<FoundFolder, StoreError> {
        Self::inside(layout, layout.folder.iter().map(String::as_str), make)
    }

    /// Opens any folder of the work tree, by the parts of its path, making what is missing of it if `make` is set.
    pub(crate) fn inside<'a>(
        layout: &Layout,
        parts: impl IntoIterator<Item = &'a str>,
        make: bool,
    ) -> Result<FoundFolder, StoreError> {
        let Some(root) = &layout.work_tree else { return Ok(FoundFolder::Nothing) };
        let mut folder = Self::open(root)?;
        for part in parts {
            let path = folder.path.join(part);
            if make {
                match rustix::fs::mkdirat(&folder.fd, part, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => (),
                    Err(errno) => return Err(errno).at("make the folder", &path),
                }
            }
            match rustix::fs::openat(&folder.fd, part, OPEN_FOLDER, Mode::empty()) {
                Ok(fd) => folder = Self { fd, path },
                Err(Errno::NOENT) => return Ok(FoundFolder::Nothing),
                Err(Errno::LOOP | Errno::NOTDIR) => return Ok(FoundFolder::Obstacle(path)),
                Err(errno) => return Err(errno).at("open the folder", &path),
            }
        }
        Ok(FoundFolder::Folder(folder))
    }

    /// Returns the stat of a name; `None` if it does not exist. A link is not followed.
    pub(crate) fn stat(&self, name: impl AsRef<OsStr>) -> Result<Option<Stat>, StoreError> {
        let name = name.as_ref();
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failed("look at", name, errno)),
        }
    }

    /// Reads a regular file whole, unless it is [too large](is_unread), and keeps its beginning.
    ///
    /// Returns `None` if it is gone, is not a regular file, can't be opened, or does not stop changing.
    pub(crate) fn read(&self, name: impl AsRef<OsStr>) -> Result<Option<SavedContent>, StoreError> {
        self.read_keeping(name.as_ref(), FILE_BYTES_KEPT_MAX, FILE_BYTES_READ_MAX)
    }

    /// Like [`read`](Self::read), for replacing a file, which requires its content: hashes also a file that is too
    /// large for a collection, up to the limit of an object.
    pub(crate) fn identify(&self, name: impl AsRef<OsStr>) -> Result<Option<SavedContent>, StoreError> {
        self.read_keeping(name.as_ref(), FILE_BYTES_KEPT_MAX, OBJECT_BYTES_MAX)
    }

    /// Reads a regular file whole and keeps all of it. Returns `None` as [`read`](Self::read) does, and for a file
    /// that [is not read whole](is_unread).
    pub(crate) fn read_whole(&self, name: impl AsRef<OsStr>) -> Result<Option<SavedContent>, StoreError> {
        let content = self.read_keeping(name.as_ref(), FILE_BYTES_READ_MAX, FILE_BYTES_READ_MAX)?;
        Ok(content.filter(|content| !is_unread(&content.stat)))
    }

    fn read_keeping(
        &self,
        name: &OsStr,
        kept_max: usize,
        read_max: usize,
    ) -> Result<Option<SavedContent>, StoreError> {
        for _ in 0..READS_MAX {
            let fd = match self.open_file(name) {
                Ok(fd) => fd,
                Err(Errno::LOOP | Errno::NOENT | Errno::NXIO | Errno::ACCESS) => return Ok(None),
                // Anything else says nothing about the file: a failing disk is not an edit.
                Err(errno) => return Err(self.failed("open", name, errno)),
            };
            let stat = rustix::fs::fstat(&fd).map_err(|errno| self.failed("look at", name, errno))?;
            if kind(&stat) != FileType::RegularFile {
                return Ok(None);
            }
            let mut file = File::from(fd);
            let content =
                read_content(&mut file, stat, kept_max, read_max).at("read", &self.path.join(name))?;
            let after =
                rustix::fs::fstat(file.as_fd()).map_err(|errno| self.failed("look at", name, errno))?;
            if let Some(content) = content.filter(|_| Stamp::of(&after) == Stamp::of(&stat)) {
                return Ok(Some(content));
            }
        }
        Ok(None)
    }

    /// Returns the id that git gives to a symbolic link; `None` if it is something else, or gone.
    pub(crate) fn link(&self, name: impl AsRef<OsStr>) -> Result<Option<BlobId>, StoreError> {
        match rustix::fs::readlinkat(&self.fd, name.as_ref(), Vec::new()) {
            Ok(target) => Ok(Some(BlobId::of(target.as_bytes()))),
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failed("read the link", name, errno)),
        }
    }

    fn open_file(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        if let Err(error) = reach(Failpoint::Open(name), &self.path) {
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
        rustix::fs::openat(&self.fd, name, OPEN_FILE, Mode::empty())
    }

    pub(crate) fn failed(&self, action: &'static str, name: impl AsRef<OsStr>, errno: Errno) -> StoreError {
        StoreError::at(action, &self.path.join(name.as_ref()), errno.into())
    }
}

#[derive(Debug)]
pub(crate) struct SavedContent {
    pub(crate) stat: Stat,
    /// The id that the whole content has in git. For a file that is not read whole, an id that nothing in git has, and
    /// that changes with the file.
    pub(crate) oid: BlobId,
    /// At most [`FILE_BYTES_KEPT_MAX`] of the content, unless all was requested.
    pub(crate) bytes: Vec<u8>,
}

/// Returns whether a file is too large to be read whole at every scan.
pub(crate) fn is_unread(stat: &Stat) -> bool {
    is_longer(stat, FILE_BYTES_READ_MAX)
}

/// Returns whether a file is larger than any that we make.
pub(crate) fn is_unidentified(stat: &Stat) -> bool {
    is_longer(stat, OBJECT_BYTES_MAX)
}

fn is_longer(stat: &Stat, bytes_max: usize) -> bool {
    u64::try_from(stat.st_size).is_ok_and(|len| len > bytes_max as u64)
}

/// Reads as many bytes as the file had when it was opened, and keeps at most `kept_max` of them; of a file with more
/// than `read_max`, reads only the beginning. Returns `None` if the file has become shorter.
fn read_content(
    file: &mut File,
    stat: Stat,
    kept_max: usize,
    read_max: usize,
) -> io::Result<Option<SavedContent>> {
    let len = u64::try_from(stat.st_size).unwrap_or(0);
    if is_longer(&stat, read_max) {
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_KEPT_MAX as u64).read_to_end(&mut bytes)?;
        if bytes.len() < FILE_BYTES_KEPT_MAX {
            return Ok(None);
        }
        // No blob has this id, because the hashed length is not that of what is hashed.
        let mut hasher = BlobHasher::new(len);
        hasher.update(format!("{:?}", Stamp::of(&stat)).as_bytes());
        return Ok(Some(SavedContent { stat, oid: hasher.finish(), bytes }));
    }
    let mut hasher = BlobHasher::new(len);
    let mut kept = Vec::new();
    let mut piece = vec![0; FILE_BYTES_KEPT_MAX.min(usize::try_from(len).unwrap_or(usize::MAX)).max(1)];
    let mut left = len;
    while left > 0 {
        let most = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = file.read(&mut piece[..most])?;
        if read == 0 {
            return Ok(None);
        }
        hasher.update(&piece[..read]);
        kept.extend_from_slice(&piece[..read.min(kept_max - kept.len())]);
        left -= read as u64;
    }
    Ok(Some(SavedContent { stat, oid: hasher.finish(), bytes: kept }))
}
