//! Conflicts that merges of the service have left: both sides had changed the same thing, and one version stays.
//!
//! A merge names its conflicts in its message, so that every instance knows them, including new ones. Each is a
//! problem until the attribute or the file is written again. A conflict of two types is a problem until the
//! collection is written, and a conflict of two keys that differ in letter case only until the remaining one is.

use std::sync::Arc;

use crate::domain::file_name::{key_of, names_of};
use crate::domain::{Collection, Key, Revision, Value};
use crate::engine::mirror::Mirror;
use crate::engine::projection::problem::MergeConflict;
use crate::format;
use crate::format::message::{self, Conflict};
use crate::store::{BlobId, Commit, StoreError, TreeEntry};
use crate::telemetry::error_chain;

/// The attribute that contains the kind.
const TYPE: &str = "type";

/// Maximum number of commits that are searched for conflicts at start.
const CONFLICT_COMMITS_MAX: usize = 10_000;

/// The conflicts that merges have left.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    open: Vec<Open>,
    /// The head up to which commits have been searched.
    until: Option<Revision>,
}

#[derive(Debug)]
struct Open {
    shown: MergeConflict,
    was: MergedState,
}

/// The state that the merge left.
#[derive(Debug, PartialEq)]
enum MergedState {
    Value(Option<Value>),
    File(Option<BlobId>),
}

impl MergedState {
    fn value(collection: Option<&Collection>, attribute: &str) -> Self {
        Self::Value(collection.and_then(|it| it.by_name(attribute)).cloned())
    }
}

impl Mirror {
    /// Looks for conflicts in the commits since the last look. Errors are only logged: nothing waits for the result.
    pub(crate) fn check_conflicts(&mut self) {
        let Some(head) = self.snapshot.revision.filter(|head| self.conflicts.until != Some(*head)) else {
            return;
        };
        let searched = self.find_conflicts(head);
        if let Err(error) = &searched {
            tracing::warn!(error = %error_chain(error), "what merges have left could not be searched");
        }
        // What could not be read may be readable at the next look; damaged objects stay damaged.
        if let Ok(()) | Err(StoreError::Damaged { .. }) = searched {
            self.conflicts.until = Some(head);
        }
        self.publish_conflicts();
    }

    /// Moves on to a commit of the writer, which is not a merge and may settle conflicts.
    pub(crate) fn check_own_commit(&mut self, from: Option<Revision>, to: Revision) {
        if self.conflicts.until == from {
            self.conflicts.until = Some(to);
            from.into_iter().for_each(|from| self.settle_written(from, to));
            self.settle_conflicts();
            self.publish_conflicts();
        }
    }

    fn find_conflicts(&mut self, head: Revision) -> Result<(), StoreError> {
        if !self.journal.has_merges() {
            return Ok(());
        }
        let known = match self.conflicts.until {
            Some(until) if self.journal.commits().descends(head, until)? => Some(until),
            Some(_) | None => None,
        };
        let found = match known {
            Some(until) => {
                self.settle_written(until, head);
                let new = self.journal.commits().commits_beyond(head, until)?;
                self.with_conflicts_among(&new)?
            }
            None => {
                let found = self.with_conflicts(head)?;
                self.conflicts.open.clear();
                found
            }
        };
        for merge in found.into_iter().rev() {
            for conflict in message::conflicts(&merge.message) {
                let was = match self.open_state(merge.revision, head, &conflict) {
                    Ok(Some(was)) => was,
                    // A damaged object hides no conflict of another.
                    Ok(None) | Err(StoreError::Damaged { .. }) => continue,
                    Err(error) => return Err(error),
                };
                self.conflicts.open.retain(|open| open.shown.conflict != conflict);
                let shown = MergeConflict {
                    message: sentence(&conflict, &merge),
                    conflict,
                    since: merge.at,
                    revision: merge.revision,
                };
                self.conflicts.open.push(Open { shown, was });
            }
        }
        self.settle_conflicts();
        Ok(())
    }

    /// The commits among `revisions` whose message names conflicts.
    fn with_conflicts_among(&mut self, revisions: &[Revision]) -> Result<Vec<Commit>, StoreError> {
        let mut found = Vec::new();
        for revision in revisions {
            let commit = self.journal.commits().intact_commit(*revision)?;
            found.extend(commit.filter(|commit| !message::conflicts(&commit.message).is_empty()));
        }
        Ok(found)
    }

    /// Returns the commits of the branch that name conflicts, including those that merges bring.
    fn with_conflicts(&mut self, head: Revision) -> Result<Vec<Commit>, StoreError> {
        let (mut left, mut merges) = (CONFLICT_COMMITS_MAX, Vec::new());
        self.journal.commits().log(head, &mut |commit| {
            left -= 1;
            if message::is_merge(&commit.message) {
                merges.push(commit.clone());
            }
            left > 0
        })?;
        let mut found = Vec::new();
        for merge in merges {
            let side = match merge.parents[..] {
                [first, joined] => self.journal.commits().commits_beyond(joined, first)?,
                _ => Vec::new(),
            };
            found.push(merge);
            found.extend(self.with_conflicts_among(&side)?);
        }
        Ok(found)
    }

    /// Returns what a merge has left of a conflict; `None` if that has been written since.
    fn open_state(
        &mut self,
        merge: Revision,
        head: Revision,
        conflict: &Conflict,
    ) -> Result<Option<MergedState>, StoreError> {
        let was = self.merged_state(merge, conflict)?;
        let is_open = !self.is_written_since(&[merge], head, conflict, &was)?;
        Ok(is_open.then_some(was))
    }

