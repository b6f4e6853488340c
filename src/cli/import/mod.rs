//! `collectory import`: converts settings of another program to collections, in one commit.

mod offline;
mod online;
mod reading;

use std::io;
use std::path::PathBuf;

use serde_json::json;

use crate::cli::flags::client::Client;
use crate::cli::flags::output::Output;
use crate::cli::flags::repository::{FolderArgs, Signing};
use crate::cli::import::reading::SourceArgs;
use crate::cli::{Done, Failure, answer, counted, json_line, note, plain};
use crate::config::REPOSITORY_DEFAULT;
use crate::domain::Command;
use crate::exchange::{self, Existing, ExistingCollections, ImportPlan, Parsed, PlanLine, PlanStep};

/// Take over the settings of Laika, Decap CMS or another Collectory
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Take over the settings of a Laika content store (.contentbase/settings.json), the configuration of Decap, \
Netlify, Static or Sveltia CMS (config.yml), or what `collectory export` gives, in one commit.

Prints a plan on standard output, one line per key: create, update, unchanged, skip, delete; with --format json one \
object per line: action, key, attributes, reason. What is wrong is \
reported on standard error as file:line:column: message, and nothing is written then. Importing the same again \
changes nothing.")]
pub(super) struct Import {
    #[command(flatten)]
    reading: SourceArgs,

    /// What to do with collections that already exist with other settings.
    #[arg(long, env = "COLLECTORY_EXISTING", value_name = "WHAT", value_enum, default_value_t = Existing::Fail)]
    existing: Existing,

    /// Delete the collections that are not in the file. Deletes none if a part of the file can't be read, and refuses
    /// a file that is one page of a list.
    #[arg(long, env = "COLLECTORY_PRUNE")]
    prune: bool,

    /// Import the other collections if some have a fault; still exits with 1.
    #[arg(long, env = "COLLECTORY_KEEP_GOING")]
    keep_going: bool,

    /// Print the plan and write nothing.
    #[arg(long, env = "COLLECTORY_DRY_RUN")]
    dry_run: bool,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    target: Target,
}

const EXAMPLES: &str = "\
Examples:
  collectory import public/admin/config.yml --dry-run          what would be imported
  collectory import public/admin/config.yml                    take it over, in one commit
  collectory import .contentbase/settings.json --existing merge
  curl -s https://old.example.org/collections | collectory import - --prune";

/// The repository or service that gets the collections, and the reason.
#[derive(Debug, clap::Args)]
struct Target {
    /// The reason, for the commit message.
    #[arg(short = 'm', long, env = "COLLECTORY_REASON", value_name = "TEXT", value_parser = crate::cli::reason)]
    reason: Option<String>,

    #[command(flatten)]
    client: Client,

    /// The repository, made when absent.
    #[arg(long = "repo", env = "COLLECTORY_REPO", value_name = "DIR", default_value = REPOSITORY_DEFAULT)]
    repository: PathBuf,

    /// The branch; without it the one that HEAD names.
    #[arg(long, env = "COLLECTORY_BRANCH", value_name = "NAME",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    branch: Option<String>,

    #[command(flatten)]
    folder: FolderArgs,

    #[command(flatten)]
    signing: Signing,
}

impl Import {
    pub(super) fn run(self) -> Result<Done, Failure> {
        self.output.refuse_csv()?;
        self.target.check()?;
        let Some(parsed) = self.reading.parse()? else { return Ok(Done::FoundProblems) };
        match self.target.client.url() {
            Some(url) => {
                let there = self.target.existing_collections(url)?;
                self.carry_out(&parsed, &there, |commands, plan| {
                    self.show(plan)?;
                    if commands.is_empty() {
                        return Ok(None);
                    }
                    Ok(self.target.send(url, &commands, &there.catalog)?)
                })
            }
            None => {
                let snapshot = self.target.snapshot()?;
                self.carry_out(
                    &parsed,
                    &offline::existing_collections(snapshot.as_deref()),
                    |commands, plan| {
                        let ready = || self.show(plan);
                        let revision = self.target.submit(commands, snapshot.as_deref(), ready)?;
                        Ok(revision.map(|revision| revision.to_string()))
                    },
                )
            }
        }
    }

    /// Plans the import, shows the plan, and carries it out unless it is a dry run.
    fn carry_out(
        &self,
        parsed: &Parsed,
        there: &ExistingCollections,
        write: impl FnOnce(Vec<Command>, &ImportPlan) -> Result<Option<String>, Failure>,
    ) -> Result<Done, Failure> {
        let Some(source) = self.reading.read(parsed, &there.catalog)? else { return Ok(Done::FoundProblems) };
        let plan = match exchange::plan(source, there, self.existing, self.prune) {
            Ok(plan) => plan,
            Err(fault) => {
                self.reading.report(&fault);
                note("nothing was written");
                return Ok(Done::FoundProblems);
            }
        };
        if self.is_stopped(&plan) {
            return Ok(Done::FoundProblems);
        }
        let commands = plan.commands();
        if self.dry_run {
            self.show(&plan)?;
        } else if let Some(revision) = write(commands, &plan)? {
            note(&format!("committed {revision}"));
        }
        Ok(if plan.faults.is_empty() { Done::Well } else { Done::FoundProblems })
    }

    /// Reports the faults of a plan; returns whether they prevent it from being carried out.
    fn is_stopped(&self, plan: &ImportPlan) -> bool {
        for fault in &plan.faults {
            self.reading.report(fault);
        }
        let is_stopped = !plan.faults.is_empty() && !self.keep_going;
        if is_stopped {
            note(&format!("{}; nothing was written", counted(plan.faults.len(), "fault")));
        }
        is_stopped
    }

    fn show(&self, plan: &ImportPlan) -> io::Result<()> {
        let line = |line: &PlanLine| match self.output.is_json() {
            true => json_line(&object(line)).into_owned(),
            false => plain(&line.to_string()),
        };
        let lines: Vec<String> = plan.lines.iter().map(line).collect();
        match &lines[..] {
            [] => note("nothing to do"),
            lines => answer(&lines.join("\n"))?,
        }
        Ok(())
    }
}

/// Formats a line of the plan for a program.
fn object(line: &PlanLine) -> String {
    let mut object = match &line.step {
        PlanStep::Create(_) => json!({"action": "create"}),
        PlanStep::Update(patch) => {
            let changed: Vec<&str> = patch.attributes().iter().map(|(name, _)| name.as_str()).collect();
            json!({"action": "update", "attributes": changed})
        }
        PlanStep::Unchanged => json!({"action": "unchanged"}),
        PlanStep::Skip(why) => json!({"action": "skip", "reason": why}),
        PlanStep::Delete => json!({"action": "delete"}),
    };
    object["key"] = json!(line.name);
    object.to_string()
}
