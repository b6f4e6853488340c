//! `collectory check`: reads everything and reports what is wrong, in the service's words.

mod hints;
mod read_only;
mod subject;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::cli::check::hints::hint;
use crate::cli::check::read_only::{ReadOnlyJournal, SurveyView, staged};
use crate::cli::check::subject::CheckSubject;
use crate::cli::flags::output::Output;
use crate::cli::flags::repository::{FolderArgs, Repository};
use crate::cli::{Done, Failure, counted, json_line, note, print_lines};
use crate::domain::file_name::{name_in, path_in};
use crate::engine::{self, MirrorOptions, Problem, Snapshot};
use crate::http::Clock;
use crate::store::Journal as _;
use crate::store::git::{Access, GitJournal, Options};
use crate::store::git_command::rev_parse;
use crate::telemetry::LimitCounters;

/// Look for problems in the collection files
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Read everything and report each problem on standard output as path:line:column: message, with the path \
inside the repository, in the words of /problems. Exits with 1 if there is any.

Reads the files as they are saved in the work tree; the branch when the repository is bare. Changes \
nothing, and may run beside a service. With --format json each problem is one JSON object per line: path, line, \
column, message, collection, serving, kind. Files that look like those of collections and are not read are \
hints on standard error.")]
pub(crate) struct Check {
    /// The repository, or files of one to read just these [default: ./settings, else the repository around
    /// the current directory].
    #[arg(value_name = "DIR|FILE")]
    arguments: Vec<PathBuf>,

    #[command(flatten)]
    repository: Repository,

    #[command(flatten)]
    folder: FolderArgs,

    /// Read what is staged for the next commit, as a pre-commit hook does.
    #[arg(long, env = "COLLECTORY_STAGED", conflicts_with = "rev")]
    staged: bool,

    /// Read this commit: a branch, a tag, an id, HEAD~2.
    #[arg(long, env = "COLLECTORY_REV", value_name = "REV")]
    rev: Option<String>,

    /// The index that git is about to commit, which it names to its hooks.
    #[arg(long, env = "GIT_INDEX_FILE", hide = true)]
    index: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  collectory check                      the files in ./settings, or around the current directory
  collectory check collections/a.yaml   just this one
  collectory check --rev origin/main .  what was pushed, in CI
  collectory check --staged .           what is about to be committed; `init --hook` installs it";

impl Check {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        // Check first, because these errors do not depend on the repository.
        self.output.refuse_csv()?;
        self.options(Path::new(".")).check()?;
        let subject = CheckSubject::of(&self.arguments, self.repository.dir.as_deref())?;
        let mut journal = GitJournal::open(self.options(&subject.repository))?;
        let work_tree = journal.work_tree_root().map(Path::to_owned);
        let view = self.view(&subject, &mut journal)?;
        self.require_folder(&subject, &mut journal, &view)?;
        let wanted = self.wanted(&subject, work_tree.as_deref())?;
        if let (SurveyView::WorkTree, Some(root), []) = (&view, &work_tree, &wanted[..]) {
            self.hint_at(&hints::names(&root.join(&self.folder.path)));
        }
        let journal = Box::new(ReadOnlyJournal { journal, view });
        let snapshot = engine::survey(journal, mirror_options(&self.folder.path))?;
        self.report(&snapshot, &wanted)
    }

    fn options(&self, repository: &Path) -> Options {
        Options {
            branch: self.repository.branch.clone(),
            folder: self.folder.path.clone(),
            access: Access::Survey,
            ..Options::new(repository)
        }
    }

    /// Reports the problems of the wanted files, or of all files.
    fn report(&self, snapshot: &Snapshot, wanted: &[String]) -> Result<Done, Failure> {
        let mut lines = Vec::new();
        let is_wanted = |problem: &&Arc<Problem>| wanted.is_empty() || wanted.contains(&problem.path);
        for problem in snapshot.problems.values().filter(is_wanted) {
            lines.extend((0..problem.faults.len()).map(|number| match self.output.is_json() {
                true => json_line(&annotation(problem, number)).into_owned(),
                false => problem.diagnostic(number),
            }));
        }
        print_lines(&lines)?;
        let read = match wanted.len() {
            0 => counted(snapshot.catalog().len(), "collection"),
            files => counted(files, "file"),
        };
        note(&format!("{read}, {}", counted(lines.len(), "problem")));
        Ok(if lines.is_empty() { Done::Well } else { Done::FoundProblems })
    }

