//! What is served now: the collections, the problems, and the tag of the list.
//!
//! Only the writer thread publishes; readers take a snapshot and keep it for the whole request. Nothing here reads a
//! file or decides what is served: the mirror does that.

pub(crate) mod problem;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use imbl::OrdMap;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::domain::file_name::FileExtension;
use crate::domain::{Catalog, Collection, HasCollection, Key, Revision};
use crate::engine::memo::{Memo, SmallMemo};
use crate::engine::pacing::{PacedFollower, Pacing};
use crate::engine::projection::problem::{BranchRewrite, MergeConflict, Problem};
use crate::store::BlobId;
use crate::telemetry::{Limit, LimitCounters};

/// A collection as it is served, with everything that an answer needs.
#[derive(Debug)]
pub struct Entry {
    /// The collection.
    pub collection: Arc<Collection>,
    /// The ending of its file's name, which begins with the key.
    pub ending: FileExtension,
    /// The id of the served bytes.
    pub blob: BlobId,
    /// Whether the served version is a saved file that is not committed.
    pub uncommitted: bool,
    /// The problem of the file, or one beside it.
    pub problem: Option<Arc<Problem>>,
    /// Whether the file itself is broken, so that this is its last good version and updates have nothing to build on.
    pub stale: bool,
    /// Its JSON with the entity tag, made on first use.
    pub memo: SmallMemo,
}

impl Entry {
    /// Creates the entry of a committed file without faults.
    pub(crate) fn of_file(collection: Arc<Collection>, file: &str, blob: BlobId) -> Self {
        Self {
            collection,
            ending: FileExtension::of(file),
            blob,
            uncommitted: false,
            problem: None,
            stale: false,
            memo: SmallMemo::default(),
        }
    }

    /// Returns the file's name inside the collections folder.
    #[must_use]
    pub fn file(&self) -> String {
        self.ending.file_of(self.collection.key())
    }

    /// Returns whether `file` is the file's name.
    pub(crate) fn is_named(&self, file: &str) -> bool {
        file.strip_prefix(self.collection.key().as_str()) == Some(self.ending.as_str())
    }

    /// Returns whether the committed file is served, as opposed to a saved file or an older version of a broken file.
    pub(crate) const fn is_as_committed(&self) -> bool {
        !self.uncommitted && !self.stale
    }

    /// Returns the opaque part of the entity tag: the blob id, with a mark if the body contains more than the file
    /// does (RFC 9110 section 8.8.3: a tag names one representation).
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

    /// Returns whether the tag is of the same content, whatever its mark says.
    pub(crate) fn is_tagged(&self, tag: &str) -> bool {
        tag_content_id(tag) == self.blob.to_string()
    }

    /// Returns the entry's contribution to the digest of its list: it differs whenever the key or the tag does.
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

/// Returns the part of an entity tag that identifies the content of the file, without the mark.
pub(crate) fn tag_content_id(tag: &str) -> &str {
    tag.split_once('-').map_or(tag, |(content, _)| content)
}

/// Entries are equal if they represent the same bytes in the same way: their ready-made answers are interchangeable.
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

/// Lets two pointers to the same entry compare equal without comparing its fields.
impl Eq for Entry {}

#[cfg(test)]
impl Entry {
    /// Creates an entry of a committed file without faults; the blob id is derived from the content.
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

/// Everything that readers may request, as of one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The head of the served branch; `None` before its first commit.
    pub revision: Option<Revision>,
    catalog: Catalog<Arc<Entry>>,
    /// The problems, by path.
    pub problems: OrdMap<String, Arc<Problem>>,
    /// Former heads of a rewritten branch that are kept, the oldest first.
    pub rewritten: Arc<Vec<BranchRewrite>>,
    /// Conflicts that merges have left.
    pub conflicts: Arc<Vec<MergeConflict>>,
    /// Saved files that are not committed.
    pub hand_edits: HandEdits,
    /// Why the work tree is not followed, or which git operation is half-done in it.
    pub work_tree: Option<Arc<str>>,
    /// The sum of the entries' weights: it is updated for a change without visiting the other entries.
    digest: u128,
    /// The body of the whole list with its entity tag, made on first use.
    pub memo: Memo,
    /// The compressed body of the whole list, made on first use.
    pub memo_compressed: Memo,
}

/// Saved files that are not committed.
#[derive(Debug, Clone, Default)]
pub struct HandEdits {
    /// Number of hand edits that are served, including deleted files.
    pub served: usize,
    /// Number of collections that are served as saved, even if the file has become broken since.
    pub shown: usize,
    /// The collections with a hand edit, whatever is served for them.
    pub keys: Arc<BTreeSet<Key>>,
    /// The contents of the saved files, by their path inside the repository.
    pub saved: Arc<BTreeMap<String, Arc<Vec<u8>>>>,
}

impl Snapshot {
    /// Returns the collection with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.catalog.get(key)
    }

