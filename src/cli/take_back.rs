//! `collectory undo` and `collectory restore`: the same as in the API, in the repository itself or through a service.

use uuid::Uuid;

use crate::cli::flags::client::{ChangeReport, Client};
use crate::cli::flags::repository::{FolderArgs, Repository, Signing};
use crate::cli::{Done, Failure, answer, note, offline};
use crate::config::ServeConfig;
use crate::domain::{Key, Revision};
use crate::engine::{Condition, Outcome, SubmitAnswer, UndoRequest};
use crate::service::Offline;

/// Take back what one event did
#[derive(Debug, clap::Args)]
#[command(after_help = UNDO_EXAMPLES, long_about = "\
Take back what one event did, by a commit of its own. Refused when a later change touched the same \
attributes.")]
pub(crate) struct Undo {
    /// The event's id, as `collectory show` and `/events` show it.
    #[arg(value_name = "EVENT", value_parser = event)]
    event: Uuid,

    #[command(flatten)]
    how: How,
}

fn event(text: &str) -> Result<Uuid, String> {
    let message = "an event's id looks like `0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e`, as `collectory show` and `/events` show it";
    text.parse().map_err(|_| message.to_owned())
}

const UNDO_EXAMPLES: &str = "\
Examples:
  collectory undo 0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e -m 'By mistake'
  collectory undo 0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e --to https://settings.example.org --token-file token";

/// Bring one collection back to what it was
#[derive(Debug, clap::Args)]
#[command(after_help = RESTORE_EXAMPLES, long_about = "\
Bring one collection, a deleted one too, back to what it was at a revision, by a commit of its own.")]
pub(crate) struct Restore {
    /// The collection.
    #[arg(value_name = "KEY", value_parser = Key::parse)]
    key: Key,

    /// The state to restore: a revision, a tag, a branch, HEAD~2, an RFC 3339 time or a day (UTC).
    #[arg(value_name = "R")]
    revision: String,

    #[command(flatten)]
    how: How,
}

const RESTORE_EXAMPLES: &str = "\
Examples:
  collectory restore posts HEAD~1
  collectory restore posts 2026-03-01 -m 'The move is off'";

/// Where to make the change, and its reason.
#[derive(Debug, clap::Args)]
struct How {
    /// The reason, for the commit message.
    #[arg(short = 'm', long, alias = "message", env = "COLLECTORY_REASON", value_name = "TEXT", value_parser = crate::cli::reason)]
    reason: Option<String>,

    #[command(flatten)]
    client: Client,

    #[command(flatten)]
    repository: Repository,

    #[command(flatten)]
    folder: FolderArgs,

    #[command(flatten)]
    signing: Signing,
}

impl Undo {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let Self { event, how } = self;
        let report = match how.client.url() {
            Some(url) => {
                let url = url.join(&["events", &event.to_string(), "undo"]);
                how.client.post(&url, None, how.reason.as_deref())?
            }
            None => how.offline(What::Event(event))?,
        };
        print_report(&report)
    }
}

impl Restore {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let Self { key, revision, how } = self;
        let report = match how.client.url() {
            Some(url) => {
                let body =
                    serde_json::json!({"data": {"type": "restore", "attributes": {"revision": revision}}});
                let url = url.join(&["collections", key.as_str(), "restore"]);
                how.client.post(&url, Some(&body), how.reason.as_deref())?
            }
            None => how.offline(What::Since(key, revision))?,
        };
        print_report(&report)
    }
}

/// What to take back.
enum What {
    Event(Uuid),
    Since(Key, String),
}

impl How {
    /// Makes the change in the repository itself.
    fn offline(&self, what: What) -> Result<ChangeReport, Failure> {
        let config = ServeConfig::new(self.repository.find()?);
        let config = offline::configured(config, self.repository.branch.clone(), &self.folder, &self.signing);
        offline::change(&config, async |offline| {
            offline.incomplete.into_iter().for_each(note);
            self.take_back(offline, what).await
        })
    }

    async fn take_back(&self, offline: &Offline, what: What) -> Result<ChangeReport, Failure> {
        let asked = offline.submission(Vec::new(), self.reason.clone());
        let undoer = UndoRequest { template: asked, condition: Condition::default() };
        let (history, engine) = (&offline.history, offline.engine());
        let view = history.ready().await?;
        let written = match what {
            What::Event(event) => undoer.undo(history, engine, event).await,
            What::Since(key, revision) => {
                let revision = view.resolve(&revision)?;
                undoer.restore(history, engine, &key, revision).await
            }
        };
        Ok(report(&written?))
    }
}

fn report(written: &SubmitAnswer) -> ChangeReport {
    let what = match &written.outcomes[..] {
        [Outcome::Created(_) | Outcome::Updated(_)] => "done",
        [Outcome::Deleted] => "deleted",
        _ => "it was so already",
    };
    ChangeReport { what, revision: written.revision.as_ref().map(Revision::to_string) }
}

fn print_report(report: &ChangeReport) -> Result<Done, Failure> {
    let revision = report.revision.as_deref().unwrap_or("no revision");
    answer(&format!("{revision} {}", report.what))?;
    Ok(Done::Well)
}
