//! From waiting submissions to commits that can be made: pure.
//!
//! What has to be read from the disk is read before (`input`), so that the same plan can be made again after a
//! lost race. Nothing here appends, waits or answers: that is done in `writer`.

mod by_hand;
pub(crate) mod fold;
pub(crate) mod input;
pub(crate) mod merge;
pub(crate) mod preview;
pub(crate) mod three_way;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use imbl::{HashMap as SharedMap, HashSet as SharedSet};
use uuid::Uuid;

use crate::domain::file_name;
use crate::domain::{
    Actor, Catalog, Collection, Command, Event, Exact, Key, Refusal, Restore, Reverses, decide,
};
use crate::engine::handle::{Condition, ConditionalCommand, Outcome, Preview, Submission, SubmitError};
use crate::engine::idempotency::{Fingerprint, Scope};
pub(crate) use crate::engine::plan::by_hand::{Rival, RivalFile};
use crate::engine::plan::fold::Commit;
use crate::engine::plan::merge::Merged;
use crate::engine::projection::{Entry, Snapshot};
use crate::format::{self, message};
use crate::store::{BlobId, Draft};

/// Older versions of collections by the tags that name them.
pub(crate) type Bases = HashMap<(Key, String), Arc<Collection>>;

/// What a plan stands on: everything that it needs from the disk, read before.
pub(crate) struct Input<'a> {
    /// What is served now.
    pub(crate) snapshot: &'a Snapshot,
    /// The older versions that updates may be merged over, by the tag that names them.
    pub(crate) bases: Bases,
    /// What the head has under the names that dry runs are about.
    pub(crate) heads: HashMap<String, Vec<u8>>,
    /// The ids of what the head has under the names of the keys concerned.
    pub(crate) blobs: HashMap<String, BlobId>,
    /// The contents that updates build on.
    pub(crate) sources: HashMap<BlobId, Vec<u8>>,
    /// The hand edits that have to be committed before a key can be written.
    pub(crate) by_hand: BTreeMap<Key, HandEdit>,
    /// The keys that differ from those concerned in letter case only, by the key concerned.
    pub(crate) rivals: HashMap<Key, Vec<Rival>>,
    /// Every file that stands for a key at the head or in the work tree, if not just the served one.
    pub(crate) files_of: HashMap<Key, Vec<String>>,
    /// Keys with a symbolic link, a folder or the like in the place of their file: those are a
    /// person's to remove.
    pub(crate) special: HashSet<Key>,
    /// The folder, as a path inside the repository.
    pub(crate) folder: &'a str,
    /// The author of hand edits.
    pub(crate) person: Actor,
    /// When the commits are made.
    pub(crate) now: DateTime<Utc>,
}

/// The saved files of one key that nobody committed.
#[derive(Debug, Clone)]
pub(crate) struct HandEdit {
    /// Name to content; `None` where the file was deleted.
    pub(crate) files: Vec<(String, Option<Vec<u8>>)>,
    /// What the edit means, unless it is broken or changes only comments.
    pub(crate) event: Option<Event>,
    /// Whether the service may commit it.
    pub(crate) committable: bool,
}

/// What is to be done and said about a batch.
pub(crate) struct Plan {
    /// The commits to make, in order.
    pub(crate) drafts: Vec<Draft>,
    /// The answer to each submission, in order, good once the drafts are durable.
    pub(crate) answers: Vec<Result<Granted, SubmitError>>,
    /// The catalog that the drafts lead to.
    pub(crate) catalog: Catalog<Arc<Entry>>,
    /// Edits that had to rewrite more than what changed, with the reason.
    pub(crate) fallbacks: Vec<(Key, String)>,
}

/// What a submission gets.
#[derive(Clone)]
pub(crate) struct Granted {
    /// What becomes of each change, in order.
    pub(crate) outcomes: Vec<Outcome>,
    /// The commits that are not made, of a dry run.
    pub(crate) preview: Option<Vec<Preview>>,
    /// Which of the drafts is its commit, if it needs one.
    pub(crate) draft: Option<usize>,
}

