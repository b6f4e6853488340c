//! Rebuilding: from files to what is served. This decides the collections of every snapshot, but for the plain ones of
//! `bulk`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::file_name::{FileName, key_of, names_of};
use crate::domain::{Catalog, Key};
use crate::engine::layers::{
    BrokenFile, Claim, KeyFile, LastGood, ParsedVersion, hidden_by_other_case, resolve,
};
use crate::engine::mirror::provenance::CollectionFiles;
use crate::engine::mirror::{CommittedChanges, Mirror};
use crate::engine::projection::problem::Serving;
use crate::engine::projection::{Entry, HandEdits, Snapshot};
use crate::format::Fault;
use crate::store::{StoreError, TreeEntry, WorkTreeEntry};

impl Mirror {
    /// Completes the next snapshot, whose revision is set, for every key whose files changed or were edited.
    pub(crate) fn rebuild(
        &mut self,
        next: Snapshot,
        step: CommittedChanges,
        edited: BTreeSet<String>,
        ready: &Catalog<Arc<Entry>>,
    ) -> Result<(), StoreError> {
        let names: BTreeSet<String> = step.moved.keys().cloned().chain(edited).collect();
        let mut work = Rebuild { next, queue: Vec::new(), step, ready };
        let mut keys = BTreeSet::new();
        for name in &names {
            match FileName::parse(name) {
                FileName::Collection(key) => {
                    keys.insert(key);
                }
                FileName::BadKey(why) => self.rebuild_bad_key(name, &why, &mut work)?,
                FileName::Other => {}
            }
        }
        work.queue.extend(keys);
        while !work.queue.is_empty() {
            // A round may free keys that others have hidden.
            work.step.provenances = self.trace_broken(&work)?;
            for key in std::mem::take(&mut work.queue) {
                self.rebuild_key(&key, &mut work)?;
            }
        }
        let mut next = work.next;
        self.log_problems(&next.problems);
        next.hand_edits = self.hand_edits(&next, &names);
        self.snapshot = Arc::new(next);
        Ok(())
    }

    /// Returns the two files of a key as they count now.
    fn files(&mut self, key: &Key, step: &CommittedChanges) -> Result<[Option<KeyFile>; 2], StoreError> {
        let mut files = [None, None];
        let mut is_uncovered = false;
        for (slot, name) in files.iter_mut().zip(names_of(key)) {
            if let Some(edit) = self.served_edit(&name) {
                is_uncovered = edit.saved == WorkTreeEntry::Deleted;
                *slot = edit.content.clone().map(|content| KeyFile { name, content, uncommitted: true });
                continue;
            }
            // If the file with precedence was deleted by hand, this one is not what the commit serves.
            let uncommitted = is_uncovered;
            let content = self.read_committed(key, &name, step)?;
            *slot = content.map(|content| KeyFile { name, content, uncommitted });
        }
        Ok(files)
    }

    fn rebuild_key(&mut self, key: &Key, work: &mut Rebuild<'_>) -> Result<(), StoreError> {
        let [yaml, yml] = self.files(key, &work.step)?;
        let main = yaml.as_ref().or(yml.as_ref());
        let last_good = match main {
            Some(KeyFile { content: Err(_), .. }) => {
                let are_committed = [&yaml, &yml].into_iter().flatten().all(|file| !file.uncommitted);
                // Of two files that are committed both, nothing remains that only a person has saved.
                match yaml.is_some() && yml.is_some() && are_committed {
                    true => self.last_committed(key, &work.step)?,
                    false => self.last_good(key, &work.step)?,
                }
            }
            Some(KeyFile { content: Ok(_), .. }) | None => None,
        };
        let resolved = resolve(key, yaml, yml, last_good);
        for name in names_of(key) {
            work.next.problems.remove(&self.path(&name));
        }
        let problems = self.problems(key, &resolved, &work.step.provenances);
        for problem in &problems {
            work.next.problems.insert(problem.path.clone(), Arc::clone(problem));
        }
        let entry = resolved.served.map(|(file, good)| {
            let entry = Entry {
                uncommitted: resolved.uncommitted,
                problem: problems.first().cloned(),
                stale: resolved.stale,
                ..Entry::of_file(good.collection, &file, good.blob)
            };
            work.ready
                .get(key.as_str())
                .filter(|ready| ***ready == entry)
                .cloned()
                .unwrap_or_else(|| Arc::new(entry))
        });
        self.note_aside(key, entry.as_deref(), &work.step);
        self.place(key, entry, work)
    }

