//! `collectory log`: shows the events, newest first.

use crate::cli::note;
use crate::cli::past::{Done, Failure, Source, shown};
use crate::domain::Key;
use crate::engine::history::{Action, EventPageQuery, EventTable, Filter, Origin, PageStart, TimeBound};
use crate::http::{Allowed, resources};

/// How many events are read at once.
const PAGE_LEN: usize = 200;

/// Show who changed what, when and why
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Show the events of the branch, newest first: what each commit did to the collections, whether the \
service or a person made it, with its author and reason.

Reads the repository itself, with or without a service beside. -h is a summary.")]
pub(crate) struct Log {
    /// Only the events of these collections, deleted ones too.
    #[arg(value_name = "KEY", value_parser = Key::parse)]
    keys: Vec<Key>,

    /// Include the events of a collection under the key that it had before its file was moved.
    #[arg(long, env = "COLLECTORY_LOG_FOLLOW", requires = "keys")]
    follow: bool,

    /// Show at most this many events.
    #[arg(short = 'n', long, env = "COLLECTORY_MAX_COUNT", value_name = "COUNT")]
    max_count: Option<usize>,

    /// Only events that changed one of these attributes.
    #[arg(long, env = "COLLECTORY_ATTRIBUTE", value_name = "NAME", value_delimiter = ',')]
    attribute: Vec<String>,

    /// Only events of these kinds: created, updated, deleted.
    #[arg(long, env = "COLLECTORY_ACTION", value_name = "ACTION", value_parser = action, value_delimiter = ',')]
    action: Vec<Action>,

    /// Only events whose author has one of these names or e-mail addresses.
    #[arg(long, env = "COLLECTORY_ACTOR", value_name = "NAME|EMAIL", value_delimiter = ',')]
    actor: Vec<String>,

    /// Only events of these origins: api, work-tree, command, git, merge.
    #[arg(long, env = "COLLECTORY_ORIGIN", value_name = "ORIGIN", value_parser = origin, value_delimiter = ',')]
    origin: Vec<Origin>,

    /// Only events from this time or day on, or after this revision.
    #[arg(long, env = "COLLECTORY_SINCE", value_name = "R")]
    since: Option<String>,

    /// Only events until this time or the end of this day, or up to and including this revision.
    #[arg(long, env = "COLLECTORY_UNTIL", value_name = "R")]
    until: Option<String>,

    #[command(flatten)]
    source: Source,
}

const EXAMPLES: &str = "\
R is a revision, a tag, a branch or HEAD (HEAD~2 and v1.0^ too), an RFC 3339 time or a day (UTC).

Examples:
  collectory log                                   everything, newest first
  collectory log posts -n 5                        the last changes of one collection
  collectory log posts --attribute directory       who changed one attribute of it
  collectory log --since 2026-03-01                since a day
  collectory log --actor mara@example.org --json   for programs, one event per line
  collectory log --format csv > audit.csv          for a spreadsheet, one changed attribute per line";

fn action(text: &str) -> Result<Action, String> {
    Action::parse(text).ok_or_else(|| "there are created, updated, deleted".to_owned())
}

fn origin(text: &str) -> Result<Origin, String> {
    Origin::parse(text).ok_or_else(|| "there are api, work-tree, command, git, merge".to_owned())
}

impl Log {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let view = self.source.place.view()?;
        let bound = |text: Option<&str>, side| text.map(|text| view.bound(text, side)).transpose();
        let filter = Filter {
            since: bound(self.since.as_deref(), TimeBound::Since)?,
            until: bound(self.until.as_deref(), TimeBound::Until)?,
            collections: self.keys,
            follow: self.follow,
            attributes: self.attribute,
            actions: self.action,
            actors: self.actor,
            origins: self.origin,
            seeing: None,
        };
        shown(|screen| {
            let mut table = if self.source.output.is_csv() { Some(EventTable::new()?) } else { None };
            let mut left = self.max_count.unwrap_or(usize::MAX);
            let mut at = PageStart::Newest;
            while left > 0 {
                let page = view.events(&filter, &EventPageQuery { size: left.min(PAGE_LEN), at })?;
                if page.events.is_empty() {
                    note("no events");
                }
                for event in &page.events {
                    match &mut table {
                        Some(table) => table.push(event, event.commit.message.reason.as_deref())?,
                        None if self.source.output.is_json() => {
                            screen.resource(&resources::event(event, &Allowed::anonymous()))?;
                        }
                        None => screen.event(event)?,
                    }
                }
                if let Some(table) = &mut table {
                    screen.table(&table.take()?)?;
                }
                left -= page.events.len();
                let Some(last) = page.cursors.last().filter(|_| page.has_older) else { break };
                at = PageStart::After(*last);
            }
            Ok(())
        })
    }
}
