//! The catalog as it was, and the way back to it: undo, restore, and what changed since a sync token.
//!
//! What was served is computed from the files of a revision and the good versions before it. Nothing here writes:
//! undo and restore are planned as commands, which the writer executes.

pub(crate) mod as_of;
pub(crate) mod files;
pub(crate) mod sync;
pub(crate) mod sync_token;
pub(crate) mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};

use crate::domain::file_name::{self, FileExtension};
use crate::domain::{Key, Revision};
use crate::engine::history::event::PastFault;
use crate::engine::history::index::row::Version;
use crate::engine::history::past::as_of::AsOf;
use crate::engine::history::past::files::EffectiveFile;
use crate::engine::history::{GoodVersion, HistoryError, MissingContent, PastReading, View};
use crate::engine::layers::{Claim, KeyFile, LastGood, hidden_by_other_case, resolve};
use crate::engine::projection::problem::Problem;
use crate::engine::projection::{Entry, Snapshot};
use crate::store::{StoreError, TreeEntry};

/// The number of unindexed commits that are read at a time in search of a good version.
const SEARCH_LEN: usize = 64;

impl View {
    /// Returns all collections as they were at a revision that the branch reaches, through any parents.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn as_of(&self, revision: Revision) -> Result<Arc<AsOf>, HistoryError> {
        if let Some(known) = self.cached_as_of(revision) {
            return Ok(known);
        }
        let files = self.shared.effective_files(revision, &|_| true)?;
        let readings = self.read_all(&files)?;
        let moment = (revision, self.time_of(revision)?);
        let mut past = AsOf {
            revision,
            entries: BTreeMap::new(),
            problems: BTreeMap::new(),
            lost: BTreeMap::new(),
            snapshot: OnceLock::new(),
        };
        let is_final = readings.iter().all(PastReading::is_final);
        let mut entries = Vec::with_capacity(files.len());
        for (file, reading) in files.into_iter().zip(readings) {
            let lost = reading.lost().cloned();
            let (entry, faults) = self.entry(moment, &file, reading)?;
            if let (None, Some(lost)) = (&entry, lost) {
                past.lost.insert(file.key.clone(), lost);
            }
            past.problems.extend(faults.into_iter().map(|fault| (fault.path.clone(), fault)));
            entries.extend(entry.map(|entry| (file.key, entry)));
        }
        // They are in order, so this is faster than inserting one by one.
        past.entries = entries.into_iter().collect();
        self.leave_out_other_cases(&mut past)?;
        let past = Arc::new(past);
        if is_final {
            self.shared.catalogs.put((self.index.oldest(), revision), Arc::clone(&past), 1);
        }
        Ok(past)
    }

    /// Returns all collections as they were at a revision, if they are cached.
    fn cached_as_of(&self, revision: Revision) -> Option<Arc<AsOf>> {
        self.shared.catalogs.get(&(self.index.oldest(), revision))
    }

    /// Returns one collection as it was, in the form of what is served now. A problem is dated to that revision's
    /// time, when it was known at the latest. Reads only the files whose names can mean this key, or one that hides
    /// it because it differs only in letter case.
    ///
    /// # Errors
    ///
    /// [`HistoryError::UnknownKey`] when there was none, [`HistoryError::Lost`] when its content is lost.
    pub fn entry_as_of(&self, revision: Revision, key: &Key) -> Result<Arc<Entry>, HistoryError> {
        let unknown = || HistoryError::UnknownKey(key.clone());
        if let Some(past) = self.cached_as_of(revision) {
            return past.entries.get(key).cloned().ok_or_else(unknown);
        }
        let is_wanted = |name: &str| file_name::belongs_to_key(name, key);
        let files = self.shared.effective_files(revision, &is_wanted)?;
        let moment = (revision, self.time_of(revision)?);
        let mut entries = BTreeMap::new();
        for file in files {
            let reading = self.shared.read(&file.key, file.version)?;
            let lost = reading.lost().cloned().filter(|_| file.key == *key);
            let (entry, _) = self.entry(moment, &file, reading)?;
            if let (None, Some(lost)) = (&entry, lost) {
                return Err(HistoryError::Lost(lost.fault));
            }
            entries.extend(entry.map(|entry| (file.key, entry)));
        }
        if entries.len() > 1 && self.winner(revision, &entries)? != *key {
            return Err(unknown());
        }
        entries.remove(key).ok_or_else(unknown)
    }

    /// Returns when a commit was made.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn time_of(&self, revision: Revision) -> Result<DateTime<Utc>, HistoryError> {
        let commit = self.shared.archive.commit(revision)?;
        Ok(commit.ok_or_else(|| HistoryError::UnknownRevision(revision.to_string()))?.at)
    }

    /// Returns what was served at a revision, in the form of what is served now. Like a list of the present, it
    /// leaves out a file that is damaged and has no older version to show.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read, and when such a file was never fetched.
    pub fn snapshot_as_of(&self, revision: Revision) -> Result<Arc<Snapshot>, HistoryError> {
        let past = self.as_of(revision)?;
        past.check_fetched(&|_| true)?;
        Ok(past.snapshot())
    }

    /// Returns what was served for a key whose effective file was read, and what was wrong with its files.
    fn entry(
        &self,
        (revision, at): (Revision, DateTime<Utc>),
        &EffectiveFile { ref key, version, twin }: &EffectiveFile,
        reading: PastReading,
    ) -> Result<(Option<Arc<Entry>>, Vec<PastFault>), HistoryError> {
        let (content, last_good) = match reading {
            PastReading::Good(good) => (Ok(good), None),
            PastReading::Broken(fault) | PastReading::Lost(MissingContent { fault, .. }) => {
                (Err(vec![fault.fault]), self.last_good(revision, key)?)
            }
        };
        let second = twin.map(|twin| self.second_file(key, twin, content.is_err())).transpose()?;
        let file = KeyFile { name: version.name(key), content, uncommitted: false };
        let last_good = last_good.map(|GoodVersion { version, good }| LastGood {
            name: version.name(key),
            good,
            uncommitted: false,
        });
        let resolved = resolve(key, Some(file), second, last_good);
        let serving = resolved.broken.first().map(|wrong| resolved.serving(wrong));
        let faults: Vec<PastFault> = resolved
            .broken
            .into_iter()
            .map(|wrong| self.shared.first_fault(&wrong.name, wrong.faults))
            .collect();
        let problem = faults.first().cloned().zip(serving).map(|(fault, serving)| {
            Arc::new(Problem {
                path: fault.path.clone(),
                faults: vec![fault.fault],
                collection: Some(key.clone()),
                serving,
                since: at,
                committed: None,
            })
        });
        let entry = resolved.served.map(|(file, good)| {
            let entry = Entry::of_file(good.collection, &file, good.blob);
            Arc::new(Entry { problem, stale: resolved.stale, ..entry })
        });
        Ok((entry, faults))
    }

    /// Returns the `.yml` file beside the `.yaml` file of a key; read only if asked for, as its content matters only
    /// beside a broken file.
    fn second_file(&self, key: &Key, entry: TreeEntry, is_read: bool) -> Result<KeyFile, StoreError> {
        let version = Version { ending: FileExtension::Yml, entry };
        let content = match is_read.then(|| self.shared.read(key, version)).transpose()? {
            Some(PastReading::Good(good)) => Ok(good),
            Some(PastReading::Broken(_) | PastReading::Lost(_)) | None => Err(Vec::new()),
        };
        Ok(KeyFile { name: version.name(key), content, uncommitted: false })
    }

    /// Removes the keys that differ from a served one only in letter case.
    fn leave_out_other_cases(&self, past: &mut AsOf) -> Result<(), HistoryError> {
        let mixed = past.entries.keys().map(|key| (key.folded(), key)).filter(|(folded, key)| folded != *key);
        let folded: BTreeSet<Key> = mixed.map(|(folded, _)| folded).collect();
        if folded.is_empty() {
            return Ok(());
        }
        let mut rivals: BTreeMap<Key, BTreeMap<Key, Arc<Entry>>> = BTreeMap::new();
        for (key, entry) in past.entries.iter().filter(|(key, _)| folded.contains(&key.folded())) {
            rivals.entry(key.folded()).or_default().insert(key.clone(), Arc::clone(entry));
        }
        for mut rivals in rivals.into_values().filter(|rivals| rivals.len() > 1) {
            let winner = self.winner(past.revision, &rivals)?;
            rivals.remove(&winner);
            for (loser, entry) in rivals {
                let fault = self.shared.first_fault(&entry.file(), vec![hidden_by_other_case(&loser)]);
                past.problems.insert(fault.path.clone(), fault);
                past.entries.remove(&loser);
            }
        }
        Ok(())
    }

    /// Returns which of several keys that differ only in letter case was served.
    fn winner(&self, revision: Revision, rivals: &BTreeMap<Key, Arc<Entry>>) -> Result<Key, HistoryError> {
        let claims = rivals.keys().map(|key| {
            let since = self.since(revision, key)?;
            Ok(Claim { is_new: false, since, key: key.clone() })
        });
        let claims = claims.collect::<Result<Vec<_>, StoreError>>()?;
        Ok(claims.into_iter().min().expect("there are rivals").key)
    }

    /// Returns since when a key that has a file at a revision has had one; less is longer ago.
    fn since(&self, revision: Revision, key: &Key) -> Result<(bool, i64), StoreError> {
        let archive = &self.shared.archive;
        let line = archive.first_parents(revision, &|revision| self.index.find(*revision).is_some())?;
        // These commits are not indexed: examine each.
        for at in 0..line.revisions.len() {
            let older = line.revisions.get(at + 1).copied().or(line.stopped_at);
            let had = older.map(|older| self.shared.effective_file(older, key)).transpose()?.flatten();
            if had.is_none() {
                return Ok((true, -i64::try_from(at).unwrap_or(i64::MAX)));
            }
        }
        let onto = line.stopped_at.and_then(|onto| self.index.find(onto));
        let (Some(commit), Some(key)) = (onto, self.index.find_key(key.as_str())) else {
            return Ok((true, 0));
        };
        let had = self.index.of_key_until(key, commit).map(|event| self.index.event(event));
        let had = had.take_while(|row| row.after.is_some());
        Ok((false, had.last().map_or(0, |row| i64::from(row.commit))))
    }

    /// Returns the newest good version of a file that is broken at a revision, along the revision's first parents.
    fn last_good(&self, revision: Revision, key: &Key) -> Result<Option<GoodVersion>, HistoryError> {
        let archive = &self.shared.archive;
        let line = archive.first_parents(revision, &|revision| self.index.find(*revision).is_some())?;
        // These commits are not indexed: examine each.
        for batch in line.revisions.chunks(SEARCH_LEN) {
            let slots: Vec<OnceLock<(bool, Option<Revision>)>> =
                batch.iter().map(|_| OnceLock::new()).collect();
            archive.commit_changes(batch, &|index, step| {
                let of_key =
                    |name: &str| file_name::split(name).is_some_and(|(stem, _)| stem == key.as_str());
                let touched = step.changes.iter().any(|change| of_key(&change.name));
                slots[index].get_or_init(|| (touched, step.commit.parents.first().copied()));
            })?;
            for (touched, parent) in slots.into_iter().filter_map(OnceLock::into_inner) {
                let Some(parent) = parent.filter(|_| touched) else { continue };
                let file = self.shared.effective_file(parent, key)?;
                let Some(EffectiveFile { version, .. }) = file else { return Ok(None) };
                if let PastReading::Good(good) = self.shared.read(key, version)? {
                    return Ok(Some(GoodVersion { version, good }));
                }
            }
        }
        let onto = line.stopped_at.and_then(|onto| self.index.find(onto));
        match (onto, self.index.find_key(key.as_str())) {
            (Some(commit), Some(key)) => Ok(self.good_version_at(key, commit)?),
            (None, _) | (_, None) => Ok(None),
        }
    }
}
