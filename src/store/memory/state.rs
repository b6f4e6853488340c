//! The state of an in-memory repository, and what git and the service do to it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sha1::{Digest as _, Sha1};

use crate::domain::file_name::is_collection_file;
use crate::domain::{Actor, Revision};
use crate::store::memory::InjectedFault;
use crate::store::{
    BlobId, Commit, Committed, Draft, Edit, FileChange, KeptHead, Special, StoreError, TreeEntry,
    WorkTreeEntry,
};

pub(super) type Tree = BTreeMap<String, TreeEntry>;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) commits: HashMap<Revision, (Commit, Tree)>,
    pub(super) blobs: HashMap<BlobId, Vec<u8>>,
    pub(super) head: Option<Revision>,
    pub(super) work_tree: Checkout,
    pub(super) faults: Faults,
    // The head that is known to survive a power cut with everything it reaches; `None` if unknown.
    pub(super) durable: Option<Option<Revision>>,
    pub(super) counts: Counts,
    // What `note_served` recorded last.
    pub(super) served: Option<Revision>,
    pub(super) kept: Vec<KeptHead>,
    // Whether a service may have merged commits that others pushed.
    pub(super) has_merges: bool,
}

/// The work tree and the operation in progress there.
#[derive(Debug, Default)]
pub(super) struct Checkout {
    pub(super) files: BTreeMap<String, MemoryFile>,
    // The revision the work tree was last updated to.
    pub(super) brought_to: Option<Revision>,
    // Files that an editor has begun to write, and for how long they have been left alone.
    pub(super) unfinished: BTreeMap<String, Duration>,
    pub(super) away: Option<String>,
    pub(super) is_busy: bool,
    // Whether `is_busy` ends as soon as the journal waits for git.
    pub(super) is_soon_free: bool,
    pub(super) half_done: Option<&'static str>,
}

/// The faults to inject next.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) appends: VecDeque<InjectedFault>,
    pub(super) flushes: usize,
    pub(super) keeps: usize,
    pub(super) lets_go: usize,
    pub(super) commits: HashMap<Revision, fn() -> StoreError>,
    pub(super) is_unreadable: bool,
}

/// How often each operation was requested.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) looks: usize,
    pub(super) flushes: usize,
    pub(super) appends: usize,
    pub(super) tends: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MemoryFile {
    File(Vec<u8>),
    Special(Special),
}

pub(super) fn failed(action: &'static str, kind: io::ErrorKind) -> StoreError {
    StoreError::at(action, Path::new("memory"), kind.into())
}

pub(super) fn locked() -> StoreError {
    StoreError::Locked { path: PathBuf::from("memory/index.lock") }
}

pub(super) fn by_hand(
    files: &[(&str, Option<&str>)],
    author: &Actor,
    message: &str,
    at: DateTime<Utc>,
) -> Draft {
    let file = |(name, content): &(&str, Option<&str>)| {
        ((*name).to_owned(), content.map(|content| content.as_bytes().to_vec()))
    };
    Draft { files: files.iter().map(file).collect(), message: message.to_owned(), author: author.clone(), at }
}

/// The entries of a name in two trees.
fn change(old: &Tree, new: &Tree, name: &str) -> FileChange {
    FileChange { name: name.to_owned(), before: old.get(name).copied(), after: new.get(name).copied() }
}

impl State {
    pub(super) fn tree(&self, revision: Option<Revision>) -> Tree {
        let found = revision.and_then(|revision| self.commits.get(&revision));
        found.map(|(_, tree)| tree.clone()).unwrap_or_default()
    }

    pub(super) fn place(&mut self, name: &str, held: Option<MemoryFile>) {
        self.work_tree.unfinished.remove(name);
        match held {
            Some(held) => self.work_tree.files.insert(name.to_owned(), held),
            None => self.work_tree.files.remove(name),
        };
    }

    /// Moves the branch to a commit made by hand, whose files are in the work tree.
    pub(super) fn move_by_hand(&mut self, files: &[(&str, Option<&str>)], to: Revision) {
        for (name, content) in files {
            self.place(name, content.map(|content| MemoryFile::File(content.as_bytes().to_vec())));
        }
        (self.head, self.work_tree.brought_to) = (Some(to), Some(to));
    }

