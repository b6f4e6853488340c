//! Contents of files: they are read, and remembered if the snapshot does not have them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use crate::domain::file_name::{key_of, names_of};
use crate::domain::{Collection, Event, Key, Revision};
use crate::engine::layers::{ParsedVersion, Reading, damage_fault, special_entry_fault};
use crate::engine::mirror::provenance::{CollectionFiles, Provenances, provenance};
use crate::engine::mirror::{AcceptedEdit, CommittedChanges, Mirror};
use crate::format::Fault;
use crate::store::{BlobId, FileChange, StoreError, TreeEntry, WorkTreeEntry};

/// Older versions of collections, by the contents that tags identify (see
/// [`tag_content_id`](crate::engine::projection::tag_content_id)).
pub(crate) type Bases = HashMap<(Key, String), Arc<Collection>>;

impl Mirror {
    /// Returns the event that committing the saved files of this key would be: an update without changes if only
    /// comments or the order differ, `None` if the files mean nothing that can be read.
    pub(crate) fn event_by_hand(&mut self, key: &Key) -> Result<Option<Event>, StoreError> {
        let before = self.good_at_head(key)?;
        match self.file_after(key)?.transpose() {
            Ok(after) => Ok(Event::between(before, after.map(|good| good.collection))),
            Err(_) => Ok(None),
        }
    }

    /// Returns the file that counts for this key once its saved files are committed: the first of the two that
    /// exists.
    fn file_after(&mut self, key: &Key) -> Result<Option<Reading>, StoreError> {
        for name in names_of(key) {
            let known = match self.work_tree.edits.get(&name) {
                Some(edit) => edit.content.clone(),
                None => self.read_committed(key, &name, &CommittedChanges::default())?,
            };
            if known.is_some() {
                return Ok(known);
            }
        }
        Ok(None)
    }

    /// Returns the collection at the head that events compare with: the last good version if its file is broken
    /// there.
    fn good_at_head(&mut self, key: &Key) -> Result<Option<Arc<Collection>>, StoreError> {
        let mut step = CommittedChanges::default();
        let mut good = self.last_committed(key, &step)?;
        if good.is_none() {
            let files = CollectionFiles::new(self.files_committed(key, &step));
            step.provenances = self.trace(self.snapshot.revision, vec![files])?;
            good = self.last_committed(key, &step)?;
        }
        Ok(good.map(|last| last.good.collection))
    }

    /// Finds the provenance of committed files, in one walk through the history of a head.
    pub(crate) fn trace(
        &mut self,
        head: Option<Revision>,
        files: Vec<CollectionFiles>,
    ) -> Result<Provenances, StoreError> {
        head.map_or_else(|| Ok(Provenances::default()), |head| provenance(&mut *self.journal, head, files))
    }

    /// Returns what the next head has under a name.
    pub(crate) fn committed(&self, step: &CommittedChanges, name: &str) -> Option<TreeEntry> {
        step.moved.get(name).copied().unwrap_or_else(|| self.at_head(name))
    }

    /// Returns what the next head has under the two names of a key.
    pub(crate) fn files_committed(
        &self,
        key: &Key,
        step: &CommittedChanges,
    ) -> [(String, Option<TreeEntry>); 2] {
        names_of(key).map(|name| {
            let committed = self.committed(step, &name);
            (name, committed)
        })
    }

    /// Returns what the head has under a name.
    pub(crate) fn at_head(&self, name: &str) -> Option<TreeEntry> {
        if let Some(entry) = self.unserved.get(name) {
            return Some(*entry);
        }
        let entry = self.snapshot.get(key_of(name)?.as_str())?;
        (entry.is_named(name) && entry.is_as_committed()).then_some(TreeEntry::File(entry.blob))
    }

    /// Returns the blob id that the head has under a name, if it is a regular file.
    pub(crate) fn committed_blob(&self, name: &str) -> Option<BlobId> {
        self.at_head(name).and_then(TreeEntry::blob)
    }

