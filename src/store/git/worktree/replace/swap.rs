//! Changes one file, and checks it before and after.
//!
//! The new content is exchanged with the old file in one step (`renameat2(2)` with `RENAME_EXCHANGE`), and the file
//! that came out is checked. If a person saved in between, it goes back the same way, and so does what they save
//! during that. New files are put in place only where nothing exists (`RENAME_NOREPLACE`), and a file to be deleted is
//! moved away, checked, and only then removed.
//!
//! On file systems without these renames (some network file systems) the second check comes right before an ordinary
//! rename, which leaves a window of microseconds.

use rustix::fs::{AtFlags, Mode, RenameFlags, Stat};
use rustix::io::Errno;

use crate::store::git::disk::links::is_refused;
use crate::store::git::object::tree::LINK;
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::user_config;
use crate::store::git::worktree::replace::staging::{
    NewFile, Staging, is_blank, is_torn, keep_aside, mode_of,
};
use crate::store::git::worktree::scan::folder::{Folder, is_unidentified};
use crate::store::{BlobId, StoreError};

/// Replaces files of the collections folder, by way of a staging folder.
#[derive(Debug)]
pub(crate) struct Replacer<'a> {
    layout: &'a Layout,
    folder: &'a Folder,
    pub(crate) staging: Staging,
}

impl<'a> Replacer<'a> {
    pub(crate) fn new(layout: &'a Layout, folder: &'a Folder) -> Result<Self, StoreError> {
        Ok(Self { layout, folder, staging: Staging::near(layout, folder)? })
    }

    pub(crate) const fn folder(&self) -> &Folder {
        self.folder
    }

    /// Replaces the file with `new` (`None`: removes it) if it has any of `olds` (`None`: if it does not exist);
    /// returns whether the path now holds `new`.
    pub(crate) fn compare_and_replace(
        &self,
        name: &str,
        olds: &[Option<BlobId>],
        new: Option<NewFile<'_>>,
    ) -> Result<bool, StoreError> {
        // A tree may have any name; no file of this folder has this one.
        if name.contains('/') {
            return Ok(false);
        }
        // Twice, because a file that changes meanwhile may have another one of `olds`.
        Ok(self.try_change(name, olds, new)? || olds.len() > 1 && self.try_change(name, olds, new)?)
    }

    fn try_change(
        &self,
        name: &str,
        olds: &[Option<BlobId>],
        new: Option<NewFile<'_>>,
    ) -> Result<bool, StoreError> {
        let now = holds(self.folder, name)?;
        let mode = now.mode().map(|mode| self.mode_over(mode, new));
        if now.is_new(new) && mode == now.mode() {
            return Ok(true);
        }
        let Some(old) = olds.iter().find(|old| now.is(**old)) else {
            if now.is_unidentified() {
                let path = self.folder.path.join(name);
                tracing::warn!(path = %path.display(), "a file stays as it is, since it is too large to tell whether somebody has changed it");
            }
            return Ok(false);
        };
        match (old, new) {
            (None, None) => Ok(true),
            (None, Some(new)) => {
                self.staging.write(name, new, None)?;
                let placed = self.rename_new(name);
                self.staging.remove(name).and(placed)
            }
            (Some(old), Some(new)) => {
                self.staging.write(name, new, mode)?;
                self.exchange(name, *old, new.oid)
            }
            (Some(old), None) => self.take_away(name, *old),
        }
    }

    /// Returns the mode for the file that replaces another; the replaced one's own if git is told to ignore modes.
    fn mode_over(&self, replaced: Mode, new: Option<NewFile<'_>>) -> Mode {
        let mode = new.map_or(replaced, |new| new.mode_over(replaced));
        if mode == replaced || user_config::has_file_modes(self.layout) { mode } else { replaced }
    }

    /// Returns the content id of a file that makes no sense after a power cut. Keeps a copy, unless it is blank.
    pub(crate) fn torn(&self, name: &str) -> Result<Option<BlobId>, StoreError> {
        let content = self.folder.identify(name)?;
        let Some(content) = content.filter(|content| is_torn(&content.bytes)) else { return Ok(None) };
        if !is_blank(&content.bytes) {
            keep_aside(&self.folder.path.join(name), &self.layout.work_tree_state())?;
        }
        Ok(Some(content.oid))
    }

    /// Puts the draft of a file in its place, unless the file has changed since it was checked; returns whether the
    /// path now holds the draft.
    ///
    /// What a person saves meanwhile goes back to its place, and so does what they save during that. Only what was to
    /// be replaced, or what we put there ourselves, is ever removed.
    pub(crate) fn exchange(&self, name: &str, old: BlobId, new: BlobId) -> Result<bool, StoreError> {
        match self.place(name, RenameFlags::EXCHANGE) {
            Ok(()) => (),
            // The file is gone. If it is not, the draft is, and that is no edit of a person.
            Err(Errno::NOENT) if self.folder.stat(name)?.is_none() => {
                return self.staging.remove(name).map(|()| false);
            }
            Err(errno) if is_unsupported(errno) => return self.overwrite(name, old),
            Err(errno) => {
                drop(self.staging.remove(name));
                return Err(self.folder.failed("replace", name, errno));
            }
        }
        let (mut replaced, mut placed) = (old, Some(new));
        let mut unread = None;
        loop {
            // What can't be read may be a person's, so it goes back.
            let came_out = self.content_of_draft(name).unwrap_or_else(|error| {
                unread = Some(error);
                None
            });
            if came_out == Some(replaced) {
                self.staging.remove(name)?;
                return if placed == Some(new) { Ok(true) } else { unread.map_or(Ok(false), Err) };
            }
            match self.place(name, RenameFlags::EXCHANGE) {
                Ok(()) => (),
                // The file is gone by now; what the person saved still goes back.
                Err(Errno::NOENT) if self.rename_new(name)? => return Ok(false),
                Err(errno) => {
                    self.staging.keep(name)?;
                    return Err(self.folder.failed("put back", name, errno));
                }
            }
            let Some(before) = placed else {
                return self.staging.keep(name).map(|()| false);
            };
            (replaced, placed) = (before, came_out);
        }
    }

