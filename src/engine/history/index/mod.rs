//! The index: which commit did what to which collection.
//!
//! All of it is derived from the commits along the first parents of the served branch, and those that merges made by
//! the service bring in. It stores numbers where possible; contents are read when an event is shown. Clones share
//! memory (persistent vectors), so a reader keeps the index that it started with while new commits are added to
//! another clone.
//!
//! ```text
//! commits   0: 9fceb02 …   1: 41d7a3e …   2: …          by number, oldest first
//! events    0  1  2        3              4  5          grouped by commit, then by key
//! by key    posts: 0 3 5   pages: 1       media: 2 4    the events of each key
//! ```
//!
//! **Memory use**: 44 bytes per commit, 52 per event and 36 per key, a few more for a key with many events, and each
//! actor once. A key's text is shared with the catalog if the catalog has the key.
//!
//! The index contains no file contents and does not answer clients; `query` does that.

pub(crate) mod build;
pub(crate) mod forks;
pub(crate) mod lookup;
pub(crate) mod numbers;
pub(crate) mod persist;
pub(crate) mod row;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use uuid::Uuid;

use crate::domain::{Actor, Key, Revision};
use crate::engine::history::event::{Action, Origin, stable_id};
use crate::engine::history::index::forks::{Fork, Forks};
use crate::engine::history::index::lookup::Lookup;
use crate::engine::history::index::numbers::Numbers;
use crate::engine::history::index::row::{CommitRow, EventRow, Version};
use crate::store::BlobId;

/// What every commit did to every collection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    commits: Vector<CommitRow>,
    events: Vector<EventRow>,
    keys: Vector<Key>,
    key_numbers: Lookup<Key>,
    by_key: Vector<Numbers>,
    actors: Vector<Arc<Actor>>,
    by_revision: Lookup<Revision>,
    by_id: Lookup<Uuid>,
    /// The two events of each moved file, each mapped to the other.
    moves: OrdMap<u32, u32>,
    forks: Forks,
}

/// A change of a key's effective file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VersionChange {
    pub(crate) action: Action,
    pub(crate) after: Option<Version>,
}

impl VersionChange {
    /// Returns the change from one version to another, either of which may be absent.
    pub(crate) const fn of(before: Option<Version>, after: Option<Version>) -> Self {
        let action = match (before, after) {
            (None, Some(_)) => Action::Created,
            (Some(_), None) => Action::Deleted,
            (Some(_), Some(_)) | (None, None) => Action::Updated,
        };
        Self { action, after }
    }
}

impl Index {
    /// Returns the number of commits.
    pub(crate) fn len(&self) -> u32 {
        number(self.commits.len())
    }

    /// Returns the number of events, suppressed ones included.
    pub(crate) fn events_len(&self) -> u32 {
        number(self.events.len())
    }

    pub(crate) fn head(&self) -> Option<Revision> {
        self.commits.last().map(|row| row.revision)
    }

    pub(crate) fn oldest(&self) -> Option<Revision> {
        self.commits.front().map(|row| row.revision)
    }

    pub(crate) fn commit(&self, commit: u32) -> &CommitRow {
        &self.commits[commit as usize]
    }

    pub(crate) fn event(&self, event: u32) -> &EventRow {
        &self.events[event as usize]
    }

    /// Returns the commits, oldest first.
    pub(crate) fn commits(&self) -> impl DoubleEndedIterator<Item = &CommitRow> + ExactSizeIterator {
        self.commits.iter()
    }

    /// Returns the number of a commit.
    pub(crate) fn find(&self, revision: Revision) -> Option<u32> {
        self.by_revision.find(&revision, |commit| self.commit(commit).revision.cmp(&revision))
    }

    /// Reports whether the index has no parent of a commit, as of the oldest one and of a side that a shallow clone has
    /// cut off.
    pub(crate) fn may_lack_parent(&self, revision: Revision) -> bool {
        self.find(revision).is_some_and(|commit| {
            commit == 0 || self.forks.get(commit).is_some_and(|fork| fork.onto.is_none())
        })
    }

    /// Returns the number of a reported event.
    pub(crate) fn find_event(&self, id: Uuid) -> Option<u32> {
        let event = self.by_id.find(&id, |event| self.event(event).id.cmp(&id))?;
        (!self.is_suppressed(event)).then_some(event)
    }

    /// Reports whether an event is suppressed: it is not reported, but its file still takes effect.
    pub(crate) fn is_suppressed(&self, event: u32) -> bool {
        self.forks.is_suppressed(event)
    }

    /// Returns the suppressed ones of these events.
    pub(crate) fn suppressed(&self, events: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        self.forks.suppressed(events)
    }

    /// Returns how many of these events are reported.
    pub(crate) fn reported_len(&self, events: Range<u32>) -> usize {
        events.len() - self.suppressed(events).count()
    }