/// Decides each submission against the state that its predecessors would leave.
///
/// A refusal in a batch can rest on a neighbour's commit that is not on disk yet, so nobody is
/// answered from here: the writer answers the whole batch after the barrier, or plans again when
/// the barrier fails.
pub(crate) fn plan<'s>(
    input: &Input<'_>,
    submissions: impl IntoIterator<Item = &'s Submission>,
    new_id: &mut dyn FnMut() -> Uuid,
) -> Plan {
    let mut state = PlanState::new(input);
    let mut plan =
        Plan { drafts: Vec::new(), answers: Vec::new(), catalog: Catalog::default(), fallbacks: Vec::new() };
    let mut asked: HashMap<Scope, (Fingerprint, usize)> = HashMap::new();
    for (index, submission) in submissions.into_iter().enumerate() {
        let once = submission.once.as_ref().filter(|_| !submission.dry_run);
        let once = once.map(|once| (Scope::of(&submission.author, once), once.fingerprint));
        if let Some((scope, fingerprint)) = once
            && let Some((earlier, index)) = asked.get(&scope)
        {
            let same = *earlier == fingerprint;
            plan.answers.push(if same { plan.answers[*index].clone() } else { Err(SubmitError::KeyReused) });
            continue;
        }
        let mut attempt = state.clone();
        let answer = attempt.carry_out(input, submission, new_id).map(|outcomes| {
            if submission.dry_run {
                let preview = preview::of(input, &plan.drafts, &attempt.drafts);
                return Granted { outcomes, preview: Some(preview), draft: None };
            }
            if attempt.drafts.is_empty() {
                let outcomes = outcomes.into_iter().map(|outcome| state.as_it_stands(outcome)).collect();
                return Granted { outcomes, preview: None, draft: None };
            }
            plan.drafts.append(&mut attempt.drafts);
            plan.fallbacks.append(&mut attempt.fallbacks);
            state = attempt;
            Granted { outcomes, preview: None, draft: Some(plan.drafts.len() - 1) }
        });
        if let (Some((scope, fingerprint)), Ok(_)) = (once, &answer) {
            asked.insert(scope, (fingerprint, index));
        }
        plan.answers.push(answer);
    }
    plan.catalog = state.catalog;
    plan
}

/// Updates of one collection by one submission.
#[derive(Clone)]
struct Update {
    /// What its file holds.
    before: Arc<Collection>,
    /// The id of that content, unless an earlier change of the batch has written it.
    source: BlobId,
    /// The last change that updates it.
    index: usize,
}

/// The state that a submission is decided against; cheap to clone, so that a refused one leaves
/// nothing behind.
#[derive(Clone)]
struct PlanState {
    catalog: Catalog<Arc<Entry>>,
    /// The contents that drafts of this batch gave to files.
    written: SharedMap<String, Arc<Vec<u8>>>,
    /// What the drafts so far make of files.
    drafted: SharedMap<String, Option<BlobId>>,
    /// Keys whose hand edits and broken files are dealt with.
    settled: SharedSet<Key>,
    /// What the submission at hand adds.
    drafts: Vec<Draft>,
    fallbacks: Vec<(Key, String)>,
    /// What the submission at hand updates: however often it does, each file is edited once.
    updated: BTreeMap<Key, Update>,
}

impl PlanState {
    fn new(input: &Input<'_>) -> Self {
        Self {
            catalog: input.snapshot.catalog().clone(),
            written: SharedMap::new(),
            drafted: SharedMap::new(),
            settled: SharedSet::new(),
            drafts: Vec::new(),
            fallbacks: Vec::new(),
            updated: BTreeMap::new(),
        }
    }