    /// Remembers the committed files that the entry alone does not describe.
    fn note_aside(&mut self, key: &Key, entry: Option<&Entry>, step: &CommittedChanges) {
        for (name, committed) in self.files_committed(key, step) {
            let plain = entry.is_some_and(|entry| {
                entry.is_named(&name)
                    && entry.is_as_committed()
                    && committed == Some(TreeEntry::File(entry.blob))
            });
            match committed.filter(|_| !plain) {
                Some(committed) => self.unserved.insert(name, committed),
                None => self.unserved.remove(&name),
            };
        }
    }

    /// Puts the entry into the snapshot, unless another key that differs in letter case only has the stronger claim.
    fn place(
        &mut self,
        key: &Key,
        entry: Option<Arc<Entry>>,
        work: &mut Rebuild<'_>,
    ) -> Result<(), StoreError> {
        let Some(entry) = entry else {
            work.take_away(key);
            return Ok(());
        };
        let other = work.next.catalog().case_variant(key);
        let Some(there) = other.and_then(|other| work.next.get(other.as_str())).cloned() else {
            work.next.insert(entry);
            return Ok(());
        };
        if self.was_first(&there, &entry, work)? {
            work.next.remove(key.as_str());
            return self.hide(&entry, work);
        }
        work.next.remove(there.collection.key().as_str());
        work.next.insert(entry);
        self.hide(&there, work)
    }

    /// Reports a collection that is not served because of another key that differs in letter case only.
    fn hide(&mut self, hidden: &Entry, work: &mut Rebuild<'_>) -> Result<(), StoreError> {
        let (key, name) = (hidden.collection.key(), hidden.file());
        let committed = hidden.is_as_committed().then_some(TreeEntry::File(hidden.blob));
        self.unserved.extend(committed.map(|committed| (name.clone(), committed)));
        let files = CollectionFiles::new([(name.clone(), committed)]);
        let provenances = self.trace(work.next.revision, vec![files])?;
        let wrong =
            BrokenFile { name, faults: vec![hidden_by_other_case(key)], uncommitted: hidden.uncommitted };
        let problem = self.problem(Some(key), &wrong, Serving::Nothing, provenances.get(&wrong.name));
        work.next.problems.insert(problem.path.clone(), problem);
        Ok(())
    }

    /// Returns whether the claim of `one` is stronger than that of `two`, whose key differs in letter case only.
    fn was_first(&mut self, one: &Entry, two: &Entry, work: &Rebuild<'_>) -> Result<bool, StoreError> {
        let files = [one, two].map(|it| {
            self.files_committed(it.collection.key(), &work.step).map(|(name, committed)| {
                let served = (!it.uncommitted && it.is_named(&name)).then_some(TreeEntry::File(it.blob));
                (name, committed.or(served))
            })
        });
        let are_new = files.each_ref().map(|files| files.iter().all(|(_, committed)| committed.is_none()));
        let head = work.next.revision.filter(|_| are_new == [false, false]);
        let provenances = self.trace(head, files.map(CollectionFiles::new).into())?;
        let claim = |it: &Entry, is_new: bool| Claim {
            is_new,
            since: Reverse(provenances.age(&names_of(it.collection.key())[0])),
            key: it.collection.key().clone(),
        };
        Ok(claim(one, are_new[0]) < claim(two, are_new[1]))
    }

    fn rebuild_bad_key(&mut self, name: &str, why: &str, work: &mut Rebuild<'_>) -> Result<(), StoreError> {
        let committed = self.committed(&work.step, name);
        match committed {
            Some(committed) => self.unserved.insert(name.to_owned(), committed),
            None => self.unserved.remove(name),
        };
        let edit = self.served_edit(name);
        let stands = edit.map_or(committed.is_some(), |edit| edit.saved != WorkTreeEntry::Deleted);
        let uncommitted = edit.is_some();
        let path = self.path(name);
        if !stands {
            work.next.problems.remove(&path);
            return Ok(());
        }
        let files = CollectionFiles::new([(name.to_owned(), committed.filter(|_| !uncommitted))]);
        let provenances = self.trace(work.next.revision, vec![files])?;
        let wrong = BrokenFile { name: name.to_owned(), faults: vec![Fault::at_start(why)], uncommitted };
        let problem = self.problem(None, &wrong, Serving::Nothing, provenances.get(name));
        work.next.problems.insert(path, problem);
        Ok(())
    }

    /// Returns the version to serve in place of a broken file: an edit that was being served, otherwise the head's
    /// version, otherwise the newest valid version in the history.
    fn last_good(&mut self, key: &Key, step: &CommittedChanges) -> Result<Option<LastGood>, StoreError> {
        if let Some(entry) = self.snapshot.get(key.as_str()).filter(|entry| entry.uncommitted) {
            let (blob, collection) = (entry.blob, Arc::clone(&entry.collection));
            // Only the faults of the broken file are reported, not what the former version lacked.
            let good = ParsedVersion { blob, collection, missing_status_names: Vec::new() };
            return Ok(Some(LastGood { name: entry.file(), good, uncommitted: true }));
        }
        self.last_committed(key, step)
    }

