//! `collectory doctor`: finds what is wrong with what the service keeps and needs, with or without a running service.
//!
//! Each check reports findings and changes nothing. `--repair` repairs the service's own files by opening the
//! repository as a start does, and removes the files that a finding says are removable. What a person saved and what
//! belongs to git is only reported, except locks of the commit-graph that a dead git has left, which are removed too.

mod disk;
mod git;
mod locks;
mod ours;
mod permissions;
mod service;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::flags::output::Output;
use crate::cli::flags::repository::{FolderArgs, Repository, is_served, open_as_served};
use crate::cli::{Done, Failure, json_line, plain, print_lines};
use crate::store::git::{Access, GitJournal, Options, WriteTarget};
use crate::store::{Journal as _, StoreError};

/// Look for what is wrong with a repository and with what serves it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Look for what is wrong with a repository and with what serves it, beside a running service or without one: locks \
of dead processes, leftovers of a crash, a work tree behind the branch, indexes that don't fit, git fsck, \
permissions, the file system, room, the clock, git, the policy.

Each finding says what is wrong, why it matters and how it is repaired. Exit code 1 when something is wrong; \
hints alone are fine.")]
pub(crate) struct Doctor {
    #[command(flatten)]
    repository: Repository,

    #[command(flatten)]
    folder: FolderArgs,

    /// Repair what belongs to the service. What people saved, and what belongs to git (except dead locks of its
    /// commit-graph), is left to people.
    #[arg(long, env = "COLLECTORY_REPAIR")]
    repair: bool,

    #[command(flatten)]
    output: Output,

    /// Also check this policy file.
    #[arg(long, env = "COLLECTORY_POLICY", value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Also check the running service at this address.
    #[arg(long, alias = "to", env = "COLLECTORY_ADDRESS", value_name = "URL")]
    address: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  collectory doctor
  collectory doctor --repo /srv/settings --policy /etc/collectory/policy.yaml --address http://127.0.0.1:8080
  collectory doctor --repair --json";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    /// Something does not work, or will stop working.
    Wrong,
    /// Worth knowing.
    Hint,
}

/// How a finding is repaired.
#[derive(Debug)]
enum Fix {
    /// A person has to do this.
    Person(String),
    /// This file is removed.
    Remove(PathBuf),
    /// The service's next start repairs what it left behind.
    Start,
}

/// A result of a check.
#[derive(Debug)]
struct Finding {
    /// The name of the check.
    check: &'static str,
    severity: Severity,
    what: String,
    why: &'static str,
    fix: Fix,
    is_repaired: bool,
}

impl<T: Into<String>> From<T> for Fix {
    fn from(what: T) -> Self {
        Self::Person(what.into())
    }
}

impl Finding {
    fn wrong(check: &'static str, what: impl Into<String>, why: &'static str, fix: impl Into<Fix>) -> Self {
        let (what, fix) = (what.into(), fix.into());
        Self { check, severity: Severity::Wrong, what, why, fix, is_repaired: false }
    }

    fn hint(check: &'static str, what: impl Into<String>, why: &'static str, fix: impl Into<Fix>) -> Self {
        Self { severity: Severity::Hint, ..Self::wrong(check, what, why, fix) }
    }

    fn is_wrong(&self) -> bool {
        self.severity == Severity::Wrong && !self.is_repaired
    }

    /// Describes the repair.
    fn repair(&self) -> String {
        match &self.fix {
            Fix::Person(what) => what.clone(),
            Fix::Remove(file) => format!("--repair removes {}", file.display()),
            Fix::Start => "the next start of the service mends it, and --repair does so now".to_owned(),
        }
    }
}

/// The repository to check.
struct Repo {
    /// The `.git` of the work tree, or the bare repository.
    git_dir: PathBuf,
    /// The directory that all work trees share.
    common_dir: PathBuf,
    work_tree: Option<PathBuf>,
    /// The branch, as `refs/heads/…`.
    branch: String,
    /// Whether the folder of the collections exists, or nothing is committed yet.
    has_folder: bool,
    /// The paths of the work tree that are behind the branch; empty while a service runs.
    behind: BTreeSet<String>,
    /// The paths that a service must be able to write.
    written: Vec<WriteTarget>,
    is_served: bool,
}

impl Repo {
    /// The directory of the service's own files.
    fn state(&self) -> PathBuf {
        self.common_dir.join("collectory")
    }

    /// The directory of those of them that belong to the work tree.
    fn state_of_work_tree(&self) -> PathBuf {
        self.git_dir.join("collectory")
    }
}

