//! What becomes of the entries of the root.

use super::super::scalar::Style;
use super::super::tree::{Entry, Layout, Node};
use super::super::write;
use super::splice::{Sheet, Splice};
use super::value::{self, Place};
use crate::domain::Value;

/// Changes to the entries of the root: of one attribute, or of all together.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Changes inside entries that stay.
    pub(super) splices: Vec<Splice>,
    /// The first bytes of the entries that go.
    pub(super) gone: Vec<usize>,
    /// The attributes that come.
    pub(super) added: Vec<(String, Value)>,
}

impl Step {
    /// Changes the value of an entry, if that can be done in place.
    pub(super) fn change(
        &mut self,
        sheet: Sheet<'_>,
        root: &Node,
        entry: &Entry,
        from: &Value,
        to: &Value,
    ) -> Option<()> {
        let place = Place::of(sheet, root, entry);
        self.splices.extend(value::changed(sheet, place, &entry.value, from, to)?);
        Some(())
    }

    /// Writes an entry anew where it stands.
    pub(super) fn write(&mut self, sheet: Sheet<'_>, root: &Node, entry: &Entry, name: &str, value: &Value) {
        let with = match root.layout() {
            Some(Layout::Block) => sheet.block_entry(sheet.column(entry.start), name, value),
            _ => write::flow_entry(name, value, Style::Plain),
        };
        self.splices.push(Splice { at: entry.span(), with });
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, entry: &Entry) {
        self.gone.push(entry.start);
    }

    /// Adds an attribute.
    pub(super) fn add(&mut self, name: &str, value: &Value) {
        self.added.push((name.to_owned(), value.clone()));
    }

    /// Does what another step does as well.
    pub(super) fn extend(&mut self, other: Self) {
        self.splices.extend(other.splices);
        self.gone.extend(other.gone);
        self.added.extend(other.added);
    }
}
