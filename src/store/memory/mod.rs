//! An in-memory journal with faults on demand.
//!
//! [`MemoryJournal`] keeps the promises of [`Journal`] over a few maps. Its clones share one repository: a test
//! keeps one clone to commit, save and break things behind the back of the code that owns another.

mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, Utc};
use state::{MemoryFile, State, by_hand, failed, locked};

use crate::domain::{Actor, Revision};
use crate::store::{
    BlobId, Commit, Commits, Committed, Draft, EachContent, FileChange, GitLocks, Journal, KeptHead, Paths,
    StoreError, WorkTree,
};

/// An in-memory repository; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryJournal {
    state: Arc<Mutex<State>>,
}

/// How an append is to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// The append fails before anything is visible.
    BeforeTheBranch,
    /// The append fails after the branch has moved and before the work tree has.
    AfterTheBranch,
    /// Another process commits these files first: name to content, `None` to remove the file.
    Race(Vec<(String, Option<String>)>),
    /// Like `Race`, and then git is in the middle of changing the work tree.
    BusyRace(Vec<(String, Option<String>)>),
    /// Another process held the index of the work tree for a while; meanwhile a person saved this file.
    Saved(String, String),
    /// Another process holds the lock of the index.
    Locked,
    DiskFull,
}

impl MemoryJournal {
    /// Creates an empty repository with a work tree.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Creates an empty repository without a work tree.
    #[must_use]
    pub(crate) fn bare() -> Self {
        let journal = Self::new();
        journal.set_away(Some("the repository is bare"));
        journal
    }

    /// Commits by hand, as `git commit -a` would, and updates the work tree.
    pub(crate) fn commit_by_hand(
        &self,
        files: &[(&str, Option<&str>)],
        author: &Actor,
        message: &str,
        at: DateTime<Utc>,
    ) -> Revision {
        let mut state = self.lock();
        let revision = state.commit(&by_hand(files, author, message, at), author);
        state.move_by_hand(files, revision);
        revision
    }

