//! Changes files of the work tree without ever overwriting what a person saved.
//!
//! A file is looked at before it is touched, and again after: the new content is exchanged with the
//! old file in one step (`renameat2(2)` with `RENAME_EXCHANGE`), and what came out is looked at.
//! When a person saved in between, it goes back the same way. New files are put in place only where
//! nothing stands (`RENAME_NOREPLACE`), and a file to be deleted is moved away, looked at, and only
//! then removed.
//!
//! On file systems without these renames (some network file systems) the second look comes right
//! before an ordinary rename, which leaves a window of microseconds.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::closer::FILES_LEN_MAX;
use super::drawers::Drawers;
use super::folder::{Folder, Found};
use super::object::Oid;
use super::objects::Objects;
use super::place::Place;
use super::stat_cache::StatCache;
use super::tree::{EXECUTABLE, Pointer};
use crate::store::StoreError;

/// What drafts in the desk begin with; the rest is the file's name.
const DRAFT_PREFIX: &str = "file-";
/// What drafts in the collections folder itself begin with, when the desk is elsewhere.
const NEIGHBOUR_PREFIX: &str = ".collectory-";

/// The collections folder, with a place for files in the making.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    folder: &'a Folder,
    desk: Folder,
    prefix: &'static str,
    known: Option<&'a StatCache>,
    drawers: Drawers,
    /// Files that were replaced or removed.
    gone: RefCell<Vec<File>>,
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        self.drawers.let_go(self.gone.take());
    }
}

/// The new content of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct New<'a> {
    /// Its id in git.
    pub(super) oid: Oid,
    /// Its mode in git.
    pub(super) mode: u32,
    /// The bytes.
    pub(super) bytes: &'a [u8],
}

impl<'a> New<'a> {
    /// What a place in a tree names, with its content; nothing where either is missing.
    pub(super) fn of(pointer: Option<Pointer>, bytes: Option<&'a [u8]>) -> Option<Self> {
        pointer.zip(bytes).map(|(pointer, bytes)| Self { oid: pointer.oid, mode: pointer.mode, bytes })
    }
}

impl<'a> Bench<'a> {
    /// Prepares to change files of `folder`.
    pub(super) fn new(place: &Place, folder: &'a Folder) -> Result<Self, StoreError> {
        let device = |folder: &Folder| rustix::fs::fstat(&folder.fd).map(|stat| stat.st_dev);
        // A rename stays within one file system.
        let near = |path: &Path| {
            let desk = Folder::open(path).ok()?;
            device(&desk).is_ok_and(|desk| device(folder) == Ok(desk)).then_some(desk)
        };
        let desk = place.drawers.one().and_then(|drawer| near(&drawer));
        let (desk, prefix) = match desk.or_else(|| near(&place.work_tree_desk())) {
            Some(desk) => (desk, DRAFT_PREFIX),
            None => (Folder::open(&folder.path)?, NEIGHBOUR_PREFIX),
        };
        let (drawers, gone) = (place.drawers.clone(), RefCell::default());
        Ok(Self { folder, desk, prefix, known: None, drawers, gone })
    }

    /// The same with what is known of the files, which saves the look before a change.
    pub(super) fn knowing(mut self, known: &'a StatCache) -> Self {
        self.known = Some(known);
        self
    }

    /// The folder whose files are changed.
    pub(super) const fn folder(&self) -> &Folder {
        self.folder
    }

    /// Puts `new` (or nothing) in the place of `old` (or nothing), if that is what stands there;
    /// answers whether `new` stands there now.
    pub(super) fn change(
        &self,
        name: &str,
        old: Option<Oid>,
        new: Option<New<'_>>,
    ) -> Result<bool, StoreError> {
        let wanted = new.map(|new| new.oid);
        let now = match self.last_seen(name)?.filter(|seen| seen.is(old) && !seen.is(wanted)) {
            Some(seen) => seen,
            None => holds(self.folder, name)?,
        };
        if now.is(wanted) {
            return Ok(true);
        }
        if !now.is(old) {
            return Ok(false);
        }
        let draft = format!("{}{name}", self.prefix);
        match (old, new) {
            (None, None) => Ok(true),
            (None, Some(new)) => {
                self.write_draft(&draft, new, None)?;
                let placed = self.rename_new(&draft, name)?;
                self.drop_draft(&draft).map(|()| placed)
            }
            (Some(old), Some(new)) => {
                self.write_draft(&draft, new, now.mode())?;
                self.exchange(&draft, name, old)
            }
            (Some(old), None) => self.take_away(&draft, name, old),
        }
    }