    /// Returns the first problem of this key's files, whatever is served in their place.
    #[must_use]
    pub fn problem_of(&self, key: &str) -> Option<&Arc<Problem>> {
        self.problems
            .values()
            .find(|problem| problem.collection.as_ref().is_some_and(|it| it.as_str() == key))
    }

    /// Returns the number of problems.
    #[must_use]
    pub fn problems_len(&self) -> usize {
        let faults: usize = self.problems.values().map(|problem| problem.faults.len()).sum();
        faults + self.rewritten.len() + self.conflicts.len()
    }

    /// Returns all collections in the order of their keys.
    #[must_use]
    pub const fn catalog(&self) -> &Catalog<Arc<Entry>> {
        &self.catalog
    }

    /// Returns the opaque part of the list's entity tag, which differs whenever the list's body does.
    #[must_use]
    pub fn list_tag(&self) -> String {
        format!("{:032x}-{}", self.digest, self.hand_edits.served)
    }

    pub(crate) const fn digest(&self) -> u128 {
        self.digest
    }

    /// Returns the collections that may be served differently from what is committed.
    pub(crate) fn keys_not_as_committed(&self) -> BTreeSet<&Key> {
        let broken = self.problems.values().filter_map(|problem| problem.collection.as_ref());
        self.hand_edits.keys.iter().chain(broken).collect()
    }

    /// Creates the snapshot of a past revision.
    pub(crate) fn at_revision(revision: Revision, entries: impl Iterator<Item = Arc<Entry>>) -> Self {
        let mut snapshot = Self { revision: Some(revision), ..Self::default() };
        entries.for_each(|entry| snapshot.insert(entry));
        snapshot
    }

    /// Creates the next snapshot, to be changed before it is published: it shares all entries, but no ready-made
    /// list.
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

/// Gives readers access to the current snapshot.
///
/// Readers take a snapshot and keep it for the whole request, so a response never mixes two revisions, and readers
/// and the writer never wait for each other. Only the writer thread publishes, so a plain `store` is sufficient where
/// a second publisher would need a compare-and-swap.
#[derive(Debug, Clone, Default)]
pub struct Projection {
    current: Arc<ArcSwapOption<Snapshot>>,
    /// Why the repository can't be read, until it can be read again.
    read_error: Arc<ArcSwapOption<String>>,
    /// Why the last write failed, until a write succeeds.
    write_error: Arc<ArcSwapOption<String>>,
    /// What the writer thread is doing.
    turn: Arc<ArcSwapOption<Turn>>,
    heads: Arc<watch::Sender<PublishedHead>>,
    /// Notifies of a new snapshot, or that the repository can't be read.
    news: Arc<watch::Sender<()>>,
    pacing: Arc<Pacing>,
}

/// One turn of the writer thread, from one wait to the next.
#[derive(Debug)]
struct Turn {
    since: Instant,
    /// Whether it was counted that the turn takes too long.
    counted: AtomicBool,
}

/// The head of the served branch that was published to readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PublishedHead {
    /// The repository has not been read yet.
    #[default]
    Unread,
    /// The head; `None` before the first commit.
    At(Option<Revision>),
    /// The engine has ended; there will be no other head.
    Ended,
}

