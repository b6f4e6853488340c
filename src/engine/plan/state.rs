//! The state that submissions are decided against, and how each decision changes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{HashMap as SharedMap, HashSet as SharedSet};

use crate::domain::file_name::{self, names_of};
use crate::domain::{
    Catalog, Collection, Command, Event, ExactFile, Key, Refusal, Restore, Reversal, decide,
};
use crate::engine::layers::{KeyFile, ParsedVersion, resolve};
use crate::engine::plan::edits::EditCache;
use crate::engine::plan::fold::PendingCommit;
use crate::engine::plan::merge::{self, Merged};
use crate::engine::plan::{Halt, PlanInput};
use crate::engine::projection::problem::Problem;
use crate::engine::projection::{Entry, tag_content_id};
use crate::engine::submission::answer::Outcome;
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::{Condition, ConditionalCommand, Submission};
use crate::format::{self, message};
use crate::store::{BlobId, Draft};

/// The updates of one collection by one submission.
#[derive(Clone)]
struct Update {
    /// The collection in its file.
    before: Arc<Collection>,
    /// The blob id and the content of the file.
    source: (BlobId, Arc<Vec<u8>>),
    /// The index of the last change that updates it.
    index: usize,
}

/// The state that submissions are decided against. It is cheap to clone, so that a refused one leaves no trace.
#[derive(Clone)]
pub(super) struct PlanState<'i> {
    pub(super) input: &'i PlanInput<'i>,
    pub(super) catalog: Catalog<Arc<Entry>>,
    /// The contents that drafts of this batch have written, by file name.
    pub(super) written: SharedMap<String, Arc<Vec<u8>>>,
    /// The blob ids that the drafts so far leave, by file name.
    pub(super) drafted: SharedMap<String, Option<BlobId>>,
    /// Keys whose hand edits and broken files have been handled.
    pub(super) settled: SharedSet<Key>,
    /// The drafts of the current submission.
    pub(super) drafts: Vec<Draft>,
    pub(super) fallbacks: Vec<(Key, String)>,
    /// The updates of the current submission: each file is edited once, however often it is updated.
    updated: BTreeMap<Key, Update>,
    /// The commit of the current submission.
    pub(super) commit: PendingCommit,
}

impl<'i> PlanState<'i> {
    pub(super) fn new(input: &'i PlanInput<'i>) -> Self {
        Self {
            input,
            catalog: input.snapshot.catalog().clone(),
            written: SharedMap::new(),
            drafted: SharedMap::new(),
            settled: SharedSet::new(),
            drafts: Vec::new(),
            fallbacks: Vec::new(),
            updated: BTreeMap::new(),
            commit: PendingCommit::default(),
        }
    }

    pub(super) fn carry_out(
        &mut self,
        submission: &Submission,
        edits: &mut EditCache,
    ) -> Result<Vec<Outcome>, Halt> {
        let before = self.catalog.clone();
        let changes = submission.changes.iter().enumerate();
        let granted: Result<Vec<_>, _> =
            changes.map(|(index, change)| self.grant(&before, index, change)).collect();
        // Checked on what has been read so far: a submission that is too large is refused before more is read.
        self.refuse_too_much()?;
        let mut outcomes = granted?;
        for (key, update) in std::mem::take(&mut self.updated) {
            let [current, edited] = self.edit(&key, &update, edits)?;
            let entries = outcomes.iter_mut().filter_map(Outcome::entry_mut);
            let outdated = entries.filter(|entry| Arc::ptr_eq(entry, &current));
            outdated.for_each(|entry| *entry = Arc::clone(&edited));
        }
        let mut commit = std::mem::take(&mut self.commit);
        commit.fold(|name| match self.drafted.get(name) {
            Some(drafted) => *drafted,
            None => self.input.files.blobs.get(name).copied(),
        });
        if commit.files.is_empty() {
            // A hand edit is committed only because something is written over it.
            self.drafts.clear();
        } else {
            self.draft(submission, commit);
        }
        Ok(outcomes)
    }

    /// Adds the commit of a submission to the drafts.
    fn draft(&mut self, submission: &Submission, commit: PendingCommit) {
        let PendingCommit { files: made, events, unread } = commit;
        let events: Vec<_> = events.iter().map(|event| ((self.input.new_id)(), event)).collect();
        let unread: Vec<_> = unread.into_iter().map(|key| ((self.input.new_id)(), key)).collect();
        let idempotency_key = submission.idempotency_key.as_ref();
        let about = message::MessageDetails {
            reason: submission.reason.as_deref(),
            request_id: submission.request_id.as_deref(),
            idempotency: idempotency_key.map(|once| (&*once.key, once.fingerprint.to_string())),
            by_command: submission.by_command,
            unreadable_deletions: &unread,
            reverses: submission.changes.iter().find_map(|change| reverses(&change.command)),
            ..message::MessageDetails::default()
        };
        let message = message::compose(&events, &about);
        let mut files = Vec::with_capacity(made.len());
        for (name, made) in made {
            let (blob, bytes) = made.unzip();
            self.drafted.insert(name.clone(), blob);
            files.push((name, bytes));
        }
        self.drafts.push(Draft { message, files, author: submission.author.clone(), at: self.input.now });
    }

