//! Brings the index up to a head: reads what is new, and only that.
//!
//! Whatever the branch did, the way is the same: follow first parents from the new head until a
//! commit that the index knows, forget what stands behind that commit, add the rest. For an
//! ordinary commit that is one step; for a rewritten branch it is everything after the fork.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use crate::domain::{Actor, Key, Revision};
use crate::format::layout::{FileName, file_name};
use crate::format::message;
use crate::store::{Archive, FileChange, Step, StoreError, TreeEntry};

use super::event::{Action, Origin};
use super::index::{Did, Index, NewEvent, number};
use super::row::{CommitRow, Ending, Version};

/// How many commits are read before they are added: what the reading may hold in memory.
const BATCH_LEN: usize = 8192;

/// Adds commits to an index.
pub(super) struct Builder {
    pub(super) index: Index,
    /// The `.yml` files that stand beside a `.yaml` one of the same key, at the index's head.
    twins: BTreeMap<Key, TreeEntry>,
    actors: HashMap<Arc<Actor>, u32>,
    /// The e-mail addresses that the service commits with.
    committers: Vec<String>,
}

/// What a commit says and did, as far as the index needs it.
struct Scanned {
    at: i64,
    author: Actor,
    /// What its trailers may make of its origin.
    origin: Origin,
    told: Vec<message::Told>,
    changes: Vec<(Key, Named)>,
}

/// What became of the two names that the file of a key can have; the inner `None` is "removed".
type Named = [Option<Option<TreeEntry>>; 2];

impl Builder {
    /// Goes on from an index that was made before.
    pub(super) fn new(
        index: Index,
        committers: &[String],
        archive: &dyn Archive,
    ) -> Result<Self, StoreError> {
        let numbered = index.actors().enumerate();
        let actors = numbered.map(|(at, actor)| (Arc::clone(actor), number(at))).collect();
        let twins = twins_at(index.head(), archive)?;
        Ok(Self { index, twins, actors, committers: committers.to_vec() })
    }

