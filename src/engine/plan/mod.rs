//! From waiting submissions to commits that can be made: pure.
//!
//! What has to be read from the disk is read before (`input`), so that the same plan can be made again after a
//! lost race. Nothing here appends, waits or answers: that is done in `writer`. What takes long, reading and editing
//! large files, is done as far as a turn has time for it (`edits`).

mod by_hand;
pub(crate) mod edits;
pub(crate) mod fold;
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
use crate::domain::{Actor, Catalog, Event, Key};
use crate::engine::mirror::contents::Bases;
pub(crate) use crate::engine::plan::by_hand::{Rival, RivalFile};
use crate::engine::plan::edits::{EditSources, Edits};
use crate::engine::plan::state::PlanState;
use crate::engine::projection::{Entry, Snapshot};
use crate::engine::submission::Submission;
use crate::engine::submission::answer::{Outcome, Preview};
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::once::{Fingerprint, Scope};
use crate::store::{BlobId, Draft};

/// What a plan stands on: everything that it needs from the disk, read before.
pub(crate) struct PlanInput<'a> {
    /// What is served now.
    pub(crate) snapshot: &'a Snapshot,
    /// The older versions that updates may be merged over, by the tag that names them.
    pub(crate) bases: Bases,
    /// What stands for the keys concerned.
    pub(crate) files: PlanFiles,
    /// The contents that updates build on and dry runs show, as far as they have been read.
    pub(crate) sources: &'a EditSources,
    /// How many bytes the files that one submission builds on may have together.
    pub(crate) built_on_bytes_max: usize,
    /// The folder, as a path inside the repository.
    pub(crate) folder: &'a str,
    /// The author of hand edits.
    pub(crate) person: Actor,
    /// When the commits are made.
    pub(crate) now: DateTime<Utc>,
    /// Makes the ids of events.
    pub(crate) new_id: fn() -> Uuid,
}

impl PlanInput<'_> {
    /// A file of the folder as a path inside the repository.
    fn path(&self, name: &str) -> String {
        path_in(self.folder, name)
    }
}

/// What stands for some keys at the head and in the work tree.
#[derive(Default)]
pub(crate) struct PlanFiles {
    /// The ids of what the head has under their names.
    pub(crate) blobs: HashMap<String, BlobId>,
    /// The hand edits that have to be committed before a key can be written.
    pub(crate) by_hand: BTreeMap<Key, HandEdit>,
    /// The keys that differ from them in letter case only, by the key concerned.
    pub(crate) rivals: HashMap<Key, Vec<Rival>>,
    /// Every file that stands for a key at the head or in the work tree, if not just the served one.
    pub(crate) of: HashMap<Key, Vec<String>>,
    /// Keys with a symbolic link, a folder or the like in the place of their file: those are a
    /// person's to remove.
    pub(crate) special: HashSet<Key>,
}

/// The saved files of one key that nobody committed.
#[derive(Debug, Clone)]
pub(crate) struct HandEdit {
    /// Name to content; `None` where the file was deleted.
    pub(crate) files: Vec<(String, Option<Vec<u8>>)>,
    /// What the edit means, unless it is broken or changes only comments.
    pub(crate) event: Option<Event>,
    /// Whether the service may commit it. What is no file, now or at the head, is a person's to commit.
    pub(crate) committable: bool,
    /// A file that git would have a program change first.
    pub(crate) filtered: Option<String>,
    /// A file of which not all could be read: it is larger than what is read of one, or was saved again meanwhile.
    pub(crate) unread: Option<String>,
}

/// What is to be done and said about a batch.
pub(crate) struct Plan {
    /// The commits to make, in order.
    pub(crate) drafts: Vec<Draft>,
    /// The answer to each submission, in order, good once the drafts are durable; none to one that goes on in
    /// another turn, and nothing at all to the last ones if there was no time for them.
    pub(crate) answers: Vec<Option<Result<Granted, SubmitError>>>,
    /// The catalog that the drafts lead to.
    pub(crate) catalog: Catalog<Arc<Entry>>,
    /// Edits that had to rewrite more than what changed, with the reason.
    pub(crate) fallbacks: Vec<(Key, String)>,
}

/// Why a submission gets nothing in this turn.
enum Halt {
    /// It is refused, and gets nothing in any other turn either.
    Refused(SubmitError),
    /// More has to be read or edited for it than this turn has time for.
    Unfinished,
}

impl From<SubmitError> for Halt {
    fn from(error: SubmitError) -> Self {
        Self::Refused(error)
    }
}

/// What a submission gets.
#[derive(Clone)]
pub(crate) struct Granted {
    /// What becomes of each change, in order.
    pub(crate) outcomes: Vec<Outcome>,
    /// The commits that are not made, of a dry run.
    pub(crate) preview: Option<Vec<Preview>>,
    /// Which of the drafts is its commit, if it needs one.
    pub(crate) draft: Option<usize>,
}

/// Decides each submission against the state that its predecessors would leave.
///
/// A refusal in a batch can rest on a neighbour's commit that is not on disk yet, so nobody is
/// answered from here: the writer answers the whole batch after the barrier, or plans again when
/// the barrier fails.
pub(crate) fn plan<'s>(
    input: &PlanInput<'_>,
    submissions: impl IntoIterator<Item = &'s Submission>,
    edits: &mut Edits,
) -> Plan {
    let mut state = PlanState::new(input);
    let mut plan =
        Plan { drafts: Vec::new(), answers: Vec::new(), catalog: Catalog::default(), fallbacks: Vec::new() };
    let mut asked: HashMap<Scope, (Fingerprint, usize)> = HashMap::new();
    for (index, submission) in submissions.into_iter().enumerate() {
        let once = submission.recorded_once();
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
                return Ok(Granted { outcomes, preview: Some(preview), draft: None });
            }
            if attempt.drafts.is_empty() {
                let outcomes = outcomes.into_iter().map(|outcome| state.as_it_stands(outcome)).collect();
                return Ok(Granted { outcomes, preview: None, draft: None });
            }
            plan.drafts.append(&mut attempt.drafts);
            plan.fallbacks.append(&mut attempt.fallbacks);
            state = attempt;
            Ok(Granted { outcomes, preview: None, draft: Some(plan.drafts.len() - 1) })
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
