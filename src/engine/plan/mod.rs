//! Planning: from waiting submissions to the commits to make. Pure.
//!
//! Everything that must be read from the disk is read before (`input`), so that the same plan can be made again after
//! a lost race. Nothing here appends, waits or answers: the writer does that. What takes long, reading and editing
//! large files, is done as far as a turn has time for it (`edits`).

pub(crate) mod edits;
pub(crate) mod fold;
mod hand_edits;
pub(crate) mod input;
pub(crate) mod merge;
pub(crate) mod preview;
mod state;
pub(crate) mod three_way;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::file_name::path_in;
use crate::domain::{Actor, Catalog, Event, Key, Revision};
use crate::engine::mirror::contents::Bases;
use crate::engine::plan::edits::{EditCache, EditSources};
pub(crate) use crate::engine::plan::hand_edits::{Rival, RivalFile};
use crate::engine::plan::state::PlanState;
use crate::engine::projection::{Entry, Snapshot};
use crate::engine::submission::Submission;
use crate::engine::submission::answer::{Outcome, Preview, SubmitAnswer};
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::idempotency_key::{Fingerprint, Scope};
use crate::store::{BlobId, Draft};

/// The input of a plan: everything that it needs from the disk.
pub(crate) struct PlanInput<'a> {
    /// What is served now.
    pub(crate) snapshot: &'a Snapshot,
    /// The older versions that updates may be merged over, by the content that their tag identifies.
    pub(crate) bases: Bases,
    /// The files of the keys concerned.
    pub(crate) files: PlanFiles,
    /// The contents that updates build on and dry runs show, as far as they have been read.
    pub(crate) sources: &'a EditSources,
    /// Maximum total size in bytes of the files that one submission builds on.
    pub(crate) operations_bytes_max: usize,
    /// The collections folder, as a path inside the repository.
    pub(crate) folder: &'a str,
    /// The author of hand edits.
    pub(crate) hand_edit_author: Actor,
    /// When the commits are made.
    pub(crate) now: DateTime<Utc>,
    /// Creates the ids of events.
    pub(crate) new_id: fn() -> Uuid,
}

impl PlanInput<'_> {
    /// Returns the path inside the repository of a file of the collections folder.
    fn path(&self, name: &str) -> String {
        path_in(self.folder, name)
    }
}

/// The files of some keys at the head and in the work tree.
#[derive(Default)]
pub(crate) struct PlanFiles {
    /// The blob ids at the head, by file name.
    pub(crate) blobs: HashMap<String, BlobId>,
    /// The hand edits that have to be committed before a key can be written.
    pub(crate) by_hand: BTreeMap<Key, HandEdit>,
    /// A file of the key that another program has open and has written to.
    pub(crate) open: BTreeMap<Key, String>,
    /// The keys that differ from them in letter case only, by the key concerned.
    pub(crate) rivals: HashMap<Key, Vec<Rival>>,
    /// All files of a key at the head or in the work tree, if there may be others than the served one.
    pub(crate) names_by_key: HashMap<Key, Vec<String>>,
    /// Keys with a symbolic link, a folder or the like in the place of their file. Only a person may remove those.
    pub(crate) special: HashSet<Key>,
}

/// The saved files of one key that are not committed.
#[derive(Debug, Clone)]
pub(crate) struct HandEdit {
    /// Name to content; `None` where the file was deleted.
    pub(crate) files: Vec<(String, Option<Vec<u8>>)>,
    /// The event that the edit amounts to, unless it is broken or changes only comments.
    pub(crate) event: Option<Event>,
    /// Whether the service may commit it. If the entry is not a file, now or at the head, a person must commit it.
    pub(crate) committable: bool,
    /// A file that git would change before committing it.
    pub(crate) converted: Option<String>,
    /// A file that could not be read in full, because it exceeds the size limit or was saved again in the meantime.
    pub(crate) unread: Option<String>,
}