    /// Brings the index to `head`; tells how many of how many new commits are read, and leaves it
    /// on the way there when `progress` says so.
    pub(super) fn advance(
        &mut self,
        archive: &dyn Archive,
        head: Option<Revision>,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let Some(head) = head else {
            self.cut(0, archive)?;
            return Ok(());
        };
        let line = archive.first_parents(head, &|revision| self.index.find(*revision).is_some())?;
        let common = line.onto.and_then(|onto| self.index.find(onto)).map_or(0, |commit| commit + 1);
        self.cut(common, archive)?;
        let total = line.revisions.len();
        let mut done = 0;
        for batch in line.revisions.rchunks(BATCH_LEN) {
            self.add(archive, batch)?;
            done += batch.len();
            if progress(done, total).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn cut(&mut self, len: u32, archive: &dyn Archive) -> Result<(), StoreError> {
        if len < self.index.len() {
            self.index.truncate(len);
            self.twins = twins_at(self.index.head(), archive)?;
        }
        Ok(())
    }

    /// Adds commits that stand on the index's head, newest first.
    fn add(&mut self, archive: &dyn Archive, revisions: &[Revision]) -> Result<(), StoreError> {
        let slots: Vec<OnceLock<Scanned>> = revisions.iter().map(|_| OnceLock::new()).collect();
        archive.steps(revisions, &|index, step| {
            slots[index].get_or_init(|| scan(step, &self.committers));
        })?;
        for (revision, slot) in revisions.iter().zip(slots).rev() {
            let scanned = slot.into_inner().expect("BUG: the archive left out a step");
            self.push(*revision, scanned);
        }
        Ok(())
    }

    fn push(&mut self, revision: Revision, scanned: Scanned) {
        let Scanned { at, author, origin, told, changes } = scanned;
        let told_id = |key: &Key| told.iter().find(|told| told.key == *key).and_then(|told| told.id);
        let mut events = Vec::with_capacity(changes.len());
        for (key, named) in changes {
            if let Some(row) = self.follow(&key, named) {
                events.push(NewEvent { told_id: told_id(&key), key, row });
            }
        }
        let agrees = events.iter().all(|event| told.iter().any(|told| told.key == event.key));
        let origin = if agrees { origin } else { Origin::Git };
        let actor = self.index.actor_number(&author, &mut self.actors);
        self.index.push(CommitRow { revision, at, actor, events: 0, origin }, &events);
    }

    /// What happened to the file that counts for a key, if anything.
    fn follow(&mut self, key: &Key, named: Named) -> Option<Did> {
        let before = self.index.present(key);
        let at = |ending| before.filter(|it| it.ending == ending).map(Version::entry);
        let old = [at(Ending::Yaml), at(Ending::Yml).or_else(|| self.twins.get(key).copied())];
        let [yaml, yml] = [named[0].unwrap_or(old[0]), named[1].unwrap_or(old[1])];
        match (yaml, yml) {
            (Some(_), Some(twin)) => self.twins.insert(key.clone(), twin),
            (Some(_), None) | (None, _) => self.twins.remove(key),
        };
        let after = counting(yaml, yml);
        let action = match (before, after) {
            (None, Some(_)) => Action::Created,
            (Some(_), None) => Action::Deleted,
            (Some(_), Some(_)) | (None, None) => Action::Updated,
        };
        (before != after).then_some(Did { action, after })
    }
}

/// Of the two files of a key the one that counts.
pub(super) fn counting(yaml: Option<TreeEntry>, yml: Option<TreeEntry>) -> Option<Version> {
    let yaml = yaml.map(|entry| Version::new(Ending::Yaml, entry));
    yaml.or_else(|| yml.map(|entry| Version::new(Ending::Yml, entry)))
}

/// The files of a folder by key: `.yaml` and `.yml`.
pub(super) fn by_key(
    files: impl IntoIterator<Item = (String, TreeEntry)>,
) -> BTreeMap<Key, [Option<TreeEntry>; 2]> {
    let mut found: BTreeMap<Key, [Option<TreeEntry>; 2]> = BTreeMap::new();
    for (name, entry) in files {
        if let FileName::Collection { key, preferred } = file_name(&name) {
            found.entry(key).or_default()[usize::from(!preferred)] = Some(entry);
        }
    }
    found
}

fn twins_at(head: Option<Revision>, archive: &dyn Archive) -> Result<BTreeMap<Key, TreeEntry>, StoreError> {
    let files = head.map_or_else(|| Ok(Vec::new()), |head| archive.files(head, &|_| true))?;
    let both = by_key(files).into_iter().filter(|(_, [yaml, _])| yaml.is_some());
    Ok(both.filter_map(|(key, [_, yml])| Some((key, yml?))).collect())
}

fn scan(step: Step, committers: &[String]) -> Scanned {
    let Step { commit, changes } = step;
    let message = message::parse(&commit.message);
    let by_service = committers.iter().any(|email| email == commit.committer.email());
    let origin = match (by_service, message.by_hand, message.events.is_empty()) {
        (true, true, _) => Origin::WorkTree,
        (true, false, false) => Origin::Api,
        (true, false, true) | (false, ..) => Origin::Git,
    };
    Scanned {
        at: commit.at.timestamp(),
        author: commit.author,
        origin,
        told: message.events,
        changes: named(changes),
    }
}

/// What became of each key, in their order. A first commit has as many as there are collections, so
/// what is kept here for a moment is one piece of memory.
fn named(changes: Vec<FileChange>) -> Vec<(Key, Named)> {
    let mut found: Vec<(Key, Named)> = Vec::with_capacity(changes.len());
    for change in changes {
        if let FileName::Collection { key, preferred } = file_name(&change.name) {
            let mut named = Named::default();
            named[usize::from(!preferred)] = Some(change.after);
            found.push((key, named));
        }
    }
    // In the order of the names they nearly are.
    found.sort_by(|(one, _), (two, _)| one.cmp(two));
    found.dedup_by(|(key, named), (first, both)| {
        let same = key == first;
        if same {
            both.iter_mut().zip(named).for_each(|(one, two)| *one = one.or(*two));
        }
        same
    });
    found
}