    /// Creates a commit on top of the head without moving the branch.
    pub(super) fn commit(&mut self, draft: &Draft, committer: &Actor) -> Revision {
        self.commit_on(self.head.into_iter().collect(), draft, committer)
    }

    /// Creates a commit on top of the first of its parents.
    pub(super) fn commit_on(&mut self, parents: Vec<Revision>, draft: &Draft, committer: &Actor) -> Revision {
        let mut tree = self.tree(parents.first().copied());
        for (name, content) in &draft.files {
            match content {
                Some(content) => {
                    let blob = BlobId::of(content);
                    self.blobs.insert(blob, content.clone());
                    tree.insert(name.clone(), TreeEntry::File(blob));
                }
                None => drop(tree.remove(name)),
            }
        }
        let identity = format!("{parents:?} {tree:?} {draft:?} {committer:?} {}", self.commits.len());
        let revision = Revision::new(Sha1::digest(identity).into());
        let (author, committer) = (draft.author.clone(), committer.clone());
        let message = format!("{}\n", draft.message.trim_end_matches('\n'));
        let commit = Commit { revision, parents, author, committer, at: draft.at, message };
        self.commits.insert(revision, (commit, tree));
        revision
    }

    pub(super) fn append(&mut self, drafts: &[Draft]) -> Vec<Committed> {
        drafts
            .iter()
            .map(|draft| {
                let revision = self.commit(draft, &Actor::service());
                self.head = Some(revision);
                let blobs =
                    draft.files.iter().map(|(_, content)| content.as_deref().map(BlobId::of)).collect();
                Committed { revision, blobs }
            })
            .collect()
    }

    /// Flushes, unless `head` is known to be flushed.
    pub(super) fn make_durable(&mut self, head: Option<Revision>) -> Result<(), StoreError> {
        if self.durable == Some(head) {
            return Ok(());
        }
        self.counts.flushes += 1;
        if self.faults.flushes > 0 {
            self.faults.flushes -= 1;
            return Err(failed("flush", io::ErrorKind::Other));
        }
        self.durable = Some(head);
        Ok(())
    }

    /// Updates files to `new` where they match `old` or a commit between the two.
    pub(super) fn bring(&mut self, old: Option<Revision>, new: Option<Revision>) {
        if self.work_tree.away.is_some() {
            return;
        }
        for change in self.touched(old, new) {
            let held = self.held_as_entry(&change.name);
            if held != change.before && !self.passed(old, new, &change.name).contains(&held) {
                continue;
            }
            let held = change.after.and_then(|entry| self.held(entry));
            self.place(&change.name, held);
        }
        self.work_tree.brought_to = new;
    }

    /// Updates the work tree to the head if the head descends from the revision that it was last updated to;
    /// touches nothing else.
    pub(super) fn bring_forward(&mut self) -> Result<(), StoreError> {
        let (old, new) = (self.work_tree.brought_to, self.head);
        if self.work_tree.away.is_some() || old == new {
            return Ok(());
        }
        self.check_lock()?;
        if let Some(new) = new
            && old.is_none_or(|old| self.descends(new, old))
        {
            self.bring(old, Some(new));
        }
        self.work_tree.brought_to = new;
        Ok(())
    }

    /// Fails while git holds the lock of the index.
    pub(super) fn check_lock(&self) -> Result<(), StoreError> {
        if self.work_tree.is_busy && self.work_tree.away.is_none() {
            return Err(locked());
        }
        Ok(())
    }

    /// Makes every file that either revision has what `new` has.
    pub(super) fn check_out(&mut self, old: Option<Revision>, new: Option<Revision>) {
        for change in self.changes(old, None).into_iter().chain(self.changes(None, new)) {
            let held = change.after.and_then(|entry| self.held(entry));
            self.place(&change.name, held);
        }
        self.work_tree.brought_to = new;
    }

    /// The content of a regular file, the inner `None` if there is nothing; `None` if it is not a regular file.
    pub(super) fn content(&self, entry: Option<TreeEntry>) -> Option<Option<Vec<u8>>> {
        match entry {
            None => Some(None),
            Some(TreeEntry::File(blob)) => self.blobs.get(&blob).cloned().map(Some),
            Some(TreeEntry::Special(_)) => None,
        }
    }

    fn held(&self, entry: TreeEntry) -> Option<MemoryFile> {
        match entry {
            TreeEntry::File(blob) => self.blobs.get(&blob).cloned().map(MemoryFile::File),
            TreeEntry::Special(what) => Some(MemoryFile::Special(what)),
        }
    }

