//! `collectory blame`: which events gave a collection its values.

use chrono::SecondsFormat;

use crate::cli::past::{Done, Failure, SHORT_LEN, Source, Style, key, not_there, plain, shown};
use crate::domain::Key;
use crate::engine::history::HistoryError;
use crate::http::resources;

/// Show who gave a collection its present values
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Blame {
    /// The collection.
    #[arg(value_name = "KEY", value_parser = key)]
    key: Key,

    #[command(flatten)]
    source: Source,
}

const EXAMPLES: &str = "\
Examples:
  collectory blame posts          each attribute, and the commit that it has its value from
  collectory blame posts --json   for programs, one attribute a line";

impl Blame {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        self.source.output.without_table()?;
        let view = self.source.place.view()?;
        let blames = view.blame(&self.key, None, &|_| true).map_err(|error| match error {
            HistoryError::UnknownKey(key) => not_there(&view, &key),
            other => other.into(),
        })?;
        shown(|screen| {
            for blame in &blames {
                if self.source.output.is_json() {
                    screen.resource(&resources::blame(&self.key, blame))?;
                    continue;
                }
                let revision = screen.ink(Style::Name, &blame.event.commit.revision.to_string()[..SHORT_LEN]);
                let at = blame.event.commit.at.to_rfc3339_opts(SecondsFormat::Secs, true);
                let (who, attribute) = (plain(blame.event.commit.actor.name()), plain(&blame.attribute));
                let value = screen.ink(Style::Good, &blame.value.to_string());
                screen.line(&format!("{revision} {at} {who}: {attribute}: {value}"))?;
            }
            Ok(())
        })
    }
}
