//! Brings the index up to a head: reads what is new, and only that.
//!
//! Whatever the branch did, the way is the same: follow first parents from the new head until a
//! commit that the index knows, forget what stands behind that commit, add the rest. For an
//! ordinary commit that is one step; for a rewritten branch it is everything after the fork.
//!
//! A shallow clone begins somewhere, and may be deepened or cut shorter at any time (`git fetch
//! --unshallow`, `--depth`). Then all is read again, since what came first counts in what follows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use uuid::Uuid;

use crate::domain::file_name::{self, Ending};
use crate::domain::{Actor, Key, Revision};
use crate::format::message::{self, OriginTrailer};
use crate::store::{CommitChanges, FileChange, StoreError, TreeEntry};

use crate::engine::history::event::{Action, Origin};
use crate::engine::history::index::forks::Fork;
use crate::engine::history::index::row::{CommitRow, Version};
use crate::engine::history::index::{Index, VersionChange, number};
use crate::engine::history::{SharedHistory, View};

/// How many commits are read before they are added: what the reading may hold in memory.
const BATCH_LEN: usize = 8192;

/// Adds commits to an index.
pub(crate) struct IndexBuilder {
    pub(crate) index: Index,
    /// The `.yml` files that stand beside a `.yaml` one of the same key, at the index's head.
    twins: BTreeMap<Key, TreeEntry>,
    actors: HashMap<Arc<Actor>, u32>,
    /// Where the repository was cut off when the index was held against that; `None` before.
    pub(crate) cut_off: Option<Vec<Revision>>,
    shared: Arc<SharedHistory>,
}

/// What a commit says and did, as far as the index needs it.
struct Scanned {
    at: i64,
    author: Actor,
    /// What its trailers may make of its origin.
    origin: Origin,
    told: Vec<message::EventTrailers>,
    is_damaged: bool,
    parents: Vec<Revision>,
    changes: Vec<(Key, Named)>,
}

impl Scanned {
    /// The second parent of a merge that the service made.
    fn joined(&self) -> Option<Revision> {
        match self.parents[..] {
            [_, joined] if self.origin == Origin::Merge => Some(joined),
            _ => None,
        }
    }
}

/// Where commits are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Along first parents.
    Main,
    /// Among those that a merge brings.
    Side,
}

/// What became of the two names that the file of a key can have; the inner `None` is "removed".
type Named = [Option<Option<TreeEntry>>; 2];

impl IndexBuilder {
    /// Goes on from an index that was made before.
    pub(crate) fn new(index: Index, shared: &Arc<SharedHistory>) -> Result<Self, StoreError> {
        let numbered = index.actors().enumerate();
        let actors = numbered.map(|(at, actor)| (Arc::clone(actor), number(at))).collect();
        let twins = twins_at(index.head(), shared)?;
        Ok(Self { index, twins, actors, cut_off: None, shared: Arc::clone(shared) })
    }

