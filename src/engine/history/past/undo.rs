//! Plans the undo of one event, or of everything since a revision.
//!
//! The writer executes a plan as a [`Command::Restore`](crate::domain::Command), and refuses it if the collection is
//! not what the plan saw (see [`UndoRequest`](crate::engine::undo::UndoRequest)).

use std::sync::Arc;

use uuid::Uuid;

use crate::domain::{
    Change, Collection, Command, ExactFile, Key, Kind, Restore, Reversal, Revision, Value, Violation, changes,
};
use crate::engine::history::event::{Action, Effect, PastFault};
use crate::engine::history::index::row::Version;
use crate::engine::history::{HistoryError, MissingContent, PastReading, View, collection_of};
use crate::engine::projection::{Entry, Snapshot};
use crate::engine::submission::error::SubmitError;
use crate::store::{BlobId, SHALLOW, StoreError};

/// Why an event is not undone, or a collection not restored.
#[derive(Debug, thiserror::Error)]
pub enum UndoRefusal {
    /// A later change touched the same attribute, even if its value came back.
    #[error(
        "`{attribute}` was changed again later: the event made it {}, now it is {}",
        shown(.event_value), shown(.present)
    )]
    ChangedSince {
        attribute: String,
        /// The value that the event gave it; `None` if the event removed it.
        event_value: Option<Value>,
        /// The value now; `None` if there is none.
        present: Option<Value>,
        /// The later event; `None` for an uncommitted hand edit.
        by: Option<Uuid>,
    },
    /// The event changed only comments, order or what could not be read, and the file has changed since.
    #[error("the event changed no attribute, and the file was changed again later")]
    FileChangedSince,
    /// The file can't be read, so single attributes can't be changed in it.
    #[error("{0}")]
    Broken(PastFault),
    /// The old values are not valid in the collection as it is now.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Unfit(Vec<Violation>),
    /// The query of the history failed.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The writer refuses.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl From<StoreError> for UndoRefusal {
    fn from(error: StoreError) -> Self {
        Self::History(error.into())
    }
}

fn shown(value: &Option<Value>) -> String {
    value.as_ref().map_or_else(|| "absent".to_owned(), ToString::to_string)
}

impl View {
    /// Plans the command that undoes an event; `snapshot` is what is served at the view's head.
    ///
    /// # Errors
    ///
    /// Returns what prevents it.
    pub fn plan_undo(&self, id: Uuid, snapshot: &Snapshot) -> Result<Command, UndoRefusal> {
        let event = self.index.find_event(id).ok_or(HistoryError::UnknownEvent(id))?;
        let row = *self.index.event(event);
        let key = self.index.key(row.key);
        let served = snapshot.get(key.as_str());
        let join = self.index.forks().join(row.commit);
        let before = match (join, row.action) {
            // One of the two sides had deleted it.
            (Some(_), Action::Created) => None,
            _ => self.good_version_before(event)?,
        };
        let after = self.good_version_after(event)?;
        let updating_join = join.filter(|_| row.action == Action::Updated);
        let touched = match updating_join {
            Some(join) => self.decided(event, join)?.changes_to_undo(),
            None => changes(collection_of(&before), collection_of(&after)),
        };
        // The file before a merge lacks the changes of the other side.
        let is_one_of_two = updating_join.is_some() && !touched.is_empty();
        self.refuse_lost(event)?;
        self.refuse_touched(event, &touched, served.map(AsRef::as_ref))?;
        let present = self.index.present(key);
        // Any hand edit since counts, also an unreadable or deleted file.
        let untouched = present == row.after && !snapshot.hand_edits.keys.contains(key);
        if touched.is_empty() && !untouched {
            return Err(UndoRefusal::FileChangedSince);
        }
        let restore = |to: Option<Arc<Collection>>, exact| Restore {
            key: key.clone(),
            expected: served.map(|entry| Arc::clone(&entry.collection)),
            to,
            exact_file: exact,
            reverses: Reversal::Event(id.to_string()),
        };
        let is_whole_file = untouched && !is_one_of_two;
        let restore = match (before, served) {
            (None, _) => restore(None, None),
            (Some(_), Some(entry)) if !is_whole_file => {
                self.refuse_broken(key, present, entry)?;
                restore(Some(Arc::new(reverted(&entry.collection, &touched)?)), None)
            }
            (Some(before), _) => {
                if let Some(problem) = snapshot.problem_of(key.as_str()).filter(|_| !is_whole_file) {
                    return Err(SubmitError::Broken { index: 0, problem: problem.clone() }.into());
                }
                let exact = self.exact(before.version.name(key), before.good.blob, present)?;
                restore(Some(before.good.collection), Some(exact))
            }
        };
        Ok(Command::Restore(Box::new(restore)))
    }

