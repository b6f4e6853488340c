//! The size of the repository, which shows what maintenance achieves.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::path::Path;

use crate::store::git::packs::geometry::objects_of;

/// Counts and sizes of what the repository stores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packs of any origin.
    pub packs: u64,
    /// Objects in packs; an object in two packs counts twice.
    pub objects: u64,
    /// The size of the packs and their indexes.
    pub bytes: u64,
    /// Loose objects.
    pub loose_objects: u64,
}

impl Statistics {
    /// Counts what is in an object folder; what can't be read counts as nothing.
    #[must_use]
    pub fn of(objects: &Path) -> Self {
        let mut statistics = Self::default();
        for entry in entries(&objects.join("pack")) {
            statistics.add(&entry);
        }
        let folders = (0..=u8::MAX).map(|first| objects.join(format!("{first:02x}")));
        statistics.loose_objects = folders.map(|folder| entries(&folder).count() as u64).sum();
        statistics
    }

    fn add(&mut self, entry: &DirEntry) {
        let path = entry.path();
        let len = || entry.metadata().map_or(0, |metadata| metadata.len());
        match path.extension().and_then(OsStr::to_str) {
            Some("pack") => {
                self.packs += 1;
                self.bytes += len();
            }
            Some("idx") => {
                let len = len();
                self.objects += objects_of(len);
                self.bytes += len;
            }
            Some(_) | None => (),
        }
    }

    pub(crate) fn log(self) {
        let Self { packs, objects, bytes, loose_objects } = self;
        tracing::info!(packs, objects, bytes, loose_objects, "the repository was tidied up");
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}
