//! The writer's picture of the repository, and how it is brought up to date.
//!
//! Truth is read from the repository, never taken from a notice: [`Mirror::refresh`] compares the
//! branch and the named files with what is known, and rebuilds only the collections concerned. A
//! start, a fetched commit, a hand edit and the writer's own commit all go through
//! [`Mirror::rebuild`], so there is one place where it is decided what is served.
//!
//! Nothing here commits: the mirror reads the journal, and is told what the writer appended.

mod bulk;
mod conflicts;
pub(crate) mod contents;
mod debounce;
mod options;
mod problems;
pub(crate) mod provenance;
mod rebuild;
mod renamed;
mod rewritten;
mod rivals;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crate::domain::file_name::{key_of, names_of, path_in};
use crate::domain::{Catalog, Key, Revision};
use crate::engine::layers::{Good, Reading};
use crate::engine::mirror::conflicts::Conflicts;
use crate::engine::mirror::debounce::BUSY_LOOK_WAIT;
use crate::engine::mirror::provenance::Provenances;
use crate::engine::projection::{Entry, Snapshot};
use crate::engine::signal::{Hint, Hints};
use crate::format::message;
use crate::store::{BlobId, FileChange, Journal, Saved, StoreError, TreeEntry};

pub use crate::engine::mirror::options::{Clock, MirrorOptions};

/// A saved file that differs from the head, as far as it is believed.
#[derive(Debug, Clone)]
struct Believed {
    /// What it was read as; nothing where no file of a key stands.
    content: Option<Reading>,
    bytes: Arc<Vec<u8>>,
    saved: Saved,
}

/// A file that looks broken, empty, gone or half-written, and since when.
#[derive(Debug)]
struct Suspect {
    /// What differs from the head, if anything does.
    saved: Option<Saved>,
    since: Instant,
}

/// What is known of the committed files on the way to the next snapshot, beyond what the picture has.
#[derive(Default)]
pub(crate) struct Step {
    /// What the files are now whose names moved.
    moved: BTreeMap<String, Option<TreeEntry>>,
    /// What was read of them, by name.
    readings: HashMap<String, (BlobId, Reading)>,
    /// Where those come from that are broken.
    provenances: Provenances,
}

/// The writer's picture of the repository.
pub(crate) struct Mirror {
    pub(crate) journal: Box<dyn Journal>,
    pub(crate) options: MirrorOptions,
    snapshot: Arc<Snapshot>,
    /// The head up to which it is known how the branch moved; it may be behind what is served.
    followed: Option<Revision>,
    /// The head for which all that came back with it was let go.
    settled: Option<Revision>,
    /// Committed files that are not served just as they are, by name. Every other committed file
    /// is known by its entry in the snapshot.
    aside: BTreeMap<String, TreeEntry>,
    /// Contents that the repository has lost, and under which name they were wanted.
    damaged: BTreeSet<(String, BlobId)>,
    work_tree: WorkTreeView,
    conflicts: Conflicts,
    /// Names for which what is believed has changed since the last snapshot.
    unbuilt: BTreeSet<String>,
}

/// What is known of the files that people save, and not yet.
#[derive(Default)]
struct WorkTreeView {
    edits: BTreeMap<String, Believed>,
    suspects: BTreeMap<String, Suspect>,
    /// Files that somebody has written to and not closed, and when that was seen: what comes yet would be lost with a file
    /// that is replaced.
    unfinished: BTreeMap<String, Instant>,
    /// Whether it was not ours to look at the last time.
    away: bool,
    busy: Option<Busy>,
    /// What is to be looked at and was not yet, because git stood in the middle of changing it or because it could not
    /// be read.
    pending: Hints,
}

/// Since when git stands in the middle of changing the work tree without a sign that it goes on, and when to look again.
#[derive(Debug, Clone, Copy)]
struct Busy {
    since: Instant,
    again_at: Instant,
}

impl Mirror {
    /// Reads the repository for the first time.
    ///
    /// # Errors
    ///
    /// Returns what kept it from being read; nothing is served then.
    pub(crate) fn load(
        journal: Box<dyn Journal>,
        options: MirrorOptions,
    ) -> Result<Self, (Box<dyn Journal>, StoreError)> {
        let mut mirror = Self {
            journal,
            options,
            snapshot: Arc::default(),
            followed: None,
            settled: None,
            aside: BTreeMap::new(),
            damaged: BTreeSet::new(),
            work_tree: WorkTreeView { away: true, ..WorkTreeView::default() },
            conflicts: Conflicts::default(),
            unbuilt: BTreeSet::new(),
        };
        match mirror.load_all() {
            Ok(()) => Ok(mirror),
            Err(error) => Err((mirror.journal, error)),
        }
    }

