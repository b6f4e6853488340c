//! Where a file comes from: the commit that brought its present content, and what its collection
//! was before.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::{BlobId, Commit, FileChange, Journal, StoreError, TreeEntry};

/// Where the present content of a file comes from.
#[derive(Debug, Clone)]
pub(crate) struct Provenance {
    /// The commit that brought the present content.
    pub(crate) revision: Revision,
    /// Its author.
    pub(crate) author: Actor,
    /// When it was committed.
    pub(crate) at: DateTime<Utc>,
}

/// The files that stand for one collection, the one that counts first, as the head has them.
#[derive(Debug)]
pub(crate) struct Files(Vec<(String, Option<TreeEntry>)>);

/// What the walk found.
#[derive(Debug, Default)]
pub(crate) struct Provenances {
    files: HashMap<String, Provenance>,
    older: HashMap<String, Vec<(String, BlobId)>>,
    ages: HashMap<String, usize>,
}

impl Provenances {
    /// Where a file comes from.
    pub(crate) fn get(&self, name: &str) -> Option<&Provenance> {
        self.files.get(name)
    }

    /// What the collection of a file was before, newest first, back to where it came into being:
    /// the file that counted, and its content. What stood there before the collection was deleted
    /// is not its past: nobody serves what somebody took away.
    pub(crate) fn older(&self, first_name: &str) -> &[(String, BlobId)] {
        self.older.get(first_name).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many commits the head is above the one that made the collection of a file: the more, the longer
    /// it has been there.
    pub(crate) fn age(&self, first_name: &str) -> Option<usize> {
        self.ages.get(first_name).copied()
    }

    fn note(&mut self, commit: &Commit, change: &FileChange) {
        self.files.entry(change.name.clone()).or_insert_with(|| Provenance {
            revision: commit.revision,
            author: commit.author.clone(),
            at: commit.at,
        });
    }
}

impl Files {
    /// The files of one collection with what the head has; at least one.
    pub(crate) fn new(files: impl IntoIterator<Item = (String, Option<TreeEntry>)>) -> Self {
        Self(files.into_iter().collect())
    }

    /// Goes back before this change; false if the change is of another file.
    fn go_back(&mut self, change: &FileChange) -> bool {
        let found = self.0.iter_mut().find(|(name, _)| *name == change.name);
        found.map(|(_, entry)| *entry = change.before).is_some()
    }

    fn first(&self) -> Option<(&str, TreeEntry)> {
        self.0.iter().find_map(|(name, entry)| Some((name.as_str(), (*entry)?)))
    }
}

/// Walks the history once for all of these collections, back to where each came into being.
pub(crate) fn provenance<J: Journal>(
    journal: &mut J,
    head: Revision,
    mut open: Vec<Files>,
) -> Result<Provenances, StoreError> {
    let mut provenances = Provenances::default();
    let mut age = 0;
    open.retain(|files| files.first().is_some());
    if open.is_empty() {
        return Ok(provenances);
    }
    journal.commits().walk(head, &mut |commit, changes| {
        age += 1;
        open.retain_mut(|files| {
            let mut is_touched = false;
            for change in changes {
                if files.go_back(change) {
                    provenances.note(commit, change);
                    is_touched = true;
                }
            }
            if let (true, Some((name, TreeEntry::File(blob)))) = (is_touched, files.first()) {
                let older = provenances.older.entry(files.0[0].0.clone()).or_default();
                older.push((name.to_owned(), blob));
            }
            let goes_on = files.first().is_some();
            if !goes_on {
                provenances.ages.insert(files.0[0].0.clone(), age);
            }
            goes_on
        });
        !open.is_empty()
    })?;
    Ok(provenances)
}
