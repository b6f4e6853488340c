//! The journal on a git repository.
//!
//! ```text
//! append ── index.lock ── objects ── one pack ── branch.lock ── reflog ── branch ── files, index
//!           lock          object     packs       refs                               worktree, index
//!                         tree       barrier ◀── every flush
//!                         sign
//! ```
//!
//! What is promised here, and tested in `tests`:
//!
//! * What [`append`](Journal::append) has answered is on disk; see `disk::barrier` for what that means.
//! * The branch moves only by compare-and-set, under git's own locks.
//! * No byte that a person saved or staged is overwritten; see `worktree::apply`.
//! * Nothing runs that the repository names, and no configuration but the repository's own has a
//!   say in what is written; `repo::user_config` reads the user's to know who commits by hand. We parse the
//!   few files that matter, and objects, ourselves and use libgit2 for nothing but configuration.
//! * Nothing stays broken: what is cached is checked against the disk, and forgotten after trouble.
//!
//! What is not here: YAML, collections, JSON:API.

#[cfg(test)]
pub(crate) mod fault;
pub(crate) mod interrupted;
pub(crate) mod open;
pub(crate) mod options;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::BlobId;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::disk::lock::HeldLock;
#[cfg(test)]
use crate::store::git::journal::fault::Fault;
use crate::store::git::maintenance::runner::Maintenance;
use crate::store::git::object::hash_midstates::IndexHash;
use crate::store::git::object::id;
use crate::store::git::packs::store::{Mark, Packs};
use crate::store::git::read::archive::GitArchive;
use crate::store::git::read::diff;
use crate::store::git::read::objects::Objects;
use crate::store::git::read::recent_commits::Fresh;
use crate::store::git::read::trees::{Trees, check_folder};
use crate::store::git::read::walk;
use crate::store::git::repo::access::Access;
use crate::store::git::repo::branch;
use crate::store::git::repo::checkpoint::Note;
use crate::store::git::repo::kept;
use crate::store::git::repo::layout::Place;
use crate::store::git::repo::linked_worktrees;
use crate::store::git::repo::served;
use crate::store::git::repo::user_config;
use crate::store::git::worktree::apply::lagging::Behind;
use crate::store::git::worktree::apply::recent::Recent;
use crate::store::git::worktree::scan::checkout_in_progress;
use crate::store::git::worktree::scan::folder::{Folder, Found};
use crate::store::git::worktree::scan::open_writers::OpenWriters;
use crate::store::git::worktree::scan::stat_cache::StatCache;
use crate::store::git::worktree::scan::status;
use crate::store::git::write::append;
use crate::store::git::write::sign::Committer;
use crate::store::{
    Commit, Committed, Draft, EachContent, FileChange, Journal, Kept, Look, StoreError, WorkTree,
};

/// Within this time of a group the next one is about to come.
const WRITING_PAUSE_MAX: Duration = Duration::from_millis(50);

/// A git repository, for the engine.
pub struct GitJournal {
    pub(crate) place: Place,
    pub(crate) branch: String,
    pub(crate) committer: Committer,
    pub(crate) lock_wait: Duration,
    pub(crate) access: Access,
    pub(crate) barrier: Barrier,
    pub(crate) objects: Objects,
    pub(crate) packs: Arc<Packs>,
    pub(crate) maintenance: Maintenance,
    pub(crate) maintain: bool,
    // The trees of the newest revision that was looked at; forgotten after trouble.
    pub(crate) trees: Option<Trees>,
    pub(crate) fresh: Arc<Fresh>,
    pub(crate) stats: StatCache,
    // Who is writing to the files; nobody asks when only reading.
    pub(crate) open_writers: Option<OpenWriters>,
    pub(crate) note: Arc<Note>,
    pub(crate) recent: Recent,
    pub(crate) index_hash: IndexHash,
    // Whether the index has what the files do not have yet.
    pub(crate) is_index_ahead: bool,
    // Commits that were to become the head when our predecessor was ended; the index may have them already.
    pub(crate) under_way: Vec<id::Oid>,
    // Files that could not be brought up to the branch.
    pub(crate) behind: Behind,
    // The revision up to which everything is on disk; `None` as long as that is not known.
    pub(crate) durable: Option<Option<id::Oid>>,
    // When the last group was made visible.
    pub(crate) appended_at: Option<Instant>,
    // Whether files of the work tree were written since they were last flushed.
    pub(crate) is_work_tree_dirty: bool,
    // For how long a fresh index may be half of a checkout.
    pub(crate) checkout_time_max: Duration,
    #[cfg(test)]
    pub(crate) fault: Option<Fault>,
    #[cfg(test)]
    pub(crate) interlude: Option<Box<dyn FnMut() + Send>>,
    // Held as long as we live.
    pub(crate) service_lock: Option<open::ServiceLock>,
}

