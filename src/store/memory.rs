//! A journal in memory, with faults on demand.
//!
//! [`MemoryJournal`] keeps the promises of [`Journal`] over a few maps. Its clones share one
//! repository: a test keeps one as its hand inside, to commit, save and break things behind the
//! back of whoever owns the other.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use chrono::{DateTime, Utc};
use sha1::{Digest as _, Sha1};

use super::{
    BlobId, Commit, Committed, Draft, EachContent, Edit, FileChange, Journal, Look, Saved, StoreError,
    TreeEntry, WorkTree,
};
use crate::domain::{Actor, Revision};

/// A repository in memory; clones share it.
#[derive(Debug, Clone)]
pub struct MemoryJournal {
    state: Arc<Mutex<State>>,
}

/// What is to go wrong with an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It fails and nothing is visible.
    BeforeTheBranch,
    /// It fails though the branch has moved; the work tree has not.
    AfterTheBranch,
    /// Someone commits this first: name to content, `None` to remove it.
    Race(Vec<(String, Option<String>)>),
    /// Another process holds a lock.
    Locked,
    /// The disk is full.
    DiskFull,
}

type Tree = BTreeMap<String, TreeEntry>;

#[derive(Debug, Default)]
struct State {
    commits: HashMap<Revision, (Commit, Tree)>,
    blobs: HashMap<BlobId, Vec<u8>>,
    head: Option<Revision>,
    // What the work tree was last brought to.
    brought_to: Option<Revision>,
    work_tree: BTreeMap<String, Held>,
    away: Option<String>,
    is_busy: bool,
    half_done: Option<&'static str>,
    is_unreadable: bool,
    faults: VecDeque<Fault>,
    person: Option<Actor>,
    appends: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Held {
    File(Vec<u8>),
    Special(&'static str),
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryJournal {
    /// An empty repository with a work tree.
    #[must_use]
    pub fn new() -> Self {
        Self { state: Arc::default() }
    }

    /// An empty repository without a work tree.
    #[must_use]
    pub fn bare() -> Self {
        let journal = Self::new();
        journal.set_away(Some("the repository is bare"));
        journal
    }

    /// Commits by hand, as `git commit -a` would, and brings the work tree along.
    pub fn commit_by_hand(
        &self,
        files: &[(&str, Option<&str>)],
        author: &Actor,
        message: &str,
        at: DateTime<Utc>,
    ) -> Revision {
        let mut state = self.lock();
        let revision = state.commit(&by_hand(files, author, message, at), author);
        for (name, content) in files {
            state.place(name, content.map(|content| Held::File(content.as_bytes().to_vec())));
        }
        (state.head, state.brought_to) = (Some(revision), Some(revision));
        revision
    }

    /// Pushes a commit: the branch moves and the work tree does not.
    pub fn push(
        &self,
        files: &[(&str, Option<&str>)],
        author: &Actor,
        message: &str,
        at: DateTime<Utc>,
    ) -> Revision {
        let mut state = self.lock();
        let revision = state.commit(&by_hand(files, author, message, at), author);
        state.head = Some(revision);
        revision
    }

    /// Moves the branch, and nothing else, as `git reset --soft` does.
    pub fn move_branch(&self, to: Option<Revision>) {
        self.lock().head = to;
    }

    /// Saves a file in the work tree.
    pub fn save(&self, name: &str, content: impl Into<Vec<u8>>) {
        self.lock().place(name, Some(Held::File(content.into())));
    }

    /// Removes a file from the work tree.
    pub fn remove(&self, name: &str) {
        self.lock().place(name, None);
    }

    /// Puts something that is no file into the work tree: "a symbolic link", "a folder".
    pub fn put_special(&self, name: &str, what: &'static str) {
        self.lock().place(name, Some(Held::Special(what)));
    }

    /// The content of a file in the work tree.
    #[must_use]
    pub fn saved(&self, name: &str) -> Option<Vec<u8>> {
        match self.lock().work_tree.get(name)? {
            Held::File(content) => Some(content.clone()),
            Held::Special(_) => None,
        }
    }

    /// The content of a file in the head.
    #[must_use]
    pub fn committed(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        match state.tree(state.head).get(name)? {
            TreeEntry::File(blob) => state.blobs.get(blob).cloned(),
            TreeEntry::Special(_) => None,
        }
    }

    /// The first-parent history of the branch, the newest first.
    #[must_use]
    pub fn log(&self) -> Vec<Commit> {
        let state = self.lock();
        let mut log = Vec::new();
        let mut next = state.head;
        while let Some((commit, _)) = next.and_then(|revision| state.commits.get(&revision)) {
            log.push(commit.clone());
            next = commit.parents.first().copied();
        }
        log
    }

    /// How often commits were appended, groups counted once, failures included.
    #[must_use]
    pub fn appends(&self) -> usize {
        self.lock().appends
    }

    /// Makes the next append go wrong; several wait in line.
    pub fn fail_next(&self, fault: Fault) {
        self.lock().faults.push_back(fault);
    }

    /// Makes everything unreadable, or readable again.
    pub fn set_unreadable(&self, is_unreadable: bool) {
        self.lock().is_unreadable = is_unreadable;
    }

    /// Makes the work tree look as if git were changing it, or not any more.
    pub fn set_busy(&self, is_busy: bool) {
        self.lock().is_busy = is_busy;
    }

    /// Makes the work tree show something else, or the served branch again.
    pub fn set_away(&self, why: Option<&str>) {
        self.lock().away = why.map(str::to_owned);
    }

    /// Makes something stand half-done, or nothing.
    pub fn set_half_done(&self, what: Option<&'static str>) {
        self.lock().half_done = what;
    }

    /// Sets on whose behalf hand edits are committed.
    pub fn set_person(&self, person: Actor) {
        self.lock().person = Some(person);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test goes on after a panic in here")
    }

    fn readable(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        if state.is_unreadable {
            return Err(failed("read", io::ErrorKind::PermissionDenied));
        }
        Ok(state)
    }
}

fn failed(action: &'static str, kind: io::ErrorKind) -> StoreError {
    StoreError::at(action, Path::new("memory"), kind.into())
}

fn by_hand(files: &[(&str, Option<&str>)], author: &Actor, message: &str, at: DateTime<Utc>) -> Draft {
    let file = |(name, content): &(&str, Option<&str>)| {
        ((*name).to_owned(), content.map(|content| content.as_bytes().to_vec()))
    };
    Draft { files: files.iter().map(file).collect(), message: message.to_owned(), author: author.clone(), at }
}

impl State {
    fn tree(&self, revision: Option<Revision>) -> Tree {
        let found = revision.and_then(|revision| self.commits.get(&revision));
        found.map(|(_, tree)| tree.clone()).unwrap_or_default()
    }

    fn place(&mut self, name: &str, held: Option<Held>) {
        match held {
            Some(held) => self.work_tree.insert(name.to_owned(), held),
            None => self.work_tree.remove(name),
        };
    }

    /// Makes a commit on top of the head without moving the branch.
    fn commit(&mut self, draft: &Draft, committer: &Actor) -> Revision {
        let mut tree = self.tree(self.head);
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
        let parents: Vec<_> = self.head.into_iter().collect();
        let identity = format!("{parents:?} {tree:?} {draft:?} {committer:?} {}", self.commits.len());
        let revision = Revision::new(Sha1::digest(identity).into());
        let (author, committer) = (draft.author.clone(), committer.clone());
        let message = format!("{}\n", draft.message.trim_end_matches('\n'));
        let commit = Commit { revision, parents, author, committer, at: draft.at, message };
        self.commits.insert(revision, (commit, tree));
        revision
    }

    fn append(&mut self, drafts: &[Draft]) -> Vec<Committed> {
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

    /// Makes files that are what `old` has, or a commit between the two, what `new` has.
    fn bring(&mut self, old: Option<Revision>, new: Option<Revision>) {
        if self.away.is_some() {
            return;
        }
        for change in self.changes(old, new) {
            let held = self.held_as_entry(&change.name);
            if held != change.before && !self.passed(old, new, &change.name).contains(&held) {
                continue;
            }
            let held = match change.after {
                Some(TreeEntry::File(blob)) => self.blobs.get(&blob).cloned().map(Held::File),
                Some(TreeEntry::Special(what)) => Some(Held::Special(what)),
                None => None,
            };
            self.place(&change.name, held);
        }
        self.brought_to = new;
    }

    /// What the commits after `old` and before `new` have under a name.
    fn passed(&self, old: Option<Revision>, new: Option<Revision>, name: &str) -> Vec<Option<TreeEntry>> {
        let parent = |revision: &Revision| self.commits.get(revision)?.0.parents.first().copied();
        std::iter::successors(new.as_ref().and_then(parent), parent)
            .take_while(|revision| Some(*revision) != old)
            .map(|revision| self.tree(Some(revision)).get(name).copied())
            .collect()
    }

    fn held_as_entry(&self, name: &str) -> Option<TreeEntry> {
        self.work_tree.get(name).map(|held| match held {
            Held::File(content) => TreeEntry::File(BlobId::of(content)),
            Held::Special(what) => TreeEntry::Special(what),
        })
    }

    fn changes(&self, from: Option<Revision>, to: Option<Revision>) -> Vec<FileChange> {
        let (old, new) = (self.tree(from), self.tree(to));
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        names
            .into_iter()
            .map(|name| FileChange {
                name: name.clone(),
                before: old.get(name).copied(),
                after: new.get(name).copied(),
            })
            .filter(|change| is_told(&change.name) && change.before != change.after)
            .collect()
    }

    fn edit(&self, tree: &Tree, name: &str) -> Option<Edit> {
        let committed = tree.get(name).copied();
        if !is_told(name) || self.held_as_entry(name) == committed {
            return None;
        }
        let now = match self.work_tree.get(name) {
            None => Saved::Gone,
            Some(Held::Special(what)) => Saved::Special(what),
            Some(Held::File(content)) => Saved::File { blob: BlobId::of(content), bytes: content.clone() },
        };
        Some(Edit { name: name.to_owned(), now })
    }

    fn descends(&self, descendant: Revision, ancestor: Revision) -> bool {
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

fn is_told(name: &str) -> bool {
    !name.starts_with('.') && (name.ends_with(".yaml") || name.ends_with(".yml"))
}

impl Journal for MemoryJournal {
    fn head(&mut self) -> Result<Option<Revision>, StoreError> {
        Ok(self.readable()?.head)
    }

    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        Ok(self.readable()?.changes(from, to))
    }

    fn read(&mut self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError> {
        let state = self.readable()?;
        for (index, blob) in blobs.iter().enumerate() {
            let content = state.blobs.get(blob).map(Vec::as_slice);
            each(index, content.ok_or_else(|| failed("find a content in", io::ErrorKind::NotFound)));
        }
        Ok(())
    }

    fn append(&mut self, expected: Option<Revision>, drafts: &[Draft]) -> Result<Vec<Committed>, StoreError> {
        let mut state = self.readable()?;
        state.appends += 1;
        let fault = state.faults.pop_front();
        match &fault {
            Some(Fault::BeforeTheBranch) => return Err(failed("write", io::ErrorKind::Other)),
            Some(Fault::Locked) => {
                return Err(StoreError::Locked { path: PathBuf::from("memory/index.lock") });
            }
            Some(Fault::DiskFull) => return Err(failed("write", io::ErrorKind::StorageFull)),
            Some(Fault::Race(files)) => {
                let files =
                    files.iter().map(|(name, text)| (name.clone(), text.clone().map(String::into_bytes)));
                let (message, at) = ("Raced by hand".to_owned(), DateTime::UNIX_EPOCH);
                let draft = Draft { files: files.collect(), message, author: Actor::anonymous(), at };
                let (old, new) = (state.head, state.commit(&draft, &Actor::anonymous()));
                state.head = Some(new);
                state.bring(old, Some(new));
            }
            Some(Fault::AfterTheBranch) | None => (),
        }
        if state.head != expected {
            return Err(StoreError::HeadMoved { expected, found: state.head });
        }
        let made = state.append(drafts);
        if fault == Some(Fault::AfterTheBranch) {
            return Err(failed("flush", io::ErrorKind::Other));
        }
        let new = state.head;
        let was_whole = state.brought_to == expected;
        let before = state.brought_to;
        state.bring(expected, new);
        if !was_whole {
            state.brought_to = before;
        }
        Ok(made)
    }

    fn work_tree(
        &mut self,
        head: Option<Revision>,
        look: Look<'_>,
        despite_locks: bool,
    ) -> Result<WorkTree, StoreError> {
        let state = self.readable()?;
        if let Some(why) = &state.away {
            return Ok(WorkTree::Away(why.clone()));
        }
        if state.is_busy && !despite_locks {
            return Ok(WorkTree::Busy);
        }
        let tree = state.tree(head);
        let names: BTreeSet<&String> = match look {
            Look::All => state.work_tree.keys().chain(tree.keys()).collect(),
            Look::At(names) => names.iter().collect(),
        };
        let edits = names.into_iter().filter_map(|name| state.edit(&tree, name)).collect();
        Ok(WorkTree::Here { edits, half_done: state.half_done })
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        let mut state = self.readable()?;
        let (old, new) = (state.brought_to, state.head);
        if let (Some(old), Some(new)) = (old, new)
            && state.descends(new, old)
        {
            state.bring(Some(old), Some(new));
        }
        if state.away.is_none() {
            state.brought_to = new;
        }
        Ok(())
    }

    fn walk(
        &mut self,
        from: Revision,
        each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
    ) -> Result<(), StoreError> {
        let state = self.readable()?;
        let mut next = Some(from);
        while let Some(revision) = next {
            let found = state.commits.get(&revision).map(|(commit, _)| commit.clone());
            let commit = found.ok_or_else(|| failed("find a commit in", io::ErrorKind::NotFound))?;
            next = commit.parents.first().copied();
            if !each(&commit, &state.changes(next, Some(revision))) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        Ok(self.readable()?.descends(descendant, ancestor))
    }

    fn person(&mut self) -> Actor {
        self.lock().person.clone().unwrap_or_else(Actor::anonymous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(name: &str, content: Option<&str>) -> Draft {
        by_hand(&[(name, content)], &Actor::anonymous(), "Change", DateTime::UNIX_EPOCH)
    }

    #[test]
    fn an_append_brings_the_work_tree_along_and_keeps_what_a_person_saved() {
        let mut journal = MemoryJournal::new();
        journal.append(None, &[draft("a.yaml", Some("1")), draft("b.yaml", Some("1"))]).unwrap();
        journal.save("b.yaml", "mine");
        let head = journal.head().unwrap();
        journal.append(head, &[draft("a.yaml", Some("2")), draft("b.yaml", Some("2"))]).unwrap();
        assert_eq!(journal.saved("a.yaml").unwrap(), b"2");
        assert_eq!(journal.saved("b.yaml").unwrap(), b"mine");
        let head = journal.head().unwrap();
        let WorkTree::Here { edits, .. } = journal.work_tree(head, Look::All, false).unwrap() else {
            panic!()
        };
        assert_eq!(edits.iter().map(|edit| edit.name.as_str()).collect::<Vec<_>>(), ["b.yaml"]);
        assert_eq!(journal.log().len(), 4);
    }

    #[test]
    fn faults_come_in_line_and_are_gone_afterwards() {
        let mut journal = MemoryJournal::new();
        journal.fail_next(Fault::DiskFull);
        journal.fail_next(Fault::Race(vec![("b.yaml".to_owned(), Some("theirs".to_owned()))]));
        journal.fail_next(Fault::AfterTheBranch);
        assert!(journal.append(None, &[draft("a.yaml", Some("1"))]).is_err());
        assert_eq!(journal.head().unwrap(), None);
        let error = journal.append(None, &[draft("a.yaml", Some("1"))]).unwrap_err();
        let StoreError::HeadMoved { found, .. } = error else { panic!("{error}") };
        assert!(journal.append(found, &[draft("a.yaml", Some("1"))]).is_err());
        assert_ne!(journal.head().unwrap(), found);
        assert_eq!(journal.saved("a.yaml"), None);
        journal.catch_up().unwrap();
        assert_eq!(journal.saved("a.yaml").unwrap(), b"1");
    }

    #[test]
    fn a_push_is_brought_forward_and_a_soft_reset_is_the_person_s() {
        let mut journal = MemoryJournal::new();
        let mara = Actor::new("Mara", "mara@example.org");
        let commit =
            |content| journal.commit_by_hand(&[("a.yaml", Some(content))], &mara, "x", DateTime::UNIX_EPOCH);
        let first = commit("1");
        let second = commit("2");
        journal.move_branch(Some(first));
        journal.catch_up().unwrap();
        assert_eq!(journal.saved("a.yaml").unwrap(), b"2");
        journal.move_branch(Some(second));
        journal.push(&[("a.yaml", Some("3"))], &mara, "x", DateTime::UNIX_EPOCH);
        journal.catch_up().unwrap();
        assert_eq!(journal.saved("a.yaml").unwrap(), b"3", "the file was what a commit in between had");
    }
}