    /// Returns the paths inside the repository of the files on the command line.
    fn wanted(&self, subject: &CheckSubject, work_tree: Option<&Path>) -> anyhow::Result<Vec<String>> {
        if subject.files.is_empty() {
            return Ok(Vec::new());
        }
        let Some(root) = work_tree else {
            bail!("{} is bare, it has no files", subject.repository.display())
        };
        let wanted: Vec<String> = subject
            .files
            .iter()
            .map(|file| subject::path_in_work_tree(root, file))
            .collect::<Result<_, _>>()?;
        for path in &wanted {
            match name_in(&self.folder.path, path) {
                Some(name) => self.hint_at(std::slice::from_ref(&name.to_owned())),
                None => {
                    note(&format!(
                        "hint: {path} is not read; it is not in the folder `{}`",
                        self.folder.path
                    ));
                }
            }
        }
        Ok(wanted)
    }

    fn hint_at(&self, names: &[String]) {
        for (name, why) in names.iter().filter_map(|name| Some((name, hint(name)?))) {
            note(&format!("hint: {} is not read; {why}", path_in(&self.folder.path, name)));
        }
    }

    /// Checks that the folder exists. A missing folder is a wrong name, unless nothing is committed yet; what is
    /// staged may have nothing to do with it.
    fn require_folder(
        &self,
        subject: &CheckSubject,
        journal: &mut GitJournal,
        view: &SurveyView,
    ) -> anyhow::Result<()> {
        let head = match view {
            SurveyView::Staged(_) => None,
            SurveyView::Revision(revision) => Some(*revision),
            SurveyView::WorkTree => journal.head()?,
        };
        let Some(head) = head else { return Ok(()) };
        let is_there = match (view, journal.work_tree_root()) {
            (SurveyView::WorkTree, Some(root)) => root.join(&self.folder.path).is_dir(),
            _ => !journal.commits().changes(None, Some(head))?.is_empty(),
        };
        if !is_there {
            bail!("there is no folder `{}` in {}", self.folder.path, subject.repository.display());
        }
        Ok(())
    }

    fn view(&self, subject: &CheckSubject, journal: &mut GitJournal) -> anyhow::Result<SurveyView> {
        let repository = &subject.repository;
        if let Some(name) = &self.rev {
            let revision = rev_parse(journal.git_dir(), name).context("cannot ask git for the commit")?;
            return revision
                .map(SurveyView::Revision)
                .with_context(|| format!("there is no commit `{name}` in {}", repository.display()));
        }
        if !self.staged {
            return Ok(SurveyView::WorkTree);
        }
        if journal.work_tree_root().is_none() {
            bail!("{} is bare, nothing is ever staged there", repository.display());
        }
        let index = self.index.clone().unwrap_or_else(|| journal.git_dir().join("index"));
        Ok(SurveyView::Staged(staged(journal, &index, &self.folder.path)?))
    }
}

/// Formats a fault for a program that shows it next to the line.
fn annotation(problem: &Problem, number: usize) -> String {
    let fault = &problem.faults[number];
    json!({
        "path": problem.path,
        "line": fault.line,
        "column": fault.column,
        "message": fault.message,
        "collection": problem.collection.as_ref().map(|key| key.as_str()),
        "serving": problem.serving.as_str(),
        "kind": "file",
    })
    .to_string()
}

/// Returns the snapshot that a service would serve: the head, overlaid with the saved files.
pub(crate) fn served(journal: GitJournal, folder: &str) -> anyhow::Result<Arc<Snapshot>> {
    Ok(engine::survey(
        Box::new(ReadOnlyJournal { journal, view: SurveyView::WorkTree }),
        mirror_options(folder),
    )?)
}

/// The options of a one-time read: it waits for no file to settle.
fn mirror_options(folder: &str) -> MirrorOptions {
    let clock = Clock::system();
    MirrorOptions {
        folder: folder.to_owned(),
        branch: String::new(),
        committers: Vec::new(),
        serve_uncommitted: true,
        settle_patience: Duration::ZERO,
        busy_max: Duration::ZERO,
        clock: Arc::new(move || clock.now()),
        reached: LimitCounters::default(),
    }
}
