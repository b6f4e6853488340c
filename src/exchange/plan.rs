//! What an import would do, key by key, and the one batch that does it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::domain::{Attribute, Catalog, Collection, Command, Key, Patch, Refusal, Value, changes};
use crate::exchange::{Candidate, ImportSource};
use crate::format::Fault;

/// What happens to a key that already exists with other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Existing {
    /// Nothing is written.
    Fail,
    /// It stays as it is.
    Skip,
    /// Attributes of the source win, others stay.
    Merge,
    /// It becomes what the source has.
    Replace,
}

/// The collections before an import.
#[derive(Debug, Default)]
pub(crate) struct ExistingCollections {
    /// The collections as they are served.
    pub(crate) catalog: Catalog,
    /// The problems of files for which nothing can be served, by key.
    pub(crate) broken: BTreeMap<Key, String>,
    /// Whether a running service executes the plan; it refuses a collection that lacks what only a file may lack.
    pub(crate) is_served: bool,
}

/// What happens to one key.
#[derive(Debug, Clone)]
pub(crate) enum PlanStep {
    /// The collection is created.
    Create(Arc<Collection>),
    /// These attributes change.
    Update(Patch),
    /// The collection is already as the source has it.
    Unchanged,
    /// It is left out, for this reason.
    Skip(String),
    /// The collection is not in the source, and is deleted.
    Delete,
}

#[derive(Debug, Clone)]
pub(crate) struct PlanLine {
    /// The key, or the name of an item without a key.
    pub(crate) name: String,
    pub(crate) step: PlanStep,
}

/// What an import would do.
#[derive(Debug, Default)]
pub(crate) struct ImportPlan {
    /// One line per key, in the order of the keys.
    pub(crate) lines: Vec<PlanLine>,
    /// What prevents the import, including the faults of the source.
    pub(crate) faults: Vec<Fault>,
}

/// Plans an import over the existing collections. Nothing is deleted if the source has faults: a missing collection
/// may be the one that can't be read.
///
/// # Errors
///
/// Refuses to delete what the source is known to leave out.
pub(crate) fn plan(
    source: ImportSource,
    there: &ExistingCollections,
    existing: Existing,
    prune: bool,
) -> Result<ImportPlan, Fault> {
    if let Some(fault) = source.partial.filter(|_| prune) {
        return Err(fault);
    }
    if let Some(fault) = source.sparse.filter(|_| prune || existing == Existing::Replace) {
        return Err(fault);
    }
    let mut plan = ImportPlan { lines: Vec::new(), faults: source.faults };
    let keys: HashSet<Key> = source.candidates.iter().map(|it| it.collection.key().clone()).collect();
    for candidate in &source.candidates {
        match step(candidate, there, existing) {
            Ok(step) => plan.lines.push(PlanLine { name: candidate.collection.key().to_string(), step }),
            Err(message) => plan.faults.push(candidate.at.fault(message)),
        }
    }
    if prune && plan.faults.is_empty() {
        let gone = there.catalog.iter().map(|it| it.key()).filter(|key| !keys.contains(*key));
        plan.lines.extend(gone.map(|key| PlanLine { name: key.to_string(), step: PlanStep::Delete }));
    }
    plan.lines
        .extend(source.skipped.into_iter().map(|(name, why)| PlanLine { name, step: PlanStep::Skip(why) }));
    plan.lines.sort_by(|one, two| one.name.cmp(&two.name));
    plan.faults.sort_by_key(|fault| (fault.line, fault.column));
    Ok(plan)
}

fn step(candidate: &Candidate, there: &ExistingCollections, existing: Existing) -> Result<PlanStep, String> {
    let wanted = &candidate.collection;
    let key = wanted.key();
    if let Some(other) = there.catalog.case_variant(key) {
        return Err(format!("{key}: there is {other}, which differs in letter case only"));
    }
    if let Some(problem) = there.broken.get(key) {
        let why = format!("its file can't be read: {problem}");
        return match existing {
            Existing::Skip => Ok(PlanStep::Skip(why)),
            Existing::Fail | Existing::Merge | Existing::Replace => {
                Err(format!("{key}: {why}; mend it, delete it, or leave it as it is with --existing skip"))
            }
        };
    }
    let Some(before) = there.catalog.get(key.as_str()) else {
        let create = || PlanStep::Create(Arc::clone(wanted));
        return if there.is_served { complete(wanted).map(|()| create()) } else { Ok(create()) };
    };
    if before.kind() != wanted.kind() {
        return Err(format!("{key}: it is a {} collection here, and a kind can't change", before.kind()));
    }
    let after = match existing {
        Existing::Merge => merged(before, wanted)?,
        Existing::Fail | Existing::Skip | Existing::Replace => Arc::clone(wanted),
    };
    let changed: Vec<(String, Value)> = changes(Some(before), Some(&after))
        .into_iter()
        // To an update, `null` means to remove what is not there.
        .filter(|it| it.from.is_some() || it.to != Some(Value::Null))
        .map(|it| (it.attribute, it.to.unwrap_or(Value::Null)))
        .collect();
    if changed.is_empty() {
        return Ok(PlanStep::Unchanged);
    }
    match existing {
        Existing::Skip => Ok(PlanStep::Skip("it exists already".to_owned())),
        Existing::Fail => Err(format!(
            "{key}: it exists already with another {}; choose what to do with --existing merge, replace or skip",
            names(&changed)
        )),
        Existing::Merge | Existing::Replace => {
            if changed.iter().any(|(name, _)| name == Attribute::UnpublishedStatuses.as_str()) {
                complete(&after)?;
            }
            Ok(PlanStep::Update(Patch::new(changed)))
        }
    }
}

fn merged(before: &Collection, wanted: &Collection) -> Result<Arc<Collection>, String> {
    let patch = Patch::new(wanted.attributes().iter().map(|(name, value)| (name.to_string(), value.clone())));
    let describe = |violations| format!("{}: {}", before.key(), Refusal::Invalid(violations));
    before.patched_leniently(&patch).map(Arc::new).map_err(describe)
}

/// Checks that a collection has what a write needs and a file may lack.
fn complete(collection: &Collection) -> Result<(), String> {
    match collection.missing_status_names().first() {
        Some(violation) => Err(format!("{}: {violation}", collection.key())),
        None => Ok(()),
    }
}

/// Joins the names of attributes.
pub(crate) fn names(changed: &[(String, Value)]) -> String {
    changed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

impl ImportPlan {
    /// Returns the commands, in the order of the keys.
    pub(crate) fn commands(&self) -> Vec<Command> {
        let command = |line: &PlanLine| {
            let key = || Key::parse(&line.name).ok();
            match &line.step {
                PlanStep::Create(collection) => Some(Command::Create(Collection::clone(collection))),
                PlanStep::Update(patch) => {
                    Some(Command::Update { key: key()?, kind: None, patch: patch.clone() })
                }
                PlanStep::Delete => Some(Command::Delete { key: key()?, kind: None }),
                PlanStep::Unchanged | PlanStep::Skip(_) => None,
            }
        };
        self.lines.iter().filter_map(command).collect()
    }
}

/// A line as people read it.
impl std::fmt::Display for PlanLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name.escape_debug();
        match &self.step {
            PlanStep::Create(_) => write!(f, "create {name}"),
            PlanStep::Update(patch) => write!(f, "update {name}: {}", names(patch.attributes())),
            PlanStep::Unchanged => write!(f, "unchanged {name}"),
            PlanStep::Skip(why) => write!(f, "skip {name}: {why}"),
            PlanStep::Delete => write!(f, "delete {name}"),
        }
    }
}
