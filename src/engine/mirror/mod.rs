//! The mirror: the writer thread's model of the repository, and how it is kept up to date.
//!
//! The truth is read from the repository, never from a notice. [`Mirror::refresh`] compares the branch and the named
//! files with what is known, and rebuilds only the collections concerned. A start, a fetched commit, a hand edit and
//! the writer's own commit all go through [`Mirror::rebuild`], so a single function decides what is served.
//!
//! Nothing here commits: the mirror reads the journal, and the writer reports what it appended.

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
use crate::engine::layers::{ParsedVersion, Reading};
use crate::engine::mirror::conflicts::Conflicts;
use crate::engine::mirror::debounce::BUSY_RETRY_WAIT;
use crate::engine::mirror::provenance::Provenances;
use crate::engine::projection::{Entry, Snapshot};
use crate::engine::signal::{Hint, Hints};
use crate::format::message;
use crate::store::{BlobId, FileChange, Journal, StoreError, TreeEntry, WorkTreeEntry};
use crate::telemetry::error_chain;

pub use crate::engine::mirror::options::{Clock, MirrorOptions};

/// A saved file that differs from the head, in the version that is believed.
#[derive(Debug, Clone)]
struct AcceptedEdit {
    /// The collection that was read from it; `None` if the file is gone or its name is not that of a collection file.
    content: Option<Reading>,
    bytes: Arc<Vec<u8>>,
    saved: WorkTreeEntry,
}

/// A file that is broken, empty, gone or half-written, and when that was first seen.
#[derive(Debug)]
struct Suspect {
    /// The difference from the head, if there is one.
    saved: Option<WorkTreeEntry>,
    since: Instant,
}

/// The changes of committed files on the way to the next snapshot, which the mirror does not have yet.
#[derive(Default)]
pub(crate) struct CommittedChanges {
    /// The new tree entries of the names that changed.
    moved: BTreeMap<String, Option<TreeEntry>>,
    /// The results of reading them, by name.
    readings: HashMap<String, (BlobId, Reading)>,
    /// The provenance of the broken ones.
    provenances: Provenances,
}

/// The writer thread's model of the repository.
pub(crate) struct Mirror {
    pub(crate) journal: Box<dyn Journal>,
    pub(crate) options: MirrorOptions,
    snapshot: Arc<Snapshot>,
    /// The head up to which the moves of the branch have been examined for rewrites; it may be behind what is served.
    followed: Option<Revision>,
    /// The head for which the kept refs of commits that returned to the branch have been discarded.
    settled: Option<Revision>,
    /// Committed files that are not served exactly as they are, by name. The snapshot's entries cover all others.
    unserved: BTreeMap<String, TreeEntry>,
    /// Contents that are damaged or missing in the repository, with the name of the file that needs each.
    damaged: BTreeSet<(String, BlobId)>,
    work_tree: WorkTreeView,
    conflicts: Conflicts,
    /// Names whose believed version has changed since the last snapshot.
    unbuilt: BTreeSet<String>,
}

/// What is known of the work tree, and what remains to be looked at.
#[derive(Default)]
struct WorkTreeView {
    edits: BTreeMap<String, AcceptedEdit>,
    suspects: BTreeMap<String, Suspect>,
    /// Files that another process has open for writing, and when that was seen: replacing such a file would lose what
    /// is written later.
    unfinished: BTreeMap<String, Instant>,
    /// Whether the last look found no work tree that shows the served branch.
    away: bool,
    busy: Option<Busy>,
    /// What remains to be looked at, because git was changing the work tree or because it could not be read.
    pending: Hints,
}

