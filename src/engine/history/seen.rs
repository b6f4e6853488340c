//! What somebody has heard of who has followed the history up to a place.

use crate::engine::history::event::Position;
use crate::engine::history::index::Index;
use crate::engine::history::{HistoryError, View};

/// What somebody has heard of. Whoever stands at a commit that came in by a merge has not heard of what the other side
/// of the merge did, though that has lower numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Of everything before this event.
    pub(crate) until: u32,
    /// Of the past of this commit, besides, before the event with the second number.
    pub(crate) beside: Option<(u32, u32)>,
}

impl Seen {
    /// Of everything before an event.
    pub(crate) const fn before(event: u32) -> Self {
        Self { until: event, beside: None }
    }

    /// Whether an event is new.
    pub(crate) fn is_news(&self, index: &Index, event: u32) -> bool {
        let is_past = |(commit, end): (u32, u32)| {
            event < end && index.forks().reaches(commit, index.event(event).commit)
        };
        event >= self.until && !self.beside.is_some_and(is_past)
    }
}

impl View {
    /// What somebody has heard of who stands after a position; `None` when the branch does not reach it.
    pub(crate) fn seen(&self, position: Position) -> Result<Option<Seen>, HistoryError> {
        let Some(end) = self.seen_until(position)? else { return Ok(None) };
        let commit = self.index.find(position.revision);
        Ok(Some(match commit.filter(|commit| !self.index.forks().is_main(*commit)) {
            None => Seen::before(end),
            Some(commit) => {
                let first = self.index.forks().first_beyond(commit);
                let until = if first > commit { end } else { self.index.events_of(first).start };
                Seen { until, beside: Some((commit, end)) }
            }
        }))
    }
}
