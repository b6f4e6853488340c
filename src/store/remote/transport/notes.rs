//! What is noted of the remote, for the next start and for git: refs of ours, which no remote has.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::domain::Revision;
use crate::store::git::open_own;
use crate::store::remote::transport::folder::create;
use crate::store::remote::transport::git::Git;

/// Stands there from when neither side had a commit of the branch until the remote has one.
pub(crate) const BEGUN: &str = "begun";

/// Where the refs stand.
pub(crate) const NOTES: &str = "refs/collectory/";

/// A ref of ours, which no remote has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// The head of the remote that the branch here contains.
    Base,
    /// The head of the remote that the branch here is about to contain; once it does, the same as the base.
    Coming,
    /// What a poll has seen.
    Polled,
    /// What was seen after a push.
    Judged,
    /// What was seen after a push behind.
    Behind,
}

impl Note {
    pub(crate) const ALL: [Self; 5] = [Self::Base, Self::Coming, Self::Polled, Self::Judged, Self::Behind];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Base => "refs/collectory/base",
            Self::Coming => "refs/collectory/coming",
            Self::Polled => "refs/collectory/polled",
            Self::Judged => "refs/collectory/judged",
            Self::Behind => "refs/collectory/behind",
        }
    }
}

impl Git {
    /// What was noted.
    pub(crate) fn noted(&self, note: Note) -> Option<Revision> {
        fs::read_to_string(self.folder().join(note.name())).ok()?.trim().parse().ok()
    }

    /// Removes the notes from which nothing can be read, as a power cut leaves files that were being written.
    pub(super) fn remove_unreadable_notes(&self) {
        for note in Note::ALL.into_iter().filter(|note| self.noted(*note).is_none()) {
            drop(fs::remove_file(self.folder().join(note.name())));
        }
    }

    /// Notes, durably, that the remote has what the branch here is about to contain. Without that, commits which the
    /// remote has lost since would be taken for some that it never had, after a kill or a power cut in between.
    pub(crate) fn note_coming(&self, head: Revision) -> io::Result<()> {
        if self.noted(Note::Coming) == Some(head) {
            return Ok(());
        }
        let (file, is_new) = self.write(Note::Coming, head)?;
        file.sync_data()?;
        if is_new { File::open(self.folder().join(NOTES))?.sync_all() } else { Ok(()) }
    }

    /// Notes up to where the branch here contains the remote's.
    pub(crate) fn note_base(&self, base: Revision) -> io::Result<()> {
        self.note_coming(base)?;
        // Not flushed: what is coming says the same, and is there for good.
        self.write(Note::Base, base)?;
        drop(fs::remove_file(self.folder().join(BEGUN)));
        Ok(())
    }

    /// Writes a note over what it was; says whether that had another length, as it has the first time only.
    fn write(&self, note: Note, head: Revision) -> io::Result<(File, bool)> {
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

    /// Whether the branch begins with what is committed here: no remote was seen with a commit of it.
    pub(crate) fn is_begun_here(&self) -> bool {
        self.folder().join(BEGUN).exists()
    }

    /// Notes, durably, that nobody has a commit of the branch yet. Without that, one that is made here would be taken for
    /// what the remote has lost.
    pub(crate) fn note_begun(&self) -> io::Result<()> {
        if self.is_begun_here() {
            return Ok(());
        }
        create(&self.folder().join(BEGUN))?;
        File::open(self.folder())?.sync_all()
    }
}
