//! Brings the index up to a head, reading only what is new.
//!
//! The procedure is the same for every move of the branch: follow first parents from the new head to a commit that
//! the index knows, truncate the index after that commit, and add the rest. For an ordinary commit that is one step;
//! for a rewritten branch it is everything after the fork point.
//!
//! A shallow clone may be deepened or shortened at any time (`git fetch --unshallow`, `--depth`). The whole history
//! is then read again, because later events depend on the oldest commits.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use uuid::Uuid;

use crate::domain::file_name::{self, FileExtension};
use crate::domain::{Actor, Key, Revision};
use crate::format::message::{self, OriginTrailer};
use crate::store::{CommitChanges, FileChange, StoreError, TreeEntry};

use crate::engine::history::event::{Action, Origin};
use crate::engine::history::index::forks::Fork;
use crate::engine::history::index::row::{CommitRow, Version};
use crate::engine::history::index::{Index, VersionChange, number};
use crate::engine::history::{SharedHistory, View};

/// The number of commits read before they are added to the index, to bound the memory that reading takes.
const BATCH_LEN: usize = 8192;

/// Adds commits to an index.
pub(crate) struct IndexBuilder {
    pub(crate) index: Index,
    /// The `.yml` files that exist beside a `.yaml` file of the same key, at the index's head.
    twins: BTreeMap<Key, TreeEntry>,
    actors: HashMap<Arc<Actor>, u32>,
    /// The shallow commits that the index was last checked against; `None` before the first check.
    pub(crate) cut_off: Option<Vec<Revision>>,
    shared: Arc<SharedHistory>,
}

/// The message and changes of a commit, as far as the index needs them.
struct CommitSummary {
    at: i64,
    author: Actor,
    /// The origin that its trailers claim; it counts only if they agree with the changes.
    origin: Origin,
    trailers: Vec<message::EventTrailers>,
    is_damaged: bool,
    parents: Vec<Revision>,
    changes: Vec<(Key, Named)>,
}

impl CommitSummary {
    /// Returns the second parent of a merge made by the service.
    fn joined(&self) -> Option<Revision> {
        match self.parents[..] {
            [_, joined] if self.origin == Origin::Merge => Some(joined),
            _ => None,
        }
    }
}

/// The line that commits are added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Along first parents.
    Main,
    /// Among those that a merge brings in.
    Side,
}

/// The changes of the two files that a key can have, `.yaml` and `.yml`; the inner `None` means removed.
type Named = [Option<Option<TreeEntry>>; 2];

impl IndexBuilder {
    /// Continues from an existing index.
    pub(crate) fn new(index: Index, shared: &Arc<SharedHistory>) -> Result<Self, StoreError> {
        let numbered = index.actors().enumerate();
        let actors = numbered.map(|(at, actor)| (Arc::clone(actor), number(at))).collect();
        let twins = yml_twins(index.head(), shared)?;
        Ok(Self { index, twins, actors, cut_off: None, shared: Arc::clone(shared) })
    }

