//! Which events a follower has received at a given position in the history.

use crate::engine::history::event::Position;
use crate::engine::history::index::Index;
use crate::engine::history::{HistoryError, View};

/// The events that a follower has received. At a commit that was brought in by a merge, it has not received those of
/// the merge's other side, although they have lower numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReceivedEvents {
    /// All events before this one.
    pub(crate) until: u32,
    /// Besides, the events of this commit and its ancestors that precede the event with the second number.
    pub(crate) beside: Option<(u32, u32)>,
}

impl ReceivedEvents {
    /// Returns the state after all events before this one.
    pub(crate) const fn before(event: u32) -> Self {
        Self { until: event, beside: None }
    }

    /// Reports whether an event is new to the follower.
    pub(crate) fn is_new(&self, index: &Index, event: u32) -> bool {
        let is_past = |(commit, end): (u32, u32)| {
            event < end && index.forks().reaches(commit, index.event(event).commit)
        };
        event >= self.until && !self.beside.is_some_and(is_past)
    }
}

impl View {
    /// Returns what a follower has received at a position; `None` when the branch does not reach it.
    pub(crate) fn received(&self, position: Position) -> Result<Option<ReceivedEvents>, HistoryError> {
        let Some(end) = self.events_len_until(position)? else { return Ok(None) };
        let commit = self.index.find(position.revision);
        Ok(Some(match commit.filter(|commit| !self.index.forks().is_main(*commit)) {
            None => ReceivedEvents::before(end),
            Some(commit) => {
                let first = self.index.forks().first_beyond(commit);
                let until = if first > commit { end } else { self.index.events_of(first).start };
                ReceivedEvents { until, beside: Some((commit, end)) }
            }
        }))
    }
}
