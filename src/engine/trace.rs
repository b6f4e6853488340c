//! Where a file comes from: the commit that brought its present content, and what it was before.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::{BlobId, Journal, StoreError, TreeEntry};

/// The past of one file.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    /// The commit that brought the present content.
    pub(super) revision: Revision,
    /// Its author.
    pub(super) author: Actor,
    /// When it was committed.
    pub(super) at: DateTime<Utc>,
    /// What the file was before, newest first, back to where it was created. What stood under the
    /// name before it was deleted is not its past: nobody serves what somebody took away.
    pub(super) older: Vec<BlobId>,
    /// How many commits above the file's creation the head is: the larger, the older the file.
    pub(super) age: usize,
}

/// Walks the history once for all of these files, until each has been created.
pub(super) fn trace<J: Journal>(
    journal: &mut J,
    head: Revision,
    mut open: BTreeSet<String>,
) -> Result<HashMap<String, Trace>, StoreError> {
    let mut traces: HashMap<String, Trace> = HashMap::new();
    let mut age = 0;
    journal.walk(head, &mut |commit, changes| {
        age += 1;
        for change in changes {
            if !open.contains(&change.name) {
                continue;
            }
            let trace = traces.entry(change.name.clone()).or_insert_with(|| Trace {
                revision: commit.revision,
                author: commit.author.clone(),
                at: commit.at,
                older: Vec::new(),
                age,
            });
            trace.age = age;
            match change.before {
                Some(TreeEntry::File(blob)) => trace.older.push(blob),
                Some(TreeEntry::Special(_)) => {}
                None => {
                    open.remove(&change.name);
                }
            }
        }
        !open.is_empty()
    })?;
    Ok(traces)
}
