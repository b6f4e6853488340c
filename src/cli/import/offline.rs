//! An import into a repository that no service serves.

use std::fs;
use std::sync::Arc;

use anyhow::anyhow;

use super::Target;
use crate::cli::{Failure, check, note, offline};
use crate::config::ServeConfig;
use crate::domain::{Command, Revision};
use crate::engine::{Condition, ConditionalCommand, Problem, Snapshot, SubmitError, Tags};
use crate::exchange::ExistingCollections;
use crate::store::git::{Access, GitJournal, Options};

impl Target {
    /// Refuses options that are wrong for any repository.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        Ok(self.options().check()?)
    }

    /// Returns the current state; `None` if the repository does not exist yet.
    pub(super) fn snapshot(&self) -> anyhow::Result<Option<Arc<Snapshot>>> {
        let is_absent = match fs::read_dir(&self.repository) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if is_absent {
            return Ok(None);
        }
        let journal = GitJournal::open(self.options())?;
        check::served(journal, &self.folder.path).map(Some)
    }

    fn options(&self) -> Options {
        Options {
            branch: self.branch.clone(),
            folder: self.folder.path.clone(),
            access: Access::Survey,
            ..Options::new(&self.repository)
        }
    }

    /// Carries out what was planned on a snapshot, all or nothing. Calls `ready` once the repository can be changed.
    pub(super) fn submit(
        &self,
        commands: Vec<Command>,
        planned_on: Option<&Snapshot>,
        ready: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<Option<Revision>, Failure> {
        if GitJournal::init(&self.repository)? {
            note(&format!("made {}", self.repository.display()));
        }
        if commands.is_empty() {
            ready()?;
            return Ok(None);
        }
        let config = ServeConfig::new(&self.repository);
        let config = offline::configured(config, self.branch.clone(), &self.folder, &self.signing);
        offline::change(&config, async |offline| {
            ready()?;
            let changes = changes(commands, planned_on);
            let keys: Vec<_> = changes.iter().map(|change| change.command.key().clone()).collect();
            let written = offline.engine().0.submit(offline.submission(changes, self.reason.clone())).await;
            let written = written.map_err(|error| refused(error, |index| keys[index].to_string()))?;
            Ok(written.revision)
        })
    }
}

/// Makes each command conditional on its collection still being what the plan was based on.
fn changes(commands: Vec<Command>, planned_on: Option<&Snapshot>) -> Vec<ConditionalCommand> {
    let condition = |command: &Command| {
        let entry = planned_on.and_then(|it| it.get(command.key().as_str()));
        let if_match = entry.map(|entry| Tags::OneOf(vec![entry.tag()]));
        Condition { if_match, ..Condition::default() }
    };
    commands
        .into_iter()
        .map(|command| ConditionalCommand { condition: condition(&command), command })
        .collect()
}

/// Returns what exists in a snapshot.
pub(super) fn existing_collections(snapshot: Option<&Snapshot>) -> ExistingCollections {
    let Some(snapshot) = snapshot else { return ExistingCollections::default() };
    let broken = |problem: &Arc<Problem>| {
        let key = problem.collection.clone().filter(|key| snapshot.get(key.as_str()).is_none())?;
        Some((key, problem.to_string()))
    };
    ExistingCollections {
        catalog: snapshot.catalog().iter().map(|entry| Arc::clone(&entry.collection)).collect(),
        broken: snapshot.problems.values().filter_map(broken).collect(),
        is_served: false,
    }
}

/// Explains why nothing was written, and names the collection that caused it.
fn refused(error: SubmitError, key: impl Fn(usize) -> String) -> anyhow::Error {
    match error {
        SubmitError::Refused { index, refusal } => anyhow!("{}: {refusal}; nothing was written", key(index)),
        SubmitError::ConditionFailed { index, .. } | SubmitError::Clash { index, .. } => {
            anyhow!("{} has changed meanwhile; nothing was written, import again", key(index))
        }
        SubmitError::Broken { index, problem } => {
            anyhow!("{}: its file can't be read: {problem}; nothing was written", key(index))
        }
        error => anyhow!("{error}; nothing was written"),
    }
}