    /// Carries out one change on the state. The condition is about the state before the submission: no client has a
    /// tag of what the submission's own changes have made.
    fn grant(
        &mut self,
        before: &Catalog<Arc<Entry>>,
        index: usize,
        change: &ConditionalCommand,
    ) -> Result<Outcome, Halt> {
        let key = change.command.key();
        let current = self.catalog.get(key.as_str()).cloned();
        let known = before.get(key.as_str()).filter(|_| current.is_some());
        let merged = self.check_condition(index, change, known, current.as_ref())?;
        let change = merged.as_ref().unwrap_or(change);
        self.refuse_broken(index, &change.command)?;
        let restore = restore(&change.command);
        if restore.is_some_and(|restore| !is_as_seen(restore, current.as_deref()) || self.overwrites(restore))
        {
            return Err(SubmitError::ConditionFailed { index, current: known.cloned() }.into());
        }
        let deletes = deletes(&change.command);
        if current.is_none() && deletes && self.is_unread(key) {
            self.commit_by_hand(index, key)?;
            self.delete(key);
            self.settled.insert(key.clone());
            self.commit.unread.push(key.clone());
            return Ok(Outcome::Deleted);
        }
        // An uncommitted version that is served in place of a broken file is unknown to the history.
        let is_unseen_by_commits = deletes && current.as_ref().is_some_and(|it| it.stale && it.uncommitted);
        let refused = |refusal| SubmitError::Refused { index, refusal };
        let event = decide(&self.catalog, &change.command).map_err(refused)?;
        let exact = restore.and_then(|restore| restore.exact_file.as_ref());
        let event = match (event, current) {
            (Some(_), Some(current)) if exact.is_some_and(|exact| is_so(exact, &current)) => {
                return Ok(Outcome::Unchanged(current));
            }
            (Some(event), _) => event,
            (None, current) => {
                return Ok(Outcome::Unchanged(
                    current.expect("an update that changes nothing found its key"),
                ));
            }
        };
        if matches!(event, Event::Created(_)) {
            self.refuse_beside_rival(key).map_err(refused)?;
        }
        self.commit_by_hand(index, key)?;
        let outcome = self.write(index, &event, exact)?;
        self.settled.insert(key.clone());
        match is_unseen_by_commits {
            true => self.commit.unread.push(key.clone()),
            false => self.commit.events.push(event),
        }
        Ok(outcome)
    }

    /// Checks the condition; for an update of an older version that may be merged, returns what is left of it.
    fn check_condition(
        &self,
        index: usize,
        change: &ConditionalCommand,
        known: Option<&Arc<Entry>>,
        current: Option<&Arc<Entry>>,
    ) -> Result<Option<ConditionalCommand>, SubmitError> {
        if change.condition.holds(known.map(AsRef::as_ref)) {
            return Ok(None);
        }
        let tags = change.condition.mergeable(known.map(AsRef::as_ref)).unwrap_or_default();
        let of_tag = |tag: &String| (change.command.key().clone(), tag_content_id(tag).to_owned());
        let base = tags.iter().find_map(|tag| self.input.bases.get(&of_tag(tag)));
        let (Some(base), Some(known), Some(current), Command::Update { key, kind, patch }) =
            (base.cloned(), known, current, &change.command)
        else {
            return Err(SubmitError::ConditionFailed { index, current: known.cloned() });
        };
        if base.kind() != current.collection.kind() {
            return Err(SubmitError::ConditionFailed { index, current: Some(Arc::clone(known)) });
        }
        let merged = merge::merged(&base, patch, &current.collection)
            .map_err(|violations| SubmitError::Refused { index, refusal: Refusal::Invalid(violations) })?;
        match merged {
            Merged::Clean(patch) => {
                let command = Command::Update { key: key.clone(), kind: *kind, patch };
                Ok(Some(ConditionalCommand { command, condition: Condition::default() }))
            }
            Merged::Clashing(clashes) => {
                Err(SubmitError::Clash { index, current: Arc::clone(known), clashes })
            }
        }
    }

    /// Returns whether an undo that restores a file would overwrite what was saved since it was planned.
    fn overwrites(&self, restore: &Restore) -> bool {
        let is_saved = || self.input.files.by_hand.get(&restore.key).is_some_and(|edit| edit.committable);
        let is_undo = matches!(restore.reverses, Reversal::Event(_));
        is_undo && restore.exact_file.is_some() && !self.settled.contains(&restore.key) && is_saved()
    }

