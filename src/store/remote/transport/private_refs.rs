//! Private refs that record the state of the remote, for the next start and for git. No remote has them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::domain::Revision;
use crate::store::git::open_own;
use crate::store::remote::transport::folder::{BEGUN, NOTES, PrivateRef, create};
use crate::store::remote::transport::git::Git;

impl Git {
    pub(crate) fn noted(&self, note: PrivateRef) -> Option<Revision> {
        fs::read_to_string(self.folder().join(note.name())).ok()?.trim().parse().ok()
    }

    /// Removes the refs that can't be read: a power cut leaves such files if they were being written.
    pub(super) fn remove_unreadable_notes(&self) {
        for note in PrivateRef::ALL.into_iter().filter(|note| self.noted(*note).is_none()) {
            drop(fs::remove_file(self.folder().join(note.name())));
        }
    }

    /// Records durably that the remote has the head which the local branch is about to contain. Otherwise, after a
    /// kill or a power cut at that point, commits that the remote loses later would be taken for ones it never had.
    pub(crate) fn note_coming(&self, head: Revision) -> io::Result<()> {
        if self.noted(PrivateRef::Coming) == Some(head) {
            return Ok(());
        }
        let (file, is_new) = self.write(PrivateRef::Coming, head)?;
        file.sync_data()?;
        if is_new { File::open(self.folder().join(NOTES))?.sync_all() } else { Ok(()) }
    }

    /// Records the head of the remote that the local branch contains.
    pub(crate) fn note_base(&self, base: Revision) -> io::Result<()> {
        self.note_coming(base)?;
        // Not flushed, because `PrivateRef::Coming` has the same head and is durable.
        self.write(PrivateRef::Base, base)?;
        drop(fs::remove_file(self.folder().join(BEGUN)));
        Ok(())
    }

    /// Overwrites a ref; returns whether its length changed, as it does only the first time.
    fn write(&self, note: PrivateRef, head: Revision) -> io::Result<(File, bool)> {
        let path = self.folder().join(note.name());
        let text = format!("{head}\n");
        let file = open_own(OpenOptions::new().write(true).create(true).truncate(false), &path)?;
        let is_new = file.metadata()?.len() != text.len() as u64;
        file.write_all_at(text.as_bytes(), 0)?;
        if is_new {
            file.set_len(text.len() as u64)?;
        }
        Ok((file, is_new))
    }

    /// Returns whether the branch begins with local commits: no remote was seen with a commit of it.
    pub(crate) fn is_begun_here(&self) -> bool {
        self.folder().join(BEGUN).exists()
    }

    /// Records durably that neither side has a commit of the branch yet. Otherwise a commit that is made here would be
    /// taken for one that the remote has lost.
    pub(crate) fn note_begun(&self) -> io::Result<()> {
        if self.is_begun_here() {
            return Ok(());
        }
        create(&self.folder().join(BEGUN))?;
        File::open(self.folder())?.sync_all()
    }
}
