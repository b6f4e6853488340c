//! Repairs index entries that a racing git command has reverted.
//!
//! `git commit` writes the index that it read before it took the lock. If we wrote in between, its commit fails, as it
//! must, but it leaves an index with our paths as they were before, and the next commit would revert them. Such an
//! entry differs from one that a person staged: it has what we replaced a moment ago, and the branch and the file have
//! what we put there. (A person who takes a write out of the index on purpose, in the first two seconds, finds it
//! there again.) If we were killed in between, the next start repairs the index by the same rule: what counts is how
//! long after our commit the index was written.

use std::fs;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::domain::Revision;
use crate::store::git::disk::lock::HeldLock;
use crate::store::git::disk::stamp::index_stat;
use crate::store::git::index::git_index::GitIndex;
use crate::store::git::object::tree::Pointer;
use crate::store::git::read::reader::Reader;
use crate::store::git::read::walk::shallow_boundary;
use crate::store::git::worktree::apply::catch_up::changes_between;
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::apply::recent::STALE_AGE_MAX;
use crate::store::git::worktree::apply::update::is_outdated;
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::{Commits as _, StoreError};

/// How far the time of a commit may be from that of an index written right after it: commits have whole seconds.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// How many commits are searched for changes made right before the start.
const LOADED_COMMITS_MAX: usize = 1_000;

impl Checkout {
    /// Repairs the index if a racing command has put back what we replaced. A lock held by another process is no
    /// error: its new index is noticed again.
    pub(crate) fn repair_index(&mut self, reader: &mut Reader) -> Result<(), StoreError> {
        if self.recent.is_empty() || self.index.is_unchanged() || !self.is_stale()? {
            return Ok(());
        }
        self.forget_what_is_not_on_the_branch(reader, self.branch.tip()?)?;
        if !self.is_stale()? {
            return Ok(());
        }
        self.index.try_lock()?.map_or(Ok(()), |lock| self.repair_index_under(lock))
    }

    /// Repairs the index under a lock, and releases it.
    pub(crate) fn repair_index_under(&mut self, lock: HeldLock) -> Result<(), StoreError> {
        let Some(mut index) = self.index.read()? else { return Ok(()) };
        if !self.repair(&mut index)? {
            return Ok(());
        }
        tracing::info!("a git command that raced with a write left an old index; its entries are mended");
        self.index.commit(lock, &index)
    }

    /// Remembers what a service with this committer's address wrote right before the index was last written: it may
    /// have been killed before it could repair the index.
    pub(crate) fn load_recent(&mut self, reader: &mut Reader, email: &str) -> Result<(), StoreError> {
        let index = fs::metadata(&self.index.path).and_then(|index| index.modified());
        let (Ok(written), Some(head), true) = (index, self.branch.tip()?, self.is_shown()) else {
            return Ok(());
        };
        let since = DateTime::<Utc>::from(written) - STALE_AGE_MAX - CLOCK_STEP;
        let (mut before, mut left) = (None, LOADED_COMMITS_MAX);
        // Without its parent, which a shallow clone may lack, it is unknown what a commit replaced.
        let cut = shallow_boundary(&reader.layout)?;
        reader.log(head, &mut |commit| {
            let is_ours = commit.committer.email() == email && !cut.contains(&commit.revision);
            let is_recent = is_ours && commit.at >= since;
            if is_recent {
                before = Some(commit.parents.first().copied());
                left -= 1;
            }
            is_recent && left > 0
        })?;
        let Some(before) = before else { return Ok(()) };
        match changes_between(reader, before, Some(head)) {
            // What a damaged commit had is unknown, and harms nothing else.
            Err(StoreError::Damaged { .. }) => Ok(()),
            changes => {
                self.recent.note(&changes?, Some(head));
                Ok(())
            }
        }
    }

    /// Forgets what the branch no longer has: a person who moved it away may stage the old content.
    pub(crate) fn forget_what_is_not_on_the_branch(
        &mut self,
        reader: &mut Reader,
        head: Option<Revision>,
    ) -> Result<(), StoreError> {
        if !self.recent.is_at(head) {
            self.recent.keep_what_is_at(head, reader.trees(head)?.folder());
        }
        Ok(())
    }

    /// Returns whether there is something to repair, without the lock, which would hinder the person's next command.
    fn is_stale(&self) -> Result<bool, StoreError> {
        let Some(index) = self.index.read()? else { return Ok(false) };
        Ok(!self.repaired(&index)?.is_empty())
    }

    /// Updates entries that were put back to what their files have.
    pub(crate) fn repair(&self, index: &mut GitIndex) -> Result<bool, StoreError> {
        let repaired = self.repaired(index)?;
        for (path, pointer, stat) in &repaired {
            index.put(path, *pointer, *stat);
        }
        Ok(!repaired.is_empty())
    }

    /// Returns the entries that were put back while their files have what we wrote, with what they should be.
    fn repaired(&self, index: &GitIndex) -> Result<Vec<RepairedEntry>, StoreError> {
        let mut stale = self.recent.get();
        stale.retain(|name, change| is_outdated(&index.get(&self.layout.path_in_repository(name)), change));
        if stale.is_empty() {
            return Ok(Vec::new());
        }
        let folder = Folder::collections(&self.layout, false)?.folder();
        let mut repaired = Vec::new();
        for (name, change) in stale {
            let there = folder.as_ref().map(|folder| folder.identify(&name)).transpose()?.flatten();
            if there.as_ref().map(|content| content.oid) == change.after.map(|after| after.blob()) {
                let stat = there.map(|content| index_stat(&content.stat)).unwrap_or_default();
                repaired.push((self.layout.path_in_repository(&name), change.after, stat));
            }
        }
        Ok(repaired)
    }
}

/// The path of an entry, its new value, and the stat of its file.
type RepairedEntry = (String, Option<Pointer>, [u32; 10]);
