//! Builds an event as it is shown from a row of the index.

use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use crate::domain::file_name::default_name;
use crate::domain::{Collection, Key, Revision, changes};
use crate::engine::history::event::{
    Effect, EventCommit, EventMessage, EventRecord, Origin, PastFault, Position, TOGETHER_MAX,
};
use crate::engine::history::index::row::{CommitRow, EventRow};
use crate::engine::history::{HistoryError, PastReading, View, collection_of};
use crate::engine::memo::Memo;
use crate::format::Fault;
use crate::format::message::{self, Message};
use crate::store::{SHALLOW, StoreError};

/// The maximum number of bytes of a subject or reason that is shown; a longer one is cut, with a note.
const REASON_BYTES_MAX: usize = 16 << 10;

/// The effect of an event, and whether it is final.
pub(crate) type EffectAndFinality = (Effect, bool);

impl View {
    /// Returns the event with this id.
    ///
    /// # Errors
    ///
    /// [`HistoryError::UnknownEvent`] when there is none with this id.
    pub fn event(&self, id: Uuid) -> Result<Arc<EventRecord>, HistoryError> {
        let event = self.index.find_event(id).ok_or(HistoryError::UnknownEvent(id))?;
        Ok(self.record(event)?)
    }

    /// Returns the collection of an event, if the event exists.
    #[must_use]
    pub fn key_of(&self, id: Uuid) -> Option<&Key> {
        let event = self.index.find_event(id)?;
        Some(self.index.key_of(event))
    }

    /// Returns the events of one commit, in the order of their keys.
    ///
    /// # Errors
    ///
    /// [`HistoryError::UnknownRevision`] for a commit that is not in the index.
    pub fn events_of(&self, revision: Revision) -> Result<Vec<Arc<EventRecord>>, HistoryError> {
        let commit = self.commit_number(revision)?;
        Ok(self.reported_events(commit).map(|event| self.record(event)).collect::<Result<_, _>>()?)
    }

    /// Returns an event as it is shown, if it is cached.
    pub(crate) fn cached_record(&self, event: u32) -> Option<Arc<EventRecord>> {
        let row = self.index.event(event);
        let revision = self.index.commit(row.commit).revision;
        self.shared.records.get(&(self.index.oldest(), revision, self.index.key(row.key).clone()))
    }

    /// Returns an event as it is shown.
    pub(crate) fn record(&self, event: u32) -> Result<Arc<EventRecord>, StoreError> {
        let row = self.index.event(event);
        let key = self.index.key(row.key);
        let commit = self.index.commit(row.commit);
        let name = (self.index.oldest(), commit.revision, key.clone());
        if let Some(record) = self.shared.records.get(&name) {
            return Ok(record);
        }
        let (text, problem) = self.message_and_damage(commit)?;
        let message = message::parse(&text);
        let (effect, is_final) = match problem {
            None => self.effect(event)?,
            Some(problem) => {
                let path = self.shared.path(&row.after.map_or_else(|| default_name(key), |it| it.name(key)));
                (Effect::Problem(PastFault { path, fault: Fault::at_start(problem) }), false)
            }
        };
        let record = Arc::new(EventRecord {
            id: row.id,
            action: row.action,
            key: key.clone(),
            commit: EventCommit {
                revision: commit.revision,
                at: commit.time(),
                actor: Arc::clone(self.index.actor(commit.actor)),
                origin: commit.origin,
                message: event_message(commit.origin, message),
            },
            position: self.position_of(event),
            effect,
            moved: self.index.move_counterpart(event).map(|other| self.index.key_of(other).clone()),
            together: self.commit_keys(row.commit),
            memo: Memo::default(),
            memo_streamed: Memo::default(),
        });
        if is_final {
            self.shared.records.put(name, Arc::clone(&record), record.bytes());
        }
        Ok(record)
    }

    /// Returns the message of a commit, and what is wrong with the commit or the commit it is compared with.
    fn message_and_damage(&self, row: &CommitRow) -> Result<(String, Option<String>), StoreError> {
        let commit = match self.shared.archive.commit(row.revision) {
            Ok(Some(commit)) => commit,
            Ok(None) => return Ok((String::new(), Some(format!("the commit {} is missing", row.revision)))),
            Err(error @ StoreError::Damaged { .. }) => return Ok((String::new(), Some(error.to_string()))),
            Err(error) => return Err(error),
        };
        let problem = if row.is_damaged {
            self.shared.damage(row.revision)?
        } else {
            self.is_cut_off(row.revision)?.then(|| SHALLOW.to_owned())
        };
        Ok((commit.message, problem))
    }

