//! The one reader of the journal's thread, with the trees of the newest revision that was looked at.

use std::mem;
use std::sync::Arc;

use crate::domain::Revision;
use crate::store::git::odb::objects::Objects;
use crate::store::git::read::archive::GitArchive;
use crate::store::git::read::diff;
use crate::store::git::read::recent_commits::RecentCommits;
use crate::store::git::read::trees::{self, Trees, check_folder};
use crate::store::git::read::walk;
use crate::store::git::repo::branch::Branch;
use crate::store::git::repo::layout::Layout;
use crate::store::{BlobId, Commit, Commits, EachContent, FileChange, StoreError};

pub(crate) struct Reader {
    pub(crate) layout: Arc<Layout>,
    pub(crate) objects: Objects,
    pub(crate) recent_commits: Arc<RecentCommits>,
    // Forgotten after trouble.
    trees: Option<Trees>,
}

impl Reader {
    pub(crate) fn new(layout: &Arc<Layout>) -> Self {
        Self {
            layout: Arc::clone(layout),
            objects: Objects::at(&layout.common_dir),
            recent_commits: Arc::default(),
            trees: None,
        }
    }

    /// The read side of a branch for other threads, which need not read what this journal commits.
    pub(crate) fn archive(&self, branch: &Branch) -> GitArchive {
        let (database, recent_commits) = (self.objects.database(), &self.recent_commits);
        GitArchive::of(branch.clone(), Arc::clone(database), Arc::clone(recent_commits))
    }

    /// Forgets what was read, for the repository has changed behind it.
    pub(crate) fn close(&mut self) {
        self.objects.close();
        self.trees = None;
    }

    /// The trees of a revision, from memory when they are the newest.
    pub(crate) fn trees(&mut self, revision: Option<Revision>) -> Result<&Trees, StoreError> {
        if self.trees.as_ref().is_none_or(|trees| trees.revision != revision) {
            self.trees = None;
            self.trees = Some(Trees::load(&mut self.objects, &self.layout, revision)?);
        }
        Ok(self.trees.as_ref().expect("loaded above"))
    }

    /// Takes the trees of a revision, for who changes them, and [keeps](Self::keep_trees) them when all went well.
    pub(crate) fn take_trees(&mut self, revision: Option<Revision>) -> Result<Trees, StoreError> {
        self.trees(revision)?;
        Ok(mem::take(&mut self.trees).expect("loaded above"))
    }

    /// Keeps the trees of what is the newest revision now.
    pub(crate) fn keep_trees(&mut self, trees: Trees) {
        self.trees = Some(trees);
    }
}

impl Commits for Reader {
    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        if self.trees.as_ref().is_some_and(|trees| trees.revision != from) {
            to.map_or(Ok(()), |to| check_folder(&mut self.objects, &self.layout, to))?;
            return diff::changes(&mut self.objects, &self.layout, [from, to]);
        }
        // A step on from the newest revision: what it leads to is looked at next.
        let old = self.take_trees(from)?;
        let new = self.trees(to)?;
        diff::compare(old.folder().bytes(), new.folder().bytes(), None)
    }

    fn read(&mut self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError> {
        diff::contents(&mut self.objects, &self.recent_commits, blobs, each)
    }

    fn walk(
        &mut self,
        from: Revision,
        each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
    ) -> Result<(), StoreError> {
        walk::walk(&mut self.objects, &self.layout, from, each)
    }

    fn log(&mut self, from: Revision, each: &mut dyn FnMut(&Commit) -> bool) -> Result<(), StoreError> {
        walk::log(&mut self.objects, &self.layout, from, each)
    }

    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        walk::descends(&mut self.objects, &self.layout, descendant, ancestor)
    }

    fn commits_beyond(&mut self, old: Revision, new: Revision) -> Result<Vec<Revision>, StoreError> {
        walk::commits_beyond(&mut self.objects, &self.layout, old, new)
    }

    fn object_at(&mut self, revision: Revision, path: &str) -> Result<Option<BlobId>, StoreError> {
        trees::object_at(&mut self.objects, revision, path)
    }
}