impl Doctor {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        self.output.refuse_csv()?;
        let options = self.repository.options(&self.folder, Access::Read)?;
        let mut findings = Vec::new();
        if let Err(error) = GitJournal::open(options.clone()) {
            let what = format!("{} can't be opened: {:#}", options.path.display(), anyhow::Error::new(error));
            let fix = "mend what is named, or bring back a backup (README, \"Operate it\")";
            findings.push(Finding::wrong("repository", what, "nothing can be served", fix));
        }
        if let Ok(mut journal) = open_as_served(&options, GitJournal::open_of_any_owner) {
            let repo = open_repo(&mut journal)?;
            if let Some(incomplete) = journal.incomplete_reason()? {
                let fix = "run the `git fetch` that is named";
                let why = "events, old versions and backups need the whole history";
                findings.push(Finding::hint("history", incomplete, why, fix));
            }
            drop(journal);
            if !repo.has_folder {
                let what = format!("there is no folder `{}` on the branch", self.folder.path);
                let why = "if another one is served, not all that it needs was looked at, and no start mends anything";
                let fix = "name the folder that is served with --path";
                findings.push(Finding::hint("folder", what, why, fix));
            }
            check_all(&repo, &mut findings);
            if self.repair {
                repair(&repo, options, &mut findings);
            }
        }
        if let Some(policy) = &self.policy {
            service::policy(policy, &mut findings);
        }
        if let Some(address) = &self.address {
            service::address(address, &mut findings);
        }
        print_findings(&findings, self.output.is_json())?;
        Ok(if findings.iter().any(Finding::is_wrong) { Done::FoundProblems } else { Done::Well })
    }
}

fn open_repo(journal: &mut GitJournal) -> Result<Repo, StoreError> {
    let is_served = is_served(journal.common_dir());
    // `git fsck` reports what can't be read.
    let behind = if is_served { BTreeSet::new() } else { journal.outdated_paths().unwrap_or_default() };
    Ok(Repo {
        git_dir: journal.git_dir().to_owned(),
        common_dir: journal.common_dir().to_owned(),
        work_tree: journal.work_tree_root().map(Path::to_owned),
        branch: format!("refs/heads/{}", journal.branch()),
        written: journal.write_targets()?,
        has_folder: has_folder(journal).unwrap_or(true),
        behind,
        is_served,
    })
}

fn has_folder(journal: &mut GitJournal) -> Result<bool, StoreError> {
    let Some(head) = journal.head()? else { return Ok(true) };
    let is_saved = journal.folder().is_some_and(|folder| folder.is_dir());
    Ok(is_saved || !journal.commits().changes(None, Some(head))?.is_empty())
}

fn check_all(repo: &Repo, findings: &mut Vec<Finding>) {
    locks::check_locks(repo, findings);
    ours::check(repo, findings);
    git::check(repo, findings);
    permissions::check_permissions(repo, findings);
    disk::check(repo, findings);
}

/// Repairs what belongs to the service. What a start repairs is left alone beside a running one.
fn repair(repo: &Repo, options: Options, findings: &mut [Finding]) {
    let mut is_start_wanted = false;
    for finding in findings.iter_mut() {
        match &finding.fix {
            Fix::Remove(file) => finding.is_repaired = std::fs::remove_file(file).is_ok(),
            Fix::Start => is_start_wanted = true,
            Fix::Person(_) => {}
        }
    }
    // A start with another folder would record the work tree as up to date without updating it.
    if is_start_wanted && !repo.is_served && repo.has_folder && started(options).is_ok() {
        let by_start = findings.iter_mut().filter(|finding| matches!(finding.fix, Fix::Start));
        by_start.for_each(|finding| finding.is_repaired = true);
    }
}

/// Does what a start does before it serves: removes the leftovers of a kill, and updates the work tree.
fn started(options: Options) -> Result<(), StoreError> {
    let mut journal = GitJournal::open(Options { access: Access::Serve, maintain: false, ..options })?;
    journal.catch_up()
}

fn print_findings(findings: &[Finding], as_json: bool) -> io::Result<()> {
    if as_json {
        let listed: Vec<_> = findings
            .iter()
            .map(|finding| {
                json!({
                    "check": finding.check,
                    "severity": if finding.severity == Severity::Wrong { "wrong" } else { "hint" },
                    "what": finding.what,
                    "why": finding.why,
                    "repair": finding.repair(),
                    "repaired": finding.is_repaired,
                })
            })
            .collect();
        let is_well = !findings.iter().any(Finding::is_wrong);
        let document = json!({"well": is_well, "findings": listed}).to_string();
        return print_lines(&[json_line(&document).into_owned()]);
    }
    let mut lines = Vec::new();
    for finding in findings {
        let word = match (finding.severity, finding.is_repaired) {
            (_, true) => "repaired",
            (Severity::Wrong, false) => "wrong",
            (Severity::Hint, false) => "hint",
        };
        lines.push(plain(&format!("{word}: {}: {}", finding.check, finding.what)));
        lines.push(format!("  why: {}", finding.why));
        if !finding.is_repaired {
            lines.push(plain(&format!("  repair: {}", finding.repair())));
        }
    }
    if findings.is_empty() {
        lines.push("all is well".to_owned());
    }
    print_lines(&lines)
}