impl Projection {
    /// Returns what is served now; `None` until the repository has been read for the first time.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.current.load_full()
    }

    /// Returns the key of a collection that is served now. It shares the text of the catalog's key, so that callers
    /// that keep many keys do not store the text again.
    #[must_use]
    pub fn key(&self, text: &str) -> Option<Key> {
        self.current.load().as_ref()?.get(text).map(|entry| entry.collection.key().clone())
    }

    /// Waits until the repository has been read, or could not be read.
    pub async fn wait_until_read(&self) {
        let is_known = |(): &()| self.current.load().is_some() || self.read_error.load().is_some();
        // The sender lives as long as this does.
        drop(self.news().wait_for(is_known).await);
    }

    /// Subscribes to snapshots: notifies after each one is readable; a slow subscriber misses some.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Registers a follower of the snapshots.
    #[must_use]
    pub fn register_follower(&self) -> PacedFollower {
        PacedFollower::register(&self.pacing)
    }

    /// Returns why what is served may be out of date, if the repository can't be read at the moment.
    #[must_use]
    pub fn read_error(&self) -> Option<Arc<String>> {
        self.read_error.load_full()
    }

    /// Records why the repository can't be read, or that it can be read again.
    pub(crate) fn set_read_error(&self, why: Option<String>) {
        self.read_error.store(why.map(Arc::new));
        self.news.send_replace(());
    }

    /// Returns why the last requested write failed, until another one succeeds; contains no path of the machine.
    #[must_use]
    pub fn write_error(&self) -> Option<Arc<String>> {
        self.write_error.load_full()
    }

    /// Records why a write failed, or that one succeeded.
    pub(crate) fn set_write_error(&self, why: Option<String>) {
        if why.is_some() || self.write_error.load().is_some() {
            self.write_error.store(why.map(Arc::new));
        }
    }

    /// Returns how long the current turn of the writer thread has taken, if that is at least `most`. The turn is
    /// counted once, by the first caller to notice: while it lasts or at its end.
    pub fn overdue(&self, most: Duration, reached: &LimitCounters) -> Option<Duration> {
        let turn = self.turn.load_full()?;
        let busy = Some(turn.since.elapsed()).filter(|busy| *busy >= most)?;
        if !turn.counted.swap(true, Ordering::Relaxed) {
            reached.count(Limit::WriterBusy);
        }
        Some(busy)
    }

    /// Records that a turn of the writer thread has begun, or has ended.
    pub(crate) fn note_busy(&self, since: Option<Instant>) {
        self.turn.store(since.map(|since| Arc::new(Turn { since, counted: AtomicBool::new(false) })));
    }

    /// Subscribes to heads: each is sent after its snapshot is readable; a slow subscriber misses some.
    #[must_use]
    pub fn heads(&self) -> watch::Receiver<PublishedHead> {
        self.heads.subscribe()
    }

    /// Announces that there will be no other head.
    pub(crate) fn end(&self) {
        self.heads.send_replace(PublishedHead::Ended);
    }

    /// Waits until the engine has ended for whatever reason.
    pub async fn ended(&self) {
        // The sender lives as long as this does.
        drop(self.heads().wait_for(|head| *head == PublishedHead::Ended).await);
    }

    /// Makes `next` the current snapshot, then notifies of a new head. Never waits.
    pub(crate) fn publish(&self, next: Arc<Snapshot>) {
        let head = PublishedHead::At(next.revision);
        self.current.store(Some(next));
        self.heads.send_if_modified(|published| std::mem::replace(published, head) != head);
        self.news.send_replace(());
    }
}
