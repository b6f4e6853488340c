//! Repairs what git commands and our writes have done to each other, and waits for what git is about to do.
//!
//! Git reads before it takes its locks and moves `HEAD` after it has released them, so none of them prevents these
//! races. We look afterwards, and tell them from what a person does by what we wrote a moment ago (see `recent`):
//!
//! * **A commit** (`git commit`) writes the index that it read before it took the lock. If we wrote in between, it
//!   fails, as it must, but it leaves an index with our paths as they were before, and the next commit would revert
//!   them. Such an entry differs from one that a person staged: it has what we replaced a moment ago, and the branch
//!   and the file have what we put there. (A person who takes a write out of the index on purpose, in the first two
//!   seconds, finds it there again.) If we were killed in between, the next start repairs the index by the same rule:
//!   what counts is how long after our commit the index was written.
//! * **A checkout of the served branch** (`git checkout main`) reads `main`, and only then takes `index.lock` and
//!   reads `HEAD`'s commit (`cmd_checkout` and `switch_branches` in git's `builtin/checkout.c`). If we write in
//!   between, it sets files and index back by one write, and leaves both branch and `HEAD` as they are. A person who
//!   does that on purpose (`git restore --source=HEAD~1`) leaves the same state, but only the checkout of a branch is
//!   in the reflog of `HEAD`. So a file that has what we replaced, with an index entry that agrees, after a checkout
//!   from the branch to itself, is not a person's edit, and is brought forward again. Without a reflog
//!   (`core.logAllRefUpdates`) it is taken for one, because the two can't be distinguished.
//! * **A checkout of another branch** writes files and index, releases `index.lock`, and only then makes `HEAD` name
//!   that branch. A write in between still finds the served branch checked out, and puts its files and entries among
//!   those of the other one: the person's next commit there would include them. If `HEAD` names something else and the
//!   index is still the very file that we left, nothing was checked out since, and what we wrote goes back to what
//!   `HEAD` has.
//! * **Half of a checkout**: for that moment (also of `git merge`, `rebase` and `reset`) the work tree looks as if a
//!   person had staged what belongs to another commit, and as a hand edit it would be committed to the served branch.
//!   So files that equal the index but not the head are looked at again until the index has been left alone for a
//!   while: what a person has staged is still there then, and what git has checked out is explained by `HEAD` or the
//!   branch.
//! * **A rebase** (also `git pull --rebase`) detaches `HEAD`, and at its end moves the branch from where it was at the
//!   beginning (`do_pick_commits` in git's `sequencer.c`). A write in between would leave the person with a rebase that
//!   can't end. So a write waits for a rebase that goes on. One that stands still, because of a conflict for instance,
//!   may do so for days, and is not waited for.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Utc};

use crate::domain::Revision;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::disk::lock::HeldLock;
use crate::store::git::disk::open::open;
use crate::store::git::disk::stamp::index_stat;
use crate::store::git::index::git_index::GitIndex;
use crate::store::git::object::tree::{PathChange, PathChanges, Pointer};
use crate::store::git::odb::objects::Objects;
use crate::store::git::read::reader::Reader;
use crate::store::git::read::trees::Trees;
use crate::store::git::read::walk::shallow_boundary;
use crate::store::git::repo::refs::GitHead;
use crate::store::git::worktree::apply::changes::changes_between;
use crate::store::git::worktree::apply::checkout::{Checkout, RETRY_WAIT};
use crate::store::git::worktree::apply::repair::recent::STALE_AGE_MAX;
use crate::store::git::worktree::apply::update::{UpdateReason, apply_one, is_outdated, is_up_to_date};
use crate::store::git::worktree::replace::swap::Replacer;
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::{AtPath as _, BlobId, Commits as _, Edit, StoreError, WorkTree};

/// How far the time of a commit may be from that of an index written right after it: commits have whole seconds.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// How long a rebase that does nothing is taken to go on.
const REBASE_STEP_MAX: Duration = Duration::from_millis(500);

/// The folders with the state of a rebase (`merge_dir` and `apply_dir` in git's `builtin/rebase.c`).
const REBASE_FOLDERS: [&str; 2] = ["rebase-merge", "rebase-apply"];

/// How many commits are searched for changes made right before the start.
const LOADED_COMMITS_MAX: usize = 1_000;

/// How many bytes at the end of a reflog are searched: some thousand moves, more than happen in a moment.
const REFLOG_BYTES_MAX: u64 = 1 << 20;

/// How many times longer to wait for the reflog if files were set back: a mistake would be committed as a person's.
const REFLOG_TURNS: u32 = 5;

