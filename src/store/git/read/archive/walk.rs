//! Walking from commit to commit and into the folder.

use std::collections::HashSet;

use git2::{ObjectType, Odb, OdbObject};

use super::commit::RawCommit;
use super::handles::{needed, not_a_commit};
use super::tree;
use crate::domain::Revision;
use crate::store::{FileChange, Step, StoreError};

/// Follows the folder from commit to commit, and remembers where the last one led: neighbours
/// mostly share it.
pub(super) struct Folder<'a> {
    odb: &'a Odb<'static>,
    parts: &'a [String],
    last: Option<(Revision, Option<[u8; 20]>)>,
}

impl<'a> Folder<'a> {
    /// Follows the folder with these parts of its path.
    pub(super) const fn new(odb: &'a Odb<'static>, parts: &'a [String]) -> Self {
        Self { odb, parts, last: None }
    }

    /// The id of the folder's tree below a root tree.
    fn below(&mut self, root: Revision) -> Result<Option<[u8; 20]>, StoreError> {
        if let Some((_, id)) = self.last.filter(|(known, _)| *known == root) {
            return Ok(id);
        }
        let mut id = Some(*root.as_bytes());
        for part in self.parts {
            let Some(tree) = id else { break };
            id = tree::folder(needed(self.odb, &tree, ObjectType::Tree)?.data(), part);
        }
        self.last = Some((root, id));
        Ok(id)
    }

    pub(super) fn at(&mut self, revision: Revision) -> Result<Option<[u8; 20]>, StoreError> {
        let object = needed(self.odb, revision.as_bytes(), ObjectType::Commit)?;
        let commit = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(revision))?;
        self.below(commit.tree)
    }

    /// A tree as it is stored; none for no tree.
    pub(super) fn tree(&self, id: Option<[u8; 20]>) -> Result<Option<OdbObject<'a>>, StoreError> {
        id.map(|id| needed(self.odb, &id, ObjectType::Tree)).transpose()
    }
}

/// The raw bytes of a tree; none where there is none.
pub(super) fn bytes<'o>(tree: &'o Option<OdbObject<'_>>) -> &'o [u8] {
    tree.as_ref().map_or(&[], |tree| tree.data())
}

/// Reads steps one after the other; those of neighbours, newest first, share what they read.
/// Objects are kept as libgit2 hands them out: copying each tree costs a tenth of a walk.
pub(super) struct Walker<'a> {
    folder: Folder<'a>,
    /// The commits whose parents a shallow clone does not have.
    cut: &'a HashSet<[u8; 20]>,
    /// The parent of the step before, which is mostly the next to be asked for.
    parent: Option<(Revision, OdbObject<'a>)>,
    /// The folder's tree of that parent, if it was read.
    tree: Option<([u8; 20], OdbObject<'a>)>,
}

impl<'a> Walker<'a> {
    pub(super) const fn new(folder: Folder<'a>, cut: &'a HashSet<[u8; 20]>) -> Self {
        Self { folder, cut, parent: None, tree: None }
    }

    fn commit(&mut self, revision: Revision) -> Result<OdbObject<'a>, StoreError> {
        match self.parent.take() {
            Some((known, commit)) if known == revision => Ok(commit),
            _ => needed(self.folder.odb, revision.as_bytes(), ObjectType::Commit),
        }
    }

    pub(super) fn step(&mut self, revision: Revision) -> Result<Step, StoreError> {
        let object = self.commit(revision)?;
        let commit = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(revision))?;
        if let Some(parent) = commit.parents.first().filter(|_| !self.cut.contains(revision.as_bytes())) {
            let object = self.commit(*parent)?;
            let root = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(*parent))?.tree;
            self.parent = Some((*parent, object));
            // The newer root first: the one of the parent is what the next step asks for.
            let after = self.folder.below(commit.tree)?;
            let before = self.folder.below(root)?;
            return Ok(Step { commit: commit.told(revision), changes: self.changes(before, after)? });
        }
        let after = self.folder.below(commit.tree)?;
        Ok(Step { commit: commit.told(revision), changes: self.changes(None, after)? })
    }

    fn changes(
        &mut self,
        before: Option<[u8; 20]>,
        after: Option<[u8; 20]>,
    ) -> Result<Vec<FileChange>, StoreError> {
        if before == after {
            return Ok(Vec::new());
        }
        let new = match (self.tree.take(), after) {
            (Some((known, tree)), Some(id)) if known == id => Some(tree),
            _ => self.folder.tree(after)?,
        };
        let old = self.folder.tree(before)?;
        let changes = tree::differences(bytes(&old), bytes(&new));
        self.tree = before.zip(old);
        Ok(changes)
    }
}

/// The first parent of a commit.
pub(super) fn first_parent(odb: &Odb<'_>, revision: Revision) -> Result<Option<Revision>, StoreError> {
    let object = needed(odb, revision.as_bytes(), ObjectType::Commit)?;
    let commit = RawCommit::parse(object.data()).ok_or_else(|| not_a_commit(revision))?;
    Ok(commit.parents.first().copied())
}
