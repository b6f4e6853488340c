//! Reading back from a commit what was answered when it was made.

use std::collections::HashMap;
use std::sync::Arc;

use super::handle::{Outcome, Submission};
use super::mirror::{Mirror, names_of};
use super::projection::Entry;
use crate::domain::{Catalog, Collection, Event, Key, Revision, decide};
use crate::format::{self, layout};
use crate::store::{BlobId, FileChange, Journal, StoreError, TreeEntry};

/// What became of each change of a submission that led to this commit; `None` when the branch does
/// not reach the commit any more.
pub(super) fn outcomes<J: Journal>(
    mirror: &mut Mirror<J>,
    revision: Revision,
    submission: &Submission,
) -> Result<Option<Vec<Outcome>>, StoreError> {
    let Some(head) = mirror.snapshot().revision else { return Ok(None) };
    if !mirror.journal.descends(head, revision)? {
        return Ok(None);
    }
    let mut changed = Vec::new();
    mirror.journal.walk(revision, &mut |_, changes| {
        changed = changes.to_vec();
        false
    })?;
    let before = before(mirror, revision, &changed, submission)?;
    let after = after(mirror, &changed)?;
    Ok(replayed(submission, before, &after))
}

/// The collections that the submission is about, as they were before the commit.
fn before<J: Journal>(
    mirror: &mut Mirror<J>,
    revision: Revision,
    changed: &[FileChange],
    submission: &Submission,
) -> Result<Catalog<Arc<Entry>>, StoreError> {
    let mut catalog = Catalog::default();
    let mut all: Option<Vec<FileChange>> = None;
    for wish in &submission.changes {
        let key = wish.command.key();
        let names = names_of(key);
        let mut found: Vec<(String, Option<TreeEntry>)> = changed
            .iter()
            .filter(|change| names.contains(&change.name))
            .map(|change| (change.name.clone(), change.before))
            .collect();
        if found.is_empty() {
            // The commit left the collection as it was, so it is in the tree of the commit.
            if all.is_none() {
                all = Some(mirror.journal.changes(None, Some(revision))?);
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

/// The collections that the commit wrote.
fn after<J: Journal>(
    mirror: &mut Mirror<J>,
    changed: &[FileChange],
) -> Result<HashMap<Key, Arc<Entry>>, StoreError> {
    let mut after = HashMap::new();
    for change in changed {
        if let (Some(TreeEntry::File(blob)), layout::FileName::Collection { key, .. }) =
            (change.after, layout::file_name(&change.name))
            && let Some(entry) = read(mirror, &key, &change.name, blob)?
        {
            after.insert(key, entry);
        }
    }
    Ok(after)
}

fn read<J: Journal>(
    mirror: &mut Mirror<J>,
    key: &Key,
    name: &str,
    blob: BlobId,
) -> Result<Option<Arc<Entry>>, StoreError> {
    let bytes = mirror.content(blob)?;
    let collection = format::read(key, &bytes).ok();
    Ok(collection.map(|collection| entry(Arc::new(collection), name, blob)))
}

fn entry(collection: Arc<Collection>, file: &str, blob: BlobId) -> Arc<Entry> {
    Arc::new(Entry::of_file(collection, file, blob))
}

/// Decides the submission once more from where it started. The last change of a collection is
/// what the commit holds; those before it leave no bytes behind.
fn replayed(
    submission: &Submission,
    mut catalog: Catalog<Arc<Entry>>,
    after: &HashMap<Key, Arc<Entry>>,
) -> Option<Vec<Outcome>> {
    let last: HashMap<&Key, usize> =
        submission.changes.iter().enumerate().map(|(index, wish)| (wish.command.key(), index)).collect();
    let mut outcomes = Vec::with_capacity(submission.changes.len());
    for (index, wish) in submission.changes.iter().enumerate() {
        let key = wish.command.key();
        let made = |collection: Arc<Collection>| match after.get(key) {
            Some(entry) if last[key] == index => Arc::clone(entry),
            written => {
                let file = written.map_or_else(|| layout::new_file_name(key), |entry| entry.file());
                let blob = BlobId::of(&format::write(&collection));
                entry(collection, &file, blob)
            }
        };
        outcomes.push(match decide(&catalog, &wish.command) {
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
            // A file that never was valid was deleted.
            Err(_) if !after.contains_key(key) => Outcome::Deleted,
            Err(_) => return None,
        });
    }
    Some(outcomes)
}
