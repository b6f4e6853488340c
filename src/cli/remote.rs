//! `collectory remote`: an operator's decision about a rewritten remote.

use clap::Subcommand;

use crate::cli::flags::client::Client;
use crate::cli::flags::repository::{FolderArgs, Repository, Signing};
use crate::cli::{Done, Failure, answer, offline};
use crate::config::{RemoteConfig, ServeConfig};
use crate::service;
use crate::store::remote::Decision;

/// Decide about a remote that was rewritten
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Decide about a remote that was rewritten, in the repository while no service serves it, or with --to through the \
service that does.

What a rewritten remote takes away is kept under refs/collectory/kept/ and listed by /problems.")]
pub(crate) struct Remote {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  collectory remote accept --to http://127.0.0.1:8080
  collectory remote restore --to https://settings.example.org --token-file token
  collectory remote restore --force --repo /srv/settings --remote git@example.org:settings.git";

#[derive(Debug, Subcommand)]
enum What {
    /// Accept the remote as it is: follow it, and give up what it has lost. Commits that only wait to be pushed stay,
    /// except those on top of what was lost: they are kept and shown in /problems, until they are restored or
    /// accepted too
    Accept(How),
    /// Bring back what the remote has lost, by a merge with what it has now
    Restore {
        /// Replace what the remote has now with what it has lost; what it has now is kept here.
        #[arg(long, env = "COLLECTORY_FORCE")]
        force: bool,

        #[command(flatten)]
        how: How,
    },
}

/// The flags of [`RemoteConfig`] that a decision does not depend on.
const OF_A_SERVICE: [&str; 8] = [
    "ahead_commits_max",
    "follow",
    "max_staleness_ms",
    "peer",
    "remote_notice_secret",
    "remote_poll_ms",
    "remote_push_interval_ms",
    "work_tree",
];

/// Where to carry out the decision.
#[derive(Debug, clap::Args)]
#[command(mut_args(|arg| if OF_A_SERVICE.contains(&arg.get_id().as_str()) { arg.hide(true) } else { arg }))]
struct How {
    #[command(flatten)]
    client: Client,

    #[command(flatten)]
    repository: Repository,

    #[command(flatten)]
    folder: FolderArgs,

    #[command(flatten)]
    signing: Signing,

    #[command(flatten)]
    remote: RemoteConfig,
}

impl Remote {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let (decision, how) = match self.what {
            What::Accept(how) => (Decision::Accept, how),
            What::Restore { force, how } => (Decision::Restore { force }, how),
        };
        let revision = match how.client.url() {
            Some(url) => {
                let (word, query) = match decision {
                    Decision::Accept => ("accept", ""),
                    Decision::Restore { force: false } => ("restore", ""),
                    Decision::Restore { force: true } => ("restore", "?force=true"),
                };
                let report =
                    how.client.post(&format!("{}{query}", url.join(&["remote", word])), None, None)?;
                report.revision.unwrap_or_else(|| "no revision".to_owned())
            }
            None => how.offline(decision)?,
        };
        answer(&format!("{revision} done"))?;
        Ok(Done::Well)
    }
}

impl How {
    fn offline(&self, decision: Decision) -> Result<String, Failure> {
        if self.remote.url.is_none() {
            return Err(Failure::Usage(
                "name the remote with --remote, or the service that shares it with --to".into(),
            ));
        }
        let config = ServeConfig { remote: self.remote.clone(), ..ServeConfig::new(self.repository.find()?) };
        let config = offline::configured(config, self.repository.branch.clone(), &self.folder, &self.signing);
        Ok(service::decide(&config, decision)?.to_string())
    }
}
