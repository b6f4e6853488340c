//! Records the revision that the work tree was last updated to.
//!
//! ```text
//! <revision that the work tree was updated to>
//! <revision up to which its files and index are known to be on disk>
//! <boot id from the kernel>
//! ```
//!
//! Revisions are 40 digits, all zeros before the first commit. The file is overwritten in place, always with the
//! same number of bytes, so a power cut leaves either the old or the new note. Only the first note is flushed, and
//! with it everything that it refers to.
//!
//! After a kill the first line is right, because the kernel still has everything we wrote. After a power cut it may
//! refer to more than what reached the disk, and a note that is newer than the files would be misleading. So if the
//! boot id differs from the note's, the second line counts.
//!
//! A second file, `work-tree-move`, announces a move of the branch by us to a revision that does not descend from the
//! old one (`<old> <new>`), until the work tree has followed. Without it such a move is a person's, whose git leaves the
//! files as that person wants them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::disk::barrier::{Barrier, read_own_if_there, remove_if_there};
use crate::store::git::disk::state_file::{StateFile, overwrite};
use crate::store::git::object::id::unhex;
use crate::store::git::repo::refs::NO_COMMIT;

#[derive(Debug)]
pub(crate) struct Checkpoint {
    folder: PathBuf,
    barrier: Barrier,
    boot_id: String,
    branch_move: StateFile,
    // The content of the note once it has been read: only this process writes it. Locked from reading to writing,
    // because the maintenance thread writes too.
    noted: Mutex<Option<CheckpointRecord>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckpointRecord {
    /// The revision that the work tree was updated to, or a newer one.
    pub(crate) revision: Option<Revision>,
    /// The revision up to which it is on disk.
    pub(crate) flushed: Option<Revision>,
    pub(crate) after_reboot: bool,
}

impl Checkpoint {
    pub(crate) fn new(state: &Path, barrier: &Barrier) -> Self {
        let (folder, barrier) = (state.to_owned(), barrier.clone());
        let branch_move = StateFile::new(state, "work-tree-move", &barrier);
        Self { folder, barrier, boot_id: boot_id(), branch_move, noted: Mutex::default() }
    }

    /// Announces, durably, a move of the branch that the work tree is to follow.
    pub(crate) fn note_move(&self, old: Revision, new: Revision) -> Result<(), StoreError> {
        self.branch_move.replace(format!("{old} {new}\n").as_bytes())
    }

    /// Returns the announced move; `None` if there is none or the note is malformed.
    pub(crate) fn noted_move(&self) -> Result<Option<(Revision, Revision)>, StoreError> {
        let text = self.branch_move.read()?.unwrap_or_default();
        let mut ids = text.split(|byte| byte.is_ascii_whitespace()).filter_map(unhex).map(Revision::new);
        Ok(ids.next().zip(ids.next()))
    }

    pub(crate) fn forget_move(&self) -> Result<(), StoreError> {
        remove_if_there(self.branch_move.path())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join("work-tree")
    }

    /// Reads the note; `None` if there is none or it is malformed.
    ///
    /// # Errors
    ///
    /// Fails if it can't be read: without it, files that a kill left behind would be edits.
    pub(crate) fn read(&self) -> Result<Option<CheckpointRecord>, StoreError> {
        self.noted().map(|noted| *noted)
    }

    fn noted(&self) -> Result<MutexGuard<'_, Option<CheckpointRecord>>, StoreError> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none() {
            *noted = read_own_if_there(&self.path())?.and_then(|text| self.parse(&text));
        }
        Ok(noted)
    }

    fn parse(&self, text: &[u8]) -> Option<CheckpointRecord> {
        let mut lines = text.split(|byte| *byte == b'\n');
        let mut revision = || {
            let revision = Revision::new(unhex(lines.next()?)?);
            Some((revision != NO_COMMIT).then_some(revision))
        };
        let [brought, flushed] = [revision()?, revision()?];
        let after_restart = lines.next()? != self.boot_id.as_bytes();
        Some(CheckpointRecord {
            revision: if after_restart { flushed } else { brought },
            flushed,
            after_reboot: after_restart,
        })
    }

    /// Records that the work tree was updated to a revision.
    pub(crate) fn write(&self, brought: Option<Revision>) -> Result<(), StoreError> {
        let mut noted = self.noted()?;
        let flushed = noted.map_or(brought, |noted| noted.flushed);
        self.write_both(&mut noted, brought, flushed)
    }

    /// Records that everything up to a revision is on disk.
    pub(crate) fn write_flushed(&self, flushed: Option<Revision>) -> Result<(), StoreError> {
        let mut noted = self.noted()?;
        match *noted {
            Some(CheckpointRecord { revision, after_reboot: false, .. }) => {
                self.write_both(&mut noted, revision, flushed)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn write_both(
        &self,
        noted: &mut Option<CheckpointRecord>,
        revision: Option<Revision>,
        flushed: Option<Revision>,
    ) -> Result<(), StoreError> {
        let [brought, durable] = [revision, flushed].map(|revision| revision.unwrap_or(NO_COMMIT));
        let text = format!("{brought}\n{durable}\n{}\n", self.boot_id);
        // Until it is written, its content is unknown.
        *noted = None;
        if !overwrite(&self.path(), text.as_bytes())? {
            self.barrier.file_system(&self.folder)?;
        }
        *noted = Some(CheckpointRecord { revision, flushed, after_reboot: false });
        Ok(())
    }
}

/// Returns the kernel's boot id (random(4)). Where there is none, all boots look the same.
pub(crate) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{:36.36}", id.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_can_not_be_read_is_not_taken_for_none() {
        let state = tempfile::tempdir().unwrap();
        std::fs::create_dir(state.path().join("work-tree")).unwrap();
        let checkpoint = Checkpoint::new(state.path(), &Barrier::default());
        assert!(checkpoint.read().is_err());
        assert!(checkpoint.write(None).is_err());
    }

    #[test]
    fn after_a_restart_of_the_system_only_what_was_flushed_counts() {
        let state = tempfile::tempdir().unwrap();
        let new = || Checkpoint::new(state.path(), &Barrier::default());
        let revision = |byte| Some(Revision::new([byte; 20]));
        let checkpoint = new();
        assert_eq!(checkpoint.read().unwrap(), None);
        checkpoint.write(None).unwrap();
        assert_eq!(new().read().unwrap().unwrap().revision, None);
        checkpoint.write(revision(2)).unwrap();
        assert_eq!(checkpoint.read().unwrap().unwrap().revision, revision(2));
        let checkpoint = Checkpoint { boot_id: "another".to_owned(), ..new() };
        assert_eq!(
            checkpoint.read().unwrap(),
            Some(CheckpointRecord { revision: None, flushed: None, after_reboot: true })
        );
        checkpoint.write(revision(3)).unwrap();
        checkpoint.write_flushed(revision(3)).unwrap();
        let (revision, flushed) = (revision(3), revision(3));
        assert_eq!(
            checkpoint.read().unwrap(),
            Some(CheckpointRecord { revision, flushed, after_reboot: false })
        );
    }
}
