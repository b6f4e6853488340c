//! One file changed: it is looked at before it is touched, and again after.
//!
//! The new content is exchanged with the old file in one step (`renameat2(2)` with `RENAME_EXCHANGE`), and what came
//! out is looked at. When a person saved in between, it goes back the same way, and so does what they save while it
//! does. New files are put in place only where nothing stands (`RENAME_NOREPLACE`), and a file to be deleted is moved
//! away, looked at, and only then removed.
//!
//! On file systems without these renames (some network file systems) the second look comes right
//! before an ordinary rename, which leaves a window of microseconds.

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

/// The collections folder, with a place for files in the making.
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

    /// Puts `new` (or nothing) in the place of any of `olds` (or nothing), if one of them is what stands there;
    /// answers whether `new` stands there now.
    pub(crate) fn change(
        &self,
        name: &str,
        olds: &[Option<BlobId>],
        new: Option<NewFile<'_>>,
    ) -> Result<bool, StoreError> {
        // A tree may name anything; no file of this folder is called so.
        if name.contains('/') {
            return Ok(false);
        }
        // Once more, since what somebody puts there meanwhile may be another one of them.
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

    /// The mode for what comes in place of a file; its own where git was told that modes mean nothing here.
    fn mode_over(&self, replaced: Mode, new: Option<NewFile<'_>>) -> Mode {
        let mode = new.map_or(replaced, |new| new.mode_over(replaced));
        if mode == replaced || user_config::has_file_modes(self.layout) { mode } else { replaced }
    }

    /// The id of what stands under a name after a power cut, if it makes no sense. Unless it is blank, it is
    /// kept.
    pub(crate) fn torn(&self, name: &str) -> Result<Option<BlobId>, StoreError> {
        let content = self.folder.identify(name)?;
        let Some(content) = content.filter(|content| is_torn(&content.bytes)) else { return Ok(None) };
        if !is_blank(&content.bytes) {
            keep_aside(&self.folder.path.join(name), &self.layout.work_tree_state())?;
        }
        Ok(Some(content.oid))
    }

    /// Puts the draft of a file in its place, unless that holds something else than when it was looked at; answers
    /// whether it stands there now.
    ///
    /// What a person saves meanwhile goes back to its place, and so does what they save while that happens: only
    /// what was to be replaced, or what we have put there ourselves, ever goes.
    pub(crate) fn exchange(&self, name: &str, old: BlobId, new: BlobId) -> Result<bool, StoreError> {
        match self.place(name, RenameFlags::EXCHANGE) {
            Ok(()) => (),
            // The file has gone. If it has not, the draft has, and that is no edit of a person's.
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
            // What can't be read may be a person's, and goes back.
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
                // The file has gone meanwhile; theirs still goes back.
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

    /// Removes a file by way of the place of its draft, unless it holds something else by now.
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
        self.rename_new(name)?;
        came_out.map(|_| false)
    }

    /// Moves the draft of a file to its place, where nothing stands; answers whether it did.
    fn rename_new(&self, name: &str) -> Result<bool, StoreError> {
        let failed = |errno| self.folder.failed("make", name, errno);
        match self.place(name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) if is_unsupported(errno) => {
                let (drafts, draft) = (&self.staging.folder.fd, self.staging.draft_of(name));
                // A second name can't replace anything either.
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

    /// Renames the draft of a file to it, or exchanges the two.
    fn place(&self, name: &str, flags: RenameFlags) -> Result<(), Errno> {
        let draft = self.staging.draft_of(name);
        rustix::fs::renameat_with(&self.staging.folder.fd, draft, &self.folder.fd, name, flags)
    }

    /// What the file has, or the link, that has come to the place of the draft of a file.
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

/// Whether what stands under a name is any of these, or nothing where one of them is nothing.
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
