//! Rewritten branches: the removed commits are kept, logged, and reported as a problem until all of them are on the
//! branch again or an operator discards them.
//!
//! Every move of the branch except the service's own is compared with the previous head, which is also remembered
//! across restarts. Rewriting one's own commits only, as `git commit --amend` does, is up to the person; but a commit
//! made by the service was acknowledged to a client, who can't be asked.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::domain::file_name::{key_of, path_in};
use crate::domain::{Key, Revision};
use crate::engine::mirror::Mirror;
use crate::engine::projection::problem::{BranchRewrite, RemovedEvent};
use crate::format::message::{self, Conflict};
use crate::store::{KeptHead, StoreError};
use crate::telemetry::error_chain;

/// Maximum number of removed events that are named; `git log` shows them all.
const EVENTS_NAMED_MAX: usize = 20;

/// The events that were removed.
struct Events {
    count: usize,
    /// The newest events, newest first.
    named: Vec<RemovedEvent>,
}

enum Step {
    /// A commit, and the keys of the collections that it changed.
    Commit(Revision, BTreeSet<Key>),
    /// A commit, and all its ancestors along first parents.
    Line(Revision),
}

impl Events {
    fn add(&mut self, revision: Revision, keys: BTreeSet<Key>) {
        self.count += keys.len();
        let room = EVENTS_NAMED_MAX - self.named.len();
        self.named.extend(keys.into_iter().take(room).map(|key| RemovedEvent { revision, key }));
    }

    /// Formats the events for the log: the collections and their commits.
    fn line(&self) -> String {
        let named = self.named.iter().map(|gone| format!("{} {:.8}", gone.key, gone.revision.to_string()));
        let others = self.count - self.named.len();
        named.chain((others > 0).then(|| format!("{others} more"))).collect::<Vec<_>>().join(", ")
    }
}

impl Mirror {
    /// Checks whether the branch moved forward to the served head, if that is not known yet. Failed steps are retried
    /// at the next look; nothing waits for them.
    pub(crate) fn follow_branch(&mut self) {
        let Some(head) = self.snapshot.revision else { return };
        if self.followed != Some(head) {
            match self.keep_rewritten(head) {
                Ok(()) => self.note_followed(head),
                Err(error @ StoreError::Damaged { .. }) => {
                    tracing::warn!(to = %head, error = %error_chain(&error), "the branch was moved, and what it left behind is damaged");
                    self.note_followed(head);
                }
                Err(error) => {
                    tracing::warn!(to = %head, error = %error_chain(&error), "what the branch has left behind could not be kept; it is tried again");
                }
            }
        }
        // Separate from the step above, because the branch may be rewritten again while a ref can't be removed.
        if self.settled != Some(head) {
            match self.let_go_what_came_back(head) {
                Ok(()) | Err(StoreError::Damaged { .. }) => self.settled = Some(head),
                Err(error) => {
                    tracing::warn!(to = %head, error = %error_chain(&error), "what the rewritten branch had is part of it again, and could not be let go; it is tried again");
                }
            }
        }
    }

    /// Records that the branch moved forward to a commit of the writer.
    pub(crate) fn note_fast_forward(&mut self, from: Option<Revision>, to: Revision) {
        if from.is_some() && self.followed == from {
            self.note_followed(to);
        }
        if self.settled == from {
            self.settled = Some(to);
        }
    }

    fn note_followed(&mut self, head: Revision) {
        self.journal.note_served(head);
        self.followed = Some(head);
    }

    fn keep_rewritten(&mut self, head: Revision) -> Result<(), StoreError> {
        let known = match self.followed {
            None => self.journal.last_served()?,
            known => known,
        };
        let Some(old) = known else { return Ok(()) };
        if self.journal.commits().descends(head, old)? {
            return Ok(());
        }
        let left = self.journal.commits().commits_beyond(old, head)?;
        if left.is_empty() {
            tracing::warn!(from = %old, to = %head, "the branch was rewritten, and the repository does not have any more what was served last");
            return Ok(());
        }
        // On a shared branch, the commits came from the remote.
        let is_to_be_kept = self.journal.has_merges() || self.is_acknowledged(&left)?;
        let kept = if is_to_be_kept { Some(self.keep(old)?) } else { None };
        let events = self.events_of(old, &left)?;
        // If an operator has already accepted the loss, the kept ref is gone again at once.
        let kept =
            kept.filter(|kept| self.journal.kept((self.options.clock)()).is_ok_and(|all| all.contains(kept)));
        let kept_as = kept.map(|kept| format!("{}{}", KeptHead::REFS, kept.name));
        let (events, gone) = (events.count, events.line());
        tracing::warn!(from = %old, to = %head, events, gone, commits = left.len(), kept = kept_as, "the branch was rewritten: what it had is no longer part of it");
        // The journal may keep former heads on its own when it follows a rewritten remote.
        self.update_rewritten()
    }

    /// Discards the refs of kept commits that are on the branch again, because they were merged or pushed again.
    fn let_go_what_came_back(&mut self, head: Revision) -> Result<(), StoreError> {
        let mut back = Vec::new();
        for BranchRewrite { name, since, revision, .. } in self.snapshot.rewritten.iter() {
            if self.journal.commits().descends(head, *revision)? {
                back.push(KeptHead { name: name.clone(), at: *since, revision: *revision });
            }
        }
        if back.is_empty() { Ok(()) } else { self.settle(&back).and_then(|()| self.update_rewritten()) }
    }

    fn settle(&mut self, back: &[KeptHead]) -> Result<(), StoreError> {
        self.journal.remove_kept(back)?;
        let kept: Vec<&str> = back.iter().map(|kept| &*kept.name).collect();
        tracing::info!(kept = kept.join(" "), "what the rewritten branch had is part of it again");
        Ok(())
    }