    fn load_all(&mut self) -> Result<(), StoreError> {
        self.refresh(&Hint::Everything)?;
        // What was served before nobody knows, so what somebody is in the middle of is waited for.
        let until = Instant::now() + self.options.busy_max;
        while self.is_unsettled() && Instant::now() < until {
            thread::sleep(BUSY_LOOK_WAIT);
            self.refresh(&self.look_again_hint())?;
        }
        match self.damaged.first() {
            // A repository of which nothing can be read is no empty list.
            Some((_, blob)) if self.snapshot.catalog().is_empty() => self.content(*blob).map(drop),
            Some(_) | None => Ok(()),
        }
    }

    /// The next snapshot, of this head.
    fn next(&self, head: Option<Revision>) -> Snapshot {
        let mut next = self.snapshot.next();
        next.revision = head;
        next
    }

    /// What is to be served.
    pub(crate) const fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Notes what the next refresh is to look at as well. That git writes to files which it had not written to before
    /// says that it goes on: a merge or checkout may take longer than a lock that somebody has left is respected.
    pub(crate) fn expect(&mut self, hint: &Hint) {
        let WorkTreeView { pending, busy, .. } = &mut self.work_tree;
        let known = pending.files.len();
        pending.add(hint);
        if let Some(busy) = busy.as_mut().filter(|_| pending.files.len() > known) {
            busy.since = Instant::now();
        }
    }

    /// Brings the picture up to date, as far as the hint says that it may be out of date.
    ///
    /// The branch and the work tree become visible in one step, so that a file that a `git reset`
    /// took out of the branch and left where it is never seems to be gone. While git is in the
    /// middle of changing the work tree, a step forward is served without waiting for it.
    ///
    /// # Errors
    ///
    /// Returns what could not be read; the picture is then as it was.
    pub(crate) fn refresh(&mut self, hint: &Hint) -> Result<(), StoreError> {
        let hint = if self.journal.carry_out_decision() { &Hint::Everything } else { hint };
        self.take_up(hint)?;
        self.follow_branch();
        self.look_at_conflicts();
        match hint {
            Hint::Everything => self.look_at_kept(),
            Hint::Branch | Hint::Files(_) => Ok(()),
        }
    }

    fn take_up(&mut self, hint: &Hint) -> Result<(), StoreError> {
        self.expect(hint);
        let head = self.journal.head()?;
        let is_moved = head != self.snapshot.revision;
        let changes = if is_moved { self.changes_to(head)? } else { Vec::new() };
        let is_seen = (!self.work_tree.pending.branch || self.catch_up()) && self.look_at_pending(head)?;
        if is_moved && !is_seen && !self.is_forward(&changes, head)? {
            return Ok(());
        }
        if *hint == Hint::Everything {
            self.name_mended()?;
        }
        if !is_moved && self.unbuilt.is_empty() {
            return Ok(());
        }
        let committed = self.committed_edits(&changes);
        let mut next = self.next(head);
        let mut looked_at = self.unbuilt.clone();
        if is_moved && self.brings_merge(head)? {
            // The last good version of a file that stays broken may have come with it.
            looked_at.extend(self.aside.keys().cloned());
        }
        let step = self.take_plain(changes, &mut next)?;
        for name in &committed {
            self.work_tree.edits.remove(name);
        }
        self.rebuild(next, step, looked_at, &Catalog::default())?;
        self.unbuilt.clear();
        Ok(())
    }

