//! `collectory diff`: shows the differences between two revisions.

use std::time::{Duration, Instant};

use crate::cli::past::{Done, Failure, Source, Style, plain, shown};
use crate::domain::Key;
use crate::engine::history::HistoryError;
use crate::http::resources;

/// The time limit of the search for the shortest differences; the rest is shown as replaced.
const DIFFERENCE_TIME_MAX: Duration = Duration::from_secs(60);

/// Show what differs between two revisions
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Show what differs between two revisions, collection by collection and attribute by attribute. \
With --text the difference of the files, which `git apply` takes.")]
pub(crate) struct Diff {
    /// The older side: a revision, a tag, a branch, HEAD~2, an RFC 3339 time or a day (UTC).
    #[arg(value_name = "FROM")]
    from: String,

    /// The newer side.
    #[arg(value_name = "TO")]
    to: String,

    /// Only this collection.
    #[arg(value_name = "KEY", value_parser = Key::parse)]
    key: Option<Key>,

    /// Show the difference of the files as unified text.
    #[arg(long, env = "COLLECTORY_TEXT", conflicts_with = "json")]
    text: bool,

    #[command(flatten)]
    source: Source,
}

const EXAMPLES: &str = "\
Examples:
  collectory diff v1.0 main                     since a release
  collectory diff 2026-03-01T00:00:00Z main     since a day
  collectory diff v1.0 main posts --text        the lines of one file";

impl Diff {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        self.source.output.refuse_csv()?;
        let view = self.source.place.view()?;
        let (from, to) = (view.resolve(&self.from)?, view.resolve(&self.to)?);
        if let Some(never) = self.key.as_ref().filter(|key| !view.knows(key)) {
            return Err(HistoryError::UnknownKey(never.clone()).into());
        }
        let wanted = |key: &Key| self.key.as_ref().is_none_or(|only| only == key);
        if self.text {
            let text =
                view.text_difference(Some(from), Some(to), &wanted, Instant::now() + DIFFERENCE_TIME_MAX)?;
            return shown(|screen| {
                Ok(text.lines().try_for_each(|line| screen.line(&terminal_safe(line)))?)
            });
        }
        let found = view.difference(from, to, &wanted)?;
        shown(|screen| {
            for difference in &found {
                if self.source.output.is_json() {
                    screen.resource(&resources::difference(difference))?;
                    continue;
                }
                let what = format!("{} {}", difference.action.as_str(), difference.key);
                let what = screen.ink(Style::Name, &what);
                screen.line(&what)?;
                screen.effect(&difference.effect)?;
            }
            Ok(())
        })
    }
}

/// Makes a line of a patch safe for a terminal but keeps its tabs.
fn terminal_safe(line: &str) -> String {
    line.split('\t').map(plain).collect::<Vec<_>>().join("\t")
}