    /// Reports whether this clone lacks the parent of a commit, so that the commit seems to have made everything.
    pub(crate) fn is_cut_off(&self, revision: Revision) -> Result<bool, StoreError> {
        Ok(self.index.may_lack_parent(revision)
            && self.shared.archive.shallow_boundary()?.contains(&revision))
    }

    /// Returns the collections of a commit, if there are several and not too many.
    fn commit_keys(&self, commit: u32) -> Option<Box<[Key]>> {
        // Called for each event of a commit, so the events are not counted one by one.
        match self.index.reported_len(self.index.events_of(commit)) {
            0 | 1 => Some(Box::default()),
            len if len > TOGETHER_MAX => None,
            _ => Some(self.reported_events(commit).map(|event| self.index.key_of(event).clone()).collect()),
        }
    }

    /// Returns the numbers of a commit's reported events.
    fn reported_events(&self, commit: u32) -> impl Iterator<Item = u32> {
        self.index.events_of(commit).filter(|event| !self.index.is_suppressed(*event))
    }

    /// Returns the position of an event: its commit, and its number if the commit has several.
    pub(crate) fn position_of(&self, event: u32) -> Position {
        let commit = self.index.event(event).commit;
        let events = self.index.events_of(commit);
        let seen = (events.len() > 1).then(|| event - events.start + 1);
        Position { revision: self.index.commit(commit).revision, seen }
    }

    /// Returns what an event did to the attributes, and whether that is final.
    pub(crate) fn effect(&self, event: u32) -> Result<EffectAndFinality, StoreError> {
        let row = self.index.event(event);
        if let Some(join) = self.index.forks().join(row.commit) {
            let decided = self.decided(event, join)?;
            return Ok((decided.effect, decided.is_final));
        }
        let (before, is_final) = match self.known_good_version_before(event)? {
            Ok(version) => (version, true),
            Err(lost) if lost.is_promised => return Ok((Effect::Problem(lost.fault), false)),
            // A damaged version affects only its own event, and may come back intact.
            Err(_) => (self.good_version_before(event)?, false),
        };
        match self.read_version_after(row)? {
            Ok(after) => Ok((Effect::Changes(changes(collection_of(&before), after.as_deref())), is_final)),
            Err(problem) => Ok(problem),
        }
    }

    /// Reads the file of an event; if it can't be read, returns the effect to report and whether that is final.
    pub(crate) fn read_version_after(
        &self,
        row: &EventRow,
    ) -> Result<Result<Option<Arc<Collection>>, EffectAndFinality>, StoreError> {
        let Some(version) = row.after else { return Ok(Ok(None)) };
        Ok(match self.shared.read(self.index.key(row.key), version)? {
            PastReading::Good(good) => Ok(Some(good.collection)),
            PastReading::Broken(fault) => Err((Effect::Problem(fault), true)),
            PastReading::Lost(lost) => Err((Effect::Problem(lost.fault), false)),
        })
    }

    /// Returns the number of events up to a position; `None` when the branch does not reach it.
    pub(crate) fn events_len_until(&self, position: Position) -> Result<Option<u32>, HistoryError> {
        if let Some(commit) = self.index.find(position.revision) {
            let Range { start, end } = self.index.events_of(commit);
            return Ok(Some(position.seen.map_or(end, |seen| start.saturating_add(seen).min(end))));
        }
        if !self.reaches(position.revision)? {
            return Ok(None);
        }
        let newest = self.newest_reached(position.revision)?;
        Ok(Some(newest.map_or(0, |commit| self.index.events_of(commit).end)))
    }
}

/// Extracts what a message says about the events of its commit. Only a commit planned by the service can say what it
/// takes back: in any other message, the line may have been copied.
fn event_message(origin: Origin, message: Message) -> EventMessage {
    let Message { subject, reason, text, request_id, reverses, .. } = message;
    let text = (!text.is_empty()).then_some(text);
    let reason = if origin == Origin::Git { text } else { reason };
    let reverses = reverses.filter(|_| !matches!(origin, Origin::Git | Origin::Merge));
    EventMessage { subject: shortened(subject), reason: reason.map(shortened), request_id, reverses }
}

/// Cuts a text of a message to the size that is shown.
fn shortened(mut text: String) -> String {
    let len = text.len();
    if len > REASON_BYTES_MAX {
        text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
        text.push_str(&format!(" [cut here, there are {len} bytes]"));
    }
    text
}