    /// Returns the head's version, otherwise the newest valid one in the history as far as `step` knows it.
    pub(crate) fn last_committed(
        &mut self,
        key: &Key,
        step: &CommittedChanges,
    ) -> Result<Option<LastGood>, StoreError> {
        let mut files = self.files_committed(key, step).into_iter();
        if let Some((name, TreeEntry::File(blob))) = files.find_map(|(name, entry)| Some((name, entry?))) {
            if let Ok(good) = self.read_one(key, &name, blob, step)? {
                return Ok(Some(LastGood { name, good, uncommitted: false }));
            }
            // The file in the work tree may be intact although the repository has lost its content.
            if let Some(bytes) = self.journal.work_tree_content(&name, blob)?
                && let Ok(good) = ParsedVersion::read(key, blob, &bytes)
            {
                return Ok(Some(LastGood { name, good, uncommitted: false }));
            }
        }
        let [first, _] = names_of(key);
        for earlier in step.provenances.earlier(&first) {
            for version in earlier.versions(&mut *self.journal)? {
                let Some((name, blob)) = version else { return Ok(None) };
                if let Ok(good) = self.read_one(key, &name, blob, &CommittedChanges::default())? {
                    return Ok(Some(LastGood { name, good, uncommitted: false }));
                }
            }
        }
        Ok(None)
    }

    /// Returns the saved files that are not committed, after these names were looked at. They are collected anew only
    /// if one of the names concerns them, so that a write does not take longer the more files people have saved
    /// elsewhere.
    fn hand_edits(&self, next: &Snapshot, names: &BTreeSet<String>) -> HandEdits {
        let shown = next.hand_edits.shown;
        let known = &self.snapshot.hand_edits;
        let is_edit = |name: &String| {
            self.work_tree.edits.contains_key(name)
                || known.saved.contains_key(&self.path(name))
                || key_of(name).is_some_and(|key| known.keys.contains(&key))
        };
        if !names.iter().any(is_edit) {
            return HandEdits { served: known.served - known.shown + shown, shown, ..known.clone() };
        }
        HandEdits {
            served: shown + self.count_deleted(next),
            shown,
            keys: Arc::new(self.edited()),
            saved: Arc::new(self.saved()),
        }
    }

    /// Returns the collections with an uncommitted hand edit, if such edits are served.
    fn edited(&self) -> BTreeSet<Key> {
        self.served_edits().filter_map(|(name, _)| key_of(name)).collect()
    }

    /// Returns the contents of regular files that are saved and not committed, if such edits are served.
    fn saved(&self) -> BTreeMap<String, Arc<Vec<u8>>> {
        let files = self.served_edits().filter(|(_, edit)| matches!(edit.saved, WorkTreeEntry::File { .. }));
        files.map(|(name, edit)| (self.path(name), Arc::clone(&edit.bytes))).collect()
    }

    /// Returns how many files were deleted by hand, if such edits are served, except those in whose place the
    /// collection's other file is shown.
    fn count_deleted(&self, next: &Snapshot) -> usize {
        let is_shown = |key: &Key| {
            let entry = next.get(key.as_str()).filter(|entry| entry.uncommitted);
            entry.is_some_and(|entry| self.served_edit(&entry.file()).is_none())
        };
        let gone = self.served_edits().filter(|(_, edit)| edit.saved == WorkTreeEntry::Deleted);
        gone.filter_map(|(name, _)| key_of(name)).filter(|key| !is_shown(key)).count()
    }
}

/// A snapshot under construction.
pub(crate) struct Rebuild<'a> {
    pub(crate) next: Snapshot,
    /// The keys to rebuild next.
    pub(crate) queue: Vec<Key>,
    pub(crate) step: CommittedChanges,
    /// Ready-made entries that may be shared.
    pub(crate) ready: &'a Catalog<Arc<Entry>>,
}

impl Rebuild<'_> {
    /// Removes what was served for a key, and queues the keys that it may have hidden.
    fn take_away(&mut self, key: &Key) {
        // A key that was not served hid no other key, and two broken ones do not free each other.
        if self.next.get(key.as_str()).is_none() {
            return;
        }
        self.next.remove(key.as_str());
        let folded = key.folded();
        let others = self.next.problems.values().filter_map(|problem| problem.collection.as_ref());
        let freed: BTreeSet<Key> =
            others.filter(|other| *other != key && other.folded() == folded).cloned().collect();
        self.queue.extend(freed);
    }
}
