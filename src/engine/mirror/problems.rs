//! Problems: since when they exist, and which commit introduced them.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::domain::{Actor, Key, Revision};
use crate::engine::layers::{BrokenFile, KeyResolution};
use crate::engine::mirror::Mirror;
use crate::engine::mirror::provenance::{CollectionFiles, Provenance, Provenances};
use crate::engine::mirror::rebuild::Rebuild;
use crate::engine::projection::problem::{Problem, Serving};
use crate::format::{self, Fault};
use crate::store::StoreError;
use crate::telemetry::Limit;

impl Mirror {
    /// Finds the provenance of all broken committed files in one walk through the history.
    pub(crate) fn trace_broken(&mut self, work: &Rebuild<'_>) -> Result<Provenances, StoreError> {
        let mut broken = Vec::new();
        for key in &work.queue {
            let files = self.files_committed(key, &work.step);
            let mut is_broken = files.iter().all(|(_, committed)| committed.is_some());
            for (name, _) in &files {
                let reading = self.read_committed(key, name, &work.step)?;
                is_broken |=
                    reading.is_some_and(|it| !it.is_ok_and(|good| good.missing_status_names.is_empty()));
            }
            if is_broken {
                broken.push(CollectionFiles::new(files));
            }
        }
        self.trace(work.next.revision, broken)
    }

    pub(crate) fn problems(
        &self,
        key: &Key,
        resolved: &KeyResolution,
        provenances: &Provenances,
    ) -> Vec<Arc<Problem>> {
        let problem = |wrong: &BrokenFile| {
            self.problem(Some(key), wrong, resolved.serving(wrong), provenances.get(&wrong.name))
        };
        resolved.broken.iter().map(problem).collect()
    }

    /// Creates a problem. A problem that is known keeps the time and the commit that it was first reported with.
    pub(crate) fn problem(
        &self,
        key: Option<&Key>,
        wrong: &BrokenFile,
        serving: Serving,
        provenance: Option<&Provenance>,
    ) -> Arc<Problem> {
        let path = self.path(&wrong.name);
        let known =
            self.snapshot.problems.get(&path).filter(|known| {
                known.faults == wrong.faults && (wrong.uncommitted == known.committed.is_none())
            });
        let brought = provenance.filter(|_| !wrong.uncommitted);
        let (since, committed) = match (brought, known) {
            (Some(provenance), _) => (provenance.at, Some((provenance.revision, provenance.author.clone()))),
            (None, Some(known)) => (known.since, known.committed.clone()),
            (None, None) => (self.saved_at(wrong), None::<(Revision, Actor)>),
        };
        let collection = key.cloned();
        Arc::new(Problem { path, faults: wrong.faults.clone(), collection, serving, since, committed })
    }

    /// Returns when a file was saved, which may be before the start; the current time if that is unknown.
    fn saved_at(&self, wrong: &BrokenFile) -> DateTime<Utc> {
        let now = (self.options.clock)();
        let saved = self.journal.saved_at(&wrong.name).filter(|saved| wrong.uncommitted && *saved < now);
        saved.unwrap_or(now)
    }

    /// Logs each problem once when it appears and once when it is solved.
    pub(crate) fn log_problems(&self, problems: &OrdMap<String, Arc<Problem>>) {
        for difference in self.snapshot.problems.diff(problems) {
            match difference {
                DiffItem::Update { old: (_, old), new: (_, new) } if old.faults == new.faults => {}
                DiffItem::Add(_, new) | DiffItem::Update { new: (_, new), .. } => {
                    self.count(new);
                    warn_of(new);
                }
                DiffItem::Remove(path, _) => tracing::info!(path, "the problem of {path} is solved"),
            }
        }
    }

    /// Counts the limits that a file exceeds.
    fn count(&self, problem: &Problem) {
        let reached = &self.options.reached;
        if problem.faults.len() >= format::PROBLEMS_PER_FILE_MAX {
            reached.count(Limit::ProblemsPerFile);
        }
        if problem.faults.iter().any(Fault::is_too_many_attributes) {
            reached.count(Limit::Attributes);
        }
    }
}

fn warn_of(problem: &Problem) {
    let Problem { path, serving, .. } = problem;
    let revision = problem.committed.as_ref().map(|(revision, _)| revision.to_string());
    let serving = serving.as_str();
    for (number, Fault { line, column, .. }) in problem.faults.iter().enumerate() {
        tracing::warn!(path, line, column, serving, revision, "{}", problem.diagnostic(number));
    }
}
