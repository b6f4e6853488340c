//! The changes since a sync token.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::{Key, Revision};
use crate::engine::history::event::Position;
use crate::engine::history::past::sync_token::{
    ServedChange, SyncToken, VersionDigest, VisibleKeys, VisibleState,
};
use crate::engine::history::received::ReceivedEvents;
use crate::engine::history::{GoodVersion, HistoryError, View};
use crate::engine::projection::{Entry, Snapshot};

impl View {
    /// Returns the changes of the collections since the state that the token identifies: each that differs now, and
    /// each that a commit has touched since, even if it is again as it was. `shown` is what `visible_keys` shows
    /// now, and was taken before this view.
    ///
    /// # Errors
    ///
    /// [`HistoryError::Gone`] when the branch does not descend from the token's revision, and when what the reader
    /// saw can't be determined for certain.
    pub fn changes_since(
        &self,
        token: &SyncToken,
        shown: &VisibleState,
        visible_keys: VisibleKeys<'_>,
    ) -> Result<Vec<ServedChange>, HistoryError> {
        let then = self.then(token.revision)?;
        let named = token.state.as_ref().and_then(|state| state.apart.as_ref());
        let [digest_then, digest_now] = [token, &shown.token].map(|it| it.state.as_ref().map(|it| it.digest));
        // If so, the collections that were too many to name are as they were.
        let is_as_it_was = digest_then.is_some() && digest_then == digest_now;
        let news = (then.received.until..self.index.events_len())
            .filter(|event| then.received.is_new(&self.index, *event));
        let touched: BTreeSet<&Key> = news.map(|event| self.index.key_of(event)).collect();
        let keys: BTreeSet<&Key> = touched
            .iter()
            .copied()
            .chain(named.iter().flat_map(|apart| apart.keys()))
            .chain(shown.apart.keys())
            .filter(|key| visible_keys.sees(key))
            .collect();
        let mut changes = Vec::with_capacity(keys.len());
        for key in keys {
            let now = shown.catalog.get(key.as_str()).map(Arc::clone);
            let was = match named.and_then(|apart| apart.get(key)) {
                Some(version) => *version,
                None if is_as_it_was => now.as_deref().map(VersionDigest::of),
                None => self.committed(key, &then)?,
            };
            changes.push(ServedChange { key: key.clone(), was, now });
        }
        if !matches_digest(token, shown, &changes) {
            return Err(HistoryError::Gone);
        }
        changes.retain(|change| touched.contains(&change.key) || change.differs());
        Ok(changes)
    }

    /// Finds the place of a revision in the history.
    fn then(&self, revision: Option<Revision>) -> Result<HistoryPoint, HistoryError> {
        let Some(revision) = revision else {
            return Ok(HistoryPoint { received: ReceivedEvents::default(), at: At::Beginning });
        };
        let received = self.received(Position::from(revision))?.ok_or(HistoryError::Gone)?;
        let at = match self.index.find(revision) {
            Some(commit) => At::Line(commit),
            None => {
                let past = self.as_of(revision)?;
                // What the reader saw of it is unknown; a reader that starts over does not need it.
                if !past.lost.is_empty() {
                    return Err(HistoryError::Gone);
                }
                At::Beside(past.snapshot())
            }
        };
        Ok(HistoryPoint { received, at })
    }

    /// Returns the digest of a collection as it was committed.
    fn committed(&self, key: &Key, then: &HistoryPoint) -> Result<Option<VersionDigest>, HistoryError> {
        match &then.at {
            At::Beginning => Ok(None),
            At::Beside(snapshot) => Ok(snapshot.get(key.as_str()).map(|entry| VersionDigest::of(entry))),
            At::Line(commit) => {
                let Some(number) = self.index.find_key(key.as_str()) else { return Ok(None) };
                let version = self.good_version_at(number, *commit)?;
                Ok(version.map(|GoodVersion { version, good }| {
                    VersionDigest::of(&Entry::of_file(good.collection, &version.name(key), good.blob))
                }))
            }
        }
    }
}

/// A place in the history.
struct HistoryPoint {
    /// The events up to there.
    received: ReceivedEvents,
    at: At,
}

/// How the collections at that place are found.
enum At {
    /// Before the first commit.
    Beginning,
    /// At this indexed commit.
    Line(u32),
    /// At a commit outside the index that a merge brought in, with these collections.
    Beside(Arc<Snapshot>),
}

/// Reports whether reverting the changes leads to the token's digest, if the token has one.
fn matches_digest(token: &SyncToken, shown: &VisibleState, changes: &[ServedChange]) -> bool {
    let Some(then) = &token.state else { return true };
    let now = shown.token.state.as_ref().map_or(0, |now| now.digest);
    let back = changes.iter().fold(now, |sum, change| {
        let [was, now] = [change.was, change.now_digest()].map(|digest| digest.map_or(0, |it| it.weight));
        sum.wrapping_sub(now).wrapping_add(was)
    });
    back == then.digest
}