    /// Returns the valid versions with these contents in the history of their collections. `go_on` is called after
    /// each commit and ends the search when it returns false.
    pub(crate) fn older(
        &mut self,
        mut contents: BTreeMap<Key, BTreeSet<String>>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Bases, StoreError> {
        contents.retain(|_, contents| !contents.is_empty());
        let Some(head) = self.snapshot.revision.filter(|_| !contents.is_empty()) else {
            return Ok(Bases::new());
        };
        let keys: HashMap<String, Key> = contents
            .keys()
            .flat_map(|key| names_of(key).into_iter().map(|name| (name, key.clone())))
            .collect();
        let mut found = Vec::new();
        self.journal.commits().walk(head, &mut |_, changes| {
            for change in changes {
                let Some(key) = keys.get(&change.name) else { continue };
                let Some(wanted) = contents.get_mut(key) else { continue };
                for entry in [change.after, change.before] {
                    if let Some(TreeEntry::File(blob)) = entry
                        && let Some(content) = wanted.take(&blob.to_string())
                    {
                        found.push(((key.clone(), content), change.name.clone(), blob));
                    }
                }
                if wanted.is_empty() {
                    contents.remove(key);
                }
            }
            !contents.is_empty() && go_on()
        })?;
        let mut versions = Bases::new();
        for (it, name, blob) in found {
            if let Ok(good) = self.read_one(&it.0, &name, blob, &CommittedChanges::default())? {
                versions.insert(it, good.collection);
            }
        }
        Ok(versions)
    }

    /// Reads the new content of each change, on all cores if there are many; `None` if there is no collection file.
    pub(crate) fn read_all(&mut self, changes: &[FileChange]) -> Result<Vec<Option<Reading>>, StoreError> {
        let mut wanted = Vec::with_capacity(changes.len());
        for (at, change) in changes.iter().enumerate() {
            if let (Some(TreeEntry::File(blob)), Some(key)) = (change.after, key_of(&change.name)) {
                wanted.push((at, key, blob));
            }
        }
        let blobs: Vec<BlobId> = wanted.iter().map(|(.., blob)| *blob).collect();
        let slots: Vec<OnceLock<Result<Reading, StoreError>>> =
            wanted.iter().map(|_| OnceLock::new()).collect();
        self.journal.commits().contents(&blobs, &|index, content| {
            let (_, key, blob) = &wanted[index];
            drop(slots[index].set(content.map(|bytes| ParsedVersion::read(key, *blob, bytes))));
        })?;
        let mut readings = vec![None; changes.len()];
        for ((at, _, blob), slot) in wanted.into_iter().zip(slots) {
            readings[at] = match slot.into_inner() {
                Some(Err(error)) => Some(Err(vec![self.note_damaged(&changes[at].name, blob, error)?])),
                Some(Ok(reading)) => Some(reading),
                None => None,
            };
        }
        Ok(readings)
    }

    /// Records a damaged content and returns the fault of its file; returns the error if it is about more than that.
    fn note_damaged(&mut self, name: &str, blob: BlobId, error: StoreError) -> Result<Fault, StoreError> {
        let fault = damage_fault(&error).ok_or(error)?;
        self.damaged.insert((name.to_owned(), blob));
        Ok(fault)
    }

    /// Reads what the next head has under a name of a key, if anything.
    pub(crate) fn read_committed(
        &mut self,
        key: &Key,
        name: &str,
        step: &CommittedChanges,
    ) -> Result<Option<Reading>, StoreError> {
        Ok(match self.committed(step, name) {
            None => None,
            Some(TreeEntry::Special(what)) => Some(Err(vec![special_entry_fault(what)])),
            Some(TreeEntry::File(blob)) => Some(self.read_one(key, name, blob, step)?),
        })
    }

    pub(crate) fn read_one(
        &mut self,
        key: &Key,
        name: &str,
        blob: BlobId,
        step: &CommittedChanges,
    ) -> Result<Reading, StoreError> {
        if let Some((read, reading)) = step.readings.get(name)
            && *read == blob
        {
            return Ok(reading.clone());
        }
        if let Some(entry) = self.snapshot.get(key.as_str())
            && entry.blob == blob
            && let Some(good) = ParsedVersion::of_entry(entry)
        {
            return Ok(Ok(good));
        }
        match self.content(blob) {
            Ok(bytes) => Ok(ParsedVersion::read(key, blob, &bytes)),
            Err(error) => Ok(Err(vec![self.note_damaged(name, blob, error)?])),
        }
    }

    /// Marks files for rebuilding whose object was missing or corrupt and is readable again.
    pub(crate) fn name_mended(&mut self) -> Result<(), StoreError> {
        for damaged in self.damaged.clone() {
            let (name, blob) = &damaged;
            if self.snapshot.problems.contains_key(&self.path(name)) {
                match self.content(*blob) {
                    Ok(_) => drop(self.unbuilt.insert(name.clone())),
                    Err(error) if damage_fault(&error).is_some() => continue,
                    Err(error) => return Err(error),
                }
            }
            self.damaged.remove(&damaged);
        }
        Ok(())
    }

    pub(crate) fn content(&mut self, blob: BlobId) -> Result<Vec<u8>, StoreError> {
        let is_it =
            |edit: &&AcceptedEdit| matches!(&edit.saved, WorkTreeEntry::File { blob: it, .. } if *it == blob);
        if let Some(edit) = self.work_tree.edits.values().find(is_it) {
            return Ok(edit.bytes.as_ref().clone());
        }
        self.journal.commits().content(blob)
    }
}