    /// Returns whether this key has a file that is not served and never was.
    fn is_unread(&self, key: &Key) -> bool {
        !self.settled.contains(key) && self.input.snapshot.problem_of(key.as_str()).is_some()
    }

    /// Refuses changes that a broken file prevents: an update has nothing to build on, and a creation has nothing to
    /// replace. A deletion needs nothing, but special entries are left to a person, because a folder may contain
    /// anything.
    fn refuse_broken(&self, index: usize, command: &Command) -> Result<(), SubmitError> {
        let key = command.key();
        let replaces =
            deletes(command) || restore(command).is_some_and(|restore| restore.exact_file.is_some());
        let is_special = self.input.files.special.contains(key);
        if self.settled.contains(key) || (replaces && !is_special) {
            return Ok(());
        }
        let problem = match self.catalog.get(key.as_str()) {
            Some(entry) if entry.stale || is_special => entry.problem.as_ref(),
            Some(_) => None,
            None => self.input.snapshot.problem_of(key.as_str()),
        };
        match problem.cloned() {
            Some(problem) if replaces => Err(SubmitError::NotAFile { index, problem }),
            Some(problem) => Err(SubmitError::Broken { index, problem }),
            None => Ok(()),
        }
    }

    /// Adds an event's changes of files to the commit, and updates the catalog.
    fn write(&mut self, index: usize, event: &Event, exact: Option<&ExactFile>) -> Result<Outcome, Halt> {
        let (file, bytes, collection) = match (event, exact) {
            (Event::Created(after) | Event::Updated { after, .. }, Some(exact)) => {
                self.updated.remove(after.key());
                self.clear_for(after.key(), exact);
                (exact.file.clone(), exact.bytes.to_vec(), after)
            }
            (Event::Created(after), None) => {
                (file_name::default_name(after.key()), format::write(after), after)
            }
            (Event::Updated { before, after }, None) => return self.update(index, before, after),
            (Event::Deleted(before), _) => {
                self.updated.remove(before.key());
                self.delete(before.key());
                return Ok(Outcome::Deleted);
            }
        };
        let entry = self.put(index, collection, file, bytes)?;
        Ok(match event {
            Event::Created(_) => Outcome::Created(entry),
            Event::Updated { .. } | Event::Deleted(_) => Outcome::Updated(entry),
        })
    }

    fn put(
        &mut self,
        index: usize,
        collection: &Arc<Collection>,
        file: String,
        bytes: Vec<u8>,
    ) -> Result<Arc<Entry>, SubmitError> {
        if bytes.len() > format::FILE_BYTES_MAX {
            let key = collection.key().clone();
            let refusal = Refusal::TooLarge { key, bytes: bytes.len(), bytes_max: format::FILE_BYTES_MAX };
            return Err(SubmitError::Refused { index, refusal });
        }
        let blob = BlobId::of(&bytes);
        let mut entry = Entry::of_file(Arc::clone(collection), &file, blob);
        entry.problem = self.problem(&entry, &bytes);
        let entry = Arc::new(entry);
        self.catalog.insert(Arc::clone(&entry));
        self.written.insert(file.clone(), Arc::new(bytes.clone()));
        self.commit.files.insert(file, Some((blob, bytes)));
        Ok(entry)
    }

    /// Returns the problem that a written file will have, or one beside it, so that the answer to the write contains
    /// what every later read will.
    fn problem(&self, written: &Entry, bytes: &[u8]) -> Option<Arc<Problem>> {
        let Entry { collection, blob, .. } = written;
        let key = collection.key();
        let stands_here =
            |name: &String| self.input.files.names_by_key.get(key).is_some_and(|files| files.contains(name));
        let [yaml, yml] = names_of(key).map(|name| {
            let content = if written.is_named(&name) {
                let missing_status_names = format::missing_status_names(collection, bytes);
                Ok(ParsedVersion { blob: *blob, collection: Arc::clone(collection), missing_status_names })
            } else if self.is_made(&name).unwrap_or_else(|| stands_here(&name)) {
                // It is not read, because it does not count.
                Err(Vec::new())
            } else {
                return None;
            };
            Some(KeyFile { name, content, uncommitted: false })
        });
        let resolved = resolve(key, yaml, yml, None);
        let wrong = resolved.broken.first()?;
        Some(Arc::new(Problem {
            path: self.input.path(&wrong.name),
            faults: wrong.faults.clone(),
            collection: Some(key.clone()),
            serving: resolved.serving(wrong),
            since: self.input.now,
            committed: None,
        }))
    }

