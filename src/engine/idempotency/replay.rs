//! Reconstructs from a commit the answer that was given when it was made.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::file_name::{self, key_of, names_of};
use crate::domain::{Actor, Catalog, Collection, Command, Event, Key, Revision, decide};
use crate::engine::idempotency::{IdempotencyStore, KeyStatus, RecordedOutcome};
use crate::engine::mirror::Mirror;
use crate::engine::projection::Entry;
use crate::engine::refuse;
use crate::engine::signal::{Job, ReplayRequest};
use crate::engine::submission::Submission;
use crate::engine::submission::answer::{Outcome, SubmitAnswer};
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::idempotency_key::{IdempotencyKey, Scope};
use crate::format::{self, message};
use crate::store::{BlobId, FileChange, StoreError, TreeEntry};

/// Answers jobs whose request was granted before, and jobs that use its idempotency key for another request.
pub(crate) fn answer_known(
    mirror: &mut Mirror,
    idempotency: &IdempotencyStore,
    jobs: &mut Vec<Job>,
) -> Result<(), StoreError> {
    let answers = jobs.iter().map(|job| known_answer(mirror, idempotency, &job.submission));
    let answers: Vec<_> = answers.collect::<Result<_, _>>()?;
    for (job, answer) in std::mem::take(jobs).into_iter().zip(answers) {
        match answer {
            Some(answer) => job.answer(answer),
            None => jobs.push(job),
        }
    }
    Ok(())
}

fn known_answer(
    mirror: &mut Mirror,
    idempotency: &IdempotencyStore,
    submission: &Submission,
) -> Result<Option<Result<SubmitAnswer, SubmitError>>, StoreError> {
    let Some(idempotency_key) = submission.recorded_idempotency_key() else { return Ok(None) };
    let read = |mirror: &mut Mirror, commit: &CommitRecord| outcomes(mirror, commit, submission);
    Ok(look_up(mirror, idempotency, (&submission.author, idempotency_key), read)?.transpose())
}

/// Answers a question about the commit of an earlier request.
pub(crate) fn answer(
    mirror: &mut Mirror,
    idempotency: &IdempotencyStore,
    question: &ReplayRequest,
) -> Result<Option<SubmitAnswer>, SubmitError> {
    let ReplayRequest { author, idempotency_key, key, .. } = question;
    look_up(mirror, idempotency, (author, idempotency_key), |mirror, commit| {
        Ok(commit.outcome_of(mirror, key)?.map(|outcome| vec![outcome]))
    })
    .unwrap_or_else(|error| Err(refuse::refusal(&error)))
}

/// Looks up a request. If it made a commit, `read` reconstructs its outcomes.
fn look_up(
    mirror: &mut Mirror,
    idempotency: &IdempotencyStore,
    (author, idempotency_key): (&Actor, &IdempotencyKey),
    read: impl FnOnce(&mut Mirror, &CommitRecord) -> Result<Option<Vec<Outcome>>, StoreError>,
) -> Result<Result<Option<SubmitAnswer>, SubmitError>, StoreError> {
    let scope = Scope::of(author, idempotency_key);
    let (outcomes, revision) = match idempotency.look_up(scope, idempotency_key.fingerprint) {
        KeyStatus::New => return Ok(Ok(None)),
        KeyStatus::Other => return Ok(Err(SubmitError::KeyReused)),
        KeyStatus::Granted(RecordedOutcome::Nothing { at, outcomes }) => (outcomes, at),
        KeyStatus::Granted(RecordedOutcome::Commit(revision)) => {
            let outcomes = match CommitRecord::of(mirror, revision)? {
                Some(commit) => read(mirror, &commit)?,
                None => None,
            };
            match outcomes {
                Some(outcomes) => (outcomes, Some(revision)),
                None => {
                    idempotency.forget(scope);
                    return Ok(Ok(None));
                }
            }
        }
    };
    Ok(Ok(Some(SubmitAnswer { revision, outcomes, preview: None })))
}

/// A commit of an earlier request: its message and the files it changed.
struct CommitRecord {
    revision: Revision,
    message: String,
    changed: Vec<FileChange>,
}

impl CommitRecord {
    /// Reads a commit; `None` if the branch no longer reaches it.
    fn of(mirror: &mut Mirror, revision: Revision) -> Result<Option<Self>, StoreError> {
        let Some(head) = mirror.snapshot().revision else { return Ok(None) };
        if !mirror.journal.commits().descends(head, revision)? {
            return Ok(None);
        }
        let mut record = None;
        mirror.journal.commits().walk(revision, &mut |commit, changes| {
            record = Some(Self { revision, message: commit.message.clone(), changed: changes.to_vec() });
            false
        })?;
        Ok(record)
    }

    /// Returns the outcome of the commit for one collection, according to its message.
    fn outcome_of(&self, mirror: &mut Mirror, key: &Key) -> Result<Option<Outcome>, StoreError> {
        let events = message::parse(&self.message).events;
        let action = events.into_iter().find(|event| event.key == *key).and_then(|event| event.action);
        let entry = after(mirror, &self.changed)?.remove(key);
        Ok(match (action.as_deref(), entry) {
            (Some(message::CREATED), Some(entry)) => Some(Outcome::Created(entry)),
            (Some(message::UPDATED), Some(entry)) => Some(Outcome::Updated(entry)),
            (Some(message::DELETED), None) => Some(Outcome::Deleted),
            (_, _) => None,
        })
    }
}