    /// Whether the branch moving to `head` brings a merge that the service made, where that matters.
    fn brings_merge(&mut self, head: Option<Revision>) -> Result<bool, StoreError> {
        let (Some(from), Some(head)) = (self.snapshot.revision, head) else { return Ok(false) };
        if self.aside.is_empty() || !self.journal.has_merges() {
            return Ok(false);
        }
        for revision in self.journal.commits().commits_beyond(head, from)? {
            let commit = self.journal.commits().intact_commit(revision)?;
            if commit.is_some_and(|commit| message::is_merge(&commit.message)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the branch moving to `head` changes; those names are to be looked at.
    fn changes_to(&mut self, head: Option<Revision>) -> Result<Vec<FileChange>, StoreError> {
        let from = self.snapshot.revision;
        if head.is_none() {
            // A branch that vanished is an accident or half of an operation, not an empty catalog.
            return Err(StoreError::HeadMoved { expected: from, found: None });
        }
        let changes = self.journal.commits().changes(from, head)?;
        self.work_tree.pending.branch = true;
        let WorkTreeView { edits, suspects, pending, .. } = &mut self.work_tree;
        if !pending.everything {
            let changed = changes.iter().map(|change| &change.name);
            pending.files.extend(changed.chain(edits.keys()).chain(suspects.keys()).cloned());
        }
        Ok(changes)
    }

    /// Whether a step may be served before the work tree has been looked at: it adds to what was
    /// there, as a commit does, and takes nothing away that may still stand as a file.
    fn is_forward(&mut self, changes: &[FileChange], head: Option<Revision>) -> Result<bool, StoreError> {
        let takes_away = changes.iter().any(|change| change.after.is_none());
        match (self.snapshot.revision, head) {
            (Some(old), Some(new)) if !takes_away => self.journal.commits().descends(new, old),
            (None, Some(_)) => Ok(true),
            (Some(_) | None, _) => Ok(false),
        }
    }

    /// The edits that have become what is committed: they are none any more.
    fn committed_edits(&self, changes: &[FileChange]) -> Vec<String> {
        let is_edit = |change: &&FileChange| {
            self.work_tree.edits.get(&change.name).is_some_and(|it| it.saved.is(change.after))
        };
        changes.iter().filter(is_edit).map(|change| change.name.clone()).collect()
    }

    /// Takes over commits that the writer made itself; `catalog` has their entries.
    pub(crate) fn adopt(
        &mut self,
        head: Revision,
        files: Vec<(String, Option<BlobId>)>,
        catalog: &Catalog<Arc<Entry>>,
    ) -> Result<(), StoreError> {
        let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
        let mut step = Step::default();
        for (name, blob) in &files {
            if let (Some(blob), Some(key)) = (blob, key_of(name))
                && let Some(entry) = catalog.get(key.as_str()).filter(|entry| entry.blob == *blob)
                && let Some(good) = Good::of_entry(entry)
            {
                step.readings.insert(name.clone(), (*blob, Ok(good)));
            }
        }
        let edited: Vec<String> =
            names.iter().filter(|name| self.work_tree.edits.contains_key(*name)).cloned().collect();
        for name in &names {
            self.work_tree.edits.remove(name);
            self.work_tree.suspects.remove(name);
        }
        step.moved = files.into_iter().map(|(name, blob)| (name, blob.map(TreeEntry::File))).collect();
        let before = self.snapshot.revision;
        self.rebuild(self.next(Some(head)), step, BTreeSet::new(), catalog)?;
        self.went_on(before, head);
        self.look_at_own(before, head);
        if !edited.is_empty() {
            self.refresh(&Hint::Files(edited))?;
        }
        Ok(())
    }

    /// The saved file of a name that differs from the head, if such files are served.
    fn served_edit(&self, name: &str) -> Option<&Believed> {
        self.work_tree.edits.get(name).filter(|_| self.options.serve_uncommitted)
    }

    /// All of them, by name.
    fn served_edits(&self) -> impl Iterator<Item = (&String, &Believed)> {
        self.work_tree.edits.iter().filter(|_| self.options.serve_uncommitted)
    }

    /// Whether one of the files of this key is no regular file.
    pub(crate) fn is_special(&self, key: &Key) -> bool {
        names_of(key).iter().any(|name| {
            self.is_committed_special(name)
                || matches!(self.work_tree.edits.get(name).map(|edit| &edit.saved), Some(Saved::Special(_)))
        })
    }

    /// Whether the head has a symbolic link, a folder or the like under a name.
    pub(crate) fn is_committed_special(&self, name: &str) -> bool {
        matches!(self.aside.get(name), Some(TreeEntry::Special(_)))
    }

    /// The saved files of this key that differ from the head.
    pub(crate) fn edits_of(&self, key: &Key) -> Vec<(String, Saved)> {
        names_of(key)
            .into_iter()
            .filter_map(|name| self.work_tree.edits.get(&name).map(|edit| (name, edit.saved.clone())))
            .collect()
    }

    /// Every file that stands for this key, in the head or in the work tree.
    pub(crate) fn files_of(&self, key: &Key) -> Vec<String> {
        names_of(key)
            .into_iter()
            .filter(|name| {
                self.aside.contains_key(name)
                    || self.work_tree.edits.contains_key(name)
                    || self.snapshot.get(key.as_str()).is_some_and(|entry| entry.is_in(name))
            })
            .collect()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        path_in(&self.options.folder, name)
    }
}