    fn merged_state(&mut self, revision: Revision, conflict: &Conflict) -> Result<MergedState, StoreError> {
        let (key, attribute) = match conflict {
            Conflict::File(path) => return Ok(MergedState::File(self.file_at(revision, path)?)),
            Conflict::Attribute { key, attribute } => (key, attribute),
        };
        match self.file_of(revision, key)? {
            Some(blob) => self.state_in(key, blob, attribute),
            None => Ok(MergedState::Value(None)),
        }
    }

    /// Returns the file at a path. If there is none because a key in other letter case is in its way, returns the
    /// file of that key.
    fn file_at(&mut self, revision: Revision, path: &str) -> Result<Option<BlobId>, StoreError> {
        if let Some(blob) = self.journal.commits().object_at(revision, path)? {
            return Ok(Some(blob));
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        match key_of(name).and_then(|key| self.snapshot.catalog().case_variant(&key).cloned()) {
            Some(other) => self.file_of(revision, &other),
            None => Ok(None),
        }
    }

    fn file_of(&mut self, revision: Revision, key: &Key) -> Result<Option<BlobId>, StoreError> {
        for name in names_of(key) {
            let path = self.path(&name);
            if let Some(blob) = self.journal.commits().object_at(revision, &path)? {
                return Ok(Some(blob));
            }
        }
        Ok(None)
    }

    /// Returns the state of an attribute in a file; for the type, which can't be written by itself, the whole file.
    fn state_in(&mut self, key: &Key, blob: BlobId, attribute: &str) -> Result<MergedState, StoreError> {
        if attribute == TYPE {
            return Ok(MergedState::File(Some(blob)));
        }
        let bytes = self.content(blob)?;
        let collection = format::read(key, &bytes).ok();
        Ok(MergedState::value(collection.as_ref(), attribute))
    }

    /// Returns whether it was written between one of these commits and the head, even if it was changed back.
    fn is_written_since(
        &mut self,
        since: &[Revision],
        head: Revision,
        conflict: &Conflict,
        was: &MergedState,
    ) -> Result<bool, StoreError> {
        let Conflict::Attribute { key, attribute } = conflict else { return Ok(false) };
        let (names, mut blobs) = (names_of(key), Vec::new());
        let (mut left, mut is_met) = (CONFLICT_COMMITS_MAX, false);
        self.journal.commits().walk(head, &mut |commit, changes| {
            is_met = since.contains(&commit.revision);
            let of_key = changes.iter().filter(|change| !is_met && names.contains(&change.name));
            blobs.extend(of_key.map(|change| change.after));
            left -= 1;
            !is_met && left > 0
        })?;
        // A commit that came in through a merge is not on this line, and states on the line may be older than it.
        for entry in blobs.into_iter().filter(|_| is_met) {
            let state = match entry {
                Some(TreeEntry::File(blob)) => self.state_in(key, blob, attribute)?,
                Some(TreeEntry::Special(_)) => continue,
                None => return Ok(true),
            };
            if state != *was {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Settles the conflicts that were written since a commit up to which everything was searched.
    fn settle_written(&mut self, until: Revision, head: Revision) {
        let mut open = std::mem::take(&mut self.conflicts.open);
        open.retain(|Open { shown, was }| {
            let since = [until, shown.revision];
            !self.is_written_since(&since, head, &shown.conflict, was).is_ok_and(|is_written| is_written)
        });
        self.conflicts.open = open;
    }

    /// Settles the conflicts that were written again.
    fn settle_conflicts(&mut self) {
        let mut open = std::mem::take(&mut self.conflicts.open);
        open.retain(|open| !self.is_written(open));
        self.conflicts.open = open;
    }

    fn is_written(&mut self, open: &Open) -> bool {
        match &open.shown.conflict {
            Conflict::Attribute { key, attribute } => match self.snapshot.get(key.as_str()) {
                // An edit that is only saved may be reverted.
                Some(entry) if entry.uncommitted || entry.stale => false,
                Some(entry) if attribute == TYPE => MergedState::File(Some(entry.blob)) != open.was,
                Some(entry) => MergedState::value(Some(&entry.collection), attribute) != open.was,
                None => true,
            },
            Conflict::File(path) => {
                let Some(head) = self.snapshot.revision else { return false };
                let now = self.file_at(head, path);
                now.is_ok_and(|now| MergedState::File(now) != open.was)
            }
        }
    }

    fn publish_conflicts(&mut self) {
        let mut shown: Vec<MergeConflict> =
            self.conflicts.open.iter().map(|open| open.shown.clone()).collect();
        shown.sort_by(|one, two| one.conflict.cmp(&two.conflict));
        if *self.snapshot.conflicts == shown {
            return;
        }
        for new in shown.iter().filter(|new| !self.snapshot.conflicts.contains(new)) {
            tracing::warn!(conflict = %new.conflict, merge = %new.revision, "{}", new.message);
        }
        let mut next = self.snapshot.next();
        next.conflicts = Arc::new(shown);
        self.snapshot = Arc::new(next);
    }
}

fn sentence(conflict: &Conflict, merge: &Commit) -> String {
    let other = merge.parents.get(1).map_or_else(String::new, |other| format!(" ({other})"));
    match conflict {
        Conflict::Attribute { key, attribute } if attribute == TYPE => format!(
            "`{key}` was given two types at two places at once; one stays, the other is in the history{other}. \
             Write the collection to settle this."
        ),
        Conflict::Attribute { key, attribute } => format!(
            "`{attribute}` of `{key}` was changed at two places at once; one value stays, the other is in the history{other}. \
             Write another value to settle this, and then the one that stays if that is right."
        ),
        Conflict::File(path) => format!(
            "`{path}` was changed at two places at once; one version stays, the other is in the history{other}. \
             Write the one that stays, or the file, to settle this."
        ),
    }
}