/// When a git command that is changing the work tree last showed progress, and when to look again.
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
    /// Returns the error that kept the repository from being read; nothing is served in that case.
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
            unserved: BTreeMap::new(),
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
        // Nothing is known of what was served before, so this waits for saves and git commands in progress.
        let until = Instant::now() + self.options.busy_max;
        while self.is_unsettled() && Instant::now() < until {
            thread::sleep(BUSY_RETRY_WAIT);
            self.refresh(&self.rescan_hint())?;
        }
        match self.damaged.first() {
            // A repository that can't be read must not turn into an empty list.
            Some((_, blob)) if self.snapshot.catalog().is_empty() => self.content(*blob).map(drop),
            Some(_) | None => Ok(()),
        }
    }

    /// Starts the next snapshot, at this head.
    fn next(&self, head: Option<Revision>) -> Snapshot {
        let mut next = self.snapshot.next();
        next.revision = head;
        next
    }

    /// Returns the snapshot to serve.
    pub(crate) const fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Adds to what the next refresh looks at. If git writes to files that it has not written to before, it is making
    /// progress: a merge or checkout may take longer than the time for which a leftover lock is respected.
    pub(crate) fn expect(&mut self, hint: &Hint) {
        let WorkTreeView { pending, busy, .. } = &mut self.work_tree;
        let known = pending.files.len();
        pending.add(hint);
        if let Some(busy) = busy.as_mut().filter(|_| pending.files.len() > known) {
            busy.since = Instant::now();
        }
    }

    /// Brings the mirror up to date, as far as the hint says that it may be out of date.
    ///
    /// The branch and the work tree become visible in one step, so that a file that `git reset` removed from the
    /// branch and left in the work tree never seems to be gone. While git is changing the work tree, a step forward
    /// is served without waiting for it.
    ///
    /// # Errors
    ///
    /// Returns the error of what could not be read; what is served is unchanged in that case, and the next look tries
    /// again.
    pub(crate) fn refresh(&mut self, hint: &Hint) -> Result<(), StoreError> {
        let hint = if self.journal.carry_out_decision() { &Hint::Everything } else { hint };
        self.read_changes(hint)?;
        self.follow_branch();
        self.check_conflicts();
        match hint {
            Hint::Everything => self.update_rewritten(),
            Hint::Branch | Hint::Files(_) => Ok(()),
        }
    }

    fn read_changes(&mut self, hint: &Hint) -> Result<(), StoreError> {
        self.expect(hint);
        let head = self.journal.head()?;
        let is_moved = head != self.snapshot.revision;
        let changes = if is_moved { self.changes_to(head)? } else { Vec::new() };
        let is_seen = (!self.work_tree.pending.branch || self.catch_up()) && self.scan_pending(head)?;
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
        let mut names = self.unbuilt.clone();
        if is_moved && self.brings_merge(head)? {
            // The merge may bring the last good version of a file that stays broken.
            names.extend(self.unserved.keys().cloned());
        }
        let step = self.take_plain(changes, &mut next)?;
        for name in &committed {
            self.work_tree.edits.remove(name);
        }
        self.rebuild(next, step, names, &Catalog::default())?;
        self.unbuilt.clear();
        Ok(())
    }

    /// Returns whether the branch moving to `head` brings a merge made by the service, if that matters.
    fn brings_merge(&mut self, head: Option<Revision>) -> Result<bool, StoreError> {
        let (Some(from), Some(head)) = (self.snapshot.revision, head) else { return Ok(false) };
        if self.unserved.is_empty() || !self.journal.has_merges() {
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

    /// Returns what the branch moving to `head` changes, and marks those names to be looked at.
    fn changes_to(&mut self, head: Option<Revision>) -> Result<Vec<FileChange>, StoreError> {
        let from = self.snapshot.revision;
        if head.is_none() {
            // A missing branch is an accident or half of an operation, not an empty catalog.
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

    /// Returns whether a step may be served before the work tree has been looked at: if it adds to the previous
    /// state, as a commit does, and removes nothing that may still exist as a file.
    fn is_forward(&mut self, changes: &[FileChange], head: Option<Revision>) -> Result<bool, StoreError> {
        let takes_away = changes.iter().any(|change| change.after.is_none());
        match (self.snapshot.revision, head) {
            (Some(old), Some(new)) if !takes_away => self.journal.commits().descends(new, old),
            (None, Some(_)) => Ok(true),
            (Some(_) | None, _) => Ok(false),
        }
    }

    /// Returns the names of edits that have become identical to what is committed, and so are no longer edits.
    fn committed_edits(&self, changes: &[FileChange]) -> Vec<String> {
        let is_edit = |change: &&FileChange| {
            self.work_tree.edits.get(&change.name).is_some_and(|it| it.saved.is(change.after))
        };
        changes.iter().filter(is_edit).map(|change| change.name.clone()).collect()
    }

    /// Takes over commits that the writer made; `catalog` contains their entries.
    pub(crate) fn adopt(
        &mut self,
        head: Revision,
        files: Vec<(String, Option<BlobId>)>,
        catalog: &Catalog<Arc<Entry>>,
    ) -> Result<(), StoreError> {
        let (mut step, mut edited) = (CommittedChanges::default(), Vec::new());
        for (name, blob) in files {
            if let (Some(blob), Some(key)) = (blob, key_of(&name))
                && let Some(entry) = catalog.get(key.as_str()).filter(|entry| entry.blob == blob)
                && let Some(good) = ParsedVersion::of_entry(entry)
            {
                step.readings.insert(name.clone(), (blob, Ok(good)));
            }
            edited.extend(self.work_tree.edits.remove(&name).map(|_| name.clone()));
            self.work_tree.suspects.remove(&name);
            step.moved.insert(name, blob.map(TreeEntry::File));
        }
        let before = self.snapshot.revision;
        self.rebuild(self.next(Some(head)), step, BTreeSet::new(), catalog)?;
        self.note_fast_forward(before, head);
        self.check_own_commit(before, head);
        // The commits are made, whatever can't be looked at now; it is looked at again later.
        if !edited.is_empty()
            && let Err(error) = self.refresh(&Hint::Files(edited))
        {
            tracing::warn!(error = %error_chain(&error), "the files of a write can't be looked at");
        }
        Ok(())
    }

    /// Returns the saved file of a name, if it differs from the head and such files are served.
    fn served_edit(&self, name: &str) -> Option<&AcceptedEdit> {
        self.work_tree.edits.get(name).filter(|_| self.options.serve_uncommitted)
    }

    /// Returns all such files, by name.
    fn served_edits(&self) -> impl Iterator<Item = (&String, &AcceptedEdit)> {
        self.work_tree.edits.iter().filter(|_| self.options.serve_uncommitted)
    }

    /// Returns whether one of the files of this key is not a regular file.
    pub(crate) fn is_special(&self, key: &Key) -> bool {
        names_of(key).iter().any(|name| {
            self.is_committed_special(name)
                || matches!(
                    self.work_tree.edits.get(name).map(|edit| &edit.saved),
                    Some(WorkTreeEntry::Special(_))
                )
        })
    }

    /// Returns whether the head has an entry under this name that is not a regular file.
    pub(crate) fn is_committed_special(&self, name: &str) -> bool {
        matches!(self.unserved.get(name), Some(TreeEntry::Special(_)))
    }

    /// Returns the saved files of this key that differ from the head.
    pub(crate) fn edits_of(&self, key: &Key) -> Vec<(String, WorkTreeEntry)> {
        names_of(key)
            .into_iter()
            .filter_map(|name| self.work_tree.edits.get(&name).map(|edit| (name, edit.saved.clone())))
            .collect()
    }

    /// Returns all files of this key, in the head or in the work tree.
    pub(crate) fn files_of(&self, key: &Key) -> Vec<String> {
        names_of(key)
            .into_iter()
            .filter(|name| {
                self.unserved.contains_key(name)
                    || self.work_tree.edits.contains_key(name)
                    || self.snapshot.get(key.as_str()).is_some_and(|entry| entry.is_named(name))
            })
            .collect()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        path_in(&self.options.folder, name)
    }
}