    /// The files that differ between two revisions or in a commit between them.
    fn touched(&self, old: Option<Revision>, new: Option<Revision>) -> Vec<FileChange> {
        let on_the_way = self.line(old, new).flat_map(|revision| {
            let parent = self.parent(&revision);
            self.changes(parent, Some(revision))
        });
        let names: BTreeSet<String> =
            self.changes(old, new).into_iter().chain(on_the_way).map(|it| it.name).collect();
        let [before, after] = [self.tree(old), self.tree(new)];
        names.iter().map(|name| change(&before, &after, name)).collect()
    }

    /// The commits after `old` up to `new` along first parents, newest first.
    fn line(&self, old: Option<Revision>, new: Option<Revision>) -> impl Iterator<Item = Revision> {
        std::iter::successors(new, |revision| self.parent(revision))
            .take_while(move |revision| Some(*revision) != old)
    }

    fn parent(&self, revision: &Revision) -> Option<Revision> {
        self.commits.get(revision)?.0.parents.first().copied()
    }

    /// The entries of a name in the commits after `old` and before `new`.
    fn passed(&self, old: Option<Revision>, new: Option<Revision>, name: &str) -> Vec<Option<TreeEntry>> {
        let passed = self.line(old, new).skip(1);
        passed.map(|revision| self.tree(Some(revision)).get(name).copied()).collect()
    }

    fn held_as_entry(&self, name: &str) -> Option<TreeEntry> {
        self.work_tree.files.get(name).map(|held| match held {
            MemoryFile::File(content) => TreeEntry::File(BlobId::of(content)),
            MemoryFile::Special(what) => TreeEntry::Special(*what),
        })
    }

    pub(super) fn changes(&self, from: Option<Revision>, to: Option<Revision>) -> Vec<FileChange> {
        let (old, new) = (self.tree(from), self.tree(to));
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        names
            .into_iter()
            .map(|name| change(&old, &new, name))
            .filter(|change| is_collection_file(&change.name) && change.before != change.after)
            .collect()
    }

    pub(super) fn edit(&self, tree: &Tree, name: &str) -> Option<Edit> {
        let committed = tree.get(name).copied();
        if !is_collection_file(name) || self.held_as_entry(name) == committed {
            return None;
        }
        let now = match self.work_tree.files.get(name) {
            None => WorkTreeEntry::Deleted,
            Some(MemoryFile::Special(what)) => WorkTreeEntry::Special(*what),
            Some(MemoryFile::File(content)) => {
                WorkTreeEntry::File { blob: BlobId::of(content), bytes: content.clone() }
            }
        };
        Some(Edit { name: name.to_owned(), current: now })
    }

    pub(super) fn let_go(&mut self, kept: &[KeptHead]) -> Result<(), StoreError> {
        self.kept.retain(|known| !kept.contains(known));
        if self.faults.lets_go > 0 {
            self.faults.lets_go -= 1;
            return Err(failed("let a former head go in", io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    pub(super) fn keep(&mut self, kept: KeptHead) -> Result<KeptHead, StoreError> {
        if self.faults.keeps > 0 {
            self.faults.keeps -= 1;
            return Err(failed("keep a former head in", io::ErrorKind::StorageFull));
        }
        if let Some(known) = self.kept.iter().find(|known| known.revision == kept.revision) {
            return Ok(known.clone());
        }
        self.kept.push(kept.clone());
        Ok(kept)
    }

    pub(super) fn commits_beyond(&self, old: Revision, new: Revision) -> Vec<Revision> {
        let mut open = vec![old];
        let mut left = Vec::new();
        while let Some(revision) = open.pop() {
            if let Some((commit, _)) = self.commits.get(&revision)
                && !left.contains(&revision)
                && !self.descends(new, revision)
            {
                left.push(revision);
                open.extend(&commit.parents);
            }
        }
        left
    }

    pub(super) fn descends(&self, descendant: Revision, ancestor: Revision) -> bool {
        let mut open = vec![descendant];
        let mut seen = BTreeSet::new();
        while let Some(revision) = open.pop() {
            if revision == ancestor {
                return true;
            }
            if let Some((commit, _)) = self.commits.get(&revision).filter(|_| seen.insert(revision)) {
                open.extend(&commit.parents);
            }
        }
        false
    }
}
