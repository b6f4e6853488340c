//! The writer's picture of the repository, and how it is brought up to date.
//!
//! Truth is read from the repository, never taken from a notice: [`Mirror::refresh`] compares the
//! branch and the named files with what is known, and rebuilds only the collections concerned. A
//! start, a fetched commit, a hand edit and the writer's own commit all go through
//! [`Mirror::rebuild`], so there is one place where it is decided what is served.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use super::chain;
use super::layers::{Content, File, Good, LastGood, Resolved, Wrong, not_a_file, resolve};
use super::problem::{Problem, Serving};
use super::projection::{Entry, Snapshot};
use super::signal::Hint;
use super::trace::{Trace, trace};
use crate::domain::{Actor, Catalog, Event, Key, Revision};
use crate::format::layout::{FileName, file_name};
use crate::format::{self, Fault};
use crate::store::{BlobId, Edit, FileChange, Journal, Look, Saved, StoreError, TreeEntry, WorkTree};

/// Tells the time; fixed in tests.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// How the mirror treats what it reads.
#[derive(Clone)]
pub(super) struct MirrorOptions {
    /// The folder, as a path inside the repository.
    pub(super) folder: String,
    /// Whether uncommitted hand edits are served.
    pub(super) serve_uncommitted: bool,
    /// How long a file that is broken, empty or gone must stay so before it is believed.
    pub(super) patience: Duration,
    /// How long git may stand in the middle of changing the work tree before we look all the same.
    pub(super) busy_max: Duration,
    /// Tells the time.
    pub(super) clock: Clock,
}

/// A saved file that differs from the head, as far as it is believed.
#[derive(Debug, Clone)]
struct Believed {
    content: Option<Content>,
    bytes: Arc<Vec<u8>>,
    saved: Saved,
}

/// A file that looks broken, empty or gone, and since when.
#[derive(Debug)]
struct Suspect {
    saved: Saved,
    since: Instant,
}

/// What the committed file of a name is now, for names that moved.
type Moved = BTreeMap<String, Option<TreeEntry>>;

/// What readings of committed files are at hand, by name.
type Readings = HashMap<String, (BlobId, Result<Good, Fault>)>;

/// The writer's picture of the repository.
pub(super) struct Mirror<J> {
    pub(super) journal: J,
    pub(super) options: MirrorOptions,
    snapshot: Arc<Snapshot>,
    /// Committed files that are not served just as they are, by name. Every other committed file
    /// is known by its entry in the snapshot.
    aside: BTreeMap<String, TreeEntry>,
    edits: BTreeMap<String, Believed>,
    suspects: BTreeMap<String, Suspect>,
    /// Whether the work tree was not ours to look at the last time.
    away: bool,
    busy: Option<Busy>,
}

/// Since when git stands in the middle of changing the work tree, and when to look again.
#[derive(Debug, Clone, Copy)]
struct Busy {
    since: Instant,
    again_at: Instant,
}

impl<J: Journal> Mirror<J> {
    /// Reads the repository for the first time.
    ///
    /// # Errors
    ///
    /// Returns what kept it from being read; nothing is served then.
    pub(super) fn load(journal: J, options: MirrorOptions) -> Result<Self, (J, StoreError)> {
        let mut mirror = Self {
            journal,
            options,
            snapshot: Arc::default(),
            aside: BTreeMap::new(),
            edits: BTreeMap::new(),
            suspects: BTreeMap::new(),
            away: true,
            busy: None,
        };
        match mirror.load_all() {
            Ok(()) => Ok(mirror),
            Err(error) => Err((mirror.journal, error)),
        }
    }

    fn load_all(&mut self) -> Result<(), StoreError> {
        let head = self.journal.head()?;
        self.move_to(head)?;
        if let Err(error) = self.journal.catch_up() {
            tracing::warn!(error = %chain(&error), "the work tree cannot be brought up to the branch, it is read as it is");
        }
        // What a file was before nobody knows, so there is nothing to be patient for.
        let patience = std::mem::take(&mut self.options.patience);
        let found = self.look(Look::All);
        self.options.patience = patience;
        let names = found?;
        self.rebuild(head, Moved::new(), names, Readings::new(), &Catalog::default())
    }

