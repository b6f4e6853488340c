//! `collectory list` and `collectory get`: show the collections as they are served, or as they were.

use std::sync::Arc;

use crate::cli::past::{Done, Failure, HistoryArgs, Screen, Source, Style, not_there, plain, shown};
use crate::cli::{check, note};
use crate::domain::file_name::{key_of, name_in};
use crate::domain::{Catalog, Key};
use crate::engine::history::HistoryError;
use crate::engine::{Entry, Serving, Snapshot};
use crate::exchange::export;
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
    #[arg(value_name = "KEY", value_parser = Key::parse)]
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

/// The moment to show.
#[derive(Debug, clap::Args)]
pub(crate) struct AsOfArgs {
    /// As it was at this revision: a tag, a branch, HEAD~2, an RFC 3339 time or a day (UTC).
    #[arg(long = "as-of", visible_alias = "at", env = "COLLECTORY_AS_OF", value_name = "R")]
    revision: Option<String>,
}

/// The state to show, and the output format.
#[derive(Debug, clap::Args)]
struct State {
    #[command(flatten)]
    as_of: AsOfArgs,

    /// The same as --format csv: a table for a spreadsheet, one collection per line.
    #[arg(long, env = "COLLECTORY_CSV", conflicts_with = "json")]
    csv: bool,

    #[command(flatten)]
    source: Source,
}

impl List {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let snapshot = self.state.as_of.list(&self.state.source.place)?;
        self.state.show(&snapshot.catalog().iter().cloned().collect::<Vec<_>>(), |screen, entry| {
            let collection = &entry.collection;
            let of = |name: &str| collection.attributes().iter().find(|(it, _)| it.as_str() == name);
            let text = |name: &str| of(name).and_then(|(_, value)| value.as_text()).unwrap_or_default();
            let key = screen.ink(Style::Name, collection.key().as_str());
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
            None => return Err(self.state.not_there(&self.key).into()),
        };
        self.state.show(&[entry], |screen, entry| {
            let file = crate::format::write(&entry.collection);
            String::from_utf8_lossy(&file).lines().try_for_each(|line| screen.line(&plain(line)))
        })
    }
}

impl AsOfArgs {
    /// Returns the snapshot to show; warns about each file for which it has no collection.
    pub(crate) fn list(&self, place: &HistoryArgs) -> anyhow::Result<Arc<Snapshot>> {
        let (snapshot, left_out) = match &self.revision {
            None => {
                let snapshot = self.snapshot(place)?;
                let nothing = snapshot.problems.values().filter(|it| it.serving == Serving::Nothing);
                let is_shown = |key: &Key| snapshot.get(key.as_str()).is_some();
                let left_out = nothing.filter(|it| !it.collection.as_ref().is_some_and(is_shown));
                (Arc::clone(&snapshot), left_out.map(ToString::to_string).collect::<Vec<_>>())
            }
            Some(revision) => {
                let view = place.view()?;
                let revision = view.resolve(revision)?;
                let (snapshot, past) = (view.snapshot_as_of(revision)?, view.as_of(revision)?);
                let is_shown = |path: &str| {
                    let name = name_in(&place.folder.path, path);
                    name.and_then(key_of).is_some_and(|key| past.entries.contains_key(&key))
                };
                let left_out = past.problems.values().filter(|it| !is_shown(&it.path));
                (snapshot, left_out.map(ToString::to_string).collect())
            }
        };
        for fault in left_out {
            note(&format!("warning: left out: {fault}"));
        }
        Ok(snapshot)
    }

    /// Returns what is served, or was served at the given revision.
    pub(crate) fn snapshot(&self, place: &HistoryArgs) -> anyhow::Result<Arc<Snapshot>> {
        match &self.revision {
            None => check::served(place.journal(Access::Survey)?, &place.folder.path),
            Some(revision) => {
                let view = place.view()?;
                Ok(view.snapshot_as_of(view.resolve(revision)?)?)
            }
        }
    }
}

impl State {
    /// The error for a missing collection; without `--as-of` it reports the deletion too.
    fn not_there(&self, key: &Key) -> anyhow::Error {
        match &self.as_of.revision {
            None => self.source.place.view().map_or_else(
                // If the history can't be read, the error stands alone.
                |_| HistoryError::UnknownKey(key.clone()).into(),
                |view| not_there(&view, key),
            ),
            Some(_) => HistoryError::UnknownKey(key.clone()).into(),
        }
    }

    fn snapshot(&self) -> anyhow::Result<Arc<Snapshot>> {
        self.as_of.snapshot(&self.source.place)
    }

    fn show(
        &self,
        entries: &[Arc<Entry>],
        text: impl Fn(&mut Screen, &Entry) -> std::io::Result<()>,
    ) -> Result<Done, Failure> {
        shown(|screen| {
            if self.csv || self.source.output.is_csv() {
                let catalog: Catalog = entries.iter().map(|entry| Arc::clone(&entry.collection)).collect();
                return Ok(screen.table(&export::csv(&catalog)?)?);
            }
            for entry in entries {
                match self.source.output.is_json() {
                    true => screen.resource(&resources::collection(entry))?,
                    false => text(screen, entry)?,
                }
            }
            Ok(())
        })
    }
}
