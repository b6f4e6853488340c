//! Which event gave each attribute its present value.

use std::sync::Arc;

use crate::domain::{Change, Collection, Key, Revision, Value, changes};
use crate::engine::history::event::{Effect, EventRecord};
use crate::engine::history::{HistoryError, PastReading, View};

/// An attribute and the event that gave it its present value.
#[derive(Debug, Clone)]
pub struct Blame {
    /// The wire name, `type` included.
    pub attribute: String,
    /// The present value.
    pub value: Value,
    /// The event that gave it this value.
    pub event: Arc<EventRecord>,
}

impl View {
    /// Returns the event that gave each attribute of a collection its present value, in canonical order: the last
    /// event since the collection was created that changed the attribute. A moved file is followed to its former
    /// keys, as far as `sees` allows. An uncommitted edit has no event. With `until`, an indexed revision, blames
    /// the collection as it was then.
    ///
    /// # Errors
    ///
    /// [`HistoryError::UnknownKey`] when there is no such collection, or was none then, and
    /// [`HistoryError::UnknownRevision`] for a revision that is not in the index.
    pub fn blame(
        &self,
        key: &Key,
        until: Option<Revision>,
        sees: &dyn Fn(&Key) -> bool,
    ) -> Result<Vec<Blame>, HistoryError> {
        let commit = until.map_or(Ok(u32::MAX), |revision| self.commit_number(revision))?;
        let unknown = || HistoryError::UnknownKey(key.clone());
        let number = self.index.find_key(key.as_str()).ok_or_else(unknown)?;
        let mut open: Vec<Change> = Vec::new();
        let mut found: Vec<(Change, u32)> = Vec::new();
        let mut newer: Option<(u32, Arc<Collection>)> = None;
        for event in self.lifetime(number, commit, sees) {
            self.check_client()?;
            let row = self.index.event(event);
            let version = row.after.expect("nothing of a lifetime deletes");
            let good = match self.shared.read(self.index.key(row.key), version)? {
                PastReading::Good(good) => good,
                // Which events gave its values is unknown.
                PastReading::Lost(lost) if lost.is_promised => return Err(HistoryError::Lost(lost.fault)),
                PastReading::Broken(_) | PastReading::Lost(_) => continue,
            };
            match &newer {
                None => open = changes(None, Some(&good.collection)),
                Some((by, after)) => {
                    let changed = self.changed_by(*by, event, &good.collection, after)?;
                    settle(&mut open, &mut found, *by, &changed);
                }
            }
            newer = Some((event, good.collection));
            if open.is_empty() {
                break;
            }
        }
        let (by, after) = newer.ok_or_else(unknown)?;
        settle(&mut open, &mut found, by, &changes(None, Some(&after)));
        let present = self.good_version_at(number, commit)?.ok_or_else(unknown)?;
        let order = changes(None, Some(&present.good.collection));
        let mut blames = Vec::with_capacity(order.len());
        for change in order {
            let by = found.iter().find(|(it, _)| it.attribute == change.attribute);
            let (_, event) = by.expect("every attribute was settled by the first event at the latest");
            let value = change.to.expect("a created attribute has a value");
            blames.push(Blame { attribute: change.attribute, value, event: self.record(*event)? });
        }
        Ok(blames)
    }

    /// Returns what the event `by` changed; `before`, the next older one of the same lifetime, led to `older`.
    fn changed_by(
        &self,
        by: u32,
        before: u32,
        older: &Collection,
        newer: &Collection,
    ) -> Result<Vec<Change>, HistoryError> {
        if let Some(join) = self.index.forks().join(self.index.event(by).commit) {
            // A value that only followers in the other order need from it was given by an earlier event.
            let decided = self.decided(by, join)?;
            let Effect::Changes(mut changes) = decided.effect else { return Ok(Vec::new()) };
            changes.retain(|change| decided.in_order.contains(&change.attribute));
            return Ok(changes);
        }
        if self.index.before(by) == Some(before) || self.index.move_counterpart(by).is_some() {
            return Ok(changes(Some(older), Some(newer)));
        }
        Ok(match self.effect(by)?.0 {
            Effect::Changes(changes) => changes,
            Effect::Problem(_) => Vec::new(),
        })
    }

    /// Returns the events of a collection from a commit back to its creation, newest first, and those under the key
    /// that its file was moved from; none when it is deleted.
    fn lifetime(&self, key: u32, commit: u32, sees: &dyn Fn(&Key) -> bool) -> Vec<u32> {
        let mut events = Vec::new();
        let mut next = Some((key, commit, u32::MAX));
        while let Some((key, commit, end)) = next.take() {
            for event in self.index.of_key_until(key, commit).skip_while(|event| *event >= end) {
                let row = self.index.event(event);
                if row.after.is_none() {
                    break;
                }
                events.push(event);
                let source = self.source_of(event).filter(|source| sees(self.index.key_of(*source)));
                if let Some(source) = source {
                    next = Some((self.index.event(source).key, row.commit, source));
                    break;
                }
            }
        }
        events
    }
}

/// Moves the open attributes that an event changed to `found`.
fn settle(open: &mut Vec<Change>, found: &mut Vec<(Change, u32)>, by: u32, changed: &[Change]) {
    let (done, still) = std::mem::take(open)
        .into_iter()
        .partition::<Vec<_>, _>(|it| changed.iter().any(|change| change.attribute == it.attribute));
    *open = still;
    found.extend(done.into_iter().map(|change| (change, by)));
}
