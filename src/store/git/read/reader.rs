//! The reader of what is committed. It caches the trees of the newest revision it has read.
//!
//! The journal's thread keeps one reader; the archive makes one for each query.

use std::mem;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::domain::Revision;
use crate::store::git::odb::objects::Objects;
use crate::store::git::odb::parallel::run_parallel;
use crate::store::git::read::recent_commits::RecentCommits;
use crate::store::git::read::trees::{Trees, folders, levels};
use crate::store::git::read::walk::{
    FolderFinder, Search, Walker, compare, shallow_boundary, walk_first_parents,
};
use crate::store::git::repo::layout::Layout;
use crate::store::{BlobId, Commit, CommitChanges, Commits, EachContent, FileChange, StoreError, TreeId};

pub(crate) struct Reader {
    pub(crate) layout: Arc<Layout>,
    pub(crate) objects: Objects,
    pub(crate) recent_commits: Arc<RecentCommits>,
    // Dropped after an error.
    trees: Option<Trees>,
}

impl Reader {
    pub(crate) fn new(layout: &Arc<Layout>) -> Self {
        Self::of(layout, Objects::at(&layout.common_dir), Arc::default())
    }

    pub(super) fn of(layout: &Arc<Layout>, objects: Objects, recent_commits: Arc<RecentCommits>) -> Self {
        Self { layout: Arc::clone(layout), objects, recent_commits, trees: None }
    }

    /// Drops all caches, because the repository has changed behind them.
    pub(crate) fn clear_caches(&mut self) {
        self.objects.clear_caches();
        self.trees = None;
    }

    /// Returns the trees of a revision, from the cache if it is the newest.
    pub(crate) fn trees(&mut self, revision: Option<Revision>) -> Result<&Trees, StoreError> {
        if self.trees.as_ref().is_none_or(|trees| trees.revision != revision) {
            self.trees = None;
            self.trees = Some(self.load_trees(revision)?);
        }
        Ok(self.trees.as_ref().expect("loaded above"))
    }

    /// Takes the trees of a revision out of the cache; on success, [`keep_trees`](Self::keep_trees) puts them back.
    pub(crate) fn take_trees(&mut self, revision: Option<Revision>) -> Result<Trees, StoreError> {
        self.trees(revision)?;
        Ok(mem::take(&mut self.trees).expect("loaded above"))
    }

    pub(crate) fn keep_trees(&mut self, trees: Trees) {
        self.trees = Some(trees);
    }

    /// Reads the trees of a revision; missing folders are empty trees.
    ///
    /// # Errors
    ///
    /// Refuses a revision that has something other than a folder on the path to the collections.
    pub(crate) fn load_trees(&mut self, revision: Option<Revision>) -> Result<Trees, StoreError> {
        let Some(revision) = revision else { return Ok(Trees::empty(&self.layout)) };
        let root = self.objects.commit(revision, |commit| commit.tree)?;
        self.load_trees_below(revision, root)
    }

    /// Reads the trees below a root for a commit on top of this revision; the root need not be that of the revision.
    pub(crate) fn load_trees_below(&mut self, revision: Revision, root: TreeId) -> Result<Trees, StoreError> {
        let mut trees = Trees { revision: Some(revision), ..Trees::empty(&self.layout) };
        let levels = folders(&mut self.objects, &self.layout, revision, root)?;
        for (tree, level) in trees.levels.iter_mut().zip(levels) {
            *tree = self.objects.tree(TreeId::new(level.oid))?;
        }
        Ok(trees)
    }

    /// Refuses a revision that has something other than a folder on the path to the collections.
    pub(crate) fn check_folder(&mut self, revision: Revision) -> Result<(), StoreError> {
        let root = self.objects.commit(revision, |commit| commit.tree)?;
        folders(&mut self.objects, &self.layout, revision, root).map(drop)
    }

    /// Returns what differs in the collections folder between two revisions.
    pub(crate) fn differences(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        let mut folder = FolderFinder::new(&mut self.objects, &self.layout.folder);
        let mut side = |revision: Option<Revision>| revision.map_or(Ok(None), |revision| folder.at(revision));
        let (before, after) = (side(from)?, side(to)?);
        if before == after {
            return Ok(Vec::new());
        }
        compare(&folder.bytes(before)?, &folder.bytes(after)?, after)
    }

