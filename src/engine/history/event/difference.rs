//! What differs between two revisions.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::domain::{Key, Revision, changes, file_name};
use crate::engine::history::event::{Action, Effect};
use crate::engine::history::past::as_of::PastFile;
use crate::engine::history::{HistoryError, View};
use crate::engine::unified::{header, quoted, unified};
use crate::store::{StoreError, TreeEntry};

/// Stands for a content that can't be read: it is no text, so nothing of it is shown.
const UNREADABLE: &[u8] = b"\0";

/// What differs in one collection between two revisions.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionDifference {
    /// The collection.
    pub key: Key,
    /// Whether it is new, changed or gone.
    pub action: Action,
    /// The attributes that differ, none when only comments or order do; or why nobody can tell.
    pub effect: Effect,
}

impl View {
    /// What differs between two revisions, by key, of the collections that are wanted: what was served then (see
    /// [`as_of`](Self::as_of)). Works both ways.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read, and when one of their files was never fetched.
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
        let mut found = Vec::new();
        for key in keys {
            let (before, after) = (old.get(key), new.get(key));
            let action = match (before, after) {
                (None, _) => Action::Created,
                (Some(_), None) => Action::Deleted,
                (Some(before), Some(after)) if before.blob() == after.blob() => continue,
                (Some(_), Some(_)) => Action::Updated,
            };
            let [before, after] = [before, after].map(|file| file.map(PastFile::collection).transpose());
            let effect = match (before, after) {
                (Ok(before), Ok(after)) => Effect::Changes(changes(before, after)),
                (Err(lost), _) | (_, Err(lost)) => Effect::Problem(lost.fault.clone()),
            };
            found.push(CollectionDifference { key: key.clone(), action, effect });
        }
        Ok(found)
    }

    /// The difference between the files of two revisions as unified text, which `git apply` and
    /// `patch` take: broken files too, of the collections that are wanted. Names in it are paths
    /// inside the repository. Where the shortest differences are not found `until` then, the rest is
    /// shown as replaced.
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
        for change in self.shared.archive.differences(from, to)? {
            if file_name::key_of(&change.name).is_some_and(|key| wanted(&key)) {
                self.check_asker()?;
                let path = self.shared.path(&change.name);
                text.push_str(&self.file_difference(&path, change.before, change.after, until)?);
            }
        }
        Ok(text)
    }

    /// The difference of one file; of what is none, a line that `git apply` passes over.
    fn file_difference(
        &self,
        path: &str,
        before: Option<TreeEntry>,
        after: Option<TreeEntry>,
        until: Instant,
    ) -> Result<String, HistoryError> {
        let content = |entry: Option<TreeEntry>| match entry {
            None => Ok(Some(None)),
            Some(TreeEntry::File(blob)) => match self.shared.archive.content(blob) {
                Err(StoreError::Damaged { .. }) => Ok(Some(Some(UNREADABLE.to_vec()))),
                content => content.map(|bytes| Some(Some(bytes))),
            },
            Some(TreeEntry::Special(_)) => Ok(None),
        };
        if let (Some(before), Some(after)) = (content(before)?, content(after)?) {
            return Ok(header(path, before.is_none(), after.is_none())
                + &unified(path, before.as_deref(), after.as_deref(), until));
        }
        let what = |entry: Option<TreeEntry>| match entry {
            None => "nothing".to_owned(),
            Some(TreeEntry::File(_)) => "a file".to_owned(),
            Some(TreeEntry::Special(what)) => what.to_string(),
        };
        let path = quoted(path);
        Ok(format!("Special file {path}: {} before, {} after\n", what(before), what(after)))
    }
}
