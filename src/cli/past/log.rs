//! `collectory log`: the events, newest first.

use super::{Done, Failure, Source, key, shown};
use crate::domain::Key;
use crate::engine::history::{Action, At, Filter, Origin, Page};
use crate::http::resources;

/// How many events are read at a time.
const PAGE_LEN: usize = 200;

/// Show who changed what, when and why
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Show the events of the branch, newest first: what each commit did to the collections, whether the \
service or a person made it, with its author and reason.

Reads the repository itself, with or without a service beside. -h is a summary.")]
pub(crate) struct Log {
    /// Only the events of this collection, a deleted one too.
    #[arg(value_name = "KEY", value_parser = key)]
    key: Option<Key>,

    /// Show at most so many.
    #[arg(short = 'n', long, env = "COLLECTORY_MAX_COUNT", value_name = "COUNT")]
    max_count: Option<usize>,

    /// Only events of this kind: created, updated or deleted.
    #[arg(long, env = "COLLECTORY_ACTION", value_name = "ACTION", value_parser = action)]
    action: Option<Action>,

    /// Only events whose author has this name or e-mail address.
    #[arg(long, env = "COLLECTORY_ACTOR", value_name = "NAME|EMAIL")]
    actor: Option<String>,

    /// Only events of this origin: api, work-tree or git.
    #[arg(long, env = "COLLECTORY_ORIGIN", value_name = "ORIGIN", value_parser = origin)]
    origin: Option<Origin>,

    /// Only events from this time on, or after this revision.
    #[arg(long, env = "COLLECTORY_SINCE", value_name = "R")]
    since: Option<String>,

    /// Only events until this time, or up to and with this revision.
    #[arg(long, env = "COLLECTORY_UNTIL", value_name = "R")]
    until: Option<String>,

    #[command(flatten)]
    source: Source,
}

const EXAMPLES: &str = "\
R is a revision, a tag, a branch or an RFC 3339 time.

Examples:
  collectory log                                   everything, newest first
  collectory log posts -n 5                        the last changes of one collection
  collectory log --since 2026-03-01T00:00:00Z      since a day
  collectory log --actor mara@example.org --json   for programs, one event a line";

fn action(text: &str) -> Result<Action, String> {
    Action::parse(text).ok_or_else(|| "there are created, updated, deleted".to_owned())
}

fn origin(text: &str) -> Result<Origin, String> {
    Origin::parse(text).ok_or_else(|| "there are api, work-tree, git".to_owned())
}

impl Log {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let view = self.source.view()?;
        let bound = |text: &Option<String>| text.as_deref().map(|text| view.bound(text)).transpose();
        let filter = Filter {
            collection: self.key.clone(),
            action: self.action,
            actor: self.actor.clone(),
            origin: self.origin,
            since: bound(&self.since)?,
            until: bound(&self.until)?,
            seeing: None,
        };
        shown(Done::Well, |screen| {
            let mut left = self.max_count.unwrap_or(usize::MAX);
            let mut at = At::Newest;
            while left > 0 {
                let page = view.events(&filter, &Page { size: left.min(PAGE_LEN), at })?;
                for event in &page.events {
                    if self.source.json {
                        screen.resource(&resources::event(event))?;
                    } else {
                        screen.event(event)?;
                    }
                }
                left -= page.events.len();
                let Some(last) = page.cursors.last().filter(|_| page.has_older) else { break };
                at = At::After(*last);
            }
            Ok(())
        })
    }
}