    /// Like [`descends`](Commits::descends), for a caller that a wrong "no" would let do harm: a commit that can't be
    /// read may have any ancestor, and one that is missing may be an ancestor.
    ///
    /// # Errors
    ///
    /// Fails if the ancestor was not found, and a commit that may lead to it can't be read.
    pub(crate) fn descends_for_certain(
        &mut self,
        descendant: Revision,
        ancestor: Revision,
    ) -> Result<bool, StoreError> {
        match self.search_ancestor(descendant, ancestor)? {
            (false, Some(unread)) => self.objects.commit(unread, |_| false),
            (is_found, _) => Ok(is_found),
        }
    }

    /// Returns whether the descendant reaches the ancestor, and a commit above the ancestor that can't be read.
    fn search_ancestor(
        &mut self,
        descendant: Revision,
        ancestor: Revision,
    ) -> Result<(bool, Option<Revision>), StoreError> {
        let mut search = Search::begin(&mut self.objects, &self.layout, Some(ancestor), descendant)?;
        while !search.reached_by_descendant.contains(&ancestor) && search.next()?.is_some() {}
        Ok((search.reached_by_descendant.contains(&ancestor), search.unread))
    }

    /// Returns at most `len_max` of the commits that `new` reaches and `old` does not, newest first.
    pub(crate) fn between(
        &mut self,
        old: Option<Revision>,
        new: Revision,
        len_max: usize,
    ) -> Result<Vec<Revision>, StoreError> {
        let mut search = Search::begin(&mut self.objects, &self.layout, old, new)?;
        let mut found = Vec::new();
        while found.len() < len_max
            && let Some(revision) = search.next()?
        {
            found.push(revision);
        }
        Ok(found)
    }
}

impl Commits for Reader {
    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        if self.trees.as_ref().is_some_and(|trees| trees.revision != from) {
            to.map_or(Ok(()), |to| self.check_folder(to))?;
            return self.differences(from, to);
        }
        // A step forward from the newest revision: its result is looked at next, so it is cached.
        let old = self.take_trees(from)?;
        let new = self.trees(to)?;
        compare(old.folder().bytes(), new.folder().bytes(), None)
    }

    fn contents(&mut self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError> {
        let (places, others) = self.recent_commits.contents(blobs, each);
        run_parallel(&mut self.objects, others.len(), &|objects, range| {
            for index in range {
                match objects.content(others[index]) {
                    Ok(content) => each(places[index], Ok(&content)),
                    Err(error) => each(places[index], Err(error)),
                }
            }
            Ok(())
        })
    }

    fn walk(
        &mut self,
        from: Revision,
        each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
    ) -> Result<(), StoreError> {
        let cut = shallow_boundary(&self.layout)?;
        let mut walker = Walker::new(&mut self.objects, &self.layout.folder, &cut);
        walk_first_parents(&cut, from, |revision| {
            let CommitChanges { commit, changes, .. } = walker.commit_changes(revision)?;
            Ok(if each(&commit, &changes) { commit.parents.first().copied() } else { None })
        })
    }

    fn log(&mut self, from: Revision, each: &mut dyn FnMut(&Commit) -> bool) -> Result<(), StoreError> {
        walk_first_parents(&shallow_boundary(&self.layout)?, from, |revision| {
            let commit = self.objects.commit(revision, |commit| commit.to_commit(revision))?;
            Ok(if each(&commit) { commit.parents.first().copied() } else { None })
        })
    }

    /// A commit that does not exist (any more) reaches nothing and is not reached.
    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        if descendant == ancestor {
            return Ok(true);
        }
        if !self.objects.has(descendant.as_bytes())? || !self.objects.has(ancestor.as_bytes())? {
            return Ok(false);
        }
        Ok(self.search_ancestor(descendant, ancestor)?.0)
    }

    fn commits_beyond(&mut self, old: Revision, new: Revision) -> Result<Vec<Revision>, StoreError> {
        if !self.objects.has(old.as_bytes())? {
            return Ok(Vec::new());
        }
        let mut search = Search::begin(&mut self.objects, &self.layout, Some(new), old)?;
        let (mut found, mut oldest) = (Vec::new(), DateTime::<Utc>::MAX_UTC);
        while let Some(revision) = search.next()? {
            oldest = oldest.min(search.links(revision)?.0);
            found.push(revision);
        }
        // Commits of the same second come in any order, so the other side is followed back as far as this one.
        search.follow_ancestor(oldest)?;
        found.retain(|revision| !search.reached_by_ancestor.contains(revision));
        Ok(found)
    }

    fn object_at(&mut self, revision: Revision, path: &str) -> Result<Option<BlobId>, StoreError> {
        let root = self.objects.commit(revision, |commit| commit.tree)?;
        let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        let levels = levels(&mut self.objects, root, &parts)?;
        Ok(levels.get(parts.len()).map(|found| found.blob()))
    }
}