/// The commits and answers for a batch.
pub(crate) struct Plan {
    /// The commits to make, in order.
    pub(crate) drafts: Vec<Draft>,
    /// The answer to each submission, in order, valid once the drafts are durable. `None` for a submission that
    /// continues in another turn; the last submissions have no entry if there was no time for them.
    pub(crate) answers: Vec<Option<Result<PlannedAnswer, SubmitError>>>,
    /// The catalog after the drafts.
    pub(crate) catalog: Catalog<Arc<Entry>>,
    /// Edits that had to rewrite more than the changed values, with the reason.
    pub(crate) fallbacks: Vec<(Key, String)>,
}

/// Why a submission is not granted in this turn.
enum Halt {
    /// It is refused, now and in any other turn.
    Refused(SubmitError),
    /// This turn has no time for everything that must be read or edited for it.
    Unfinished,
}

impl From<SubmitError> for Halt {
    fn from(error: SubmitError) -> Self {
        Self::Refused(error)
    }
}

/// The grant of a submission.
#[derive(Clone)]
pub(crate) struct PlannedAnswer {
    /// The outcome of each change, in order.
    pub(crate) outcomes: Vec<Outcome>,
    /// The commits that a dry run would make.
    pub(crate) preview: Option<Vec<Preview>>,
    /// The index of the draft that is its commit, if it needs one.
    pub(crate) draft: Option<usize>,
}

impl PlannedAnswer {
    /// Returns the answer to send, which comes from this revision.
    pub(crate) fn at(self, revision: Option<Revision>) -> SubmitAnswer {
        SubmitAnswer { revision, outcomes: self.outcomes, preview: self.preview }
    }
}

/// Decides each submission against the state that its predecessors would leave.
///
/// A refusal in a batch can depend on another submission's commit that is not on disk yet, so nothing is answered
/// here: the writer answers the whole batch after the barrier, or plans again when the barrier fails.
pub(crate) fn plan<'s>(
    input: &PlanInput<'_>,
    submissions: impl IntoIterator<Item = &'s Submission>,
    edits: &mut EditCache,
) -> Plan {
    let mut state = PlanState::new(input);
    let mut plan =
        Plan { drafts: Vec::new(), answers: Vec::new(), catalog: Catalog::default(), fallbacks: Vec::new() };
    let mut asked: HashMap<Scope, (Fingerprint, usize)> = HashMap::new();
    for (index, submission) in submissions.into_iter().enumerate() {
        let once = submission.recorded_idempotency_key();
        let once = once.map(|once| (Scope::of(&submission.author, once), once.fingerprint));
        if let Some((scope, fingerprint)) = once
            && let Some((earlier, index)) = asked.get(&scope)
        {
            let same = *earlier == fingerprint;
            let reused = Some(Err(SubmitError::KeyReused));
            plan.answers.push(if same { plan.answers[*index].clone() } else { reused });
            continue;
        }
        let mut attempt = state.clone();
        let granted = attempt.carry_out(submission, edits).and_then(|outcomes| {
            if submission.dry_run {
                let preview = preview::of(input, &plan.drafts, submission, &attempt.drafts)?;
                return Ok(PlannedAnswer { outcomes, preview: Some(preview), draft: None });
            }
            if attempt.drafts.is_empty() {
                let outcomes =
                    outcomes.into_iter().map(|outcome| state.with_current_entry(outcome)).collect();
                return Ok(PlannedAnswer { outcomes, preview: None, draft: None });
            }
            plan.drafts.append(&mut attempt.drafts);
            plan.fallbacks.append(&mut attempt.fallbacks);
            state = attempt;
            Ok(PlannedAnswer { outcomes, preview: None, draft: Some(plan.drafts.len() - 1) })
        });
        if let (Some((scope, fingerprint)), Ok(_)) = (once, &granted) {
            asked.insert(scope, (fingerprint, index));
        }
        plan.answers.push(match granted {
            Ok(granted) => Some(Ok(granted)),
            Err(Halt::Refused(error)) => Some(Err(error)),
            Err(Halt::Unfinished) => None,
        });
    }
    plan.catalog = state.catalog;
    plan
}