impl GitJournal {
    /// The served branch, without `refs/heads/`.
    #[must_use]
    pub fn branch(&self) -> &str {
        self.branch.strip_prefix("refs/heads/").unwrap_or(&self.branch)
    }

    /// The root of the work tree; `None` when the repository is bare.
    #[must_use]
    pub fn work_tree_root(&self) -> Option<&Path> {
        self.place.work_tree.as_deref()
    }

    /// The collections folder of the work tree; `None` when the repository is bare.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        self.place
            .work_tree
            .as_ref()
            .map(|root| self.place.folder.iter().fold(root.clone(), |at, part| at.join(part)))
    }

    /// The folder of `HEAD` and the index (`.git`, or that of a linked work tree).
    #[must_use]
    pub fn git_dir(&self) -> &Path {
        &self.place.git_dir
    }

    /// The folder of the refs and `packed-refs`; the same but in a linked work tree.
    #[must_use]
    pub fn common_dir(&self) -> &Path {
        &self.place.common_dir
    }

    /// What git writes when the branch moves or another one is checked out, and what it removes at the
    /// end of a merge, a rebase and the like.
    #[must_use]
    pub fn branch_files(&self) -> Vec<PathBuf> {
        let Place { git_dir, common_dir, .. } = &self.place;
        let mut files = vec![
            git_dir.join("HEAD"),
            git_dir.join("index"),
            common_dir.join("packed-refs"),
            common_dir.join(&self.branch),
        ];
        files.extend(status::HALF_DONE_SIGNS.iter().map(|(sign, _)| git_dir.join(sign)));
        files
    }

    /// What of the history is not here, and how to have it, in one sentence; `None` of a whole clone.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn incomplete(&self) -> Result<Option<&'static str>, StoreError> {
        self.place.incomplete()
    }

    /// The read side of the same branch, which need not read what this commits.
    #[must_use]
    pub fn archive(&self) -> GitArchive {
        let database = Arc::clone(self.objects.database());
        GitArchive::at(self.place.clone(), self.branch.clone(), database, Arc::clone(&self.fresh))
    }

    /// How many flushes to disk there have been.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.barrier.flushes()
    }

    /// The trees of a revision, from memory when they are the newest.
    pub(crate) fn trees(&mut self, revision: Option<Revision>) -> Result<&Trees, StoreError> {
        let revision = revision.map(|revision| *revision.as_bytes());
        if self.trees.as_ref().is_none_or(|trees| trees.revision != revision) {
            self.trees = None;
            self.trees = Some(Trees::load(&mut self.objects, &self.place, revision)?);
        }
        Ok(self.trees.as_ref().expect("loaded above"))
    }

    /// Whether the work tree shows the served branch, as far as can be told.
    pub(crate) fn is_shown(&self) -> bool {
        status::away(&self.place, &self.branch).is_ok_and(|away| away.is_none())
    }

    fn check_writable(&mut self) -> Result<(), StoreError> {
        match self.access {
            Access::Serve => self.keep_service_lock(),
            Access::Read | Access::Survey => Err(self.place.unsuitable("it was opened for reading only")),
        }
    }
}

