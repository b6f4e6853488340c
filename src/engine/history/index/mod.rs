//! The index: which commit did what to which collection.
//!
//! Everything in it is derived from the commits along the first parents of the served branch, and
//! it holds numbers where it can: contents are read when an event is shown. Cloning shares
//! everything (persistent vectors), so a reader keeps the index that it began with while the next
//! commits are added to another.
//!
//! ```text
//! commits   0: 9fceb02 …   1: 41d7a3e …   2: …          by number, oldest first
//! events    0  1  2        3              4  5          those of a commit side by side, by key
//! by key    posts: 0 3 5   pages: 1       media: 2 4    what happened to each
//! ```
//!
//! **What it costs**: 44 bytes a commit, 52 an event and 36 a key, a few more where a key has many
//! events, and each actor once. The text of a key is the catalog's where it has the key.
//!
//! No content of a file is here, and nothing is answered from here to a client: that is done in `query`.

pub(crate) mod build;
pub(crate) mod forks;
pub(crate) mod lookup;
pub(crate) mod numbers;
pub(crate) mod persist;
pub(crate) mod row;

use std::collections::{BTreeMap, HashMap, VecDeque};
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
    /// The two events of each file that moved, by either.
    moves: OrdMap<u32, u32>,
    forks: Forks,
}

/// What happened to the file that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VersionChange {
    pub(crate) action: Action,
    pub(crate) after: Option<Version>,
}

impl VersionChange {
    /// From one version to another, of which one may be none.
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
    /// How many commits there are.
    pub(crate) fn len(&self) -> u32 {
        number(self.commits.len())
    }

    /// How many events there are.
    pub(crate) fn events_len(&self) -> u32 {
        number(self.events.len())
    }

    /// The newest commit.
    pub(crate) fn head(&self) -> Option<Revision> {
        self.commits.last().map(|row| row.revision)
    }

    /// The commit that all others stand on.
    pub(crate) fn oldest(&self) -> Option<Revision> {
        self.commits.front().map(|row| row.revision)
    }

    pub(crate) fn commit(&self, commit: u32) -> &CommitRow {
        &self.commits[commit as usize]
    }

    pub(crate) fn event(&self, event: u32) -> &EventRow {
        &self.events[event as usize]
    }

    /// The commits, oldest first.
    pub(crate) fn commits(&self) -> impl DoubleEndedIterator<Item = &CommitRow> + ExactSizeIterator {
        self.commits.iter()
    }

    /// The number of a commit.
    pub(crate) fn find(&self, revision: Revision) -> Option<u32> {
        self.by_revision.find(&revision, |commit| self.commit(commit).revision.cmp(&revision))
    }

    /// The number of an event that is told.
    pub(crate) fn find_event(&self, id: Uuid) -> Option<u32> {
        let event = self.by_id.find(&id, |event| self.event(event).id.cmp(&id))?;
        (!self.is_quiet(event)).then_some(event)
    }

    /// Whether an event is not told, though its file counts.
    pub(crate) fn is_quiet(&self, event: u32) -> bool {
        self.forks.is_quiet(event)
    }