    /// What is to be served.
    pub(super) const fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Brings the picture up to date, as far as the hint says that it may be out of date.
    ///
    /// # Errors
    ///
    /// Returns what could not be read; the picture is then as it was.
    pub(super) fn refresh(&mut self, hint: &Hint) -> Result<(), StoreError> {
        let head = self.journal.head()?;
        let follow = head != self.snapshot.revision || !matches!(hint, Hint::Files(_)) || self.busy.is_some();
        let mut names: Vec<String> = match hint {
            Hint::Files(names) => names.clone(),
            Hint::Branch | Hint::Everything => Vec::new(),
        };
        if head != self.snapshot.revision {
            names.extend(self.move_to(head)?);
            names.extend(self.edits.keys().chain(self.suspects.keys()).cloned());
        }
        if follow && !self.catch_up() {
            return Ok(());
        }
        names.sort();
        names.dedup();
        let all = matches!(hint, Hint::Everything) || (self.away && !matches!(hint, Hint::Files(_)));
        let changed = self.look(if all { Look::All } else { Look::At(&names) })?;
        if changed.is_empty() {
            return Ok(());
        }
        self.rebuild(head, Moved::new(), changed, Readings::new(), &Catalog::default())
    }

    /// Brings a work tree forward that is behind the branch. While it is behind, its files say
    /// nothing about what a person saved, so they are not looked at: false means "later".
    fn catch_up(&mut self) -> bool {
        match self.journal.catch_up() {
            Ok(()) => true,
            Err(error) => {
                let late = self.note_busy();
                tracing::debug!(error = %chain(&error), late, "the work tree cannot be brought up to the branch yet");
                late
            }
        }
    }

    /// Notes that the work tree can't be looked at now; returns whether that has lasted too long
    /// to go on waiting.
    fn note_busy(&mut self) -> bool {
        let now = Instant::now();
        let since = self.busy.map_or(now, |busy| busy.since);
        let late = now - since >= self.options.busy_max;
        let wait = if late { self.options.busy_max } else { BUSY_LOOK_WAIT };
        self.busy = Some(Busy { since, again_at: now + wait });
        late
    }

    /// Follows the branch to `head`; returns the names that differ.
    fn move_to(&mut self, head: Option<Revision>) -> Result<Vec<String>, StoreError> {
        let from = self.snapshot.revision;
        if head.is_none() && from.is_some() {
            // A branch that vanished is an accident or half of an operation, not an empty catalog.
            return Err(StoreError::HeadMoved { expected: from, found: None });
        }
        let changes = self.journal.changes(from, head)?;
        let readings = self.read_all(&changes)?;
        let names: Vec<String> = changes.iter().map(|change| change.name.clone()).collect();
        let moved = changes.into_iter().map(|change| (change.name, change.after)).collect();
        self.rebuild(head, moved, BTreeSet::new(), readings, &Catalog::default())?;
        Ok(names)
    }

    /// Takes over commits that the writer made itself; `catalog` has their entries.
    pub(super) fn adopt(
        &mut self,
        head: Revision,
        files: Vec<(String, Option<BlobId>)>,
        catalog: &Catalog<Arc<Entry>>,
    ) -> Result<(), StoreError> {
        let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
        let mut readings = Readings::new();
        for (name, blob) in &files {
            if let (Some(blob), FileName::Collection { key, .. }) = (blob, file_name(name))
                && let Some(entry) = catalog.get(key.as_str()).filter(|entry| entry.blob == *blob)
            {
                let good = Good { blob: *blob, collection: Arc::clone(&entry.collection) };
                readings.insert(name.clone(), (*blob, Ok(good)));
            }
        }
        let edited: Vec<String> =
            names.iter().filter(|name| self.edits.contains_key(*name)).cloned().collect();
        for name in &names {
            self.edits.remove(name);
            self.suspects.remove(name);
        }
        let moved = files.into_iter().map(|(name, blob)| (name, blob.map(TreeEntry::File))).collect();
        self.rebuild(Some(head), moved, BTreeSet::new(), readings, catalog)?;
        if !edited.is_empty() {
            self.refresh(&Hint::Files(edited))?;
        }
        Ok(())
    }

    /// When to look again without being asked, if something is not believed yet.
    pub(super) fn look_again_at(&self) -> Option<Instant> {
        let busy = self.busy.map(|busy| busy.again_at);
        self.suspects.values().map(|suspect| suspect.since + self.options.patience).chain(busy).min()
    }

    /// The hint for what [`look_again_at`](Self::look_again_at) waits for.
    pub(super) fn look_again_hint(&self) -> Hint {
        if self.busy.is_some() {
            Hint::Everything
        } else {
            Hint::Files(self.suspects.keys().cloned().collect())
        }
    }