    /// Registers an update. The file is edited when all changes of the submission are known; until then its entry has
    /// an id that no content has, so that no condition matches it.
    fn update(
        &mut self,
        index: usize,
        before: &Arc<Collection>,
        after: &Arc<Collection>,
    ) -> Result<Outcome, Halt> {
        let key = after.key();
        let current = self.catalog.get(key.as_str()).expect("an updated collection is in the catalog");
        let file = current.file();
        if let Some(update) = self.updated.get_mut(key) {
            update.index = index;
        } else {
            let content = self.written.get(&file).or_else(|| self.input.sources.get(current.blob));
            let source = (current.blob, Arc::clone(content.ok_or(Halt::Unfinished)?));
            self.updated.insert(key.clone(), Update { before: Arc::clone(before), source, index });
        }
        let entry = Arc::new(Entry::of_file(Arc::clone(after), &file, BlobId::new([0; 20])));
        self.catalog.insert(Arc::clone(&entry));
        Ok(Outcome::Updated(entry))
    }

    /// Refuses a submission whose updates build on files that are too large together.
    fn refuse_too_much(&self) -> Result<(), SubmitError> {
        let bytes_max = self.input.operations_bytes_max;
        let mut updates: Vec<&Update> = self.updated.values().collect();
        updates.sort_by_key(|update| update.index);
        let mut bytes = 0;
        for update in updates {
            bytes += update.source.1.len();
            if bytes > bytes_max {
                return Err(SubmitError::FilesTooLarge { index: update.index, bytes_max });
            }
        }
        Ok(())
    }

    /// Edits the file of an updated collection; returns the preliminary entry and the final one.
    fn edit(&mut self, key: &Key, update: &Update, edits: &mut EditCache) -> Result<[Arc<Entry>; 2], Halt> {
        let current = self.catalog.get(key.as_str()).expect("an updated collection is in the catalog");
        let (current, file) = (Arc::clone(current), current.file());
        let (source, old) = &update.source;
        let edited = edits.edit(*source, old, &update.before, &current.collection).ok_or(Halt::Unfinished)?;
        if let Some(why) = edited.fallback {
            self.fallbacks.push((key.clone(), why));
        }
        // Not the collection that was requested: its maps may have another order than those in the file.
        let collection = Arc::new(edited.collection);
        let entry = self.put(update.index, &collection, file, edited.bytes)?;
        Ok([current, entry])
    }

    /// Removes files that would conflict with a restored file: the one that it replaces under the other name, and a
    /// `.yaml` file that would take precedence.
    fn clear_for(&mut self, key: &Key, exact: &ExactFile) {
        let served = self.catalog.get(key.as_str()).filter(|entry| !entry.stale);
        if served.is_some_and(|entry| entry.is_named(&exact.file)) {
            return;
        }
        self.delete(key);
        self.commit.files.remove(&exact.file);
    }

    /// Replaces the entry in the outcome of a change that had no effect by the current entry.
    pub(super) fn with_current_entry(&self, mut outcome: Outcome) -> Outcome {
        if let Some(entry) = outcome.entry_mut()
            && let Some(current) = self.catalog.get(entry.collection.key().as_str())
            && current.blob == entry.blob
        {
            *entry = Arc::clone(current);
        }
        outcome
    }

    /// Removes all files of the key; the commit leaves out those that do not exist.
    fn delete(&mut self, key: &Key) {
        let served = self.catalog.remove(key.as_str()).map(|entry| entry.file());
        let spare = self.input.files.names_by_key.get(key).into_iter().flatten().cloned();
        for name in served.into_iter().chain(spare) {
            self.commit.files.insert(name, None);
        }
    }
}

fn deletes(command: &Command) -> bool {
    match command {
        Command::Delete { .. } => true,
        Command::Restore(restore) => restore.to.is_none(),
        Command::Create(_) | Command::Update { .. } => false,
    }
}

fn restore(command: &Command) -> Option<&Restore> {
    match command {
        Command::Restore(restore) => Some(restore),
        Command::Create(_) | Command::Update { .. } | Command::Delete { .. } => None,
    }
}

fn reverses(command: &Command) -> Option<&Reversal> {
    restore(command).map(|restore| &restore.reverses)
}

/// Returns whether a collection is as a plan on the history saw it. For a file that is broken or only saved, only the
/// values can be compared.
fn is_as_seen(restore: &Restore, current: Option<&Entry>) -> bool {
    let committed = current.filter(|entry| entry.is_as_committed());
    let over = restore.exact_file.as_ref().and_then(|exact| exact.expected_blob);
    restore.expected.as_deref() == current.map(|entry| &*entry.collection)
        && over.zip(committed).is_none_or(|(over, entry)| over == *entry.blob.as_bytes())
}

/// Returns whether a file that is to be restored already exists as such.
fn is_so(exact: &ExactFile, current: &Entry) -> bool {
    !current.stale && current.is_named(&exact.file) && current.blob == BlobId::of(&exact.bytes)
}