    /// The events among these that are not told.
    pub(crate) fn quiet(&self, events: std::ops::Range<u32>) -> impl Iterator<Item = u32> + '_ {
        self.forks.quiet(events)
    }

    /// Tells an event of the newest commit no more.
    pub(crate) fn quieten(&mut self, event: u32) {
        self.forks.quieten(event);
    }

    /// The numbers of a commit's events.
    pub(crate) fn events_of(&self, commit: u32) -> std::ops::Range<u32> {
        let end = self.commits.get(commit as usize + 1).map_or(self.events_len(), |next| next.events);
        self.commit(commit).events..end
    }

    /// How many events there are up to and with a commit; all of them where there is no such commit yet.
    pub(crate) fn events_until(&self, commit: u32) -> u32 {
        if commit < self.len() { self.events_of(commit).end } else { self.events_len() }
    }

    pub(crate) fn key(&self, key: u32) -> &Key {
        &self.keys[key as usize]
    }

    /// The key that an event is of.
    pub(crate) fn key_of(&self, event: u32) -> &Key {
        self.key(self.event(event).key)
    }

    /// How many keys have a number.
    pub(crate) fn keys_len(&self) -> u32 {
        number(self.keys.len())
    }

    pub(crate) fn actor(&self, actor: u32) -> &Arc<Actor> {
        &self.actors[actor as usize]
    }

    pub(crate) fn actors(&self) -> impl Iterator<Item = &Arc<Actor>> {
        self.actors.iter()
    }

    /// The number of a key, if it ever had a file.
    pub(crate) fn find_key(&self, key: &str) -> Option<u32> {
        let number = self.number_of(key)?;
        (!self.of_key(number).is_empty()).then_some(number)
    }

    fn number_of(&self, key: &str) -> Option<u32> {
        self.key_numbers.find(key, |number| self.key(number).as_str().cmp(key))
    }

    /// The numbers of a key's events, oldest first.
    pub(crate) fn of_key(&self, key: u32) -> &Numbers {
        &self.by_key[key as usize]
    }

    /// The numbers of a key's events in the past of a commit, and its own, newest first.
    pub(crate) fn of_key_until(&self, key: u32, commit: u32) -> impl Iterator<Item = u32> {
        let events = self.of_key(key);
        let end = partition(events.len(), |at| self.event(events.at(at)).commit <= commit);
        let is_past = move |event: &u32| self.forks.reaches(commit, self.event(*event).commit);
        (0..end).rev().map(move |at| events.at(at)).filter(is_past)
    }

    /// The events of a key on the side that a merge brings, and those of the other side that the first does not know;
    /// each oldest first.
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

    /// The event of the same key before this one.
    pub(crate) fn before(&self, event: u32) -> Option<u32> {
        let row = self.event(event);
        self.of_key_until(row.key, row.commit).find(|before| *before < event)
    }

    /// The commits that do not simply stand on the one before them.
    pub(crate) const fn forks(&self) -> &Forks {
        &self.forks
    }

    /// Notes that the newest commit is one of those.
    pub(crate) fn fork(&mut self, fork: Fork) {
        self.forks.insert(self.len() - 1, fork);
    }

    /// The file that counts for a key at a commit.
    pub(crate) fn version_at(&self, key: u32, commit: u32) -> Option<Version> {
        self.event(self.of_key_until(key, commit).next()?).after
    }

    /// The file that counts for a key now.
    pub(crate) fn present(&self, key: &Key) -> Option<Version> {
        self.present_of(self.number_of(key.as_str())?)
    }

    /// The file that counts now for the key with this number.
    pub(crate) fn present_of(&self, key: u32) -> Option<Version> {
        self.event(self.of_key(key).last()?).after
    }

    /// Adds the next commit, without events as yet.
    pub(crate) fn push(&mut self, row: CommitRow) {
        let (revision, commit) = (row.revision, self.restore_commit(row));
        let Self { by_revision, commits, .. } = self;
        let name = |commit: u32| commits[commit as usize].revision;
        by_revision.push(revision, commit, |one, two| name(one).cmp(&name(two)));
    }

    /// Adds the next event of the newest commit, of which they come in the order of their keys, by
    /// the number of its key; `told_id` is the id that the trailers give it.
    pub(crate) fn push_event(&mut self, key: u32, told_id: Option<Uuid>, change: VersionChange) {
        let commit = self.commits.last().expect("an event is of a commit").revision;
        // A commit that was picked a second time repeats the ids of the first, which keeps them.
        let told_id = told_id.filter(|id| self.find_event(*id).is_none());
        let id = told_id.unwrap_or_else(|| stable_id(commit, self.key(key)));
        let event = self.restore_event(id, key, change);
        let Self { by_id, events, .. } = self;
        let name = |event: u32| events[event as usize].id;
        by_id.push(id, event, |one, two| name(one).cmp(&name(two)));
    }

    /// The other event of a file that the same commit moved with its content unchanged.
    pub(crate) fn moved(&self, event: u32) -> Option<u32> {
        self.moves.get(&event).copied()
    }

    /// Pairs the files that the newest commit, whose events are all there, removed with those of the same
    /// content that it added; several of one content in the order of their keys.
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

    /// Tells where the events of the newest commit come from.
    pub(crate) fn set_origin(&mut self, origin: Origin) {
        if let Some(row) = self.commits.back_mut() {
            row.origin = origin;
        }
    }

    /// The number of a key, which it gets if it has none yet.
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

    /// Adds a key that was in an index before.
    pub(crate) fn restore_key(&mut self, key: Key) -> u32 {
        self.keys.push_back(key);
        self.by_key.push_back(Numbers::default());
        self.keys_len() - 1
    }

    /// Adds a commit that was in an index before.
    pub(crate) fn restore_commit(&mut self, mut row: CommitRow) -> u32 {
        row.events = self.events_len();
        self.commits.push_back(row);
        self.len() - 1
    }

    /// Adds an event of the newest commit that was in an index before.
    pub(crate) fn restore_event(&mut self, id: Uuid, key: u32, change: VersionChange) -> u32 {
        let (commit, event) = (self.len() - 1, self.events_len());
        let VersionChange { action, after } = change;
        self.events.push_back(EventRow { id, commit, key, action, after });
        self.by_key[key as usize].push(event);
        event
    }

    /// Makes everything that was restored be found.
    pub(crate) fn restored(&mut self) {
        self.by_revision = Lookup::of(&self.commits.iter().map(|row| row.revision).collect::<Vec<_>>());
        self.by_id = Lookup::of(&self.events.iter().map(|row| row.id).collect::<Vec<_>>());
        self.key_numbers = Lookup::of(&self.keys.iter().collect::<Vec<_>>());
    }

    /// Forgets every commit but the first `len`.
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

    /// Gives an actor a number; `numbers` knows those that have one.
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

/// A number of a commit, event, key or actor.
pub(crate) fn number(len: usize) -> u32 {
    u32::try_from(len).expect("a history has fewer than four thousand million commits and events")
}

/// How many of the first items hold true, of items of which the first ones do.
pub(crate) fn partition(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