    /// Whether a file of this key is being watched for whether it stays broken or gone.
    pub(super) fn is_suspect(&self, key: &Key) -> bool {
        names_of(key).iter().any(|name| self.suspects.contains_key(name))
    }

    /// Whether one of the files of this key is no regular file.
    pub(super) fn is_special(&self, key: &Key) -> bool {
        names_of(key).iter().any(|name| {
            matches!(self.aside.get(name), Some(TreeEntry::Special(_)))
                || matches!(self.edits.get(name).map(|edit| &edit.saved), Some(Saved::Special(_)))
        })
    }

    /// The saved files of this key that differ from the head.
    pub(super) fn edits_of(&self, key: &Key) -> Vec<(String, Saved)> {
        names_of(key)
            .into_iter()
            .filter_map(|name| self.edits.get(&name).map(|edit| (name, edit.saved.clone())))
            .collect()
    }

    /// Every file that stands for this key, in the head or in the work tree.
    pub(super) fn files_of(&self, key: &Key) -> Vec<String> {
        names_of(key)
            .into_iter()
            .filter(|name| {
                self.aside.contains_key(name)
                    || self.edits.contains_key(name)
                    || self.snapshot.get(key.as_str()).is_some_and(|entry| *entry.file == **name)
            })
            .collect()
    }

    /// What committing the saved files of this key would mean; `None` if it means nothing that
    /// can be read.
    pub(super) fn event_by_hand(&mut self, key: &Key) -> Result<Option<Event>, StoreError> {
        let before = self.good_at_head(key)?;
        let after = names_of(key).into_iter().find_map(|name| {
            match self.edits.get(&name).map(|edit| &edit.content) {
                Some(Some(Content::Good(good))) => Some(Some(Arc::clone(&good.collection))),
                Some(Some(Content::Broken(_) | Content::Special(_))) => Some(None),
                Some(None) | None => None,
            }
        });
        let gone = self.edits_of(key).iter().all(|(_, saved)| matches!(saved, Saved::Gone));
        Ok(match (before, after) {
            (None, Some(Some(after))) => Some(Event::Created(after)),
            (Some(before), Some(Some(after))) if before != after => Some(Event::Updated { before, after }),
            (Some(before), None) if gone => Some(Event::Deleted(before)),
            _ => None,
        })
    }

    fn good_at_head(&mut self, key: &Key) -> Result<Option<Arc<crate::domain::Collection>>, StoreError> {
        for name in names_of(key) {
            if let Some(TreeEntry::File(blob)) = self.committed(&Moved::new(), &name) {
                return Ok(match self.read_one(key, &name, blob, &Readings::new())? {
                    Ok(good) => Some(good.collection),
                    Err(_) => None,
                });
            }
        }
        Ok(None)
    }

    /// What the head has under a name.
    fn committed(&self, moved: &Moved, name: &str) -> Option<TreeEntry> {
        if let Some(now) = moved.get(name) {
            return *now;
        }
        if let Some(entry) = self.aside.get(name) {
            return Some(*entry);
        }
        let FileName::Collection { key, .. } = file_name(name) else { return None };
        let entry = self.snapshot.get(key.as_str())?;
        (*entry.file == *name && !entry.uncommitted && !entry.stale).then_some(TreeEntry::File(entry.blob))
    }

    /// The content that the head has under a name, if that is a regular file.
    pub(super) fn committed_content(&mut self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self.committed(&Moved::new(), name) {
            Some(TreeEntry::File(blob)) => self.content(blob).map(Some),
            Some(TreeEntry::Special(_)) | None => Ok(None),
        }
    }

    /// The versions of a collection that these tags name and that are in the newest commits of its
    /// history, if they are valid.
    pub(super) fn older(
        &mut self,
        key: &Key,
        mut tags: BTreeSet<String>,
        commits_max: usize,
    ) -> Result<Vec<(String, Arc<crate::domain::Collection>)>, StoreError> {
        let Some(head) = self.snapshot.revision.filter(|_| !tags.is_empty()) else { return Ok(Vec::new()) };
        let names = names_of(key);
        let mut found = Vec::new();
        let mut left = commits_max;
        self.journal.walk(head, &mut |_, changes| {
            left -= 1;
            for change in changes.iter().filter(|change| names.contains(&change.name)) {
                for entry in [change.after, change.before] {
                    if let Some(TreeEntry::File(blob)) = entry
                        && let Some(tag) = tags.take(&blob.to_string())
                    {
                        found.push((tag, change.name.clone(), blob));
                    }
                }
            }
            left > 0 && !tags.is_empty()
        })?;
        let mut versions = Vec::new();
        for (tag, name, blob) in found {
            if let Ok(good) = self.read_one(key, &name, blob, &Readings::new())? {
                versions.push((tag, good.collection));
            }
        }
        Ok(versions)
    }

