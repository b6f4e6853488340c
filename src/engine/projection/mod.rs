//! What is served right now: the collections, what is wrong with them, and the token that names it.
//!
//! The writer thread alone publishes; readers take a snapshot and keep it for the whole request. Nothing here
//! reads a file or decides what is served: that is done in `mirror`.

pub(crate) mod problem;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use imbl::OrdMap;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::domain::file_name::Ending;
use crate::domain::{Catalog, Collection, HasCollection, Key, Revision};
use crate::engine::memo::{Memo, SmallMemo};
use crate::engine::pacing::{Paced, Pacing};
use crate::engine::projection::problem::{Conflicted, Problem, Rewritten};
use crate::store::BlobId;
use crate::telemetry::{Limit, Reached};

/// One collection as it is served, with everything that an answer needs.
#[derive(Debug)]
pub struct Entry {
    /// The collection.
    pub collection: Arc<Collection>,
    /// How its file's name ends; it begins with the key.
    pub ending: Ending,
    /// The id of the served bytes.
    pub blob: BlobId,
    /// Whether the served version is a saved file that is not committed.
    pub uncommitted: bool,
    /// What is wrong with the file or beside it.
    pub problem: Option<Arc<Problem>>,
    /// Whether the file itself is broken, so that this is its last good version and there is
    /// nothing for an update to build on.
    pub stale: bool,
    /// Its JSON with the entity tag, made when it is first asked for.
    pub memo: SmallMemo,
}

impl Entry {
    /// The entry of a committed file that is fine.
    pub(crate) fn of_file(collection: Arc<Collection>, file: &str, blob: BlobId) -> Self {
        Self {
            collection,
            ending: Ending::of(file),
            blob,
            uncommitted: false,
            problem: None,
            stale: false,
            memo: SmallMemo::default(),
        }
    }

    /// The file's name inside the collections folder.
    #[must_use]
    pub fn file(&self) -> String {
        self.ending.file_of(self.collection.key())
    }

    /// Whether this is the file's name.
    pub(crate) fn is_in(&self, file: &str) -> bool {
        file.strip_prefix(self.collection.key().as_str()) == Some(self.ending.as_str())
    }

    /// Whether the committed file is served, and neither a saved one nor an older version in place of a broken one.
    pub(crate) const fn is_as_committed(&self) -> bool {
        !self.uncommitted && !self.stale
    }

    /// The opaque part of the entity tag: the blob id, marked where the body says more than the
    /// bytes do (RFC 9110 section 8.8.3: a tag names one representation).
    #[must_use]
    pub fn tag(&self) -> String {
        let mark = if self.uncommitted { "-uncommitted" } else { "" };
        match &self.problem {
            None => format!("{}{mark}", self.blob),
            Some(problem) => {
                let digest = Sha256::digest(problem.to_string());
                format!(
                    "{}{mark}-{:02x}{:02x}{:02x}{:02x}",
                    self.blob, digest[0], digest[1], digest[2], digest[3]
                )
            }
        }
    }

    /// Whether this is a tag of the same content, whatever it says beside it.
    pub(crate) fn is_tagged(&self, tag: &str) -> bool {
        content_of(tag) == self.blob.to_string()
    }

    /// What the entry adds to the digest of its list: differs whenever the key or the tag does.
    pub(crate) fn weight(&self) -> u128 {
        let mut digest = Sha256::new()
            .chain_update(self.collection.key().as_str())
            .chain_update([0, u8::from(self.uncommitted)])
            .chain_update(self.blob.as_bytes());
        if let Some(problem) = &self.problem {
            digest.update(problem.to_string());
        }
        digest.finalize().iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte))
    }
}

/// The part of an entity tag that names the content of the file, without what its body says beside that.
pub(crate) fn content_of(tag: &str) -> &str {
    tag.split_once('-').map_or(tag, |(content, _)| content)
}

/// Whether both say the same of the same bytes, so that one's ready-made answer is the other's.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.collection.key() == other.collection.key()
            && self.ending == other.ending
            && self.blob == other.blob
            && self.uncommitted == other.uncommitted
            && self.stale == other.stale
            && self.problem == other.problem
    }
}

/// Two pointers to one entry are equal without a look at it.
impl Eq for Entry {}

#[cfg(test)]
impl Entry {
    /// An entry of a committed file that is fine; the blob id follows the content.
    pub(crate) fn committed(collection: Arc<Collection>) -> Self {
        let digest = Sha256::digest(format!("{:?} {:?}", collection.kind(), collection.attributes()));
        let mut blob = [0; 20];
        blob.copy_from_slice(&digest[..20]);
        let file = format!("{}.yaml", collection.key());
        Self::of_file(collection, &file, BlobId::new(blob))
    }
}