    /// Plans the command that restores a collection; `snapshot` is what is served at the view's head.
    ///
    /// # Errors
    ///
    /// Returns what prevents it, [`HistoryError::UnknownKey`] if there was no such collection.
    pub fn plan_restore(
        &self,
        key: &Key,
        revision: Revision,
        snapshot: &Snapshot,
    ) -> Result<Command, UndoRefusal> {
        let past = self.entry_as_of(revision, key)?;
        let served = snapshot.get(key.as_str());
        let present = self.index.present(key);
        let file = match (served, present) {
            (Some(entry), _) => entry.file(),
            (None, Some(version)) => version.name(key),
            (None, None) => past.file(),
        };
        let exact = self.exact(file, past.blob, present)?;
        let restore = Restore {
            key: key.clone(),
            expected: served.map(|entry| Arc::clone(&entry.collection)),
            to: Some(Arc::clone(&past.collection)),
            exact_file: Some(exact),
            reverses: Reversal::Since(revision),
        };
        Ok(Command::Restore(Box::new(restore)))
    }

    fn exact(&self, file: String, blob: BlobId, present: Option<Version>) -> Result<ExactFile, HistoryError> {
        let expected_blob = present.and_then(|it| it.entry.blob()).map(|blob| *blob.as_bytes());
        Ok(ExactFile { file, bytes: self.shared.archive.content(blob)?.into(), expected_blob })
    }

    /// Refuses if a later change touched what the event touched; for a creation, if it touched any attribute.
    fn refuse_touched(
        &self,
        event: u32,
        touched: &[Change],
        served: Option<&Entry>,
    ) -> Result<(), UndoRefusal> {
        let row = self.index.event(event);
        let created = touched.iter().any(|it| it.attribute == "type" && it.from.is_none());
        let value_of = |name: &str| {
            let all = changes(None, served.map(|entry| &*entry.collection));
            all.into_iter().find(|it| it.attribute == name).and_then(|it| it.to)
        };
        let refuse = |later: Vec<Change>, by: Option<Uuid>| {
            let hit = later.into_iter().find_map(|change| {
                let same = touched.iter().find(|it| it.attribute == change.attribute);
                let event_value = same.and_then(|it| it.to.clone());
                (same.is_some() || created).then_some((change.attribute, event_value))
            });
            hit.map_or(Ok(()), |(attribute, event_value)| {
                let present = value_of(&attribute);
                Err(UndoRefusal::ChangedSince { attribute, event_value, present, by })
            })
        };
        let later = self.index.of_key(row.key).from(0).filter(|later| *later > event);
        for later in later {
            self.refuse_lost(later)?;
            if let (Effect::Changes(changes), _) = self.effect(later)? {
                refuse(changes, Some(self.index.event(later).id))?;
            }
        }
        let committed = self.good_version_at(row.key, u32::MAX)?;
        refuse(changes(collection_of(&committed), served.map(|entry| &*entry.collection)), None)
    }

    /// Refuses if the repository lacks the version before or after the event: what it changed is then unknown.
    fn refuse_lost(&self, event: u32) -> Result<(), HistoryError> {
        let row = self.index.event(event);
        if self.is_cut_off(self.index.commit(row.commit).revision)? {
            return Err(HistoryError::NotFetched(SHALLOW.to_owned()));
        }
        if let Some(version) = row.after
            && let PastReading::Lost(lost) = self.shared.read(self.index.key(row.key), version)?
        {
            return Err(HistoryError::Lost(lost.fault));
        }
        self.known_good_version_before(event)?.map(drop).map_err(|lost| HistoryError::Lost(lost.fault))
    }

    fn refuse_broken(&self, key: &Key, present: Option<Version>, entry: &Entry) -> Result<(), UndoRefusal> {
        let Some(version) = present.filter(|_| entry.stale) else { return Ok(()) };
        match self.shared.read(key, version)? {
            PastReading::Broken(fault) | PastReading::Lost(MissingContent { fault, .. }) => {
                Err(UndoRefusal::Broken(fault))
            }
            // The hand edit on top of it is broken; the writer knows where.
            PastReading::Good(_) => Ok(()),
        }
    }
}

/// Returns a collection with the old values of some attributes.
fn reverted(present: &Collection, touched: &[Change]) -> Result<Collection, UndoRefusal> {
    let kind = touched.iter().find(|it| it.attribute == "type").and_then(|it| it.from.as_ref());
    let kind = kind.and_then(Value::as_text).and_then(Kind::parse).unwrap_or(present.kind());
    let kept = present.attributes().iter().map(|(name, value)| (name.as_str().to_owned(), value.clone()));
    let kept = kept.filter(|(name, _)| !touched.iter().any(|it| it.attribute == *name));
    let back = touched.iter().filter(|it| it.attribute != "type");
    let back = back.filter_map(|it| Some((it.attribute.clone(), it.from.clone()?)));
    Collection::from_file(present.key().clone(), kind, kept.chain(back).collect::<Vec<_>>())
        .map_err(UndoRefusal::Unfit)
}