/// A file, and the content that it was set back to.
type SetBack = (String, Option<BlobId>);

impl Checkout {
    /// Waits while git rebases the branch in this work tree. Returns whether there was such a rebase, which is over.
    pub(crate) fn wait_for_rebase(&self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        let mut is_over = false;
        while self.is_being_rebased() {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(RETRY_WAIT);
            is_over = true;
        }
        is_over
    }

    fn is_being_rebased(&self) -> bool {
        REBASE_FOLDERS.iter().map(|folder| self.layout.git_dir.join(folder)).any(|folder| {
            let is_of_branch = read_if_there(&folder.join("head-name")).is_ok_and(|name| {
                name.is_some_and(|name| name.trim_ascii_end() == self.branch.name.as_bytes())
            });
            let at = fs::metadata(&folder).and_then(|folder| folder.modified());
            is_of_branch && at.is_ok_and(|at| at.elapsed().unwrap_or_default() < REBASE_STEP_MAX)
        })
    }

    /// Repairs the index if a racing command has put back what we replaced. A lock held by another process is no
    /// error: its new index is noticed again.
    pub(crate) fn repair_index(&mut self, reader: &mut Reader) -> Result<(), StoreError> {
        if self.recent.is_empty() || self.index.is_unchanged() {
            return Ok(());
        }
        self.forget_what_is_not_on_the_branch(reader, self.branch.tip()?)?;
        // Looked at without the lock, which would hinder the person's next command.
        let Some(index) = self.index.read()? else { return Ok(()) };
        if self.repaired(&index)?.is_empty() {
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
        self.index.commit(&lock, &index)
    }

    /// Remembers what a service with this committer's address wrote right before the index was last written: it may
    /// have been killed before it could repair the index.
    pub(crate) fn load_recent(&mut self, reader: &mut Reader, email: &str) -> Result<(), StoreError> {
        let index = fs::metadata(&self.index.path).and_then(|index| index.modified());
        let (Ok(written), Some(head), true) = (index, self.branch.tip()?, self.is_shown()?) else {
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
                self.recent.note(&changes?, head);
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

impl Checkout {
    /// Brings forward the files among `seen` that a racing checkout has set back. Returns whether there were any, in
    /// which case `seen` is outdated.
    pub(crate) fn undo_set_back(&mut self, reader: &mut Reader, seen: &WorkTree) -> Result<bool, StoreError> {
        let set_back = self.set_back(reader, seen)?;
        if set_back.is_empty() {
            return Ok(false);
        }
        let lock = match self.lock_index(Duration::ZERO) {
            Ok(Some(lock)) => lock,
            // The next look finds out what git is doing.
            Ok(None) | Err(StoreError::Locked { .. }) => return Ok(true),
            Err(error) => return Err(error),
        };
        tracing::info!("a `git checkout` that raced with a write took files one write back; they are mended");
        set_back.into_iter().for_each(|(name, was)| self.lagging.add(&name, was));
        self.retry_lagging(reader, &lock)?;
        self.repair_index_under(lock)?;
        Ok(true)
    }

    /// Returns whether `seen` may be half of a checkout: the index is fresh, and an edit agrees with it.
    pub(crate) fn may_be_checkout(&self, seen: &WorkTree) -> Result<bool, StoreError> {
        let WorkTree::Available { edits, .. } = seen else { return Ok(false) };
        let turns = if edits.iter().any(|edit| self.recent.has_replaced(edit)) { REFLOG_TURNS } else { 1 };
        if edits.is_empty() || !is_younger(&self.index.path, self.scan.checkout_time_max * turns) {
            return Ok(false);
        }
        let Some(index) = self.index.read()? else { return Ok(false) };
        let is_staged = |edit: &Edit| {
            let saved = edit.current.blob();
            saved.is_some() && index.get(&self.layout.path_in_repository(&edit.name)).blob() == saved
        };
        Ok(edits.iter().any(is_staged))
    }

    fn set_back(&mut self, reader: &mut Reader, seen: &WorkTree) -> Result<Vec<SetBack>, StoreError> {
        let WorkTree::Available { edits, operation_in_progress: None, .. } = seen else {
            return Ok(Vec::new());
        };
        if edits.is_empty() || self.recent.is_empty() {
            return Ok(Vec::new());
        }
        self.forget_what_is_not_on_the_branch(reader, self.branch.tip()?)?;
        let Some(index) = self.index.read()? else { return Ok(Vec::new()) };
        let recent = self.recent.get();
        let is_set_back = |name: &str, was: Option<BlobId>| {
            let staged = index.get(&self.layout.path_in_repository(name));
            staged.blob() == Some(was) && recent.get(name).is_some_and(|change| is_outdated(&staged, change))
        };
        let each = edits.iter().filter_map(|Edit { name, current: now }| Some((name.clone(), now.blob()?)));
        let mut set_back: Vec<SetBack> = each.filter(|(name, was)| is_set_back(name, *was)).collect();
        if !set_back.is_empty() {
            let reflog = self.end_of_reflog()?;
            set_back.retain(|(name, was)| {
                self.recent
                    .replaced_by(name, *was)
                    .is_some_and(|ours| self.is_checked_out_after(&reflog, ours))
            });
        }
        Ok(set_back)
    }

    /// Returns whether the served branch was checked out from itself after a write of ours.
    fn is_checked_out_after(&self, reflog: &str, ours: Revision) -> bool {
        let branch = self.branch.short_name();
        let ours = reflog.find(&format!(" {ours} "));
        let checkout = reflog.rfind(&format!("\tcheckout: moving from {branch} to {branch}\n"));
        ours.is_some() && ours < checkout
    }

    /// Returns the last moves of `HEAD`, oldest first; nothing if no reflog is kept.
    fn end_of_reflog(&self) -> Result<String, StoreError> {
        let path = self.layout.git_dir.join("logs/HEAD");
        let read = || {
            let mut file = open(&path)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(REFLOG_BYTES_MAX)))?;
            let mut end = Vec::new();
            file.read_to_end(&mut end).map(|_| String::from_utf8_lossy(&end).into_owned())
        };
        Ok(read().at_if_there("read", &path)?.unwrap_or_default())
    }
}

impl Checkout {
    /// Takes recent writes out of the work tree if `HEAD` moved to another branch while they were made. A lock held by
    /// another process is no error, because a process that writes the index knows what `HEAD` has.
    pub(crate) fn undo_race(&mut self, reader: &mut Reader) -> Result<(), StoreError> {
        if self.recent.is_empty() || !self.index.is_unchanged() {
            return Ok(());
        }
        let Some(shown) = self.shown_instead()? else { return Ok(()) };
        let Some(lock) = self.index.try_lock()? else { return Ok(()) };
        if !self.index.is_unchanged() || self.shown_instead()? != Some(shown) {
            return Ok(());
        }
        // A revision with something else in place of the folder has no place for what we wrote.
        let Ok(trees) = reader.load_trees(Some(shown)) else { return Ok(()) };
        let Some(mut index) = self.index.read()? else { return Ok(()) };
        let returns = self.returns(&mut reader.objects, &index, &trees)?;
        if returns.is_empty() {
            return Ok(());
        }
        tracing::info!("another branch was checked out during a write; its work tree is as it was");
        let folder = self.find_folder(&returns)?.or_warn();
        let replacer = folder.as_ref().map(|folder| Replacer::new(&self.layout, folder)).transpose()?;
        for (name, back) in &returns {
            let path = self.layout.path_in_repository(name);
            apply_one(replacer.as_ref(), Some(&mut index), [name, &path], back, UpdateReason::BranchMoved)?;
        }
        self.index.commit(&lock, &index)
    }

    /// Returns the commit that is checked out instead of the served branch.
    fn shown_instead(&self) -> Result<Option<Revision>, StoreError> {
        match self.layout.head()? {
            GitHead::Ref(name) if name == self.branch.name => Ok(None),
            GitHead::Ref(_) | GitHead::Detached(_) => self.layout.head_commit(),
        }
    }

    /// Returns the changes that turn what we wrote back into what `HEAD` has.
    fn returns(
        &self,
        objects: &mut Objects,
        index: &GitIndex,
        trees: &Trees,
    ) -> Result<PathChanges, StoreError> {
        let mut returns = PathChanges::new();
        for (name, change) in self.recent.get() {
            let there = trees.folder().get(name.as_bytes());
            let is_ours = is_up_to_date(&index.get(&self.layout.path_in_repository(&name)), &change)
                && there.is_none_or(|there| there.is_file())
                && there.map(|it| it.oid) != change.after.map(|it| it.oid);
            if is_ours {
                let content = there.map(|pointer| objects.blob(pointer.blob())).transpose()?;
                returns.insert(name, PathChange::new(change.after, there, content));
            }
        }
        Ok(returns)
    }
}

#[expect(clippy::disallowed_methods, reason = "compared with a time that the file system's clock gave")]
fn is_younger(path: &Path, than: Duration) -> bool {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified());
    // A time in the future is from another clock and proves nothing.
    written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age < than))
}