    /// Brings the index to `head`; tells how many of how many new commits are read, and leaves it
    /// on the way there when `progress` says so.
    pub(crate) fn advance(
        &mut self,
        head: Option<Revision>,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let cut_off = self.shared.archive.cut_off()?;
        if self.cut_off.as_ref() != Some(&cut_off) {
            if !self.begins_where_it_must(&cut_off) {
                tracing::info!("the history begins elsewhere than it did, it is read anew");
                self.cut(0)?;
            }
            self.cut_off = Some(cut_off);
        }
        let Some(head) = head else {
            self.cut(0)?;
            return Ok(());
        };
        let line = self.shared.archive.first_parents(head, &|revision| {
            self.index.find(*revision).is_some_and(|commit| self.index.forks().is_main(commit))
        })?;
        let common = line.onto.and_then(|onto| self.index.find(onto)).map_or(0, |commit| commit + 1);
        self.cut(common)?;
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

    /// Whether the oldest commit of the index is the oldest that the repository has. One that is
    /// gone is not, and if nothing can be read the reading anew will tell.
    fn begins_where_it_must(&self, cut_off: &[Revision]) -> bool {
        let Some(oldest) = self.index.oldest() else { return true };
        let ends_later = |cut: &Revision| *cut != oldest && self.index.find(*cut).is_some();
        if cut_off.iter().any(ends_later) {
            return false;
        }
        // Of what lies beyond only the name is wanted.
        let line = self.shared.archive.first_parents(oldest, &|revision| *revision != oldest);
        line.is_ok_and(|line| line.onto.is_none())
    }

    fn cut(&mut self, len: u32) -> Result<(), StoreError> {
        if len < self.index.len() {
            self.index.truncate(len);
            self.twins = twins_at(self.index.head(), &self.shared)?;
        }
        Ok(())
    }

    /// Adds commits of one line, newest first.
    fn add(&mut self, revisions: &[Revision], line: Line) -> Result<(), StoreError> {
        let slots: Vec<OnceLock<Scanned>> = revisions.iter().map(|_| OnceLock::new()).collect();
        self.shared.archive.steps(revisions, &|index, step| {
            slots[index].get_or_init(|| self.shared.scan(step));
        })?;
        for (revision, slot) in revisions.iter().zip(slots).rev() {
            let scanned = slot.into_inner().expect("BUG: the archive left out a step");
            self.push(*revision, scanned, line)?;
        }
        Ok(())
    }

    /// Adds what a merge brings, oldest first, and answers the number of the first commit, if there is one.
    fn add_side(&mut self, joined: Revision, onto: Option<Revision>) -> Result<Option<u32>, StoreError> {
        let side =
            self.shared.archive.first_parents(joined, &|revision| self.index.find(*revision).is_some())?;
        let start = self.index.len();
        self.twins = twins_at(side.onto, &self.shared)?;
        for batch in side.revisions.rchunks(BATCH_LEN) {
            self.add(batch, Line::Side)?;
        }
        self.twins = twins_at(onto, &self.shared)?;
        Ok((self.index.len() > start).then_some(start))
    }

    fn push(&mut self, revision: Revision, scanned: Scanned, line: Line) -> Result<(), StoreError> {
        let parent = scanned.parents.first().copied();
        let start = match scanned.joined().filter(|joined| self.index.find(*joined).is_none()) {
            Some(joined) => self.add_side(joined, parent)?,
            None => None,
        };
        let onto = parent.and_then(|parent| self.index.find(parent));
        let Scanned { at, author, origin, told, is_damaged, parents: _, changes } = scanned;
        let actor = self.index.actor_number(&author, &mut self.actors);
        self.index.push(CommitRow { revision, at, actor, events: 0, origin: Origin::Git, is_damaged });
        let number = self.index.len() - 1;
        let follows = onto.map_or(number == 0, |onto| onto + 1 == number);
        if start.is_some() || line == Line::Side && !follows {
            self.index.fork(Fork { start: start.unwrap_or(number), onto, is_main: line == Line::Main });
        }
        if start.is_some() {
            self.push_decided(number, changes);
            self.quieten(number)?;
            self.index.pair_moves();
            self.index.set_origin(origin);
            return Ok(());
        }
        // Before a commit that can't be read there is nothing to find by its number.
        let onto = if line == Line::Main { number.checked_sub(1) } else { onto };
        // Of what is told twice the first counts.
        let ids: HashMap<&Key, Option<Uuid>> = told.iter().rev().map(|told| (&told.key, told.id)).collect();
        let mut agrees = true;
        for (key, named) in changes {
            let number = self.index.key_number(&key);
            let before = onto.and_then(|onto| self.index.version_at(number, onto));
            let after = self.follow(&key, before, named);
            if before == after {
                continue;
            }
            let told = ids.get(&key).copied();
            agrees &= told.is_some();
            self.index.push_event(number, told.flatten(), VersionChange::of(before, after));
        }
        self.index.pair_moves();
        if agrees || origin == Origin::Merge {
            self.index.set_origin(origin);
        }
        Ok(())
    }

    /// Adds what a merge did to collections that both sides had changed. Any other is as the last event of either
    /// side has it.
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
            let told = if is_ours { ours } else { theirs };
            if after == told && (ours == theirs || !is_ours || !is_theirs) {
                continue;
            }
            let [by_ours, by_theirs] = self.index.sides(number, merge, fork);
            // In whatever order somebody has heard of the two sides.
            let is_known = self.leads_to_file(theirs.is_some(), &by_ours)
                && self.leads_to_file(ours.is_some(), &by_theirs);
            let action = match after {
                Some(_) if is_known => Action::Updated,
                Some(_) => Action::Created,
                None => Action::Deleted,
            };
            self.index.push_event(number, None, VersionChange { action, after });
        }
    }

    /// Whether somebody who hears these events has a file after them, all of which is known: not so if it was changed
    /// when there was none.
    fn leads_to_file(&self, is_there: bool, events: &[u32]) -> bool {
        events.iter().fold(is_there, |is_there, event| match self.index.event(*event).action {
            Action::Created => true,
            Action::Updated => is_there,
            Action::Deleted => false,
        })
    }

    /// Has those events of a merge told no more that the events before them tell already.
    fn quieten(&mut self, merge: u32) -> Result<(), StoreError> {
        let join = self.index.forks().join(merge).expect("BUG: a merge that brings nothing");
        let updated = |event: &u32| self.index.event(*event).action == Action::Updated;
        let open: Vec<u32> = self.index.events_of(merge).filter(updated).collect();
        // Of a commit that is damaged nobody can tell what it decided, and its events say so.
        if open.is_empty() || self.index.commit(merge).is_damaged {
            return Ok(());
        }
        let view = View::new(Arc::clone(&self.shared), Arc::new(self.index.clone()));
        for event in open {
            if !view.decided(event, join)?.is_needed {
                self.index.quieten(event);
            }
        }
        Ok(())
    }

    /// The file that counts for a key, after another one did and these names changed.
    fn follow(&mut self, key: &Key, before: Option<Version>, named: Named) -> Option<Version> {
        let at = |ending| before.filter(|it| it.ending == ending).map(|it| it.entry);
        let old = [at(Ending::Yaml), at(Ending::Yml).or_else(|| self.twins.get(key).copied())];
        let [yaml, yml] = [named[0].unwrap_or(old[0]), named[1].unwrap_or(old[1])];
        match (yaml, yml) {
            (Some(_), Some(twin)) => self.twins.insert(key.clone(), twin),
            (Some(_), None) | (None, _) => self.twins.remove(key),
        };
        let yaml = yaml.map(|entry| Version { ending: Ending::Yaml, entry });
        yaml.or_else(|| yml.map(|entry| Version { ending: Ending::Yml, entry }))
    }
}