impl Journal for GitJournal {
    fn head(&mut self) -> Result<Option<Revision>, StoreError> {
        Ok(branch::tip(&self.place, &self.branch)?.map(Revision::new))
    }

    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        // Nothing there is an empty folder; something else in its place is no folder at all.
        to.map_or(Ok(()), |to| check_folder(&mut self.objects, &self.place, to))?;
        diff::changes(&mut self.objects, &self.place, self.trees.as_ref(), [from, to])
    }

    fn read(&mut self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError> {
        diff::contents(&mut self.objects, &self.fresh, blobs, each)
    }

    fn copy_of(&mut self, name: &str, blob: BlobId) -> Result<Option<Vec<u8>>, StoreError> {
        let Found::Folder(folder) = Folder::collections(&self.place, false)? else { return Ok(None) };
        let content = folder.read(name)?.filter(|content| content.oid == *blob.as_bytes());
        Ok(content.map(|content| content.bytes))
    }

    fn append(&mut self, expected: Option<Revision>, drafts: &[Draft]) -> Result<Vec<Committed>, StoreError> {
        self.check_writable()?;
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        self.recover_locks()?;
        linked_worktrees::check_elsewhere(&self.place, &self.branch)?;
        // After a move that was not ours, the work tree may be behind, or the note may be.
        self.bring_forward(self.lock_wait)?;
        let index = self.lock_index(self.lock_wait)?;
        let found = self.head()?;
        if found != expected {
            return Err(StoreError::HeadMoved { expected, found });
        }
        self.forget_what_is_not_on_the_branch(found)?;
        if let Some(lock) = &index {
            self.check_work_tree()?;
            self.retry_behind(lock)?;
        }
        // Taken, so that trouble on the way leaves nothing stale behind.
        self.trees(expected)?;
        let trees = self.trees.take().expect("loaded above");
        let before = trees.revision;
        let mut group = append::build(&self.place, trees, drafts, &self.committer)?;
        self.stats.add_converted(&mut group.changes);
        // Made now, so that an index that can't be edited costs no pack.
        let next = index.as_ref().map(|_| self.index_ahead(&group.changes)).transpose()?;
        // Dropped on the way out, and the old index comes back.
        let (mut mark, mut ahead): (Option<Mark>, _) = (None, None);
        let published = self.publish(before, &group, drafts, |journal, made| {
            mark = Some(made);
            index.as_ref().map_or(Ok(()), HeldLock::check)?;
            ahead = next.as_ref().map(|next| journal.put_index_ahead(next, mark.take())).transpose()?;
            Ok(())
        });
        if published.is_err() && !self.has_come_to(&group) {
            return published.map(|()| Vec::new());
        }
        self.fresh.remember(std::mem::take(&mut group.steps));
        self.appended_at = Some(Instant::now());
        #[cfg(test)]
        self.stop_at(Fault::AfterTheBranch)?;
        match (index, next, ahead) {
            (Some(index), Some(next), Some(ahead)) if self.is_shown() => {
                let ahead = ahead.keep();
                self.is_index_ahead = true;
                self.bring_up(index, next, &group.changes, &group.tip());
                self.recent.note(&group.changes, group.trees.revision);
                drop(ahead);
                self.step_aside_if_need_be();
            }
            // HEAD has turned away: the old index comes back, before its lock is released.
            (index, _, ahead) => {
                drop(ahead);
                drop(index);
            }
        }
        self.fresh.keep(group.changes);
        published?;
        self.trees = Some(group.trees);
        Ok(group.committed)
    }

    fn work_tree(
        &mut self,
        head: Option<Revision>,
        look: Look<'_>,
        despite_locks: bool,
    ) -> Result<WorkTree, StoreError> {
        loop {
            self.trees(head)?;
            let trees = self.trees.as_ref().expect("loaded above");
            let (place, known) = (&self.place, (&mut self.stats, &mut self.open_writers));
            let mut seen = status::compare(place, &self.branch, known, trees.folder(), look, despite_locks)?;
            self.behind.forget_explained(&mut seen);
            if despite_locks {
                // Who holds the lock may be setting them back; if not, they are seen a moment later.
                self.recent.forget_replaced(&mut seen);
                return Ok(seen);
            }
            let is_mended = self.bring_back_forward(&seen)?;
            if !is_mended && !self.may_be_checkout(&seen)? {
                return Ok(seen);
            }
            if self.head()? != head {
                return Ok(WorkTree::Busy);
            }
            if !is_mended {
                // Git tells nobody what it is about to do.
                std::thread::sleep(checkout_in_progress::RETRY_WAIT);
            }
        }
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        match self.access {
            Access::Serve => {
                self.keep_service_lock()?;
                self.recover_locks()?;
                self.step_aside()?;
                self.bring_forward(Duration::ZERO)?;
                self.retry_if_behind()?;
                self.mend_index()
            }
            Access::Read | Access::Survey => Ok(()),
        }
    }

    fn make_durable(&mut self, head: Option<Revision>) -> Result<(), StoreError> {
        let head = head.map(|head| *head.as_bytes());
        if self.durable != Some(head) {
            self.barrier.file_system(&self.place.common_dir)?;
            self.durable = Some(head);
        }
        Ok(())
    }

    fn walk(
        &mut self,
        from: Revision,
        each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
    ) -> Result<(), StoreError> {
        walk::walk(&mut self.objects, &self.place, from, each)
    }

    fn log(&mut self, from: Revision, each: &mut dyn FnMut(&Commit) -> bool) -> Result<(), StoreError> {
        walk::log(&mut self.objects, &self.place, from, each)
    }

    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        walk::descends(&mut self.objects, &self.place, *descendant.as_bytes(), *ancestor.as_bytes())
    }

    fn left_behind(&mut self, old: Revision, new: Revision) -> Result<Vec<Revision>, StoreError> {
        let [old, new] = [*old.as_bytes(), *new.as_bytes()];
        let left = walk::left_behind(&mut self.objects, &self.place, old, new)?;
        Ok(left.into_iter().map(Revision::new).collect())
    }

    fn last_served(&mut self) -> Result<Option<Revision>, StoreError> {
        Ok(served::read(&self.place, &self.branch)?.map(Revision::new))
    }

    fn note_served(&mut self, head: Revision) {
        if self.access == Access::Serve {
            served::note(&self.place, &self.branch, head.as_bytes());
        }
    }

    fn keep(&mut self, revision: Revision, now: DateTime<Utc>) -> Result<Kept, StoreError> {
        self.check_writable()?;
        kept::keep(&self.place, Kept::new(revision, now), &self.barrier)
    }

    fn kept(&mut self, now: DateTime<Utc>) -> Result<Vec<Kept>, StoreError> {
        self.check_writable()?;
        kept::current(&self.place, now, &self.barrier)
    }

    fn saved_at(&self, name: &str) -> Option<DateTime<Utc>> {
        let file = self.folder()?.join(name);
        Some(file.symlink_metadata().ok()?.modified().ok()?.into())
    }

    fn person(&mut self) -> Actor {
        user_config::person(&self.place)
    }

    fn tend(&mut self) -> Result<(), StoreError> {
        self.check_writable()?;
        if self.is_work_tree_dirty
            && let Some(root) = &self.place.work_tree
            && let Some(noted) = self.note.read().filter(|noted| !noted.after_restart)
        {
            self.maintenance.flush(root, noted.revision);
            self.is_work_tree_dirty = false;
        }
        self.maintenance.mend();
        if self.maintain {
            let is_busy = self.appended_at.is_some_and(|at| at.elapsed() < WRITING_PAUSE_MAX);
            self.maintenance.tidy(!self.place.keeps_objects, is_busy);
        }
        self.forget_packs();
        Ok(())
    }
}

impl GitJournal {
    /// Waits until the maintenance that [`tend`](Journal::tend) has begun is done.
    pub fn finish_maintenance(&mut self) {
        self.maintenance.finish();
        self.forget_packs();
    }

    fn forget_packs(&mut self) {
        if self.maintenance.take_changed_packs() {
            self.objects.close();
        }
    }

    #[cfg(test)]
    pub(crate) fn stop_at(&mut self, fault: Fault) -> Result<(), StoreError> {
        if let Some(interlude) = &mut self.interlude {
            interlude();
        }
        if self.fault == Some(fault) {
            return Err(StoreError::at(
                "go on as",
                Path::new("a test"),
                std::io::Error::other("stopped on demand"),
            ));
        }
        Ok(())
    }
}