impl HasCollection for Arc<Entry> {
    fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }
}

/// Everything that readers may ask for, as it was at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The head of the served branch; `None` before its first commit.
    pub revision: Option<Revision>,
    catalog: Catalog<Arc<Entry>>,
    /// What is wrong, by path.
    pub problems: OrdMap<String, Arc<Problem>>,
    /// What the branch had before it was rewritten and is kept, the oldest first.
    pub rewritten: Arc<Vec<Rewritten>>,
    /// What merges have left that both sides had changed.
    pub conflicts: Arc<Vec<Conflicted>>,
    /// What is saved and not committed.
    pub hand_edits: HandEdits,
    /// Why the work tree is not looked at, or what stands half-done there.
    pub work_tree: Option<Arc<str>>,
    /// The sum of what the entries weigh: follows a change without visiting the others.
    digest: u128,
    /// The body of the whole list with its entity tag, made when it is first asked for.
    pub memo: Memo,
    /// The body of the whole list, compressed; made when it is first asked for.
    pub memo_compressed: Memo,
}

/// What people have saved and not committed.
#[derive(Debug, Clone, Default)]
pub struct HandEdits {
    /// How many of them are served, deleted files included.
    pub served: usize,
    /// How many collections are served as they were saved, also where the file is another by now and broken.
    pub shown: usize,
    /// The collections that have one, whatever is served of it.
    pub keys: Arc<BTreeSet<Key>>,
    /// What stands in the files, by the path inside the repository.
    pub saved: Arc<BTreeMap<String, Arc<Vec<u8>>>>,
}

impl Snapshot {
    /// The collection with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.catalog.get(key)
    }

    /// The first of what is wrong with the files of this key, whatever is served in their place.
    #[must_use]
    pub fn problem_of(&self, key: &str) -> Option<&Arc<Problem>> {
        self.problems
            .values()
            .find(|problem| problem.collection.as_ref().is_some_and(|it| it.as_str() == key))
    }

    /// How many things are wrong.
    #[must_use]
    pub fn problems_len(&self) -> usize {
        let faults: usize = self.problems.values().map(|problem| problem.faults.len()).sum();
        faults + self.rewritten.len() + self.conflicts.len()
    }

    /// All collections in the order of their keys.
    #[must_use]
    pub const fn catalog(&self) -> &Catalog<Arc<Entry>> {
        &self.catalog
    }

    /// The opaque part of the list's entity tag; differs whenever the list's body does.
    #[must_use]
    pub fn list_tag(&self) -> String {
        format!("{:032x}-{}", self.digest, self.hand_edits.served)
    }

    /// The sum of what the entries weigh.
    pub(crate) const fn digest(&self) -> u128 {
        self.digest
    }

    /// The collections of which something else may be served than the commit alone tells.
    pub(crate) fn apart(&self) -> BTreeSet<&Key> {
        let broken = self.problems.values().filter_map(|problem| problem.collection.as_ref());
        self.hand_edits.keys.iter().chain(broken).collect()
    }

    /// What was served at a revision.
    pub(crate) fn of_the_past(revision: Revision, entries: impl Iterator<Item = Arc<Entry>>) -> Self {
        let mut snapshot = Self { revision: Some(revision), ..Self::default() };
        entries.for_each(|entry| snapshot.insert(entry));
        snapshot
    }

    /// The next snapshot, to be changed before it is published: shares all entries, has no
    /// ready-made list.
    pub(crate) fn next(&self) -> Self {
        Self {
            revision: self.revision,
            catalog: self.catalog.clone(),
            problems: self.problems.clone(),
            rewritten: Arc::clone(&self.rewritten),
            conflicts: Arc::clone(&self.conflicts),
            hand_edits: self.hand_edits.clone(),
            work_tree: self.work_tree.clone(),
            digest: self.digest,
            memo: Memo::default(),
            memo_compressed: Memo::default(),
        }
    }

    /// Adds or replaces a collection.
    pub(crate) fn insert(&mut self, entry: Arc<Entry>) {
        self.digest = self.digest.wrapping_add(entry.weight());
        self.hand_edits.shown += usize::from(entry.uncommitted);
        if let Some(replaced) = self.catalog.insert(entry) {
            self.forget(&replaced);
        }
    }

    /// Takes a collection away.
    pub(crate) fn remove(&mut self, key: &str) {
        if let Some(entry) = self.catalog.remove(key) {
            self.forget(&entry);
        }
    }

    fn forget(&mut self, entry: &Entry) {
        self.digest = self.digest.wrapping_sub(entry.weight());
        self.hand_edits.shown -= usize::from(entry.uncommitted);
    }
}