/// The `.yml` files that stand beside a `.yaml` one. Mostly there is not one `.yml`, and then
/// nothing is kept of the others for a moment either.
fn twins_at(head: Option<Revision>, shared: &SharedHistory) -> Result<BTreeMap<Key, TreeEntry>, StoreError> {
    let Some(head) = head else { return Ok(BTreeMap::new()) };
    let yml = match shared.counting(head, &|name| name.ends_with(".yml")) {
        // What is told of the next commit is a problem then.
        Err(StoreError::Damaged { .. }) => return Ok(BTreeMap::new()),
        files => files?,
    };
    let yml: HashSet<Key> = yml.into_iter().map(|file| file.key).collect();
    if yml.is_empty() {
        return Ok(BTreeMap::new());
    }
    let is_wanted = |name: &str| file_name::split(name).is_some_and(|(stem, _)| yml.contains(stem));
    let files = shared.counting(head, &is_wanted)?;
    Ok(files.into_iter().filter_map(|file| Some((file.key, file.twin?))).collect())
}

impl SharedHistory {
    fn scan(&self, step: CommitChanges) -> Scanned {
        let CommitChanges { commit, changes, problem } = step;
        let message = message::parse(&commit.message);
        let by_service = self.options.committers.iter().any(|email| email == commit.committer.email());
        let origin = match (by_service, message.origin, message.events.is_empty()) {
            (true, Some(OriginTrailer::WorkTree), _) => Origin::WorkTree,
            (true, Some(OriginTrailer::Command), false) => Origin::Command,
            // What it brings has to be told everywhere in the same order, whoever the other services commit as.
            (_, Some(OriginTrailer::Merge), _) => Origin::Merge,
            (true, None, false) => Origin::Api,
            (true, Some(OriginTrailer::Command) | None, true) | (false, ..) => Origin::Git,
        };
        Scanned {
            at: commit.at.timestamp(),
            author: commit.author,
            origin,
            told: message.events,
            is_damaged: problem.is_some(),
            parents: commit.parents,
            changes: self.named(changes),
        }
    }

    /// What became of each key, in their order. A first commit has as many as there are
    /// collections, so what is kept here for a moment is one piece of memory, that of the changes.
    fn named(&self, changes: Vec<FileChange>) -> Vec<(Key, Named)> {
        let of_key = |FileChange { name, after, .. }: FileChange| {
            let (stem, ending) = file_name::split(&name)?;
            let mut named = Named::default();
            named[usize::from(ending == Ending::Yml)] = Some(after);
            Some((self.key(stem)?, named))
        };
        let mut found: Vec<(Key, Named)> = changes.into_iter().filter_map(of_key).collect();
        // In the order of the names they nearly are.
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