    fn carry_out(
        &mut self,
        input: &Input<'_>,
        submission: &Submission,
        new_id: &mut dyn FnMut() -> Uuid,
    ) -> Result<Vec<Outcome>, SubmitError> {
        let mut commit = Commit::default();
        let mut outcomes = Vec::with_capacity(submission.changes.len());
        for (index, change) in submission.changes.iter().enumerate() {
            outcomes.push(self.grant(input, index, change, &mut commit, new_id)?);
        }
        for (key, update) in std::mem::take(&mut self.updated) {
            let refused = |refusal| SubmitError::Refused { index: update.index, refusal };
            let [standing, edited] = self.edit(input, &key, &update, &mut commit).map_err(refused)?;
            outcomes.iter_mut().for_each(|outcome| outcome.replace(&standing, &edited));
        }
        commit.fold(|name| match self.drafted.get(name) {
            Some(drafted) => *drafted,
            None => input.blobs.get(name).copied(),
        });
        if commit.files.is_empty() {
            // A hand edit is committed for the sake of what is written over it.
            self.drafts.clear();
        } else {
            let events: Vec<_> = commit.events.iter().map(|event| (new_id(), event)).collect();
            let about = message::About {
                reason: submission.reason.as_deref(),
                request_id: submission.request_id.as_deref(),
                idempotency: submission.once.as_ref().map(|once| (&*once.key, once.fingerprint.to_string())),
                by_command: submission.by_command,
                unread: &commit.unread,
                reverses: submission.changes.iter().find_map(|change| reverses(&change.command)),
                ..message::About::default()
            };
            let message = message::compose(&events, &about);
            let mut files = Vec::with_capacity(commit.files.len());
            for (name, made) in commit.files {
                let (blob, bytes) = made.unzip();
                self.drafted.insert(name.clone(), blob);
                files.push((name, bytes));
            }
            self.drafts.push(Draft { message, files, author: submission.author.clone(), at: input.now });
        }
        Ok(outcomes)
    }