    /// Brings the index to `head`. Calls `progress` with how many of the new commits are read and how many there
    /// are; if it breaks, the index stays part of the way there.
    pub(crate) fn advance(
        &mut self,
        head: Option<Revision>,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let cut_off = self.shared.archive.shallow_boundary()?;
        if self.cut_off.as_ref() != Some(&cut_off) {
            if !self.begins_where_it_must(&cut_off) {
                tracing::info!("the history begins elsewhere than it did, it is read anew");
                self.truncate(0)?;
            }
            self.cut_off = Some(cut_off);
        }
        let Some(head) = head else {
            self.truncate(0)?;
            return Ok(());
        };
        let line = self.shared.archive.first_parents(head, &|revision| {
            self.index.find(*revision).is_some_and(|commit| self.index.forks().is_main(commit))
        })?;
        let common = line.stopped_at.and_then(|onto| self.index.find(onto)).map_or(0, |commit| commit + 1);
        self.truncate(common)?;
        let total = line.revisions.len();
        let mut done = 0;
        for batch in line.revisions.rchunks(BATCH_LEN) {
            self.add(batch, Line::Main)?;
            done += batch.len();
            if progress(done, total).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Reports whether the oldest commit of the index is the oldest that the repository has. A commit that no longer
    /// exists is not. If nothing can be read, reading everything again reports the error.
    fn begins_where_it_must(&self, cut_off: &[Revision]) -> bool {
        let Some(oldest) = self.index.oldest() else { return true };
        let ends_later =
            |cut: &Revision| self.index.find(*cut).is_some() && !self.index.may_lack_parent(*cut);
        if cut_off.iter().any(ends_later) {
            return false;
        }
        // Stop at the parent: only its id is needed.
        let line = self.shared.archive.first_parents(oldest, &|revision| *revision != oldest);
        line.is_ok_and(|line| line.stopped_at.is_none())
    }

    fn truncate(&mut self, len: u32) -> Result<(), StoreError> {
        if len < self.index.len() {
            self.index.truncate(len);
            self.twins = yml_twins(self.index.head(), &self.shared)?;
        }
        Ok(())
    }

    /// Adds commits of one line, which are given newest first.
    fn add(&mut self, revisions: &[Revision], line: Line) -> Result<(), StoreError> {
        let slots: Vec<OnceLock<CommitSummary>> = revisions.iter().map(|_| OnceLock::new()).collect();
        self.shared.archive.commit_changes(revisions, &|index, step| {
            slots[index].get_or_init(|| self.shared.summary(step));
        })?;
        for (revision, slot) in revisions.iter().zip(slots).rev() {
            let summary = slot.into_inner().expect("BUG: the archive left out a step");
            self.push(*revision, summary, line)?;
        }
        Ok(())
    }

    /// Adds the commits that a merge brings in, oldest first. Returns the number of the first, if there are any.
    fn add_side(&mut self, joined: Revision, onto: Option<Revision>) -> Result<Option<u32>, StoreError> {
        let is_indexed = |revision: &Revision| self.index.find(*revision).is_some();
        let side = match self.shared.archive.first_parents(joined, &is_indexed) {
            // As in a clone that begins at the merge, which is then listed like any other commit.
            Err(StoreError::Damaged { .. }) => return Ok(None),
            side => side?,
        };
        let start = self.index.len();
        self.twins = yml_twins(side.stopped_at, &self.shared)?;
        for batch in side.revisions.rchunks(BATCH_LEN) {
            self.add(batch, Line::Side)?;
        }
        self.twins = yml_twins(onto, &self.shared)?;
        Ok((self.index.len() > start).then_some(start))
    }

    fn push(&mut self, revision: Revision, summary: CommitSummary, line: Line) -> Result<(), StoreError> {
        let parent = summary.parents.first().copied();
        let start = match summary.joined().filter(|joined| self.index.find(*joined).is_none()) {
            Some(joined) => self.add_side(joined, parent)?,
            None => None,
        };
        let onto = parent.and_then(|parent| self.index.find(parent));
        let CommitSummary { at, author, origin, trailers, is_damaged, parents: _, changes } = summary;
        let actor = self.index.actor_number(&author, &mut self.actors);
        self.index.push(CommitRow { revision, at, actor, events: 0, origin: Origin::Git, is_damaged });
        let number = self.index.len() - 1;
        let follows = onto.map_or(number == 0, |onto| onto + 1 == number);
        if start.is_some() || line == Line::Side && !follows {
            self.index.fork(Fork { start: start.unwrap_or(number), onto, is_main: line == Line::Main });
        }
        let agrees = if start.is_some() {
            self.push_decided(number, changes);
            self.suppress_repeats(number)?;
            true
        } else {
            // On the main line, the parent is the commit before; there is none if the parent can't be read.
            let onto = if line == Line::Main { number.checked_sub(1) } else { onto };
            self.push_changes(onto, &trailers, changes)
        };
        self.index.pair_moves();
        if agrees || origin == Origin::Merge {
            self.index.set_origin(origin);
        }
        Ok(())
    }

    /// Adds the events of a commit that follows `onto`. Reports whether its trailers name all of them.
    fn push_changes(
        &mut self,
        onto: Option<u32>,
        trailers: &[message::EventTrailers],
        changes: Vec<(Key, Named)>,
    ) -> bool {
        // If the trailers name a key twice, the first one counts.
        let ids: HashMap<&Key, Option<Uuid>> =
            trailers.iter().rev().map(|trailer| (&trailer.key, trailer.id)).collect();
        let mut agrees = true;
        for (key, named) in changes {
            let number = self.index.key_number(&key);
            let before = onto.and_then(|onto| self.index.version_at(number, onto));
            let after = self.follow(&key, before, named);
            if before == after {
                continue;
            }
            let named_id = ids.get(&key).copied();
            agrees &= named_id.is_some();
            self.index.push_event(number, named_id.flatten(), VersionChange::of(before, after));
        }
        agrees
    }

    /// Adds the events of a merge for the collections whose file the events of the sides do not settle. Any other
    /// collection is as the last event of either side left it.
    fn push_decided(&mut self, merge: u32, changes: Vec<(Key, Named)>) {
        let fork = self.index.forks().join(merge).expect("BUG: a merge that brings nothing");
        let (start, last) = (fork.start, merge - 1);
        let mut named: BTreeMap<Key, Named> = changes.into_iter().collect();
        let (first, end) = (self.index.commit(start).events, self.index.commit(merge).events);
        for event in first..end {
            named.entry(self.index.key_of(event).clone()).or_default();
        }
        for (key, named) in named {
            let number = self.index.key_number(&key);
            let there = fork.onto.and_then(|onto| self.index.of_key_until(number, onto).next());
            let here = self.index.of_key_until(number, last).next();
            let [theirs, ours] =
                [there, here].map(|event| event.and_then(|event| self.index.event(event).after));
            let after = self.follow(&key, theirs, named);
            let is_ours = here.is_some_and(|event| event >= first);
            let is_theirs =
                there.is_some_and(|event| !self.index.forks().reaches(last, self.index.event(event).commit));
            let expected = if is_ours { ours } else { theirs };
            if after == expected && (ours == theirs || !is_ours || !is_theirs) {
                continue;
            }
            let [by_ours, by_theirs] = self.index.sides(number, merge, fork);
            // In whichever order a follower has received the two sides.
            let is_known = self.yields_complete_file(theirs.is_some(), &by_ours)
                && self.yields_complete_file(ours.is_some(), &by_theirs);
            let action = match after {
                Some(_) if is_known => Action::Updated,
                Some(_) => Action::Created,
                None => Action::Deleted,
            };
            self.index.push_event(number, None, VersionChange { action, after });
        }
    }

    /// Reports whether a follower that receives these events ends with a file that it knows completely. It does not
    /// if the file was updated when there was none.
    fn yields_complete_file(&self, is_there: bool, events: &[u32]) -> bool {
        events.iter().fold(is_there, |is_there, event| match self.index.event(*event).action {
            Action::Created => true,
            Action::Updated => is_there,
            Action::Deleted => false,
        })
    }

    /// Suppresses the events of a merge that repeat what the events before them report.
    fn suppress_repeats(&mut self, merge: u32) -> Result<(), StoreError> {
        let join = self.index.forks().join(merge).expect("BUG: a merge that brings nothing");
        let updated = |event: &u32| self.index.event(*event).action == Action::Updated;
        let open: Vec<u32> = self.index.events_of(merge).filter(updated).collect();
        // What a damaged commit decided is unknown, and its events say so.
        if open.is_empty() || self.index.commit(merge).is_damaged {
            return Ok(());
        }
        let view = View::new(Arc::clone(&self.shared), Arc::new(self.index.clone()));
        for event in open {
            if !view.decided(event, join)?.is_needed {
                self.index.suppress(event);
            }
        }
        Ok(())
    }

    /// Returns the effective file of a key, given the effective file before and the changes since.
    fn follow(&mut self, key: &Key, before: Option<Version>, named: Named) -> Option<Version> {
        let at = |ending| before.filter(|it| it.ending == ending).map(|it| it.entry);
        let old = [at(FileExtension::Yaml), at(FileExtension::Yml).or_else(|| self.twins.get(key).copied())];
        let [yaml, yml] = [named[0].unwrap_or(old[0]), named[1].unwrap_or(old[1])];
        match (yaml, yml) {
            (Some(_), Some(twin)) => self.twins.insert(key.clone(), twin),
            (Some(_), None) | (None, _) => self.twins.remove(key),
        };
        let yaml = yaml.map(|entry| Version { ending: FileExtension::Yaml, entry });
        yaml.or_else(|| yml.map(|entry| Version { ending: FileExtension::Yml, entry }))
    }
}

/// Returns the `.yml` files that exist beside a `.yaml` file. Usually there is no `.yml` file at all, and then
/// nothing is allocated for the others either.
fn yml_twins(head: Option<Revision>, shared: &SharedHistory) -> Result<BTreeMap<Key, TreeEntry>, StoreError> {
    let Some(head) = head else { return Ok(BTreeMap::new()) };
    let yml = match shared.effective_files(head, &|name| FileExtension::of(name) == FileExtension::Yml) {
        // The events of the next commit then report a problem.
        Err(StoreError::Damaged { .. }) => return Ok(BTreeMap::new()),
        files => files?,
    };
    let yml: HashSet<Key> = yml.into_iter().map(|file| file.key).collect();
    if yml.is_empty() {
        return Ok(BTreeMap::new());
    }
    let is_wanted = |name: &str| file_name::split(name).is_some_and(|(stem, _)| yml.contains(stem));
    let files = shared.effective_files(head, &is_wanted)?;
    Ok(files.into_iter().filter_map(|file| Some((file.key, file.twin?))).collect())
}

impl SharedHistory {
    fn summary(&self, step: CommitChanges) -> CommitSummary {
        let CommitChanges { commit, changes, problem } = step;
        let message = message::parse(&commit.message);
        let by_service = self.options.committers.iter().any(|email| email == commit.committer.email());
        let origin = match (by_service, message.origin, message.events.is_empty()) {
            (true, Some(OriginTrailer::WorkTree), _) => Origin::WorkTree,
            (true, Some(OriginTrailer::Command), false) => Origin::Command,
            // All instances must report the merged-in commits in the same order, whatever committer each uses.
            (_, Some(OriginTrailer::Merge), _) => Origin::Merge,
            (true, None, false) => Origin::Api,
            (true, Some(OriginTrailer::Command) | None, true) | (false, ..) => Origin::Git,
        };
        CommitSummary {
            at: commit.at.timestamp(),
            author: commit.author,
            origin,
            trailers: message.events,
            is_damaged: problem.is_some(),
            parents: commit.parents,
            changes: self.group_by_key(changes),
        }
    }

    /// Groups the changes by key, in key order. An initial commit has one for every collection, so this uses only
    /// one allocation, that of the changes.
    fn group_by_key(&self, changes: Vec<FileChange>) -> Vec<(Key, Named)> {
        let of_key = |FileChange { name, after, .. }: FileChange| {
            let (stem, ending) = file_name::split(&name)?;
            let mut named = Named::default();
            named[usize::from(ending == FileExtension::Yml)] = Some(after);
            Some((self.key(stem)?, named))
        };
        let mut found: Vec<(Key, Named)> = changes.into_iter().filter_map(of_key).collect();
        // Sorted by file name, they are nearly sorted by key.
        if !found.is_sorted_by(|(one, _), (two, _)| one <= two) {
            found.sort_by(|(one, _), (two, _)| one.cmp(two));
        }
        found.dedup_by(|(key, named), (first, both)| {
            let same = key == first;
            if same {
                both.iter_mut().zip(named).for_each(|(one, two)| *one = one.or(*two));
            }
            same
        });
        found
    }
}