/// Hands the present snapshot to readers.
///
/// Readers take a snapshot and keep it for the whole request, so one response can never mix two
/// revisions, and nobody waits for anybody. Only the writer thread publishes; that is what makes
/// plain `store` enough where a second publisher would need a compare-and-swap.
#[derive(Debug, Clone, Default)]
pub struct Projection {
    current: Arc<ArcSwapOption<Snapshot>>,
    trouble: Arc<ArcSwapOption<String>>,
    /// Why the last write could not be made, until one can.
    write_trouble: Arc<ArcSwapOption<String>>,
    /// What the writer is at.
    turn: Arc<ArcSwapOption<Turn>>,
    heads: Arc<watch::Sender<PublishedHead>>,
    /// Tells that there is something to look at: a snapshot, or trouble.
    news: Arc<watch::Sender<()>>,
    pacing: Arc<Pacing>,
}

/// What the writer is at, from one wait to the next.
#[derive(Debug)]
struct Turn {
    since: Instant,
    /// Whether it was counted that it takes too long.
    counted: AtomicBool,
}

/// The head of the served branch, as far as readers have been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PublishedHead {
    /// The repository has not been read yet.
    #[default]
    Unread,
    /// This commit; `None` before the first one.
    At(Option<Revision>),
    /// The engine has ended; there will be no other.
    Ended,
}

impl Projection {
    /// What is served now; `None` until the repository has been read for the first time.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.current.load_full()
    }

    /// The key of a collection that is served now: the one in the catalog, so that whoever keeps
    /// many need not keep their text again.
    #[must_use]
    pub fn key(&self, text: &str) -> Option<Key> {
        self.current.load().as_ref()?.get(text).map(|entry| entry.collection.key().clone())
    }

    /// Waits until the repository has been read, or could not be.
    pub async fn first_reading(&self) {
        let is_told = |(): &()| self.current.load().is_some() || self.trouble.load().is_some();
        // The sender lives as long as this does.
        drop(self.news().wait_for(is_told).await);
    }

    /// Tells of each snapshot once it can be read; who is slow misses those between.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Adds one who is told of the snapshots.
    #[must_use]
    pub fn paced(&self) -> Paced {
        Paced::by(&self.pacing)
    }

    /// Why what is served may be out of date, if the repository can't be read at the moment.
    #[must_use]
    pub fn trouble(&self) -> Option<Arc<String>> {
        self.trouble.load_full()
    }

    /// Notes why the repository can't be read, or that it can.
    pub(crate) fn note_trouble(&self, why: Option<String>) {
        self.trouble.store(why.map(Arc::new));
        self.news.send_replace(());
    }

    /// Why the last write that was asked for could not be made, until another one can; no path of the machine
    /// is in it.
    #[must_use]
    pub fn write_trouble(&self) -> Option<Arc<String>> {
        self.write_trouble.load_full()
    }

    /// Notes why a write could not be made, or that one was.
    pub(crate) fn note_write_trouble(&self, why: Option<String>) {
        if why.is_some() || self.write_trouble.load().is_some() {
            self.write_trouble.store(why.map(Arc::new));
        }
    }

    /// How long the writer has been at what it does, if that is `most` or more. It is counted once, by whoever notices
    /// it first: while it lasts, or at its end.
    pub fn overdue(&self, most: Duration, reached: &Reached) -> Option<Duration> {
        let turn = self.turn.load_full()?;
        let busy = Some(turn.since.elapsed()).filter(|busy| *busy >= most)?;
        if !turn.counted.swap(true, Ordering::Relaxed) {
            reached.count(Limit::WriterBusy);
        }
        Some(busy)
    }

    /// Notes that the writer has begun with something, or is done with it.
    pub(crate) fn note_busy(&self, since: Option<Instant>) {
        self.turn.store(since.map(|since| Arc::new(Turn { since, counted: AtomicBool::new(false) })));
    }

    /// Tells each head after its snapshot can be read; who is slow misses those between.
    #[must_use]
    pub fn heads(&self) -> watch::Receiver<PublishedHead> {
        self.heads.subscribe()
    }

    /// Tells that there will be no other head.
    pub(crate) fn end(&self) {
        self.heads.send_replace(PublishedHead::Ended);
    }

    /// Waits until the engine has ended, in whatever way.
    pub async fn ended(&self) {
        // The sender lives as long as this does.
        drop(self.heads().wait_for(|head| *head == PublishedHead::Ended).await);
    }

    /// Makes `next` the truth, and tells of a new head after that. Nobody is waited for.
    pub(crate) fn publish(&self, next: Arc<Snapshot>) {
        let head = PublishedHead::At(next.revision);
        self.current.store(Some(next));
        self.heads.send_if_modified(|told| std::mem::replace(told, head) != head);
        self.news.send_replace(());
    }
}