    /// Suppresses an event of the newest commit.
    pub(crate) fn suppress(&mut self, event: u32) {
        self.forks.suppress(event);
    }

    /// Returns the numbers of a commit's events.
    pub(crate) fn events_of(&self, commit: u32) -> Range<u32> {
        let end = self.commits.get(commit as usize + 1).map_or(self.events_len(), |next| next.events);
        self.commit(commit).events..end
    }

    pub(crate) fn key(&self, key: u32) -> &Key {
        &self.keys[key as usize]
    }

    pub(crate) fn key_of(&self, event: u32) -> &Key {
        self.key(self.event(event).key)
    }

    pub(crate) fn keys_len(&self) -> u32 {
        number(self.keys.len())
    }

    pub(crate) fn actor(&self, actor: u32) -> &Arc<Actor> {
        &self.actors[actor as usize]
    }

    pub(crate) fn actors(&self) -> impl Iterator<Item = &Arc<Actor>> {
        self.actors.iter()
    }

    /// Returns the number of a key, if it ever had a file.
    pub(crate) fn find_key(&self, key: &str) -> Option<u32> {
        let number = self.number_of(key)?;
        (!self.of_key(number).is_empty()).then_some(number)
    }

    fn number_of(&self, key: &str) -> Option<u32> {
        self.key_numbers.find(key, |number| self.key(number).as_str().cmp(key))
    }

    /// Returns the numbers of a key's events, oldest first.
    pub(crate) fn of_key(&self, key: u32) -> &Numbers {
        &self.by_key[key as usize]
    }

    /// Returns the numbers of a key's events in a commit and its ancestors, newest first.
    pub(crate) fn of_key_until(&self, key: u32, commit: u32) -> impl Iterator<Item = u32> {
        let events = self.of_key(key);
        let end = partition(events.len(), |at| self.event(events.at(at)).commit <= commit);
        let is_past = move |event: &u32| self.forks.reaches(commit, self.event(*event).commit);
        (0..end).rev().map(move |at| events.at(at)).filter(is_past)
    }

    /// Returns the events of a key on the two sides of a merge, each oldest first: those on the side that the merge
    /// brings in, and those on the other side that the first side does not reach.
    pub(crate) fn sides(&self, key: u32, merge: u32, join: Fork) -> [Vec<u32>; 2] {
        let (last, commit) = (merge - 1, |event: &u32| self.event(*event).commit);
        let ours = self.of_key_until(key, last).take_while(|event| commit(event) >= join.start);
        let first = self.forks.first_beyond(last);
        let theirs = join.onto.into_iter().flat_map(|onto| self.of_key_until(key, onto));
        let theirs = theirs.take_while(|event| commit(event) >= first);
        let theirs = theirs.filter(|event| !self.forks.reaches(last, commit(event)));
        let [mut ours, mut theirs] = [ours.collect::<Vec<_>>(), theirs.collect()];
        ours.reverse();
        theirs.reverse();
        [ours, theirs]
    }

    /// Returns the event of the same key before this one.
    pub(crate) fn before(&self, event: u32) -> Option<u32> {
        let row = self.event(event);
        self.of_key_until(row.key, row.commit).find(|before| *before < event)
    }

    /// Returns the commits that do not just follow the commit before them.
    pub(crate) const fn forks(&self) -> &Forks {
        &self.forks
    }

    /// Records that the newest commit is a fork.
    pub(crate) fn fork(&mut self, fork: Fork) {
        self.forks.insert(self.len() - 1, fork);
    }

    /// Returns the effective file of a key at a commit.
    pub(crate) fn version_at(&self, key: u32, commit: u32) -> Option<Version> {
        self.event(self.of_key_until(key, commit).next()?).after
    }

    /// Returns the effective file of a key now.
    pub(crate) fn present(&self, key: &Key) -> Option<Version> {
        self.event(self.of_key(self.number_of(key.as_str())?).last()?).after
    }

    /// Adds the next commit, without events at first.
    pub(crate) fn push(&mut self, row: CommitRow) {
        let (revision, commit) = (row.revision, self.restore_commit(row));
        let Self { by_revision, commits, .. } = self;
        let name = |commit: u32| commits[commit as usize].revision;
        by_revision.push(revision, commit, |one, two| name(one).cmp(&name(two)));
    }

    /// Adds the next event of the newest commit, for the key with this number. The events of a commit are added in
    /// the order of their keys. `named_id` is the id that the trailers give it.
    pub(crate) fn push_event(&mut self, key: u32, named_id: Option<Uuid>, change: VersionChange) {
        let commit = self.commits.last().expect("an event is of a commit").revision;
        // A cherry-picked commit repeats the ids of the original, which keeps them.
        let named_id = named_id.filter(|id| self.find_event(*id).is_none());
        let id = named_id.unwrap_or_else(|| stable_id(commit, self.key(key)));
        let event = self.restore_event(id, key, change);
        let Self { by_id, events, .. } = self;
        let name = |event: u32| events[event as usize].id;
        by_id.push(id, event, |one, two| name(one).cmp(&name(two)));
    }