    /// Pushes a commit: the branch moves, the work tree does not.
    pub(crate) fn push(
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

    /// Replaces the head by a commit that also has these files, as `git commit --amend -a` would.
    pub(crate) fn amend_by_hand(
        &self,
        files: &[(&str, Option<&str>)],
        author: &Actor,
        message: &str,
        at: DateTime<Utc>,
    ) -> Revision {
        let mut state = self.lock();
        let old = state.head;
        let parents = old.and_then(|old| state.commits.get(&old)).map(|(commit, _)| commit.parents.clone());
        // The replacement also contains what the head changed.
        let parents = parents.unwrap_or_default();
        let kept = state.changes(parents.first().copied(), old);
        let mut draft = by_hand(files, author, message, at);
        for change in kept.into_iter().filter(|it| files.iter().all(|(name, _)| *name != it.name)) {
            if let Some(content) = state.content(change.after) {
                draft.files.push((change.name, content));
            }
        }
        let revision = state.commit_on(parents, &draft, author);
        state.move_by_hand(files, revision);
        revision
    }

    /// Merges a side branch with one commit of these files, which starts at the head's parent (or at the head, if
    /// it has none), and updates the work tree.
    pub(crate) fn merge_by_hand(
        &self,
        files: &[(&str, Option<&str>)],
        author: &Actor,
        at: DateTime<Utc>,
    ) -> Option<Revision> {
        let mut state = self.lock();
        let head = state.head?;
        let base = state.commits.get(&head).and_then(|(commit, _)| commit.parents.first().copied());
        let side = by_hand(files, author, "On the side", at);
        let side = state.commit_on(vec![base.unwrap_or(head)], &side, author);
        let merge = by_hand(files, author, "Merge", at);
        let merge = state.commit_on(vec![head, side], &merge, author);
        state.move_by_hand(files, merge);
        Some(merge)
    }

    /// Pushes a merge with a commit beside the branch, as a service that shares the branch does; returns that commit.
    pub(crate) fn push_merge(&self, files: &[(&str, Option<&str>)], message: &str) -> Revision {
        let mut state = self.lock();
        state.has_merges = true;
        let base: Vec<Revision> = state.head.into_iter().collect();
        let draft = by_hand(files, &Actor::service(), message, DateTime::UNIX_EPOCH);
        let side = state.commit_on(base.clone(), &draft, &Actor::service());
        let merge = state.commit_on([base, vec![side]].concat(), &draft, &Actor::service());
        state.head = Some(merge);
        side
    }

    /// Moves the branch and checks its files out, as `git reset --hard` does; untracked files stay.
    pub(crate) fn reset_hard(&self, to: Option<Revision>) {
        let mut state = self.lock();
        let known = [state.work_tree.brought_to, state.head];
        state.head = to;
        for old in known {
            state.check_out(old, to);
        }
    }

    /// Moves only the branch, as `git reset --soft` does.
    pub(crate) fn move_branch(&self, to: Option<Revision>) {
        self.lock().head = to;
    }

    pub(crate) fn save(&self, name: &str, content: impl Into<Vec<u8>>) {
        self.lock().place(name, Some(MemoryFile::File(content.into())));
    }

    /// Writes the beginning of a file in the work tree and keeps the file open; [`save`](Self::save) writes all of
    /// it and closes it.
    pub(crate) fn begin_to_save(&self, name: &str, content: impl Into<Vec<u8>>) {
        self.save(name, content);
        self.lock().work_tree.unfinished.insert(name.to_owned(), Duration::ZERO);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.lock().place(name, None);
    }

    /// The content of a regular file in the work tree.
    #[must_use]
    pub(crate) fn saved(&self, name: &str) -> Option<Vec<u8>> {
        match self.lock().work_tree.files.get(name)? {
            MemoryFile::File(content) => Some(content.clone()),
            MemoryFile::Special(_) => None,
        }
    }

    /// Every regular file of a revision.
    #[must_use]
    pub(crate) fn files_at(&self, revision: Option<Revision>) -> BTreeMap<String, Vec<u8>> {
        let state = self.lock();
        let tree = state.tree(revision);
        tree.into_iter().filter_map(|(name, entry)| Some((name, state.content(Some(entry))??))).collect()
    }

    /// Every regular file of the work tree.
    #[must_use]
    pub(crate) fn saved_files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.lock();
        let file = |(name, held): (&String, &MemoryFile)| match held {
            MemoryFile::File(content) => Some((name.clone(), content.clone())),
            MemoryFile::Special(_) => None,
        };
        state.work_tree.files.iter().filter_map(file).collect()
    }

    /// Every commit ever made, on the branch or not.
    #[must_use]
    pub(crate) fn commits(&self) -> Vec<Commit> {
        self.lock().commits.values().map(|(commit, _)| commit.clone()).collect()
    }

    /// Whether any commit ever made, on the branch or not, contains this content.
    #[must_use]
    pub(crate) fn is_committed(&self, content: &[u8]) -> bool {
        self.lock().blobs.contains_key(&BlobId::of(content))
    }

    /// The first-parent history of the branch, newest first.
    #[must_use]
    pub(crate) fn log(&self) -> Vec<Commit> {
        let state = self.lock();
        let mut log = Vec::new();
        let mut next = state.head;
        while let Some((commit, _)) = next.and_then(|revision| state.commits.get(&revision)) {
            log.push(commit.clone());
            next = commit.parents.first().copied();
        }
        log
    }

    /// How often commits were appended; a group counts once, and failures count too.
    #[must_use]
    pub(crate) fn appends(&self) -> usize {
        self.lock().counts.appends
    }

    /// Makes the next append fail; several faults form a queue.
    pub(crate) fn fail_next(&self, fault: InjectedFault) {
        self.lock().faults.appends.push_back(fault);
    }

    /// Removes the append faults that are still queued and returns how many there were.
    pub(crate) fn forget_faults(&self) -> usize {
        std::mem::take(&mut self.lock().faults.appends).len()
    }

    /// Makes the next [`Journal::make_durable`] that has to flush fail; calls add up.
    pub(crate) fn fail_next_flush(&self) {
        self.lock().faults.flushes += 1;
    }

    /// How often [`Journal::make_durable`] had to flush, failures included.
    #[must_use]
    pub(crate) fn flushes(&self) -> usize {
        self.lock().counts.flushes
    }