/// Returns the outcome of each change of the submission that made this commit.
fn outcomes(
    mirror: &mut Mirror,
    commit: &CommitRecord,
    submission: &Submission,
) -> Result<Option<Vec<Outcome>>, StoreError> {
    // An undo or restore was planned on the state before it, and is the only change of its submission.
    if let [change] = &submission.changes[..]
        && let Command::Restore(restore) = &change.command
    {
        return Ok(commit.outcome_of(mirror, &restore.key)?.map(|outcome| vec![outcome]));
    }
    let before = before(mirror, commit, submission)?;
    let after = after(mirror, &commit.changed)?;
    Ok(replayed(submission, before, &after))
}

/// Returns the collections of the submission as they were before the commit.
fn before(
    mirror: &mut Mirror,
    CommitRecord { revision, changed, .. }: &CommitRecord,
    submission: &Submission,
) -> Result<Catalog<Arc<Entry>>, StoreError> {
    let mut catalog = Catalog::default();
    let mut all: Option<Vec<FileChange>> = None;
    for change in &submission.changes {
        let key = change.command.key();
        let names = names_of(key);
        let mut found: Vec<(String, Option<TreeEntry>)> = changed
            .iter()
            .filter(|change| names.contains(&change.name))
            .map(|change| (change.name.clone(), change.before))
            .collect();
        if found.is_empty() {
            // The commit did not change the collection, so it is in the tree of the commit.
            if all.is_none() {
                all = Some(mirror.journal.commits().changes(None, Some(*revision))?);
            }
            let files = all.iter().flatten().filter(|change| names.contains(&change.name));
            found = files.map(|change| (change.name.clone(), change.after)).collect();
        }
        for (name, entry) in found {
            if let Some(TreeEntry::File(blob)) = entry
                && catalog.get(key.as_str()).is_none()
                && let Some(entry) = read(mirror, key, &name, blob)?
            {
                catalog.insert(entry);
            }
        }
    }
    Ok(catalog)
}

/// Returns the collections that the commit wrote.
fn after(mirror: &mut Mirror, changed: &[FileChange]) -> Result<HashMap<Key, Arc<Entry>>, StoreError> {
    let mut after = HashMap::new();
    for change in changed {
        if let (Some(TreeEntry::File(blob)), Some(key)) = (change.after, key_of(&change.name))
            && let Some(entry) = read(mirror, &key, &change.name, blob)?
        {
            after.insert(key, entry);
        }
    }
    Ok(after)
}

fn read(mirror: &mut Mirror, key: &Key, name: &str, blob: BlobId) -> Result<Option<Arc<Entry>>, StoreError> {
    // If the same version is served, its entry also has the problem of its file.
    let served = mirror.snapshot().get(key.as_str());
    let is_it = |entry: &&Arc<Entry>| entry.is_as_committed() && entry.blob == blob && entry.is_named(name);
    if let Some(entry) = served.filter(is_it) {
        return Ok(Some(Arc::clone(entry)));
    }
    let bytes = mirror.content(blob)?;
    let collection = format::read(key, &bytes).ok();
    Ok(collection.map(|collection| Arc::new(Entry::of_file(Arc::new(collection), name, blob))))
}

/// Decides the submission again on the state before it. The commit contains a collection's last change only.
fn replayed(
    submission: &Submission,
    mut catalog: Catalog<Arc<Entry>>,
    after: &HashMap<Key, Arc<Entry>>,
) -> Option<Vec<Outcome>> {
    let last: HashMap<&Key, usize> =
        submission.changes.iter().enumerate().map(|(index, change)| (change.command.key(), index)).collect();
    let mut outcomes = Vec::with_capacity(submission.changes.len());
    for (index, change) in submission.changes.iter().enumerate() {
        let key = change.command.key();
        let made = |collection: Arc<Collection>| match after.get(key) {
            Some(entry) if last[key] == index => Arc::clone(entry),
            written => {
                let file = written.map_or_else(|| file_name::default_name(key), |entry| entry.file());
                let blob = BlobId::of(&format::write(&collection));
                Arc::new(Entry::of_file(collection, &file, blob))
            }
        };
        outcomes.push(match decide(&catalog, &change.command) {
            Ok(None) => Outcome::Unchanged(Arc::clone(catalog.get(key.as_str())?)),
            Ok(Some(Event::Created(collection))) => {
                let entry = made(collection);
                catalog.insert(Arc::clone(&entry));
                Outcome::Created(entry)
            }
            Ok(Some(Event::Updated { after, .. })) => {
                let entry = made(after);
                catalog.insert(Arc::clone(&entry));
                Outcome::Updated(entry)
            }
            Ok(Some(Event::Deleted(_))) => {
                catalog.remove(key.as_str());
                Outcome::Deleted
            }
            // The deleted file was never valid.
            Err(_) if !after.contains_key(key) => Outcome::Deleted,
            Err(_) => return None,
        });
    }
    Some(outcomes)
}
