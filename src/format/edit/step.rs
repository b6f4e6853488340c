//! Changes to the entries of the root.

use crate::domain::Value;
use crate::format::edit::splice::{SourceText, Splice};
use crate::format::edit::value;
use crate::format::edit::value::ValuePlace;
use crate::format::scalar::Style;
use crate::format::tree::{Layout, MapEntry, Node};
use crate::format::write;

/// Changes to the entries of the root: of one attribute, or of all together.
#[derive(Debug, Default)]
pub(crate) struct RootEdit {
    /// Changes inside entries that stay.
    pub(crate) splices: Vec<Splice>,
    /// The first bytes of the entries that are removed.
    pub(crate) gone: Vec<usize>,
    /// The attributes that are added.
    pub(crate) added: Vec<(String, Value)>,
}

impl RootEdit {
    /// Changes the value of an entry, if that can be done in place.
    pub(crate) fn change(
        &mut self,
        source: SourceText<'_>,
        root: &Node,
        entry: &MapEntry,
        from: &Value,
        to: &Value,
    ) -> Option<()> {
        let place = ValuePlace::of(source, root, entry);
        self.splices.extend(value::changed(source, place, &entry.value, from, to)?);
        Some(())
    }

    /// Rewrites an entry in place.
    pub(crate) fn write(
        &mut self,
        source: SourceText<'_>,
        root: &Node,
        entry: &MapEntry,
        name: &str,
        value: &Value,
    ) {
        let with = match root.layout() {
            Some(Layout::Block) => source.block_entry(source.column(entry.start), name, value),
            _ => write::flow_entry(name, value, Style::Plain),
        };
        self.splices.push(Splice { at: entry.span(), with });
    }

    pub(crate) fn remove(&mut self, entry: &MapEntry) {
        self.gone.push(entry.start);
    }

    pub(crate) fn add(&mut self, name: &str, value: &Value) {
        self.added.push((name.to_owned(), value.clone()));
    }

    /// Adds the changes of another step.
    pub(crate) fn extend(&mut self, other: Self) {
        self.splices.extend(other.splices);
        self.gone.extend(other.gone);
        self.added.extend(other.added);
    }
}