    /// The same, where the file may have any of `olds`.
    pub(super) fn change_any(
        &self,
        name: &str,
        olds: impl IntoIterator<Item = Option<Oid>>,
        new: Option<New<'_>>,
    ) -> Result<bool, StoreError> {
        for old in olds {
            if self.change(name, old, new)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn exchange(&self, draft: &str, name: &str, old: Oid) -> Result<bool, StoreError> {
        match self.rename(&self.desk, draft, self.folder, name, RenameFlags::EXCHANGE) {
            Ok(()) => (),
            Err(Errno::NOENT) => return self.drop_draft(draft).map(|()| false),
            Err(errno) if is_unsupported(errno) => return self.overwrite(draft, name, old),
            Err(errno) => return Err(self.folder.failed("replace", name, errno)),
        }
        if self.is_done_with(draft, old)? {
            return self.drop_draft(draft).map(|()| true);
        }
        // A person saved in the instant between the look and the exchange. What is in the draft
        // now is theirs; where the file has gone meanwhile, theirs still goes back.
        let back = match self.rename(&self.desk, draft, self.folder, name, RenameFlags::EXCHANGE) {
            Err(Errno::NOENT) => self.rename(&self.desk, draft, self.folder, name, RenameFlags::NOREPLACE),
            other => other,
        };
        back.map_err(|errno| self.folder.failed("put back", name, errno))?;
        self.drop_draft(draft).map(|()| false)
    }

    fn overwrite(&self, draft: &str, name: &str, old: Oid) -> Result<bool, StoreError> {
        if !holds(self.folder, name)?.is(Some(old)) {
            return self.drop_draft(draft).map(|()| false);
        }
        let renamed = rustix::fs::renameat(&self.desk.fd, draft, &self.folder.fd, name);
        renamed.map(|()| true).map_err(|errno| self.folder.failed("replace", name, errno))
    }

    fn take_away(&self, draft: &str, name: &str, old: Oid) -> Result<bool, StoreError> {
        self.drop_draft(draft)?;
        match rustix::fs::renameat(&self.folder.fd, name, &self.desk.fd, draft) {
            Ok(()) => (),
            Err(Errno::NOENT) => return Ok(true),
            Err(errno) => return Err(self.folder.failed("remove", name, errno)),
        }
        if self.is_done_with(draft, old)? {
            return self.drop_draft(draft).map(|()| true);
        }
        self.rename_new(draft, name)?;
        Ok(false)
    }

    /// Moves a draft to where nothing stands; answers whether it did.
    fn rename_new(&self, draft: &str, name: &str) -> Result<bool, StoreError> {
        let failed = |errno| self.folder.failed("make", name, errno);
        match self.rename(&self.desk, draft, self.folder, name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) if is_unsupported(errno) => {
                // A second name can't replace anything either.
                match rustix::fs::linkat(&self.desk.fd, draft, &self.folder.fd, name, AtFlags::empty()) {
                    Ok(()) => Ok(true),
                    Err(Errno::EXIST) => Ok(false),
                    Err(errno) => Err(failed(errno)),
                }
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    fn rename(
        &self,
        from: &Folder,
        old: &str,
        to: &Folder,
        new: &str,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        rustix::fs::renameat_with(&from.fd, old, &to.fd, new, flags)
    }

    /// What a file held when it was read last, if it looks the same: enough to try, since what comes out is
    /// looked at.
    fn last_seen(&self, name: &str) -> Result<Option<Holds>, StoreError> {
        let Some(known) = self.known else { return Ok(None) };
        let Some(stat) = self.folder.stat(name)? else { return Ok(None) };
        Ok(known.last_seen(name, &stat).map(|oid| Holds::File(oid, mode_of(&stat))))
    }

    /// Writes a draft, with the mode of the file that it replaces: who changed that has not committed it.
    fn write_draft(&self, draft: &str, new: New<'_>, replaced: Option<Mode>) -> Result<(), StoreError> {
        // The process's own mask takes away what others may not have, as it does for git.
        let mode = Mode::from_raw_mode(if new.mode == EXECUTABLE { 0o777 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let make = || rustix::fs::openat(&self.desk.fd, draft, flags, mode);
        let fd = match make() {
            Err(Errno::EXIST) => self.drop_draft(draft).map(|()| make())?,
            made => made,
        };
        let failed = |errno| self.desk.failed("make", draft, errno);
        let mut file = File::from(fd.map_err(failed)?);
        if let Some(replaced) = replaced
            && mode_of(&rustix::fs::fstat(&file).map_err(failed)?) != replaced
        {
            rustix::fs::fchmod(&file, replaced).map_err(failed)?;
        }
        file.write_all(new.bytes)
            .map_err(|source| StoreError::at("write", &self.desk.path.join(draft), source))
    }

    /// Whether a file that was moved here is what was to be replaced or removed, so that it can go.
    fn is_done_with(&self, draft: &str, old: Oid) -> Result<bool, StoreError> {
        let Some((file, content)) = self.desk.open_and_read(draft)? else { return Ok(false) };
        let is_old = content.oid == old;
        if is_old && self.drawers.are_open() {
            let mut gone = self.gone.borrow_mut();
            if gone.len() == FILES_LEN_MAX {
                self.drawers.let_go(gone.drain(..));
            }
            gone.push(file);
        }
        Ok(is_old)
    }

    fn drop_draft(&self, draft: &str) -> Result<(), StoreError> {
        match rustix::fs::unlinkat(&self.desk.fd, draft, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.desk.failed("remove", draft, errno)),
        }
    }
}

/// What stands under a name.
#[derive(Debug)]
enum Holds {
    Nothing,
    File(Oid, Mode),
    Other,
}

impl Holds {
    fn is(&self, wanted: Option<Oid>) -> bool {
        match self {
            Self::Nothing => wanted.is_none(),
            Self::File(oid, _) => wanted == Some(*oid),
            Self::Other => false,
        }
    }

    const fn mode(&self) -> Option<Mode> {
        match self {
            Self::File(_, mode) => Some(*mode),
            Self::Nothing | Self::Other => None,
        }
    }
}

fn holds(folder: &Folder, name: &str) -> Result<Holds, StoreError> {
    if let Some(content) = folder.read(name)? {
        return Ok(Holds::File(content.oid, mode_of(&content.stat)));
    }
    Ok(folder.stat(name)?.map_or(Holds::Nothing, |_| Holds::Other))
}

fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode)
}

fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

/// Removes the drafts that a killed process of ours left, unless one holds what a person saved:
/// that happens when the kill came between an exchange and the look after it.
pub(super) fn remove_drafts(place: &Place, objects: &mut Objects) -> Result<(), StoreError> {
    let desk = place.work_tree_desk();
    sweep(&Folder::open(&desk)?, DRAFT_PREFIX, &desk, objects)?;
    for drawer in place.drawers.all() {
        sweep(&Folder::open(&drawer)?, DRAFT_PREFIX, &desk, objects)?;
    }
    match Folder::collections(place, false)? {
        Found::Folder(folder) => sweep(&folder, NEIGHBOUR_PREFIX, &folder.path, objects),
        Found::Nothing | Found::Obstacle(_) => Ok(()),
    }
}

/// Removes the drafts in a folder; what a person saved goes to `kept`.
fn sweep(folder: &Folder, prefix: &str, kept: &Path, objects: &mut Objects) -> Result<(), StoreError> {
    let entries =
        fs::read_dir(&folder.path).map_err(|source| StoreError::at("read", &folder.path, source))?;
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        if !name.starts_with(prefix) {
            continue;
        }
        let path = folder.path.join(&name);
        match folder.read(&name)? {
            Some(content) if !objects.has(&content.oid) && !content.bytes.is_empty() => {
                let kept = free_name(kept, &format!("kept-{}", name.trim_start_matches('.')));
                tracing::warn!(path = %kept.display(), "kept a file that was being saved when this service was killed; look at it, then remove it");
                fs::rename(&path, &kept).map_err(|source| StoreError::at("keep", &path, source))?;
            }
            _ => super::barrier::remove_if_there(&path)?,
        }
    }
    Ok(())
}

/// The first of `name`, `name-1`, `name-2` and so on that nothing has yet.
fn free_name(folder: &Path, name: &str) -> PathBuf {
    let others = (1..).map(|number| format!("{name}-{number}"));
    let mut paths = std::iter::once(name.to_owned()).chain(others).map(|name| folder.join(name));
    paths.find(|path| path.symlink_metadata().is_err()).expect("there is no end of numbers")
}
