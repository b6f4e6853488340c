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

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::StoreError;
use crate::store::git::disk::barrier::{Barrier, overwrite, read_if_there};
use crate::store::git::object::id::{Oid, hex, unhex};

/// What a note holds before the first commit.
pub(crate) const UNBORN: Oid = [0; 20];

/// The note of one work tree.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
    system: String,
    barrier: Barrier,
    // What it says, once it was read: nobody else writes it. Held from reading to writing, since the maintenance
    // writes from a thread of its own.
    noted: Mutex<Option<Noted>>,
}

/// What a note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Noted {
    /// The revision that the work tree was brought to, or a newer one.
    pub(crate) revision: Oid,
    /// The revision up to which it is on disk.
    pub(crate) flushed: Oid,
    /// Whether the system has been started anew since.
    pub(crate) after_restart: bool,
}

impl Note {
    /// The note in a folder of our own.
    pub(crate) fn new(desk: &Path, barrier: Barrier) -> Self {
        Self { path: desk.join("work-tree"), system: system_id(), barrier, noted: Mutex::default() }
    }

    /// Reads it; `None` when there is none, or none that makes sense.
    pub(crate) fn read(&self) -> Option<Noted> {
        *self.noted()
    }

    fn noted(&self) -> MutexGuard<'_, Option<Noted>> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none() {
            *noted = self.look();
        }
        noted
    }

    fn look(&self) -> Option<Noted> {
        let text = read_if_there(&self.path).ok()??;
        let mut lines = text.split(|byte| *byte == b'\n');
        let [brought, flushed] = [unhex(lines.next()?)?, unhex(lines.next()?)?];
        let after_restart = lines.next()? != self.system.as_bytes();
        Some(Noted { revision: if after_restart { flushed } else { brought }, flushed, after_restart })
    }

    /// Notes that the work tree was brought to a revision.
    pub(crate) fn write(&self, brought: &Oid) -> Result<(), StoreError> {
        let mut noted = self.noted();
        let flushed = noted.map_or(*brought, |noted| noted.flushed);
        self.write_both(&mut noted, *brought, flushed)
    }

    /// Notes that everything up to a revision is on disk.
    pub(crate) fn write_flushed(&self, flushed: &Oid) -> Result<(), StoreError> {
        let mut noted = self.noted();
        match *noted {
            Some(Noted { revision, after_restart: false, .. }) => {
                self.write_both(&mut noted, revision, *flushed)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn write_both(&self, noted: &mut Option<Noted>, revision: Oid, flushed: Oid) -> Result<(), StoreError> {
        let text = format!("{}\n{}\n{}\n", hex(&revision), hex(&flushed), self.system);
        // Until it is written nobody knows.
        *noted = None;
        if !overwrite(&self.path, text.as_bytes())? {
            self.barrier.file_system(self.path.parent().expect("it is in a folder of ours"))?;
        }
        *noted = Some(Noted { revision, flushed, after_restart: false });
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
        let desk = tempfile::tempdir().unwrap();
        let new = || Note::new(desk.path(), Barrier::default());
        let note = new();
        assert_eq!(note.read(), None);
        note.write(&[1; 20]).unwrap();
        note.write(&[2; 20]).unwrap();
        assert_eq!(note.read().unwrap().revision, [2; 20]);
        let note = Note { system: "another".to_owned(), ..new() };
        assert_eq!(note.read(), Some(Noted { revision: [1; 20], flushed: [1; 20], after_restart: true }));
        note.write(&[3; 20]).unwrap();
        note.write_flushed(&[3; 20]).unwrap();
        assert_eq!(note.read(), Some(Noted { revision: [3; 20], flushed: [3; 20], after_restart: false }));
    }
}
