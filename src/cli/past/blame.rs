//! `collectory blame`: shows which events gave a collection its values.

use anyhow::anyhow;

use crate::cli::past::{Done, Failure, SHORT_LEN, Source, Style, not_there, plain, shown};
use crate::cli::{check, note};
use crate::domain::{Key, to_the_second};
use crate::engine::history::HistoryError;
use crate::http::resources;
use crate::store::git::Access;

/// Show who gave a collection its present values
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Blame {
    /// The collection.
    #[arg(value_name = "KEY", value_parser = Key::parse)]
    key: Key,

    #[command(flatten)]
    source: Source,
}

const EXAMPLES: &str = "\
Examples:
  collectory blame posts          each attribute, and the commit that it has its value from
  collectory blame posts --json   for programs, one attribute per line";

impl Blame {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        self.source.output.refuse_csv()?;
        let view = self.source.place.view()?;
        let place = &self.source.place;
        let served = check::served(place.journal(Access::Survey)?, &place.folder.path)?;
        let Some(entry) = served.get(self.key.as_str()) else {
            return Err(not_there(&view, &self.key).into());
        };
        let is_edited = entry.uncommitted;
        if is_edited && !view.knows(&self.key) {
            let why = format!("Collection '{}' has no history yet: its file is not committed.", self.key);
            return Err(anyhow!(why).into());
        }
        let blames = view.blame(&self.key, None, &|_| true).map_err(|error| match error {
            HistoryError::UnknownKey(key) => not_there(&view, &key),
            other => other.into(),
        })?;
        if is_edited && !self.source.output.is_json() {
            // Blame covers the committed version, and the served one is not committed.
            let edited = format!(
                "{} was edited and not committed since: what is blamed is what is committed",
                self.key
            );
            note(&edited);
        }
        shown(|screen| {
            for blame in &blames {
                if self.source.output.is_json() {
                    screen.resource(&resources::blame(&self.key, blame, is_edited))?;
                    continue;
                }
                let revision = screen.ink(Style::Name, &blame.event.commit.revision.to_string()[..SHORT_LEN]);
                let at = to_the_second(blame.event.commit.at);
                let (who, attribute) = (plain(blame.event.commit.actor.name()), plain(&blame.attribute));
                let value = screen.ink(Style::Good, &blame.value.to_string());
                screen.line(&format!("{revision} {at} {who}: {attribute}: {value}"))?;
            }
            Ok(())
        })
    }
}