    /// Reads every new content of the changes, on all cores when they are many.
    fn read_all(&mut self, changes: &[FileChange]) -> Result<Readings, StoreError> {
        let wanted: Vec<(Key, &str, BlobId)> = changes
            .iter()
            .filter_map(|change| match (change.after, file_name(&change.name)) {
                (Some(TreeEntry::File(blob)), FileName::Collection { key, .. }) => {
                    Some((key, change.name.as_str(), blob))
                }
                _ => None,
            })
            .collect();
        let blobs: Vec<BlobId> = wanted.iter().map(|(.., blob)| *blob).collect();
        let slots: Vec<OnceLock<Result<Good, Fault>>> = wanted.iter().map(|_| OnceLock::new()).collect();
        let failed = Mutex::new(None);
        self.journal.read(&blobs, &|index, content| match content {
            Ok(bytes) => {
                let (key, _, blob) = &wanted[index];
                slots[index].get_or_init(|| read_good(key, *blob, bytes));
            }
            Err(error) => *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error),
        })?;
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        Ok(wanted
            .iter()
            .zip(slots)
            .filter_map(|((_, name, blob), slot)| Some(((*name).to_owned(), (*blob, slot.into_inner()?))))
            .collect())
    }

    fn read_one(
        &mut self,
        key: &Key,
        name: &str,
        blob: BlobId,
        readings: &Readings,
    ) -> Result<Result<Good, Fault>, StoreError> {
        if let Some((read, reading)) = readings.get(name)
            && *read == blob
        {
            return Ok(reading.clone());
        }
        if let Some(entry) = self.snapshot.get(key.as_str())
            && entry.blob == blob
        {
            return Ok(Ok(Good { blob, collection: Arc::clone(&entry.collection) }));
        }
        let bytes = self.content(blob)?;
        Ok(read_good(key, blob, &bytes))
    }

    /// Reads one content.
    pub(super) fn content(&mut self, blob: BlobId) -> Result<Vec<u8>, StoreError> {
        if let Some(edit) = self
            .edits
            .values()
            .find(|edit| matches!(&edit.saved, Saved::File { blob: it, .. } if *it == blob))
        {
            return Ok(edit.bytes.as_ref().clone());
        }
        let found = Mutex::new(Ok(Vec::new()));
        self.journal.read(&[blob], &|_, content| {
            *found.lock().unwrap_or_else(PoisonError::into_inner) = content.map(<[u8]>::to_vec);
        })?;
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the work tree and notes what is believed of it; returns the names for which that
    /// changed.
    fn look(&mut self, look: Look<'_>) -> Result<BTreeSet<String>, StoreError> {
        let mut looked: BTreeSet<String> = match look {
            Look::All => self.edits.keys().chain(self.suspects.keys()).cloned().collect(),
            Look::At(names) => names.iter().cloned().collect(),
        };
        let mut seen = self.journal.work_tree(self.snapshot.revision, look, false)?;
        if seen != WorkTree::Busy {
            self.busy = None;
        } else if self.note_busy() {
            seen = self.journal.work_tree(self.snapshot.revision, look, true)?;
        }
        let (edits, note) = match seen {
            WorkTree::Busy => return Ok(BTreeSet::new()),
            WorkTree::Away(why) => {
                looked = self.edits.keys().cloned().collect();
                self.suspects.clear();
                self.away = true;
                (Vec::new(), Some(why))
            }
            WorkTree::Here { edits, half_done } => {
                if std::mem::take(&mut self.away) && matches!(look, Look::At(_)) {
                    return self.look(Look::All);
                }
                (edits, half_done.map(|what| format!("{what} stands half-done in the work tree")))
            }
        };
        self.note_work_tree(note);
        let mut found: BTreeMap<String, Saved> =
            edits.into_iter().map(|Edit { name, now }| (name, now)).collect();
        looked.extend(found.keys().cloned());
        let mut changed = BTreeSet::new();
        for name in looked {
            let now = found.remove(&name);
            if self.believe(&name, now) {
                changed.insert(name);
            }
        }
        Ok(changed)
    }

    fn note_work_tree(&mut self, note: Option<String>) {
        if self.snapshot.work_tree.as_deref() == note.as_deref() {
            return;
        }
        match &note {
            Some(why) => tracing::info!(why, "the work tree is not served as it stands"),
            None => tracing::info!("the work tree is served again"),
        }
        let mut next = self.snapshot.next();
        next.work_tree = note.map(Into::into);
        self.snapshot = Arc::new(next);
    }

    /// Decides whether to believe what a file is now; returns whether that changes anything.
    fn believe(&mut self, name: &str, now: Option<Saved>) -> bool {
        let Some(saved) = now else {
            self.suspects.remove(name);
            return self.edits.remove(name).is_some();
        };
        if self.edits.get(name).is_some_and(|edit| edit.saved == saved) {
            self.suspects.remove(name);
            return false;
        }
        let (content, bytes) = read_saved(name, &saved);
        let good = matches!(content, Some(Content::Good(_)));
        if !good && !self.is_patience_over(name, &saved) {
            return false;
        }
        self.suspects.remove(name);
        self.edits.insert(name.to_owned(), Believed { content, bytes: Arc::new(bytes), saved });
        true
    }

    fn is_patience_over(&mut self, name: &str, saved: &Saved) -> bool {
        if self.options.patience.is_zero() {
            return true;
        }
        match self.suspects.get(name) {
            Some(suspect) if suspect.saved == *saved => suspect.since.elapsed() >= self.options.patience,
            _ => {
                let suspect = Suspect { saved: saved.clone(), since: Instant::now() };
                self.suspects.insert(name.to_owned(), suspect);
                false
            }
        }
    }

    /// Builds the next snapshot: what is served for every key whose files moved or were edited.
    fn rebuild(
        &mut self,
        head: Option<Revision>,
        moved: Moved,
        edited: BTreeSet<String>,
        readings: Readings,
        ready: &Catalog<Arc<Entry>>,
    ) -> Result<(), StoreError> {
        let mut work = Rebuild {
            next: self.snapshot.next(),
            problems: BTreeMap::clone(&self.snapshot.problems),
            queue: VecDeque::new(),
            ready,
        };
        work.next.revision = head;
        let names: BTreeSet<String> = moved.keys().cloned().chain(edited).collect();
        let mut keys = BTreeSet::new();
        for name in &names {
            match file_name(name) {
                FileName::Collection { key, .. } => {
                    keys.insert(key);
                }
                FileName::BadKey(why) => self.rebuild_bad_key(name, &why, &moved, &mut work, head)?,
                FileName::Other => {}
            }
        }
        work.queue.extend(keys);
        let traces = self.trace_broken(&work, &moved, &readings, head)?;
        while let Some(key) = work.queue.pop_front() {
            self.rebuild_key(&key, &moved, &readings, &traces, &mut work)?;
        }
        let Rebuild { mut next, problems, .. } = work;
        self.tell(&problems);
        if problems != *self.snapshot.problems {
            next.problems = Arc::new(problems);
        }
        next.uncommitted = self.count_uncommitted(&next);
        self.snapshot = Arc::new(next);
        Ok(())
    }

    /// The two files of a key as they count now.
    fn files(
        &mut self,
        key: &Key,
        moved: &Moved,
        readings: &Readings,
    ) -> Result<[Option<File>; 2], StoreError> {
        let mut files = [None, None];
        for (slot, name) in files.iter_mut().zip(names_of(key)) {
            let edit = self.edits.get(&name).filter(|_| self.options.serve_uncommitted);
            if let Some(edit) = edit {
                *slot = edit.content.clone().map(|content| File { name, content, uncommitted: true });
                continue;
            }
            let content = match self.committed(moved, &name) {
                None => continue,
                Some(TreeEntry::Special(what)) => Content::Special(what),
                Some(TreeEntry::File(blob)) => match self.read_one(key, &name, blob, readings)? {
                    Ok(good) => Content::Good(good),
                    Err(fault) => Content::Broken(fault),
                },
            };
            *slot = Some(File { name, content, uncommitted: false });
        }
        Ok(files)
    }

    fn rebuild_key(
        &mut self,
        key: &Key,
        moved: &Moved,
        readings: &Readings,
        traces: &HashMap<String, Trace>,
        work: &mut Rebuild<'_>,
    ) -> Result<(), StoreError> {
        let [yaml, yml] = self.files(key, moved, readings)?;
        let main = yaml.as_ref().or(yml.as_ref());
        let last_good = match main {
            Some(File { content: Content::Broken(_) | Content::Special(_), uncommitted, .. }) => {
                self.last_good(key, *uncommitted, moved, readings, traces)?
            }
            Some(File { content: Content::Good(_), .. }) | None => None,
        };
        let resolved = resolve(key, yaml, yml, || last_good);
        for name in names_of(key) {
            work.problems.remove(&self.path(&name));
        }
        let problems = self.problems(key, &resolved, traces);
        for problem in &problems {
            work.problems.insert(problem.path.clone(), Arc::clone(problem));
        }
        let entry = resolved.served.map(|(file, good)| {
            let entry = Entry {
                collection: good.collection,
                file: file.into(),
                blob: good.blob,
                uncommitted: resolved.uncommitted,
                problem: problems.first().cloned(),
                stale: resolved.stale,
                answer: OnceLock::new(),
            };
            work.ready
                .get(key.as_str())
                .filter(|ready| ready.is_same(&entry))
                .cloned()
                .unwrap_or_else(|| Arc::new(entry))
        });
        self.note_aside(key, entry.as_deref(), moved);
        self.place(key, entry, work)
    }

    /// Keeps in mind the committed files that the entry alone does not tell of.
    fn note_aside(&mut self, key: &Key, entry: Option<&Entry>, moved: &Moved) {
        for name in names_of(key) {
            let committed = self.committed(moved, &name);
            let plain = entry.is_some_and(|entry| {
                *entry.file == *name
                    && !entry.uncommitted
                    && !entry.stale
                    && committed == Some(TreeEntry::File(entry.blob))
            });
            match committed.filter(|_| !plain) {
                Some(committed) => self.aside.insert(name, committed),
                None => self.aside.remove(&name),
            };
        }
    }

    /// Puts the entry into the snapshot, unless another key that differs in letter case only is
    /// there and was there first.
    fn place(
        &mut self,
        key: &Key,
        entry: Option<Arc<Entry>>,
        work: &mut Rebuild<'_>,
    ) -> Result<(), StoreError> {
        let Some(entry) = entry else {
            if work.next.get(key.as_str()).is_some() {
                work.next.remove(key.as_str());
            }
            let folded = key.folded();
            let others = work.problems.values().filter_map(|problem| problem.collection.as_ref());
            let freed: BTreeSet<Key> =
                others.filter(|other| *other != key && other.folded() == folded).cloned().collect();
            work.queue.extend(freed);
            return Ok(());
        };
        let Some(other) = work.next.catalog().in_other_case(key).cloned() else {
            work.next.insert(entry);
            return Ok(());
        };
        let stays = match work.next.get(other.as_str()).cloned() {
            Some(there) => self.was_first(&there, &entry, work.next.revision)?,
            None => false,
        };
        let (winner, loser) = if stays { (other, key.clone()) } else { (key.clone(), other) };
        let (kept, lost) = if winner == *key {
            let lost = work.next.get(loser.as_str()).cloned();
            work.next.remove(loser.as_str());
            (Some(entry), lost)
        } else {
            work.next.remove(key.as_str());
            (None, Some(entry))
        };
        if let Some(lost) = lost {
            let file = lost.file.to_string();
            if !lost.uncommitted && !lost.stale {
                self.aside.insert(file.clone(), TreeEntry::File(lost.blob));
            }
            let fault = Fault {
                line: 1,
                column: 1,
                message: format!(
                    "`{loser}` differs from `{winner}` in letter case only; some disks can't hold both, so only `{winner}` is served"
                ),
            };
            let problem = self.problem(
                &loser,
                &Wrong { name: file, fault, uncommitted: lost.uncommitted },
                Serving::Nothing,
                None,
            );
            work.problems.insert(problem.path.clone(), problem);
        }
        if let Some(kept) = kept {
            work.next.insert(kept);
        }
        Ok(())
    }

    /// Whether `one` has more right to a name than `two`, which differs in letter case only: the
    /// committed one, then the one that the history has for longer, then the first in byte order.
    fn was_first(&mut self, one: &Entry, two: &Entry, head: Option<Revision>) -> Result<bool, StoreError> {
        if one.uncommitted != two.uncommitted {
            return Ok(two.uncommitted);
        }
        let in_byte_order = one.collection.key() < two.collection.key();
        let Some(head) = head.filter(|_| !one.uncommitted) else { return Ok(in_byte_order) };
        let names = [&one.file, &two.file].map(|file| file.to_string());
        let traces = trace(&mut self.journal, head, BTreeSet::from(names.clone()))?;
        let [one, two] = names.map(|name| traces.get(&name).map(|trace| trace.age));
        Ok(if one == two { in_byte_order } else { one > two })
    }

    fn rebuild_bad_key(
        &mut self,
        name: &str,
        why: &str,
        moved: &Moved,
        work: &mut Rebuild<'_>,
        head: Option<Revision>,
    ) -> Result<(), StoreError> {
        let committed = self.committed(moved, name);
        match committed {
            Some(committed) => self.aside.insert(name.to_owned(), committed),
            None => self.aside.remove(name),
        };
        let edit = self.edits.get(name).filter(|_| self.options.serve_uncommitted);
        let stands = edit.map_or(committed.is_some(), |edit| edit.saved != Saved::Gone);
        let uncommitted = edit.is_some();
        let path = self.path(name);
        if !stands {
            work.problems.remove(&path);
            return Ok(());
        }
        let traces = match head {
            Some(head) if !uncommitted => trace(&mut self.journal, head, BTreeSet::from([name.to_owned()]))?,
            _ => HashMap::new(),
        };
        let fault = Fault { line: 1, column: 1, message: why.to_owned() };
        let wrong = Wrong { name: name.to_owned(), fault, uncommitted };
        let problem = Problem {
            collection: None,
            ..Problem::clone(&self.problem_at(None, &wrong, Serving::Nothing, traces.get(name)))
        };
        work.problems.insert(path, Arc::new(problem));
        Ok(())
    }

    /// Looks up in the history, in one walk, where every broken committed file comes from.
    fn trace_broken(
        &mut self,
        work: &Rebuild<'_>,
        moved: &Moved,
        readings: &Readings,
        head: Option<Revision>,
    ) -> Result<HashMap<String, Trace>, StoreError> {
        let Some(head) = head else { return Ok(HashMap::new()) };
        let mut broken = BTreeSet::new();
        for key in &work.queue {
            let names = names_of(key);
            let committed: Vec<_> =
                names.iter().filter_map(|name| Some((name, self.committed(moved, name)?))).collect();
            let doubled = committed.len() > 1;
            for (name, entry) in committed {
                let bad = match entry {
                    TreeEntry::Special(_) => true,
                    TreeEntry::File(blob) => self.read_one(key, name, blob, readings)?.is_err(),
                };
                if bad || doubled {
                    broken.extend(names.iter().cloned());
                }
            }
        }
        if broken.is_empty() {
            return Ok(HashMap::new());
        }
        trace(&mut self.journal, head, broken)
    }

    /// The version to serve in place of a broken file: an edit that was being served, else the
    /// head's file below a broken edit, else the newest valid version in the history.
    fn last_good(
        &mut self,
        key: &Key,
        edit_is_broken: bool,
        moved: &Moved,
        readings: &Readings,
        traces: &HashMap<String, Trace>,
    ) -> Result<Option<LastGood>, StoreError> {
        if let Some(entry) = self.snapshot.get(key.as_str()).filter(|entry| entry.uncommitted) {
            let good = Good { blob: entry.blob, collection: Arc::clone(&entry.collection) };
            return Ok(Some(LastGood { name: entry.file.to_string(), good, uncommitted: true }));
        }
        for name in names_of(key) {
            if edit_is_broken
                && let Some(TreeEntry::File(blob)) = self.committed(moved, &name)
                && let Ok(good) = self.read_one(key, &name, blob, readings)?
            {
                return Ok(Some(LastGood { name, good, uncommitted: false }));
            }
        }
        for name in names_of(key) {
            for blob in traces.get(&name).into_iter().flat_map(|trace| trace.older.clone()) {
                if let Ok(good) = self.read_one(key, &name, blob, &Readings::new())? {
                    return Ok(Some(LastGood { name, good, uncommitted: false }));
                }
            }
        }
        Ok(None)
    }

    fn problems(&self, key: &Key, resolved: &Resolved, traces: &HashMap<String, Trace>) -> Vec<Arc<Problem>> {
        let serving = if resolved.served.is_some() { Serving::LastGood } else { Serving::Nothing };
        resolved
            .wrong
            .iter()
            .map(|wrong| self.problem(key, wrong, serving, traces.get(&wrong.name)))
            .collect()
    }

    fn problem(&self, key: &Key, wrong: &Wrong, serving: Serving, trace: Option<&Trace>) -> Arc<Problem> {
        self.problem_at(Some(key), wrong, serving, trace)
    }

    /// A problem keeps the time and the commit that it was first told with.
    fn problem_at(
        &self,
        key: Option<&Key>,
        wrong: &Wrong,
        serving: Serving,
        trace: Option<&Trace>,
    ) -> Arc<Problem> {
        let path = self.path(&wrong.name);
        let known = self.snapshot.problems.get(&path).filter(|known| {
            known.message == wrong.fault.message
                && (known.line, known.column) == (wrong.fault.line, wrong.fault.column)
                && (wrong.uncommitted == known.committed.is_none())
        });
        let brought = trace.filter(|_| !wrong.uncommitted);
        let (since, committed) = match (brought, known) {
            (Some(trace), _) => (trace.at, Some((trace.revision, trace.author.clone()))),
            (None, Some(known)) => (known.since, known.committed.clone()),
            (None, None) => ((self.options.clock)(), None::<(Revision, Actor)>),
        };
        let Fault { line, column, message } = wrong.fault.clone();
        Arc::new(Problem { path, line, column, message, collection: key.cloned(), serving, since, committed })
    }

    /// Tells the operator of each problem once, when it comes and when it goes.
    fn tell(&self, problems: &BTreeMap<String, Arc<Problem>>) {
        let known = &self.snapshot.problems;
        for (path, problem) in problems {
            if known.get(path).is_none_or(|old| old.to_string() != problem.to_string()) {
                let revision = problem.committed.as_ref().map(|(revision, _)| revision.to_string());
                let (line, column, serving) = (problem.line, problem.column, problem.serving.as_str());
                tracing::warn!(path, line, column, serving, revision, "{problem}");
            }
        }
        for path in known.keys().filter(|path| !problems.contains_key(*path)) {
            tracing::info!(path, "the problem of {path} is solved");
        }
    }

    /// How many hand edits are served that are not committed, deleted files included.
    fn count_uncommitted(&self, next: &Snapshot) -> usize {
        if !self.options.serve_uncommitted {
            return 0;
        }
        self.edits
            .iter()
            .filter(|(name, edit)| match file_name(name) {
                FileName::Collection { key, .. } => {
                    edit.saved == Saved::Gone
                        || next.get(key.as_str()).is_some_and(|it| it.uncommitted && *it.file == ***name)
                }
                FileName::BadKey(_) | FileName::Other => false,
            })
            .count()
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.options.folder)
    }
}

