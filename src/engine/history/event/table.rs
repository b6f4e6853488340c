//! Events as a table, for an auditor's spreadsheet.

use crate::domain::to_the_second;
use crate::engine::history::event::{Effect, EventRecord};
use crate::format::csv::{cell, text};

const COLUMNS: [&str; 10] =
    ["time", "actor", "e-mail", "action", "key", "attribute", "from", "to", "reason", "revision"];

/// A table of events as CSV (RFC 4180): one row per changed attribute, one for an event that changed none.
///
/// No cell can be a formula. Values that are not text are written as JSON. For a broken file, `to` is its fault.
pub(crate) struct EventTable {
    table: csv::Writer<Vec<u8>>,
}

impl EventTable {
    /// Creates a table with the names of its columns.
    pub(crate) fn new() -> csv::Result<Self> {
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(COLUMNS)?;
        Ok(Self { table })
    }

    /// Returns the approximate number of bytes written.
    pub(crate) fn len(&self) -> usize {
        self.table.get_ref().len()
    }

    /// Adds an event, with its reason if the reader may see it.
    pub(crate) fn push(&mut self, event: &EventRecord, reason: Option<&str>) -> csv::Result<()> {
        let none = String::new;
        let reason = &reason.map_or_else(none, text);
        match &event.effect {
            Effect::Changes(changes) if changes.is_empty() => {
                self.row(event, [none(), none(), none()], reason)
            }
            Effect::Changes(changes) => changes.iter().try_for_each(|change| {
                let shown = |value: &Option<_>| value.as_ref().map_or_else(none, cell);
                self.row(event, [text(&change.attribute), shown(&change.from), shown(&change.to)], reason)
            }),
            Effect::Problem(fault) => self.row(event, [none(), none(), text(&fault.to_string())], reason),
        }
    }

    fn row(
        &mut self,
        event: &EventRecord,
        [attribute, from, to]: [String; 3],
        reason: &str,
    ) -> csv::Result<()> {
        self.table.write_record([
            to_the_second(event.commit.at),
            text(event.commit.actor.name()),
            text(event.commit.actor.email()),
            event.action.as_str().to_owned(),
            event.key.to_string(),
            attribute,
            from,
            to,
            reason.to_owned(),
            event.commit.revision.to_string(),
        ])
    }

    /// Returns what was written since the last call.
    pub(crate) fn take(&mut self) -> csv::Result<Vec<u8>> {
        let table = std::mem::replace(&mut self.table, csv::Writer::from_writer(Vec::new()));
        table.into_inner().map_err(|error| error.into_error().into())
    }
}
