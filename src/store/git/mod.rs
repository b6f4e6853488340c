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
//! * What [`append`](Journal::append) has answered is on disk; see `barrier` for what that means.
//! * The branch moves only by compare-and-set, under git's own locks.
//! * No byte that a person saved or staged is overwritten; see `worktree`.
//! * Nothing runs that the repository names, and no configuration but the repository's own has a
//!   say in what is written; `personal` reads the user's to know who commits by hand. We parse the
//!   few files that matter and use libgit2 for nothing but reading objects and configuration.
//! * Nothing stays broken: what is cached is checked against the disk, and forgotten after trouble.
//!
//! What is not here: YAML, collections, JSON:API.

mod ahead;
mod append;
mod archive;
mod aside;
mod barrier;
mod behind;
mod branch;
mod cached_tree;
mod checkpoints;
mod choice;
mod chores;
mod closer;
mod converted;
mod damage;
mod delta;
mod drafter;
mod drafts;
mod drawers;
mod elsewhere;
mod encoding;
mod figures;
mod flushers;
mod folder;
mod forward;
mod fresh;
mod graph;
mod head;
mod helper;
mod history;
mod index;
mod index_file;
mod init;
mod listing;
mod lock;
mod look;
mod loose;
mod marks;
mod merging;
mod names;
mod note;
mod object;
mod objects;
mod open;
mod pack;
mod packs;
mod parts;
pub mod peek;
mod pens;
mod personal;
mod place;
mod publish;
mod read;
mod refs;
mod repack;
mod sign;
mod stale;
mod stat_cache;
mod swap;
#[cfg(test)]
mod tests;
mod tree;
mod trees;
mod turning;
mod upkeep;
mod worktree;
mod written;
mod zlib;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use archive::GitArchive;
#[cfg(test)]
pub(crate) use archive::testing;
use barrier::Barrier;
use behind::Behind;
use checkpoints::IndexHash;
use drafter::Drafter;
use folder::{Folder, Found};
use fresh::Fresh;
use lock::HeldLock;
use note::Note;
use objects::Objects;
use packs::Packs;
use pens::Pens;
use place::Place;
use sign::Committer;
use stale::Recent;
use stat_cache::StatCache;
use trees::Trees;
use upkeep::Upkeep;

pub use open::{Access, Options};
pub use personal::{SignatureFiles, hooks_folder, signature_files};
pub use sign::{SigningKey, SigningKeyError, Unfit};

use super::{Commit, Committed, Draft, EachContent, FileChange, Journal, Look, StoreError, WorkTree};
use crate::domain::{Actor, Revision};
use crate::store::BlobId;

/// Within this time of a group the next one is about to come.
const WRITING_PAUSE_MAX: Duration = Duration::from_millis(50);

