//! `collectory list` and `collectory get`: the collections as they are served, or as they were.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cli::check;
use crate::cli::past::{Done, Failure, Format, Ink, Screen, Source, key, plain, shown};
use crate::domain::{Attribute, Key, Kind, Value};
use crate::engine::{Entry, Snapshot};
use crate::http::resources;
use crate::store::git::Access;

/// List the collections
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    state: State,
}

/// Show one collection
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    /// The collection.
    #[arg(value_name = "KEY", value_parser = key)]
    key: Key,

    #[command(flatten)]
    state: State,
}

const EXAMPLES: &str = "\
Examples:
  collectory list                     what is served, saved files that are not committed included
  collectory list --at 2026-03-01     what it was at the end of a day (UTC)
  collectory list --csv               for a spreadsheet
  collectory get posts --at HEAD~1    one collection before the last commit";

/// Which state, and in which form.
#[derive(Debug, clap::Args)]
struct State {
    /// As it was at this revision: a tag, a branch, HEAD~2, an RFC 3339 time or a day (UTC).
    #[arg(long = "as-of", visible_alias = "at", env = "COLLECTORY_AS_OF", value_name = "R")]
    as_of: Option<String>,

    /// The same as --format csv: a table for a spreadsheet, one collection a line.
    #[arg(long, env = "COLLECTORY_CSV", conflicts_with = "json")]
    csv: bool,

    #[command(flatten)]
    source: Source,
}

impl List {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let snapshot = self.state.snapshot()?;
        self.state.show(&snapshot.catalog().iter().cloned().collect::<Vec<_>>(), |screen, entry| {
            let collection = &entry.collection;
            let of = |name: &str| collection.attributes().iter().find(|(it, _)| it.as_str() == name);
            let text = |name: &str| of(name).and_then(|(_, value)| value.as_text()).unwrap_or_default();
            let key = screen.ink(Ink::Name, collection.key().as_str());
            let kind = collection.kind().as_str();
            let mark = if entry.uncommitted { "(not committed)" } else { "" };
            let parts =
                [key, kind.to_owned(), plain(text("directory")), plain(text("name")), mark.to_owned()];
            let shown: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            screen.line(&shown.join(" "))
        })
    }
}

impl Get {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let entry = match self.state.snapshot()?.get(self.key.as_str()) {
            Some(entry) => Arc::clone(entry),
            None => return Err(anyhow::anyhow!("Collection '{}' not found.", self.key).into()),
        };
        self.state.show(&[entry], |screen, entry| {
            let file = crate::format::write(&entry.collection);
            String::from_utf8_lossy(&file).lines().try_for_each(|line| screen.line(&plain(line)))
        })
    }
}

impl State {
    /// What is served, or was.
    fn snapshot(&self) -> anyhow::Result<Arc<Snapshot>> {
        match &self.as_of {
            None => check::served(self.source.journal(Access::Survey)?, &self.source.folder),
            Some(revision) => {
                let view = self.source.view()?;
                Ok(view.snapshot_as_of(view.resolve(revision)?)?)
            }
        }
    }

    fn show(
        &self,
        entries: &[Arc<Entry>],
        text: impl Fn(&mut Screen, &Entry) -> std::io::Result<()>,
    ) -> Result<Done, Failure> {
        shown(Done::Well, |screen| {
            if self.csv || self.source.format == Format::Csv {
                return Ok(write_table(entries, &mut screen.out)?);
            }
            for entry in entries {
                match self.source.is_json() {
                    true => screen.resource(&resources::collection(entry))?,
                    false => text(screen, entry)?,
                }
            }
            Ok(())
        })
    }
}

/// Writes a line for each collection, with a column for each attribute that one of them has.
fn write_table(entries: &[Arc<Entry>], out: impl std::io::Write) -> csv::Result<()> {
    let known = [Kind::Document, Kind::Media].into_iter().flat_map(Attribute::known);
    let all = |entry: &Arc<Entry>| {
        entry.collection.attributes().iter().map(|(name, _)| name.as_str().to_owned()).collect::<Vec<_>>()
    };
    let used: BTreeSet<String> = entries.iter().flat_map(all).collect();
    let mut columns: Vec<String> = Vec::new();
    for name in known.map(|attribute| attribute.as_str().to_owned()).chain(used.iter().cloned()) {
        if used.contains(&name) && !columns.contains(&name) {
            columns.push(name);
        }
    }
    let mut table = csv::Writer::from_writer(out);
    table.write_record(["id", "type"].into_iter().chain(columns.iter().map(String::as_str)))?;
    for entry in entries {
        let collection = &entry.collection;
        let value = |column: &String| {
            let found = collection.attributes().iter().find(|(name, _)| name.as_str() == column);
            found.map_or_else(String::new, |(_, value)| cell(value))
        };
        let start = [collection.key().to_string(), collection.kind().to_string()];
        table.write_record(start.into_iter().chain(columns.iter().map(value)))?;
    }
    Ok(table.flush()?)
}

/// A value as a cell: a text as it is, anything else as JSON. What a spreadsheet would take for a
/// formula stands behind an apostrophe.
fn cell(value: &Value) -> String {
    let text = value.as_text().map_or_else(|| value.to_string(), str::to_owned);
    let is_formula = value.as_text().is_some() && text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        assert_eq!(cell(&"=1+1".into()), "'=1+1");
        assert_eq!(cell(&"Posts, all".into()), "Posts, all");
        assert_eq!(cell(&Value::Bool(true)), "true");
    }
}
