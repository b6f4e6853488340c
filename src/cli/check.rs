//! `collectory check`: read everything and tell what is wrong, in the words of the service.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use chrono::{DateTime, Utc};

use super::{Done, Failure, answer, counted, note};
use crate::config::{FOLDER_DEFAULT, REPOSITORY_DEFAULT};
use crate::domain::{Actor, Revision};
use crate::engine::{self, Snapshot};
use crate::http::Clock;
use crate::store::git::{Access, GitJournal, Options, rev_parse};
use crate::store::{
    BlobId, Commit, Committed, Draft, Edit, FileChange, Journal, Kept, Look, Saved, StoreError, TreeEntry,
    WorkTree,
};

/// Look for problems in the collection files
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Read everything and report each problem on standard output as path:line:column: message, with the path \
inside the repository and the words that the service has for it. Exits with 1 if there is any.

Reads the files as they are saved in the work tree; the branch when the repository is bare. Changes \
nothing, and may run beside a service.")]
pub(super) struct Check {
    /// The repository.
    #[arg(value_name = "DIR", env = "COLLECTORY_REPO", default_value = REPOSITORY_DEFAULT)]
    repository: PathBuf,

    /// The folder of the collection files inside the repository.
    #[arg(long = "path", env = "COLLECTORY_PATH", value_name = "FOLDER", default_value = FOLDER_DEFAULT,
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    folder: String,

    /// The branch; without it the one that HEAD names.
    #[arg(long, env = "COLLECTORY_BRANCH", value_name = "NAME",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    branch: Option<String>,

    /// Read what is staged for the next commit, as a pre-commit hook does.
    #[arg(long, env = "COLLECTORY_STAGED", conflicts_with = "rev")]
    staged: bool,

    /// Read this commit: a branch, a tag, an id, HEAD~2.
    #[arg(long, env = "COLLECTORY_REV", value_name = "REV")]
    rev: Option<String>,

    /// The index that git is about to commit, which it names to its hooks.
    #[arg(long, env = "GIT_INDEX_FILE", hide = true)]
    index: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  collectory check                      the files in ./settings
  collectory check --rev origin/main .  what was pushed, in CI
  collectory check --staged .           what is about to be committed; `init --hook` installs it";

impl Check {
    pub(super) fn run(self) -> Result<Done, Failure> {
        let snapshot = self.survey()?;
        let mut problems = 0;
        for problem in snapshot.problems.values() {
            for number in 0..problem.faults.len() {
                answer(&problem.told(number))?;
            }
            problems += problem.faults.len();
        }
        note(&format!(
            "{}, {}",
            counted(snapshot.catalog().len(), "collection"),
            counted(problems, "problem")
        ));
        Ok(if problems == 0 { Done::Well } else { Done::FoundProblems })
    }

    fn survey(&self) -> anyhow::Result<Arc<Snapshot>> {
        let options = Options {
            branch: self.branch.clone(),
            folder: self.folder.clone(),
            access: Access::Survey,
            ..Options::new(&self.repository)
        };
        let mut journal = GitJournal::open(options)?;
        let view = self.view(&mut journal)?;
        Ok(engine::survey(Glass { journal, view }, &engine_options(&self.folder))?)
    }