    fn overwrite(&self, name: &str, old: BlobId) -> Result<bool, StoreError> {
        if !holds(self.folder, name)?.is(Some(old)) {
            return self.staging.remove(name).map(|()| false);
        }
        let draft = self.staging.draft_of(name);
        let renamed = rustix::fs::renameat(&self.staging.folder.fd, draft, &self.folder.fd, name);
        renamed.map(|()| true).map_err(|errno| self.folder.failed("replace", name, errno))
    }

    /// Removes a file by way of the place of its draft, unless it has changed by now.
    pub(crate) fn take_away(&self, name: &str, old: BlobId) -> Result<bool, StoreError> {
        self.staging.remove(name)?;
        let draft = self.staging.draft_of(name);
        match rustix::fs::renameat(&self.folder.fd, name, &self.staging.folder.fd, draft) {
            Ok(()) => (),
            Err(Errno::NOENT) => return Ok(true),
            Err(errno) => return Err(self.folder.failed("remove", name, errno)),
        }
        let came_out = self.content_of_draft(name);
        if matches!(came_out, Ok(Some(content)) if content == old) {
            return self.staging.remove(name).map(|()| true);
        }
        // What a person saved goes back, or is kept if another file has its name by now.
        if !self.rename_new(name)? {
            self.staging.keep(name)?;
        }
        came_out.map(|_| false)
    }

    /// Moves the draft of a file into place if nothing exists there; returns whether it did.
    fn rename_new(&self, name: &str) -> Result<bool, StoreError> {
        let failed = |errno| self.folder.failed("make", name, errno);
        match self.place(name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) if is_unsupported(errno) => {
                let (drafts, draft) = (&self.staging.folder.fd, self.staging.draft_of(name));
                // A hard link can't replace anything either.
                match rustix::fs::linkat(drafts, &draft, &self.folder.fd, name, AtFlags::empty()) {
                    Ok(()) => Ok(true),
                    Err(Errno::EXIST) => Ok(false),
                    Err(errno) if !is_refused(&errno.into()) => Err(failed(errno)),
                    Err(_) if self.folder.stat(name)?.is_some() => Ok(false),
                    Err(_) => {
                        let renamed = rustix::fs::renameat(drafts, draft, &self.folder.fd, name);
                        renamed.map(|()| true).map_err(failed)
                    }
                }
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Renames the draft of a file to the file's name, or exchanges the two.
    fn place(&self, name: &str, flags: RenameFlags) -> Result<(), Errno> {
        let draft = self.staging.draft_of(name);
        rustix::fs::renameat_with(&self.staging.folder.fd, draft, &self.folder.fd, name, flags)
    }

    /// Returns the content id of the file or link that is in place of a file's draft.
    fn content_of_draft(&self, name: &str) -> Result<Option<BlobId>, StoreError> {
        Ok(match holds(&self.staging.folder, &self.staging.draft_of(name))? {
            Holds::File(oid, _) | Holds::Link(oid) => Some(oid),
            Holds::Nothing | Holds::Other => None,
        })
    }
}

#[derive(Debug)]
enum Holds {
    Nothing,
    File(BlobId, Stat),
    Link(BlobId),
    Other,
}

impl Holds {
    fn is(&self, wanted: Option<BlobId>) -> bool {
        match self {
            Self::Nothing => wanted.is_none(),
            Self::File(oid, _) | Self::Link(oid) => wanted == Some(*oid),
            Self::Other => false,
        }
    }

    fn is_new(&self, new: Option<NewFile<'_>>) -> bool {
        let is_kind = new.is_none_or(|new| (new.mode == LINK) == matches!(self, Self::Link(_)));
        is_kind && self.is(new.map(|new| new.oid))
    }

    fn is_unidentified(&self) -> bool {
        matches!(self, Self::File(_, stat) if is_unidentified(stat))
    }

    fn mode(&self) -> Option<Mode> {
        match self {
            Self::File(_, stat) => Some(mode_of(stat)),
            Self::Nothing | Self::Link(_) | Self::Other => None,
        }
    }
}

fn holds(folder: &Folder, name: &str) -> Result<Holds, StoreError> {
    if let Some(content) = folder.identify(name)? {
        return Ok(Holds::File(content.oid, content.stat));
    }
    if let Some(oid) = folder.link(name)? {
        return Ok(Holds::Link(oid));
    }
    Ok(folder.stat(name)?.map_or(Holds::Nothing, |_| Holds::Other))
}

/// Returns whether the path holds any of these; `None` means that it does not exist.
pub(crate) fn holds_any(
    folder: &Folder,
    name: &str,
    ids: impl IntoIterator<Item = Option<BlobId>>,
) -> Result<bool, StoreError> {
    let now = holds(folder, name)?;
    Ok(ids.into_iter().any(|id| now.is(id)))
}

fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}
