//! Differences between two revisions.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::domain::{Key, Revision, changes, file_name};
use crate::engine::history::event::{Action, Effect};
use crate::engine::history::{HistoryError, MissingContent, View};
use crate::engine::projection::Entry;
use crate::engine::unified::{header, quoted, unified};
use crate::store::{StoreError, TreeEntry};

/// Replaces a content that can't be read; because it is not text, none of it is shown.
const UNREADABLE: &[u8] = b"\0";

/// The difference of one collection between two revisions.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionDifference {
    pub key: Key,
    /// Whether it was created, updated or deleted.
    pub action: Action,
    /// The attributes that differ, none when only comments or order do; or why they are unknown.
    pub effect: Effect,
}

impl View {
    /// Returns the differences between two revisions in what was served then (see [`as_of`](Self::as_of)), for the
    /// wanted collections, by key. Either revision may be the older one.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read, and when a file of a wanted collection was never fetched.
    pub fn difference(
        &self,
        from: Revision,
        to: Revision,
        wanted: &dyn Fn(&Key) -> bool,
    ) -> Result<Vec<CollectionDifference>, HistoryError> {
        let (old, new) = (self.as_of(from)?, self.as_of(to)?);
        old.check_fetched(wanted)?;
        new.check_fetched(wanted)?;
        let keys: BTreeSet<&Key> = old.keys().chain(new.keys()).filter(|key| wanted(key)).collect();
        let blob = |file: Result<&Entry, &MissingContent>| {
            file.map_or_else(|lost| lost.version.entry.blob(), |entry| Some(entry.blob))
        };
        let mut found = Vec::new();
        for key in keys {
            let (before, after) = (old.get(key), new.get(key));
            let action = match (before, after) {
                (None, _) => Action::Created,
                (Some(_), None) => Action::Deleted,
                (Some(before), Some(after)) if blob(before) == blob(after) => continue,
                (Some(_), Some(_)) => Action::Updated,
            };
            let [before, after] =
                [before, after].map(|file| file.map(|file| file.map(|entry| &*entry.collection)).transpose());
            let effect = match (before, after) {
                (Ok(before), Ok(after)) => Effect::Changes(changes(before, after)),
                (Err(lost), _) | (_, Err(lost)) => Effect::Problem(lost.fault.clone()),
            };
            found.push(CollectionDifference { key: key.clone(), action, effect });
        }
        Ok(found)
    }

    /// Returns the difference between the files of two revisions as a unified diff for `git apply` and `patch`. It
    /// covers the files of the wanted collections, including broken ones. Names in it are paths inside the
    /// repository. Where the shortest difference is not found by `until`, the rest is shown as replaced.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn text_difference(
        &self,
        from: Option<Revision>,
        to: Option<Revision>,
        wanted: &dyn Fn(&Key) -> bool,
        until: Instant,
    ) -> Result<String, HistoryError> {
        let mut text = String::new();
        for change in self.shared.archive.changes(from, to)? {
            if file_name::key_of(&change.name).is_some_and(|key| wanted(&key)) {
                self.check_client()?;
                let path = self.shared.path(&change.name);
                text.push_str(&self.file_difference(&path, change.before, change.after, until)?);
            }
        }
        Ok(text)
    }

    /// Returns the difference of one file; for what is not a regular file, a line that `git apply` ignores.
    fn file_difference(
        &self,
        path: &str,
        before: Option<TreeEntry>,
        after: Option<TreeEntry>,
        until: Instant,
    ) -> Result<String, HistoryError> {
        let is_special = |entry| matches!(entry, Some(TreeEntry::Special(_)));
        if is_special(before) || is_special(after) {
            let what = |entry: Option<TreeEntry>| match entry {
                None => "nothing".to_owned(),
                Some(TreeEntry::File(_)) => "a file".to_owned(),
                Some(TreeEntry::Special(what)) => what.to_string(),
            };
            let path = quoted(path);
            return Ok(format!("Special file {path}: {} before, {} after\n", what(before), what(after)));
        }
        let content = |entry: Option<TreeEntry>| match entry.and_then(TreeEntry::blob) {
            None => Ok(None),
            Some(blob) => match self.shared.archive.content(blob) {
                Err(StoreError::Damaged { .. }) => Ok(Some(UNREADABLE.to_vec())),
                content => content.map(Some),
            },
        };
        let (before, after) = (content(before)?, content(after)?);
        Ok(header(path, before.is_none(), after.is_none())
            + &unified(path, before.as_deref(), after.as_deref(), until))
    }
}