    fn view(&self, journal: &mut GitJournal) -> anyhow::Result<View> {
        if let Some(name) = &self.rev {
            let revision = rev_parse::resolve(&self.repository, name)?;
            let repository = self.repository.display();
            return revision
                .map(View::Revision)
                .with_context(|| format!("there is no commit `{name}` in {repository}"));
        }
        if !self.staged {
            return Ok(View::WorkTree);
        }
        if journal.work_tree_root().is_none() {
            bail!("{} is bare, nothing is ever staged there", self.repository.display());
        }
        let index = self.index.clone().unwrap_or_else(|| journal.git_dir().join("index"));
        Ok(View::Staged(staged(journal, &index, &self.folder)?))
    }
}

/// What a service would serve: the head, and over it the saved files.
pub(super) fn served(journal: GitJournal, folder: &str) -> anyhow::Result<Arc<Snapshot>> {
    Ok(engine::survey(Glass { journal, view: View::WorkTree }, &engine_options(folder))?)
}

/// There is nobody to be patient for: every file is taken as it stands.
fn engine_options(folder: &str) -> engine::Options {
    let clock = Clock::system();
    engine::Options {
        folder: folder.to_owned(),
        branch: String::new(),
        committers: Vec::new(),
        serve_uncommitted: true,
        queue_len_max: 1,
        batch_len_max: 1,
        races_max: 1,
        settle_patience: Duration::ZERO,
        busy_max: Duration::ZERO,
        retry_wait: Duration::ZERO,
        idempotency_retention: Duration::ZERO,
        idempotency_len_max: 0,
        clock: Arc::new(move || clock.now()),
        fallbacks: Arc::new(AtomicU64::new(0)),
    }
}

/// What the index has and the head has not, as if it were saved in the work tree.
fn staged(journal: &mut GitJournal, index: &Path, folder: &str) -> anyhow::Result<Vec<Edit>> {
    let head = journal.head()?;
    let mut committed: Vec<(String, TreeEntry)> = journal
        .changes(None, head)?
        .into_iter()
        .filter_map(|change| Some((change.name, change.after?)))
        .collect();
    let mut edits = Vec::new();
    for (name, entry) in rev_parse::staged(index, folder)? {
        let is_new = match committed.iter().position(|(known, _)| *known == name) {
            Some(at) => committed.swap_remove(at).1 != entry,
            None => true,
        };
        if is_new {
            let now = match entry {
                TreeEntry::File(blob) => Saved::File { blob, bytes: content(journal, blob)? },
                TreeEntry::Special(what) => Saved::Special(what),
            };
            edits.push(Edit { name, now });
        }
    }
    edits.extend(committed.into_iter().map(|(name, _)| Edit { name, now: Saved::Gone }));
    Ok(edits)
}

fn content(journal: &mut GitJournal, blob: BlobId) -> anyhow::Result<Vec<u8>> {
    let found = std::sync::Mutex::new(Err(anyhow!("the staged content {blob} is missing")));
    journal.read(&[blob], &|_, bytes| {
        *found.lock().expect("nobody panics while holding it") =
            bytes.map(<[u8]>::to_vec).map_err(Into::into);
    })?;
    found.into_inner().expect("nobody panics while holding it")
}

/// What of the repository is looked at.
enum View {
    /// The head, and over it the saved files.
    WorkTree,
    /// The head, and over it what is staged.
    Staged(Vec<Edit>),
    /// One commit.
    Revision(Revision),
}

/// A journal to look at, from one side; nothing is ever written through it.
struct Glass {
    journal: GitJournal,
    view: View,
}

impl Journal for Glass {
    fn head(&mut self) -> Result<Option<Revision>, StoreError> {
        match &self.view {
            View::Revision(revision) => Ok(Some(*revision)),
            View::WorkTree | View::Staged(_) => self.journal.head(),
        }
    }

    fn work_tree(&mut self, head: Option<Revision>, look: Look<'_>, _: bool) -> Result<WorkTree, StoreError> {
        match &self.view {
            // What is saved is saved, also while git holds its locks.
            View::WorkTree => self.journal.work_tree(head, look, true),
            View::Staged(edits) => {
                Ok(WorkTree::Here { edits: edits.clone(), unfinished: BTreeMap::new(), half_done: None })
            }
            View::Revision(revision) => Ok(WorkTree::Away(format!("the commit {revision} is looked at"))),
        }
    }

    fn append(&mut self, expected: Option<Revision>, _: &[Draft]) -> Result<Vec<Committed>, StoreError> {
        Err(StoreError::HeadMoved { expected, found: expected })
    }

    fn make_durable(&mut self, _: Option<Revision>) -> Result<(), StoreError> {
        Ok(())
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        self.journal.changes(from, to)
    }

    fn read(
        &mut self,
        blobs: &[BlobId],
        each: &(dyn Fn(usize, Result<&[u8], StoreError>) + Sync),
    ) -> Result<(), StoreError> {
        self.journal.read(blobs, each)
    }

    fn walk(
        &mut self,
        from: Revision,
        each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
    ) -> Result<(), StoreError> {
        self.journal.walk(from, each)
    }

    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        self.journal.descends(descendant, ancestor)
    }

    fn left_behind(&mut self, old: Revision, new: Revision) -> Result<Vec<Revision>, StoreError> {
        self.journal.left_behind(old, new)
    }

    fn keep(&mut self, revision: Revision, now: DateTime<Utc>) -> Result<Kept, StoreError> {
        Ok(Kept::new(revision, now))
    }

    fn person(&mut self) -> Actor {
        self.journal.person()
    }
}