    /// Keeps a former head, unless a kept head contains it.
    fn keep(&mut self, old: Revision) -> Result<KeptHead, StoreError> {
        let now = (self.options.clock)();
        for kept in self.journal.kept(now)? {
            if kept.revision != old && self.journal.commits().descends(kept.revision, old)? {
                return Ok(kept);
            }
        }
        self.journal.keep(old, now)
    }

    /// Returns whether one of these commits was made by the service.
    fn is_acknowledged(&mut self, commits: &[Revision]) -> Result<bool, StoreError> {
        for revision in commits {
            let commit = self.journal.commits().intact_commit(*revision)?;
            let mut committers = self.options.committers.iter();
            if commit.is_some_and(|commit| committers.any(|email| email == commit.committer.email())) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the events of these commits, newest first, as the history reports them: one for each collection that a
    /// commit changed, and after a merge by the service those of the commits that it brought.
    fn events_of(&mut self, old: Revision, left: &[Revision]) -> Result<Events, StoreError> {
        let mut left: HashSet<Revision> = left.iter().copied().collect();
        let mut events = Events { count: 0, named: Vec::new() };
        let mut steps = vec![Step::Line(old)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Line(from) => {
                    // The line comes before the commits that its merges brought; those end where they meet the line.
                    let line = self.line_of(from, &mut left)?;
                    steps.extend(line.into_iter().rev());
                }
                Step::Commit(revision, keys) => events.add(revision, keys),
            }
        }
        Ok(events)
    }

    /// Returns the steps along first parents, as long as the commits are in `left`.
    fn line_of(&mut self, from: Revision, left: &mut HashSet<Revision>) -> Result<Vec<Step>, StoreError> {
        let folder = self.options.folder.clone();
        let mut steps = Vec::new();
        self.journal.commits().walk(from, &mut |commit, changes| {
            let is_left = left.remove(&commit.revision);
            match commit.parents[..] {
                _ if !is_left => {}
                [_, joined] if message::is_merge(&commit.message) => {
                    steps.push(Step::Commit(commit.revision, decided(&folder, &commit.message)));
                    steps.push(Step::Line(joined));
                }
                _ => {
                    let keys = changes.iter().filter_map(|change| key_of(&change.name)).collect();
                    steps.push(Step::Commit(commit.revision, keys));
                }
            }
            is_left
        })?;
        Ok(steps)
    }

    fn describe(&mut self, kept: KeptHead) -> Result<BranchRewrite, StoreError> {
        let head = self.snapshot.revision;
        let left = match head {
            Some(head) => self.journal.commits().commits_beyond(kept.revision, head)?,
            None => Vec::new(),
        };
        let events = self.events_of(kept.revision, &left)?;
        let message =
            message_of(&self.options.branch, &kept, (head, events.count, self.journal.has_merges()));
        let KeptHead { name, at, revision } = kept;
        Ok(BranchRewrite { name, message, since: at, revision, events: events.named })
    }

    /// Updates the snapshot with what is kept, without what was discarded.
    pub(crate) fn update_rewritten(&mut self) -> Result<(), StoreError> {
        let kept = self.journal.kept((self.options.clock)())?;
        let reported = &self.snapshot.rewritten;
        let names: Vec<&String> = kept.iter().map(|kept| &kept.name).collect();
        if reported.iter().map(|rewritten| &rewritten.name).eq(names) {
            return Ok(());
        }
        let known = |kept: &KeptHead| reported.iter().find(|rewritten| rewritten.name == kept.name).cloned();
        let known: Vec<_> = kept.into_iter().map(|kept| (known(&kept), kept)).collect();
        let mut rewritten = Vec::with_capacity(known.len());
        for (known, kept) in known {
            match (known, self.snapshot.revision) {
                (Some(known), _) => rewritten.push(known),
                // It returned to the branch while the service was not running.
                (None, Some(head)) if self.journal.commits().descends(head, kept.revision)? => {
                    self.settle(&[kept])?;
                }
                (None, _) => rewritten.push(self.describe(kept)?),
            }
        }
        let rewritten = Arc::new(rewritten);
        let mut next = self.snapshot.next();
        next.rewritten = rewritten;
        self.snapshot = Arc::new(next);
        Ok(())
    }
}

/// Returns the collections whose conflicts were decided by a merge of the service.
fn decided(folder: &str, message: &str) -> BTreeSet<Key> {
    let key_of_conflict = |conflict| match conflict {
        Conflict::Attribute { key, .. } => Some(key),
        Conflict::File(path) => {
            let name = path.rsplit('/').next().filter(|name| path_in(folder, name) == path)?;
            key_of(name)
        }
    };
    message::conflicts(message).into_iter().filter_map(key_of_conflict).collect()
}

/// Describes what was removed and what to do about it. On a shared branch git commands would only take effect
/// locally, so the remedies are commands of the service.
fn message_of(
    branch: &str,
    kept: &KeptHead,
    (head, events, is_shared): (Option<Revision>, usize, bool),
) -> String {
    let KeptHead { name, revision, .. } = kept;
    let at = head.map_or_else(String::new, |head| format!(" and is at {head} now"));
    let name = format!("{}{name}", KeptHead::REFS);
    let [back, away] = match is_shared {
        true => ["collectory remote restore".to_owned(), "collectory remote accept".to_owned()],
        false => [format!("git merge {name}"), format!("git update-ref -d {name}")],
    };
    format!(
        "The branch `{branch}` was rewritten: it had {revision}{at}, and {events} of its events went. \
         `git log {branch}..{name}` shows their commits, `{back}` brings them back, and `{away}` lets them go and settles this."
    )
}
