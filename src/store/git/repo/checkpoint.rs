//! The note of which revision the work tree was last brought to.
//!
//! ```text
//! <revision it was brought to>
//! <revision up to which its files and index are on disk for sure>
//! <id of the running system, from the kernel>
//! ```
//!
//! Revisions are forty digits, zeros before the first commit. The file is overwritten where it
//! stands, always with as many bytes, so a power cut leaves the old note or the new one and never
//! half of it; only the first one is flushed, and with it whatever it says is on disk.
//!
//! After a kill the first line is right: what we wrote, the system still has. After a power cut it
//! may say more than what reached the disk, and a note that is newer than the truth is one to be
//! misled by. So when the system is another one than that of the note, the second line counts.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::object::id::unhex;
use crate::store::git::repo::refs::NO_COMMIT;

#[derive(Debug)]
pub(crate) struct Checkpoint {
    file: StateFile,
    system: String,
    // What it says, once it was read: nobody else writes it. Held from reading to writing, since the maintenance
    // writes from a thread of its own.
    noted: Mutex<Option<Checkpointed>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checkpointed {
    /// The revision that the work tree was brought to, or a newer one.
    pub(crate) revision: Option<Revision>,
    /// The revision up to which it is on disk.
    pub(crate) flushed: Option<Revision>,
    /// Whether the system has been started anew since.
    pub(crate) after_restart: bool,
}

impl Checkpoint {
    pub(crate) fn new(state: &Path, barrier: &Barrier) -> Self {
        let file = StateFile::new(state, "work-tree", barrier);
        Self { file, system: system_id(), noted: Mutex::default() }
    }

    /// Where the note stands.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads it; `None` when there is none, or none that makes sense.
    pub(crate) fn read(&self) -> Option<Checkpointed> {
        *self.noted()
    }

    fn noted(&self) -> MutexGuard<'_, Option<Checkpointed>> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none() {
            *noted = self.look();
        }
        noted
    }

    fn look(&self) -> Option<Checkpointed> {
        let text = self.file.read().ok()??;
        let mut lines = text.split(|byte| *byte == b'\n');
        let mut revision = || {
            let revision = Revision::new(unhex(lines.next()?)?);
            Some((revision != NO_COMMIT).then_some(revision))
        };
        let [brought, flushed] = [revision()?, revision()?];
        let after_restart = lines.next()? != self.system.as_bytes();
        Some(Checkpointed { revision: if after_restart { flushed } else { brought }, flushed, after_restart })
    }

    /// Notes that the work tree was brought to a revision.
    pub(crate) fn write(&self, brought: Option<Revision>) -> Result<(), StoreError> {
        let mut noted = self.noted();
        let flushed = noted.map_or(brought, |noted| noted.flushed);
        self.write_both(&mut noted, brought, flushed)
    }

    /// Notes that everything up to a revision is on disk.
    pub(crate) fn write_flushed(&self, flushed: Option<Revision>) -> Result<(), StoreError> {
        let mut noted = self.noted();
        match *noted {
            Some(Checkpointed { revision, after_restart: false, .. }) => {
                self.write_both(&mut noted, revision, flushed)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn write_both(
        &self,
        noted: &mut Option<Checkpointed>,
        revision: Option<Revision>,
        flushed: Option<Revision>,
    ) -> Result<(), StoreError> {
        let [brought, durable] = [revision, flushed].map(|revision| revision.unwrap_or(NO_COMMIT));
        let text = format!("{brought}\n{durable}\n{}\n", self.system);
        // Until it is written nobody knows.
        *noted = None;
        if !self.file.overwrite(text.as_bytes())? {
            self.file.flush_file_system()?;
        }
        *noted = Some(Checkpointed { revision, flushed, after_restart: false });
        Ok(())
    }
}

/// What tells one start of the system from the next (random(4)); where there is none, every start
/// looks like the same.
pub(crate) fn system_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{:36.36}", id.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_restart_of_the_system_only_what_was_flushed_counts() {
        let state = tempfile::tempdir().unwrap();
        let new = || Checkpoint::new(state.path(), &Barrier::default());
        let revision = |byte| Some(Revision::new([byte; 20]));
        let checkpoint = new();
        assert_eq!(checkpoint.read(), None);
        checkpoint.write(None).unwrap();
        assert_eq!(new().read().unwrap().revision, None);
        checkpoint.write(revision(2)).unwrap();
        assert_eq!(checkpoint.read().unwrap().revision, revision(2));
        let checkpoint = Checkpoint { system: "another".to_owned(), ..new() };
        assert_eq!(
            checkpoint.read(),
            Some(Checkpointed { revision: None, flushed: None, after_restart: true })
        );
        checkpoint.write(revision(3)).unwrap();
        checkpoint.write_flushed(revision(3)).unwrap();
        let (revision, flushed) = (revision(3), revision(3));
        assert_eq!(checkpoint.read(), Some(Checkpointed { revision, flushed, after_restart: false }));
    }
}