/// How long to wait before looking again at a work tree that git is in the middle of changing.
const BUSY_LOOK_WAIT: Duration = Duration::from_millis(20);

/// A snapshot under construction.
struct Rebuild<'a> {
    next: Snapshot,
    problems: BTreeMap<String, Arc<Problem>>,
    queue: VecDeque<Key>,
    /// Entries that somebody has made already and that may be shared.
    ready: &'a Catalog<Arc<Entry>>,
}

/// The two names that the file of a key can have, the preferred one first.
pub(super) fn names_of(key: &Key) -> [String; 2] {
    [format!("{key}.yaml"), format!("{key}.yml")]
}

fn read_good(key: &Key, blob: BlobId, bytes: &[u8]) -> Result<Good, Fault> {
    format::read(key, bytes).map(|collection| Good { blob, collection: Arc::new(collection) })
}

fn read_saved(name: &str, saved: &Saved) -> (Option<Content>, Vec<u8>) {
    match saved {
        Saved::Gone => (None, Vec::new()),
        Saved::Special(what) => (Some(Content::Special(what)), Vec::new()),
        Saved::File { blob, bytes } => {
            let content = match file_name(name) {
                FileName::Collection { key, .. } => match read_good(&key, *blob, bytes) {
                    Ok(good) => Content::Good(good),
                    Err(fault) => Content::Broken(fault),
                },
                FileName::BadKey(why) => Content::Broken(not_a_file(&why)),
                FileName::Other => return (None, Vec::new()),
            };
            (Some(content), bytes.clone())
        }
    }
}
