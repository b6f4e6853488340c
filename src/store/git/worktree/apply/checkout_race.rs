//! Takes back a write that raced with a checkout of another branch.
//!
//! `git checkout other` writes files and index, releases `index.lock`, and only then makes `HEAD` name the other
//! branch (`switch_branches` in git's `builtin/checkout.c`). A write in between still finds the served branch checked
//! out, and puts its files and entries among those of the other branch: the person's next commit there would include
//! them. None of git's locks prevents that, so we look afterwards: if `HEAD` names something else and the index is
//! still the very file that we left, nothing was checked out since, and what we wrote goes back to what `HEAD` has.

use std::collections::BTreeSet;

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::index::git_index::GitIndex;
use crate::store::git::object::path_change::{PathChange, PathChanges};
use crate::store::git::odb::objects::Objects;
use crate::store::git::read::reader::Reader;
use crate::store::git::read::trees::Trees;
use crate::store::git::repo::refs::GitHead;
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::apply::update::{UpdateReason, apply_one, is_up_to_date};
use crate::store::git::worktree::replace::swap::Replacer;

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
        self.index.commit(lock, &index)
    }

    /// Calls [`undo_race`](Self::undo_race) after a write, whose answer does not depend on the result.
    pub(crate) fn undo_race_if_any(&mut self, reader: &mut Reader) {
        if let Err(error) = self.undo_race(reader) {
            tracing::debug!(%error, "cannot tell yet whether another branch was checked out meanwhile");
        }
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
                let (before, after) = (change.after, there);
                returns
                    .insert(name, PathChange { before, intermediate_blobs: BTreeSet::new(), after, content });
            }
        }
        Ok(returns)
    }
}
