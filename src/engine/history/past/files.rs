//! The files of a revision: which of them is effective for which key, and their contents.

use std::sync::OnceLock;

use crate::domain::file_name;
use crate::domain::{Key, Revision};
use crate::engine::history::index::row::Version;
use crate::engine::history::{HistoryError, PastReading, SharedHistory, View};
use crate::store::{BlobId, StoreError, TreeEntry};

/// The number of files read between two checks whether the client still waits.
const READ_LEN: usize = 2_048;

/// The effective file of a key.
#[derive(Debug, Clone)]
pub(crate) struct EffectiveFile {
    pub(crate) key: Key,
    pub(crate) version: Version,
    /// The `.yml` file beside it, which is not effective.
    pub(crate) twin: Option<TreeEntry>,
}

impl View {
    /// Reads many files, as long as the client waits for them.
    pub(crate) fn read_all(&self, files: &[EffectiveFile]) -> Result<Vec<PastReading>, HistoryError> {
        let mut readings = Vec::with_capacity(files.len());
        for some in files.chunks(READ_LEN) {
            self.check_client()?;
            readings.extend(self.shared.read_batch(some)?);
        }
        Ok(readings)
    }
}

impl SharedHistory {
    /// Returns the effective files among those with wanted names, in the order of their keys.
    pub(crate) fn effective_files(
        &self,
        revision: Revision,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<EffectiveFile>, StoreError> {
        let of_key = |(name, entry): (String, TreeEntry)| {
            let (stem, ending) = file_name::split(&name)?;
            Some(EffectiveFile { key: self.key(stem)?, version: Version { ending, entry }, twin: None })
        };
        let files = self.archive.files(revision, is_wanted)?;
        let mut found: Vec<EffectiveFile> = files.into_iter().filter_map(of_key).collect();
        // Sorted by name, they are nearly sorted by key; the stable sort keeps the `.yaml` file of a key first.
        found.sort_by(|one, two| one.key.cmp(&two.key));
        found.dedup_by(|second, first| {
            let same = first.key == second.key;
            if same {
                first.twin = Some(second.version.entry);
            }
            same
        });
        Ok(found)
    }

    /// Returns the effective file of one key.
    pub(crate) fn effective_file(
        &self,
        revision: Revision,
        key: &Key,
    ) -> Result<Option<EffectiveFile>, StoreError> {
        let files = self.effective_files(revision, &|name| file_name::belongs_to_key(name, key))?;
        Ok(files.into_iter().find(|file| file.key == *key))
    }

    /// Reads some files on all cores.
    fn read_batch(&self, files: &[EffectiveFile]) -> Result<Vec<PastReading>, StoreError> {
        let mut readings: Vec<Option<PastReading>> = Vec::with_capacity(files.len());
        let mut missing = Vec::new();
        for (index, EffectiveFile { key, version, .. }) in files.iter().enumerate() {
            let known = self.versions.get(&(key.clone(), *version));
            if let (None, TreeEntry::File(blob)) = (&known, version.entry) {
                missing.push((index, blob));
            }
            readings.push(known);
        }
        let blobs: Vec<BlobId> = missing.iter().map(|(_, blob)| *blob).collect();
        let slots: Vec<OnceLock<Result<PastReading, StoreError>>> =
            blobs.iter().map(|_| OnceLock::new()).collect();
        self.archive.contents(&blobs, &|at, content| {
            let (index, blob) = missing[at];
            let EffectiveFile { key, version, .. } = &files[index];
            let reading = match content {
                Ok(bytes) => Ok(self.parse(key, *version, blob, bytes)),
                Err(error) => self.lost(key, *version, error),
            };
            drop(slots[at].set(reading));
        })?;
        for ((index, _), slot) in missing.into_iter().zip(slots) {
            let EffectiveFile { key, version, .. } = &files[index];
            let reading = slot.into_inner().expect("BUG: the archive left out a content")?;
            self.keep(key, *version, &reading);
            readings[index] = Some(reading);
        }
        let special = |file: &EffectiveFile| self.read(&file.key, file.version);
        readings.into_iter().zip(files).map(|(known, file)| known.map_or_else(|| special(file), Ok)).collect()
    }

    /// Returns what is wrong with a commit or the commit it is compared with, if anything.
    pub(crate) fn damage(&self, revision: Revision) -> Result<Option<String>, StoreError> {
        let found = OnceLock::new();
        let compared = self.archive.commit_changes(&[revision], &|_, step| drop(found.set(step.problem)));
        match compared {
            Err(error @ StoreError::Damaged { .. }) => Ok(Some(error.to_string())),
            compared => compared.map(|()| found.into_inner().flatten()),
        }
    }
}