    /// How often the work tree was examined.
    pub(crate) fn looks(&self) -> usize {
        self.lock().counts.looks
    }

    /// How often [`Journal::start_maintenance`] was called.
    #[must_use]
    pub(crate) fn maintenance_starts(&self) -> usize {
        self.lock().counts.tends
    }

    /// Makes everything unreadable, or readable again.
    pub(crate) fn set_unreadable(&self, is_unreadable: bool) {
        self.lock().faults.is_unreadable = is_unreadable;
    }

    /// Makes reading this single commit fail, or succeed again.
    pub(crate) fn fail_commit(&self, revision: Revision, error: Option<fn() -> StoreError>) {
        let commits = &mut self.lock().faults.commits;
        commits.remove(&revision);
        commits.extend(error.map(|error| (revision, error)));
    }

    /// Makes the work tree look as if git were changing it, or no longer so.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.lock().work_tree.is_busy = is_busy;
    }

    /// Makes the work tree look as if git were changing it, until [`Journal::wait_for_git`] is called.
    pub(crate) fn be_busy_until_waited_for(&self) {
        let work_tree = &mut self.lock().work_tree;
        (work_tree.is_busy, work_tree.is_soon_free) = (true, true);
    }

    /// Makes the work tree show something else (`why` says what), or the served branch again.
    pub(crate) fn set_away(&self, why: Option<&str>) {
        self.lock().work_tree.away = why.map(str::to_owned);
    }

    /// Puts the work tree in the middle of an operation such as a merge, or ends that.
    pub(crate) fn set_half_done(&self, what: Option<&'static str>) {
        self.lock().work_tree.half_done = what;
    }

    /// Makes the next [`Journal::keep`] fail.
    pub(crate) fn fail_next_keep(&self) {
        self.lock().faults.keeps += 1;
    }

    /// Makes the next [`Journal::remove_kept`] fail although the refs are already removed.
    pub(crate) fn fail_after_next_let_go(&self) {
        self.lock().faults.lets_go += 1;
    }

    /// Releases everything that is kept, as `git update-ref -d` does.
    pub(crate) fn let_all_go(&self) {
        self.lock().kept.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test goes on after a panic in here")
    }

    fn readable(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        if state.faults.is_unreadable {
            return Err(failed("read", io::ErrorKind::PermissionDenied));
        }
        Ok(state)
    }
}