    /// Returns the other event of a file that the same commit moved with its content unchanged.
    pub(crate) fn move_counterpart(&self, event: u32) -> Option<u32> {
        self.moves.get(&event).copied()
    }

    /// Pairs the files that the newest commit removed with those of the same content that it added, several of one
    /// content in the order of their keys. All events of the commit must have been added.
    pub(crate) fn pair_moves(&mut self) {
        let events = self.commits.last().map_or(0, |row| row.events)..self.events_len();
        let mut removed: BTreeMap<BlobId, VecDeque<u32>> = BTreeMap::new();
        for event in events.clone().filter(|event| self.event(*event).action == Action::Deleted) {
            let version = self.before(event).and_then(|before| self.event(before).after);
            if let Some(blob) = version.and_then(|version| version.entry.blob()) {
                removed.entry(blob).or_default().push_back(event);
            }
        }
        if removed.is_empty() {
            return;
        }
        for to in events {
            let row = self.event(to);
            let created = row.after.filter(|_| row.action == Action::Created);
            let blob = created.and_then(|version| version.entry.blob());
            if let Some(from) = blob.and_then(|blob| removed.get_mut(&blob)?.pop_front()) {
                self.moves.insert(from, to);
                self.moves.insert(to, from);
            }
        }
    }

    /// Sets the origin of the newest commit.
    pub(crate) fn set_origin(&mut self, origin: Origin) {
        if let Some(row) = self.commits.back_mut() {
            row.origin = origin;
        }
    }

    /// Returns the number of a key, assigning one if it has none yet.
    pub(crate) fn key_number(&mut self, key: &Key) -> u32 {
        if let Some(number) = self.number_of(key.as_str()) {
            return number;
        }
        let new = self.restore_key(key.clone());
        let Self { key_numbers, keys, .. } = self;
        let name = |number: u32| &keys[number as usize];
        key_numbers.push(key.clone(), new, |one, two| name(one).cmp(name(two)));
        new
    }

    /// Adds a key without entering it in the lookups, as when an index is read back.
    pub(crate) fn restore_key(&mut self, key: Key) -> u32 {
        self.keys.push_back(key);
        self.by_key.push_back(Numbers::default());
        self.keys_len() - 1
    }

    /// Adds a commit without entering it in the lookups.
    pub(crate) fn restore_commit(&mut self, mut row: CommitRow) -> u32 {
        row.events = self.events_len();
        self.commits.push_back(row);
        self.len() - 1
    }

    /// Adds an event of the newest commit without entering it in the lookups.
    pub(crate) fn restore_event(&mut self, id: Uuid, key: u32, change: VersionChange) -> u32 {
        let (commit, event) = (self.len() - 1, self.events_len());
        let VersionChange { action, after } = change;
        self.events.push_back(EventRow { id, commit, key, action, after });
        self.by_key[key as usize].push(event);
        event
    }

    /// Builds the lookups after everything has been restored.
    pub(crate) fn restored(&mut self) {
        self.by_revision = Lookup::of(&self.commits.iter().map(|row| row.revision).collect::<Vec<_>>());
        self.by_id = Lookup::of(&self.events.iter().map(|row| row.id).collect::<Vec<_>>());
        self.key_numbers = Lookup::of(&self.keys.iter().collect::<Vec<_>>());
    }

    /// Removes every commit but the first `len`.
    pub(crate) fn truncate(&mut self, len: u32) {
        if len >= self.len() {
            return;
        }
        let events = self.commit(len).events;
        for event in (events..self.events_len()).rev() {
            let key = self.event(event).key;
            self.by_key[key as usize].pop();
        }
        self.events.truncate(events as usize);
        self.moves = self.moves.split(&events).0;
        self.forks.truncate(len, events);
        self.commits.truncate(len as usize);
        self.by_id.truncate(events);
        self.by_revision.truncate(len);
    }

    /// Returns the number of an actor, assigning one if `numbers`, which maps the known actors, has none.
    pub(crate) fn actor_number(&mut self, actor: &Actor, numbers: &mut HashMap<Arc<Actor>, u32>) -> u32 {
        if let Some(number) = numbers.get(actor) {
            return *number;
        }
        let (new, actor) = (number(self.actors.len()), Arc::new(actor.clone()));
        self.actors.push_back(Arc::clone(&actor));
        numbers.insert(actor, new);
        new
    }
}

/// Converts a length to the number of a commit, event, key or actor.
pub(crate) fn number(len: usize) -> u32 {
    u32::try_from(len).expect("a history has fewer than four thousand million commits and events")
}

/// Returns the partition point of `len` items: how many leading ones satisfy `holds`; none after them may.
pub(crate) fn partition(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