    /// Carries out one change on the state.
    fn grant(
        &mut self,
        input: &Input<'_>,
        index: usize,
        change: &ConditionalCommand,
        commit: &mut Commit,
        new_id: &mut dyn FnMut() -> Uuid,
    ) -> Result<Outcome, SubmitError> {
        let key = change.command.key();
        let current = self.catalog.get(key.as_str()).cloned();
        let merged = self.over_older(input, index, change, current.as_ref())?;
        let change = merged.as_ref().unwrap_or(change);
        self.refuse_broken(input, index, &change.command)?;
        if current.is_none() && matches!(change.command, Command::Delete { .. }) && self.is_unread(input, key)
        {
            self.commit_by_hand(input, index, key, new_id)?;
            self.delete(input, key, commit);
            self.settled.insert(key.clone());
            commit.unread.push(key.clone());
            return Ok(Outcome::Deleted);
        }
        let restore = restore(&change.command);
        if restore.is_some_and(|restore| !is_as_seen(restore, current.as_deref())) {
            return Err(SubmitError::Condition { index, current });
        }
        let refused = |refusal| SubmitError::Refused { index, refusal };
        let event = decide(&self.catalog, &change.command).map_err(refused)?;
        let exact = restore.and_then(|restore| restore.exact.as_ref());
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
            self.refuse_beside_rival(input, key, commit).map_err(refused)?;
        }
        self.commit_by_hand(input, index, key, new_id)?;
        let outcome = self.write(input, (index, &event), exact, commit).map_err(refused)?;
        self.settled.insert(key.clone());
        commit.events.push(event);
        Ok(outcome)
    }

    /// Checks the condition; of an update that builds on an older version, and may, what is left of
    /// it for the present one.
    fn over_older(
        &self,
        input: &Input<'_>,
        index: usize,
        change: &ConditionalCommand,
        current: Option<&Arc<Entry>>,
    ) -> Result<Option<ConditionalCommand>, SubmitError> {
        if change.condition.holds(current.map(AsRef::as_ref)) {
            return Ok(None);
        }
        let tags = change.condition.mergeable(current.map(AsRef::as_ref)).unwrap_or_default();
        let base = tags.iter().find_map(|tag| input.bases.get(&(change.command.key().clone(), tag.clone())));
        let (Some(base), Some(current), Command::Update { key, kind, patch }) =
            (base.cloned(), current, &change.command)
        else {
            return Err(SubmitError::Condition { index, current: current.cloned() });
        };
        if base.kind() != current.collection.kind() {
            return Err(SubmitError::Condition { index, current: Some(Arc::clone(current)) });
        }
        let merged = merge::merged(&base, patch, &current.collection)
            .map_err(|violations| SubmitError::Refused { index, refusal: Refusal::Invalid(violations) })?;
        match merged {
            Merged::Clean(patch) => {
                let command = Command::Update { key: key.clone(), kind: *kind, patch };
                Ok(Some(ConditionalCommand { command, condition: Condition::default() }))
            }
            Merged::Clashing(clashes) => {
                Err(SubmitError::Clash { index, current: Arc::clone(current), clashes })
            }
        }
    }

    /// Whether there is a file for this key that is not served and never was.
    fn is_unread(&self, input: &Input<'_>, key: &Key) -> bool {
        !self.settled.contains(key) && input.snapshot.problem_of(key.as_str()).is_some()
    }

    /// A broken file gives an update nothing to build on, and a creation nothing to replace.
    fn refuse_broken(&self, input: &Input<'_>, index: usize, command: &Command) -> Result<(), SubmitError> {
        let key = command.key();
        let replaces = match command {
            Command::Delete { .. } => true,
            Command::Restore(restore) => restore.exact.is_some() || restore.to.is_none(),
            Command::Create(_) | Command::Update { .. } => false,
        };
        let is_special = input.special.contains(key);
        if self.settled.contains(key) || (replaces && !is_special) {
            return Ok(());
        }
        let problem = match self.catalog.get(key.as_str()) {
            Some(entry) if entry.stale || is_special => entry.problem.as_ref(),
            Some(_) => None,
            None => input.snapshot.problem_of(key.as_str()),
        };
        match problem {
            Some(problem) => Err(SubmitError::Broken { index, problem: Arc::clone(problem) }),
            None => Ok(()),
        }
    }

    /// Puts what an event does to the files into the commit, and its collection on the state.
    fn write(
        &mut self,
        input: &Input<'_>,
        (index, event): (usize, &Event),
        exact: Option<&Exact>,
        commit: &mut Commit,
    ) -> Result<Outcome, Refusal> {
        let (file, bytes, collection) = match (event, exact) {
            (Event::Created(after) | Event::Updated { after, .. }, Some(exact)) => {
                self.updated.remove(after.key());
                self.clear_for(input, after.key(), exact, commit);
                (exact.file.clone(), exact.bytes.to_vec(), after)
            }
            (Event::Created(after), None) => (file_name::of_new(after.key()), format::write(after), after),
            (Event::Updated { before, after }, None) => return Ok(self.update(index, before, after)),
            (Event::Deleted(before), _) => {
                self.updated.remove(before.key());
                self.delete(input, before.key(), commit);
                return Ok(Outcome::Deleted);
            }
        };
        let entry = self.put(collection, file, bytes, commit)?;
        Ok(match event {
            Event::Created(_) => Outcome::Created(entry),
            Event::Updated { .. } | Event::Deleted(_) => Outcome::Updated(entry),
        })
    }

    /// Puts the file of a collection into the commit.
    fn put(
        &mut self,
        collection: &Arc<Collection>,
        file: String,
        bytes: Vec<u8>,
        commit: &mut Commit,
    ) -> Result<Arc<Entry>, Refusal> {
        if bytes.len() > format::FILE_BYTES_MAX {
            let key = collection.key().clone();
            return Err(Refusal::TooLarge { key, bytes: bytes.len(), bytes_max: format::FILE_BYTES_MAX });
        }
        let blob = BlobId::of(&bytes);
        let entry = Arc::new(Entry::of_file(Arc::clone(collection), &file, blob));
        self.catalog.insert(Arc::clone(&entry));
        self.written.insert(file.clone(), Arc::new(bytes.clone()));
        commit.files.insert(file, Some((blob, bytes)));
        Ok(entry)
    }

    /// Takes an update over, whose file is edited when all changes of the submission are known. Until then its
    /// entry has an id that no content has, so that no condition names it.
    fn update(&mut self, index: usize, before: &Arc<Collection>, after: &Arc<Collection>) -> Outcome {
        let key = after.key();
        let standing = self.catalog.get(key.as_str()).expect("an updated collection is in the catalog");
        let (file, source) = (standing.file(), standing.blob);
        let first = || Update { before: Arc::clone(before), source, index };
        self.updated.entry(key.clone()).or_insert_with(first).index = index;
        let entry = Arc::new(Entry::of_file(Arc::clone(after), &file, BlobId::new([0; 20])));
        self.catalog.insert(Arc::clone(&entry));
        Outcome::Updated(entry)
    }

    /// Edits the file of an updated collection; answers the entry that stood for it, and the one that does now.
    fn edit(
        &mut self,
        input: &Input<'_>,
        key: &Key,
        update: &Update,
        commit: &mut Commit,
    ) -> Result<[Arc<Entry>; 2], Refusal> {
        let standing = self.catalog.get(key.as_str()).expect("an updated collection is in the catalog");
        let (standing, file) = (Arc::clone(standing), standing.file());
        let old = match (self.written.get(&file), input.sources.get(&update.source)) {
            (Some(bytes), _) => bytes.as_slice(),
            (None, Some(bytes)) => bytes.as_slice(),
            (None, None) => unreachable!("BUG: the source of {file} was not read before planning"),
        };
        let edited = format::edit(old, &update.before, &standing.collection);
        if let Some(why) = edited.fallback {
            self.fallbacks.push((key.clone(), why));
        }
        let entry = self.put(&standing.collection, file, edited.bytes, commit)?;
        Ok([standing, entry])
    }

    /// Removes what would stand in the way of a file that comes back: the file that it replaces
    /// under the other name, and a `.yaml` one that would win over it.
    fn clear_for(&mut self, input: &Input<'_>, key: &Key, exact: &Exact, commit: &mut Commit) {
        let served = self.catalog.get(key.as_str()).filter(|entry| !entry.stale);
        if served.is_some_and(|entry| entry.is_in(&exact.file)) {
            return;
        }
        self.delete(input, key, commit);
        commit.files.remove(&exact.file);
    }

    /// What became of a change of a submission that comes to nothing: the entry that stands here.
    fn as_it_stands(&self, outcome: Outcome) -> Outcome {
        let standing = |entry: Arc<Entry>| match self.catalog.get(entry.collection.key().as_str()) {
            Some(standing) if standing.blob == entry.blob => Arc::clone(standing),
            Some(_) | None => entry,
        };
        match outcome {
            Outcome::Created(entry) => Outcome::Created(standing(entry)),
            Outcome::Updated(entry) => Outcome::Updated(standing(entry)),
            Outcome::Unchanged(entry) => Outcome::Unchanged(standing(entry)),
            Outcome::Deleted => Outcome::Deleted,
        }
    }

    /// Removes every file that stands for the key; those that are gone already drop out of the commit.
    fn delete(&mut self, input: &Input<'_>, key: &Key, commit: &mut Commit) {
        let served = self.catalog.remove(key.as_str()).map(|entry| entry.file());
        let spare = input.files_of.get(key).into_iter().flatten().cloned();
        for name in served.into_iter().chain(spare) {
            commit.files.insert(name, None);
        }
    }
}

fn restore(command: &Command) -> Option<&Restore> {
    match command {
        Command::Restore(restore) => Some(restore),
        Command::Create(_) | Command::Update { .. } | Command::Delete { .. } => None,
    }
}

fn reverses(command: &Command) -> Option<&Reverses> {
    restore(command).map(|restore| &restore.reverses)
}

/// Whether a collection is what a plan of the past saw. Of a file that is broken or only saved,
/// the values are all there is to compare.
fn is_as_seen(restore: &Restore, current: Option<&Entry>) -> bool {
    let committed = current.filter(|entry| !entry.uncommitted && !entry.stale);
    let over = restore.exact.as_ref().and_then(|exact| exact.over);
    restore.seen.as_deref() == current.map(|entry| &*entry.collection)
        && over.zip(committed).is_none_or(|(over, entry)| over == *entry.blob.as_bytes())
}

/// Whether a file that is to come back stands there already.
fn is_so(exact: &Exact, current: &Entry) -> bool {
    !current.stale && current.is_in(&exact.file) && current.blob == BlobId::of(&exact.bytes)
}
