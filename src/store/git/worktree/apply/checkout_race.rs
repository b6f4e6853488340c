//! A write that raced with a checkout of another branch, taken back out of the work tree.
//!
//! `git checkout other` writes files and index, releases `index.lock`, and only then makes `HEAD`
//! name the other branch (`switch_branches` in git's `builtin/checkout.c`). A write that comes in
//! between still finds the served branch checked out, and puts its files and entries where the other
//! branch's are by now: the person's next commit there would take them along. No lock that git takes
//! could tell, so we look afterwards: if `HEAD` names something else and the index is still the very
//! file that we left, nobody has checked anything out since, and what we put there goes back to what
//! `HEAD` has.

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::disk::stamp::index_stat;
use crate::store::git::index::git_index::GitIndex;
use crate::store::git::object::path_change::PathChange;
use crate::store::git::object::tree::Pointer;
use crate::store::git::odb::objects::Objects;
use crate::store::git::read::reader::Reader;
use crate::store::git::read::trees::Trees;
use crate::store::git::repo::refs::GitHead;
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::apply::update::is_after;
use crate::store::git::worktree::replace::staging::NewFile;
use crate::store::git::worktree::replace::swap::Replacer;
use crate::store::git::worktree::scan::folder::{Folder, FoundFolder};

/// What goes back: a name, what we made of it, and what `HEAD` has there.
type Return = (String, PathChange, Option<Pointer>);

impl Checkout {
    /// Takes recent writes out of the work tree if `HEAD` turned away while they were made. A lock
    /// that somebody holds is no trouble: whoever writes the index knows what `HEAD` has.
    pub(crate) fn undo_race(&mut self, reader: &mut Reader) -> Result<(), StoreError> {
        if self.recent.is_empty() || !self.index.is_as_we_left_it() {
            return Ok(());
        }
        let Some(shown) = self.shown_instead()? else { return Ok(()) };
        let Some(lock) = self.index.try_lock()? else { return Ok(()) };
        if !self.index.is_as_we_left_it() || self.shown_instead()? != Some(shown) {
            return Ok(());
        }
        // What has no such folder has no place for what we wrote.
        let Ok(trees) = reader.load_trees(Some(shown)) else { return Ok(()) };
        let Some(mut index) = self.index.read()? else { return Ok(()) };
        let returns = self.returns(&index, &trees);
        if returns.is_empty() {
            return Ok(());
        }
        tracing::info!("another branch was checked out during a write; its work tree is as it was");
        for (name, change, there) in &returns {
            self.put_back(&mut reader.objects, &mut index, name, change, *there)?;
        }
        self.index.leave(lock, &index)
    }

    /// Calls [`undo_race`](Self::undo_race) after a write, whose answer does not hang on it.
    pub(crate) fn undo_race_if_any(&mut self, reader: &mut Reader) {
        if let Err(error) = self.undo_race(reader) {
            tracing::debug!(%error, "cannot tell yet whether another branch was checked out meanwhile");
        }
    }

    /// The commit that is checked out when it is not the served branch.
    fn shown_instead(&self) -> Result<Option<Revision>, StoreError> {
        match self.layout.head()? {
            GitHead::Ref(name) if name == self.branch.name => Ok(None),
            GitHead::Ref(_) | GitHead::Detached(_) => self.layout.head_commit(),
        }
    }

    fn returns(&self, index: &GitIndex, trees: &Trees) -> Vec<Return> {
        let mut recent = self.recent.get();
        recent.retain(|name, change| is_after(&index.get(&self.layout.inside(name)), change));
        let there = recent.into_iter().map(|(name, change)| {
            let there = trees.folder().get(name.as_bytes());
            (name, change, there)
        });
        let is_ours = |change: &PathChange, there: Option<Pointer>| {
            there.is_none_or(|there| there.is_file())
                && there.map(|it| it.oid) != change.after.map(|it| it.oid)
        };
        there.filter(|(_, change, there)| is_ours(change, *there)).collect()
    }

    /// Puts back a file that is still what we made of it, and its entry.
    fn put_back(
        &self,
        objects: &mut Objects,
        index: &mut GitIndex,
        name: &str,
        change: &PathChange,
        there: Option<Pointer>,
    ) -> Result<(), StoreError> {
        let content = there.map(|pointer| objects.blob(pointer.blob())).transpose()?;
        let new = NewFile::of(there, content.as_deref());
        let path = self.layout.inside(name);
        let mut stat = None;
        if let FoundFolder::Folder(folder) = Folder::collections(&self.layout, there.is_some())? {
            let replacer = Replacer::new(&self.layout, &folder)?;
            if replacer.change(name, &[change.after.map(|after| after.blob())], new)? {
                stat = folder.stat(name)?.as_ref().map(index_stat);
            }
        }
        index.put(&path, there, stat.unwrap_or_default());
        Ok(())
    }
}