impl Commits for MemoryJournal {
    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        Ok(self.readable()?.changes(from, to))
    }

    fn contents(&mut self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError> {
        let state = self.readable()?;
        for (index, blob) in blobs.iter().enumerate() {
            let content = state.blobs.get(blob).map(Vec::as_slice);
            each(index, content.ok_or_else(|| failed("find a content in", io::ErrorKind::NotFound)));
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

    fn commit(&mut self, revision: Revision) -> Result<Option<Commit>, StoreError> {
        let state = self.readable()?;
        match state.faults.commits.get(&revision) {
            Some(error) => Err(error()),
            None => Ok(state.commits.get(&revision).map(|(commit, _)| commit.clone())),
        }
    }

    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        Ok(self.readable()?.descends(descendant, ancestor))
    }

    fn commits_beyond(&mut self, old: Revision, new: Revision) -> Result<Vec<Revision>, StoreError> {
        Ok(self.readable()?.commits_beyond(old, new))
    }

    fn object_at(&mut self, revision: Revision, path: &str) -> Result<Option<BlobId>, StoreError> {
        let name = path.rsplit('/').next().unwrap_or_default();
        Ok(self.readable()?.tree(Some(revision)).get(name).and_then(|entry| entry.blob()))
    }
}

impl Journal for MemoryJournal {
    fn head(&mut self) -> Result<Option<Revision>, StoreError> {
        Ok(self.readable()?.head)
    }

    fn commits(&mut self) -> &mut dyn Commits {
        self
    }

    fn wait_for_git(&mut self) -> Result<(), StoreError> {
        let mut state = self.readable()?;
        if std::mem::take(&mut state.work_tree.is_soon_free) {
            state.work_tree.is_busy = false;
        }
        state.check_lock()
    }

    fn append(&mut self, expected: Option<Revision>, drafts: &[Draft]) -> Result<Vec<Committed>, StoreError> {
        let mut state = self.readable()?;
        state.counts.appends += 1;
        state.bring_forward()?;
        state.check_lock()?;
        let fault = state.faults.appends.pop_front();
        match &fault {
            Some(InjectedFault::BeforeTheBranch) => return Err(failed("write", io::ErrorKind::Other)),
            Some(InjectedFault::Locked) => return Err(locked()),
            Some(InjectedFault::Saved(name, text)) => {
                state.place(name, Some(MemoryFile::File(text.clone().into_bytes())));
                return Err(StoreError::HeadMoved { expected, found: state.head });
            }
            Some(InjectedFault::DiskFull) => return Err(failed("write", io::ErrorKind::StorageFull)),
            Some(InjectedFault::Race(files) | InjectedFault::BusyRace(files)) => {
                let files =
                    files.iter().map(|(name, text)| (name.clone(), text.clone().map(String::into_bytes)));
                let (message, at) = ("Raced by hand".to_owned(), DateTime::UNIX_EPOCH);
                let draft = Draft { files: files.collect(), message, author: Actor::anonymous(), at };
                let (old, new) = (state.head, state.commit(&draft, &Actor::anonymous()));
                state.head = Some(new);
                state.bring(old, Some(new));
                state.work_tree.is_busy = matches!(fault, Some(InjectedFault::BusyRace(_)));
            }
            Some(InjectedFault::AfterTheBranch) | None => (),
        }
        if state.head != expected {
            return Err(StoreError::HeadMoved { expected, found: state.head });
        }
        let made = state.append(drafts);
        if fault == Some(InjectedFault::AfterTheBranch) {
            return Err(failed("flush", io::ErrorKind::Other));
        }
        let new = state.head;
        state.durable = Some(new);
        state.bring(expected, new);
        Ok(made)
    }

    fn make_durable(&mut self, head: Option<Revision>) -> Result<(), StoreError> {
        self.lock().make_durable(head)
    }

    fn work_tree(
        &mut self,
        head: Option<Revision>,
        paths: Paths<'_>,
        locks: GitLocks,
    ) -> Result<WorkTree, StoreError> {
        let mut state = self.readable()?;
        state.counts.looks += 1;
        if let Some(why) = &state.work_tree.away {
            return Ok(WorkTree::Unavailable(why.clone()));
        }
        if state.work_tree.is_busy && locks == GitLocks::Respect {
            return Ok(WorkTree::Busy);
        }
        let tree = state.tree(head);
        let names: BTreeSet<&String> = match paths {
            Paths::All => state.work_tree.files.keys().chain(tree.keys()).collect(),
            Paths::Only(names) => names.iter().collect(),
        };
        let edits = names.into_iter().filter_map(|name| state.edit(&tree, name)).collect();
        Ok(WorkTree::Available {
            edits,
            unfinished: state.work_tree.unfinished.clone(),
            operation_in_progress: state.work_tree.half_done,
        })
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        self.readable()?.bring_forward()
    }

    fn last_served(&mut self) -> Result<Option<Revision>, StoreError> {
        Ok(self.readable()?.served)
    }

    fn note_served(&mut self, head: Revision) {
        self.lock().served = Some(head);
    }

    fn keep(&mut self, revision: Revision, now: DateTime<Utc>) -> Result<KeptHead, StoreError> {
        self.readable()?.keep(KeptHead::new(revision, now))
    }

    fn kept(&mut self, _: DateTime<Utc>) -> Result<Vec<KeptHead>, StoreError> {
        Ok(self.readable()?.kept.clone())
    }

    fn remove_kept(&mut self, kept: &[KeptHead]) -> Result<(), StoreError> {
        self.lock().let_go(kept)
    }

    fn has_merges(&self) -> bool {
        self.lock().has_merges
    }

    fn start_maintenance(&mut self) -> Result<(), StoreError> {
        self.lock().counts.tends += 1;
        Ok(())
    }

    fn hand_edit_author(&mut self) -> Actor {
        Actor::anonymous()
    }
}