/// A git repository, for the engine.
pub struct GitJournal {
    place: Place,
    branch: String,
    committer: Committer,
    lock_wait: Duration,
    access: Access,
    barrier: Barrier,
    objects: Objects,
    packs: Arc<Packs>,
    upkeep: Upkeep,
    maintain: bool,
    // The trees of the newest revision that was looked at; forgotten after trouble.
    trees: Option<Trees>,
    fresh: Arc<Fresh>,
    stats: StatCache,
    // Who is writing to the files; nobody asks when only reading.
    pens: Option<Pens>,
    drafter: Drafter,
    note: Arc<Note>,
    recent: Recent,
    index_hash: IndexHash,
    // Whether the index has what the files do not have yet.
    is_index_ahead: bool,
    // Files that could not be brought up to the branch.
    behind: Behind,
    // The revision up to which everything is on disk; `None` as long as that is not known.
    durable: Option<Option<object::Oid>>,
    // When the last group was made visible.
    appended_at: Option<Instant>,
    // Whether files of the work tree were written since they were last flushed.
    is_work_tree_dirty: bool,
    // For how long a fresh index may be half of a checkout.
    turn_max: Duration,
    #[cfg(test)]
    fault: Option<tests::Fault>,
    #[cfg(test)]
    interlude: Option<Box<dyn FnMut() + Send>>,
    // Held as long as we live.
    _service_lock: Option<open::ServiceLock>,
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
        files.extend(look::HALF_DONE_SIGNS.iter().map(|(sign, _)| git_dir.join(sign)));
        files
    }

    /// The read side of the same branch, which need not read what this commits.
    #[must_use]
    pub fn archive(&self) -> GitArchive {
        GitArchive::at(self.place.clone(), self.branch.clone(), Arc::clone(&self.fresh))
    }

    /// How many flushes to disk there have been.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.barrier.flushes()
    }

    /// The trees of a revision, from memory when they are the newest.
    fn trees(&mut self, revision: Option<Revision>) -> Result<&Trees, StoreError> {
        let revision = revision.map(|revision| *revision.as_bytes());
        if self.trees.as_ref().is_none_or(|trees| trees.revision != revision) {
            self.trees = None;
            self.trees = Some(Trees::load(&mut self.objects, &self.place, revision)?);
        }
        Ok(self.trees.as_ref().expect("loaded above"))
    }

    /// Whether the work tree shows the served branch, as far as can be told.
    fn is_shown(&self) -> bool {
        look::away(&self.place, &self.branch).is_ok_and(|away| away.is_none())
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        match self.access {
            Access::Serve => Ok(()),
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
        read::changes(&mut self.objects, &self.place, self.trees.as_ref(), [from, to])
    }

    fn read(&mut self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError> {
        let (places, others) = self.fresh.contents(blobs, each);
        read::contents(&mut self.objects, &others, &|index, content| each(places[index], content));
        Ok(())
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
        elsewhere::check_elsewhere(&self.place, &self.branch)?;
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
        let made = index.as_ref().and_then(|_| self.drafter.begin(&self.place, drafts));
        // Taken, so that trouble on the way leaves nothing stale behind.
        self.trees(expected)?;
        let trees = self.trees.take().expect("loaded above");
        let before = trees.revision;
        let mut group = append::build(&self.place, trees, drafts, &self.committer)?;
        self.stats.add_converted(&mut group.changes);
        // Made now, so that an index that can't be edited costs no pack.
        let next = index.as_ref().map(|_| self.index_ahead(&group)).transpose()?;
        // Dropped on the way out, and the old index comes back.
        let (written, mut ahead) = (Cell::new(None), None);
        let meanwhile = next.as_ref().map(|next| {
            |journal: &mut Self| written.set(Some(journal.write_index_ahead(next, made.as_ref())))
        });
        let published = self.publish(before, &group, drafts, meanwhile, |journal| {
            index.as_ref().map_or(Ok(()), HeldLock::check)?;
            let written = written.take().transpose()?;
            ahead = written.map(|draft| journal.put_index_ahead(draft, &group)).transpose()?;
            Ok(())
        });
        if published.is_err() && !self.has_come_to(&group) {
            return published.map(|()| Vec::new());
        }
        self.fresh.remember(std::mem::take(&mut group.steps));
        self.appended_at = Some(Instant::now());
        #[cfg(test)]
        self.stop_at(tests::Fault::AfterTheBranch)?;
        match (index, next, ahead) {
            (Some(index), Some(next), Some(ahead)) if self.is_shown() => {
                let ahead = ahead.keep();
                self.is_index_ahead = true;
                self.bring_up(index, next, made, &group);
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
        self.trees(head)?;
        loop {
            let trees = self.trees.as_ref().expect("loaded above");
            let (place, known) = (&self.place, (&mut self.stats, &mut self.pens));
            let mut seen = look::compare(place, &self.branch, known, trees.folder(), look, despite_locks)?;
            self.behind.forget_explained(&mut seen);
            if despite_locks || !turning::may_be_turning(place, &seen, self.turn_max)? {
                return Ok(seen);
            }
            if self.head()? != head {
                return Ok(WorkTree::Busy);
            }
            // Git tells nobody what it is about to do.
            std::thread::sleep(turning::RETRY_WAIT);
        }
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        match self.access {
            Access::Serve => {
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
        history::walk(&mut self.objects, &self.place, from, each)
    }

    fn log(&mut self, from: Revision, each: &mut dyn FnMut(&Commit) -> bool) -> Result<(), StoreError> {
        history::log(&mut self.objects, &self.place, from, each)
    }

    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        history::descends(&mut self.objects, &self.place, *descendant.as_bytes(), *ancestor.as_bytes())
    }

    fn person(&mut self) -> Actor {
        personal::person(&self.place)
    }

    fn tend(&mut self) -> Result<(), StoreError> {
        self.check_writable()?;
        if self.is_work_tree_dirty
            && let Some(root) = &self.place.work_tree
            && let Some(noted) = self.note.read().filter(|noted| !noted.after_restart)
        {
            self.upkeep.flush(root, noted.revision);
            self.is_work_tree_dirty = false;
        }
        if self.maintain {
            let is_busy = self.appended_at.is_some_and(|at| at.elapsed() < WRITING_PAUSE_MAX);
            self.upkeep.tidy(!self.place.keeps_objects, is_busy);
        }
        self.forget_removed_packs();
        Ok(())
    }
}

impl GitJournal {
    /// Waits until the housekeeping that [`tend`](Journal::tend) has begun is done.
    pub fn finish_upkeep(&mut self) {
        self.upkeep.finish();
        self.forget_removed_packs();
    }

    fn forget_removed_packs(&mut self) {
        if self.upkeep.take_removed() {
            self.objects.close();
        }
    }

    #[cfg(test)]
    fn stop_at(&mut self, fault: tests::Fault) -> Result<(), StoreError> {
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
