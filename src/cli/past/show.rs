//! `collectory show`: shows what one commit did.

use crate::cli::past::{Done, Failure, Source, Style, shown};
use crate::engine::history::HistoryError;
use crate::http::{Allowed, resources};

/// Show what one commit did to the collections
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// The commit: a revision, a tag, a branch, HEAD~2, an RFC 3339 time or a day (UTC).
    #[arg(value_name = "R")]
    revision: String,

    #[command(flatten)]
    source: Source,
}

const EXAMPLES: &str = "\
Examples:
  collectory show main                   the newest commit
  collectory show 9fceb02d               a commit by the first digits of its id
  collectory show 2026-03-01T09:30:00Z   what was newest at a time";

impl Show {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        self.source.output.refuse_csv()?;
        let view = self.source.place.view()?;
        let revision = view.resolve(&self.revision)?;
        let events = view.events_of(revision).map_err(|error| match error {
            HistoryError::UnknownRevision(_) => anyhow::anyhow!(
                "{revision} came into the branch by a merge; what it did is shown as the merge's, see `collectory log`"
            ),
            other => other.into(),
        })?;
        shown(|screen| {
            for event in &events {
                if self.source.output.is_json() {
                    screen.resource(&resources::event(event, &Allowed::anonymous()))?;
                    continue;
                }
                screen.event(event)?;
                let ids = [
                    ("event", Some(event.id.to_string())),
                    ("request", event.commit.message.request_id.clone()),
                ];
                for (name, text) in ids.into_iter().filter_map(|(name, text)| Some((name, text?))) {
                    let text = screen.ink(Style::Faint, &format!("{name} {text}"));
                    screen.line(&format!("    {text}"))?;
                }
            }
            if events.is_empty() && !self.source.output.is_json() {
                let name = screen.ink(Style::Name, &revision.to_string());
                screen.line(&format!("{name} touches no collection"))?;
            }
            Ok(())
        })
    }
}
