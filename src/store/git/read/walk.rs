//! Walks the history: commits along first parents, what each changed, and which commit descends from which.
//!
//! A damaged commit or tree does not end the history. The changes of a commit are then computed against the next older
//! version that can be read, and the history ends, as if cut off, at a commit that can't be read.

use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::domain::Revision;
use crate::domain::file_name::is_collection_file;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::object::id::{ObjectKind, unhex};
use crate::store::git::object::tree::differences;
use crate::store::git::odb::objects::{Objects, corrupt};
use crate::store::git::read::trees::levels;
use crate::store::git::repo::layout::Layout;
use crate::store::{Commit, CommitChanges, FileChange, StoreError, TreeId};

/// The bytes of a tree; empty if there is no folder.
pub(super) type Bytes = Arc<Vec<u8>>;

/// Calls `read` for `from` and then for each commit that it returns, until it returns none or the history is cut off
/// or can't be read.
pub(crate) fn walk_first_parents(
    cut: &HashSet<Revision>,
    from: Revision,
    mut read: impl FnMut(Revision) -> Result<Option<Revision>, StoreError>,
) -> Result<(), StoreError> {
    let mut next = Some(from);
    while let Some(revision) = next {
        next = match read(revision) {
            Err(StoreError::Damaged { .. }) if revision != from => None,
            parent => parent?.filter(|_| !cut.contains(&revision)),
        };
    }
    Ok(())
}

/// Finds the folder's tree in commit after commit. Remembers the last result, because neighbours usually share it.
pub(super) struct FolderFinder<'a> {
    pub(super) objects: &'a mut Objects,
    parts: &'a [String],
    last: Option<(TreeId, Option<TreeId>)>,
}

impl<'a> FolderFinder<'a> {
    pub(super) const fn new(objects: &'a mut Objects, parts: &'a [String]) -> Self {
        Self { objects, parts, last: None }
    }

    /// Returns the folder's tree below a root tree; `None` if there is none or it is not a folder.
    pub(super) fn below(&mut self, root: TreeId) -> Result<Option<TreeId>, StoreError> {
        if let Some((_, id)) = self.last.filter(|(known, _)| *known == root) {
            return Ok(id);
        }
        let levels = levels(self.objects, root, self.parts)?;
        let id = levels.get(self.parts.len()).filter(|it| it.is_folder()).map(|it| TreeId::new(it.oid));
        self.last = Some((root, id));
        Ok(id)
    }

    pub(super) fn at(&mut self, revision: Revision) -> Result<Option<TreeId>, StoreError> {
        let root = self.objects.commit(revision, |commit| commit.tree)?;
        self.below(root)
    }

    pub(super) fn bytes(&mut self, id: Option<TreeId>) -> Result<Bytes, StoreError> {
        id.map_or_else(|| Ok(Bytes::default()), |id| self.objects.raw_tree(id))
    }
}

/// Compares the raw trees of two versions of the folder.
pub(super) fn compare(old: &[u8], new: &[u8], after: Option<TreeId>) -> Result<Vec<FileChange>, StoreError> {
    let found = differences(old, new).map_err(|error| {
        corrupt(ObjectKind::Tree, after.as_ref().map_or(&[0; 20], TreeId::as_bytes), error.to_string())
    })?;
    let files = found.into_iter().filter_map(|(name, before, after)| {
        let name = String::from_utf8_lossy(&name).into_owned();
        let [before, after] = [before, after].map(|pointer| pointer.map(|pointer| pointer.tree_entry()));
        // A change of the executable bit alone is not a change.
        (is_collection_file(&name) && before != after).then_some(FileChange { name, before, after })
    });
    Ok(files.collect())
}

struct ReadCommit {
    commit: Commit,
    root: TreeId,
    flaw: Option<&'static str>,
}

/// Reads commits with their changes one after the other; neighbours, newest first, share what is read.
pub(super) struct Walker<'a> {
    folder: FolderFinder<'a>,
    /// The commits whose parents a shallow clone lacks.
    cut: &'a HashSet<Revision>,
    /// The parent of the previous step, which is usually requested next.
    parent: Option<ReadCommit>,
    /// The folder's tree of that parent, if it was read.
    tree: Option<(TreeId, Bytes)>,
}

impl<'a> Walker<'a> {
    pub(super) const fn new(
        objects: &'a mut Objects,
        parts: &'a [String],
        cut: &'a HashSet<Revision>,
    ) -> Self {
        Self { folder: FolderFinder::new(objects, parts), cut, parent: None, tree: None }
    }

    /// Returns a commit and what it changed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] when the commit itself can't be read.
    pub(super) fn commit_changes(&mut self, revision: Revision) -> Result<CommitChanges, StoreError> {
        let ReadCommit { commit, root, flaw } = match self.parent.take() {
            Some(read) if read.commit.revision == revision => read,
            _ => self.read_commit(revision)?,
        };
        let mut problem = flaw.map(|flaw| format!("the commit {revision} is damaged ({flaw})"));
        // The newer tree is read first: the older one is needed in the next step.
        let (after, new) = match self.version(root) {
            Ok(version) => version,
            Err(error) => {
                return Ok(CommitChanges { commit, changes: Vec::new(), problem: Some(damage(error)?) });
            }
        };
        let (before, old) = self.before(&commit, &mut problem)?;
        self.tree = before.map(|id| (id, Arc::clone(&old)));
        let compared = if before == after { Ok(Vec::new()) } else { compare(&old, &new, after) };
        let changes = match compared {
            Ok(changes) => changes,
            Err(error) => {
                problem.get_or_insert(damage(error)?);
                Vec::new()
            }
        };
        Ok(CommitChanges { commit, changes, problem })
    }

    /// Returns what to compare a commit with: its first parent or, if that can't be read, the nearest ancestor that
    /// can, which `problem` then mentions.
    fn before(
        &mut self,
        commit: &Commit,
        problem: &mut Option<String>,
    ) -> Result<(Option<TreeId>, Bytes), StoreError> {
        let mut child = commit.revision;
        let mut next = commit.parents.first().copied();
        while let Some(revision) = next.filter(|_| !self.cut.contains(&child)) {
            let read = match self.read_commit(revision) {
                Ok(read) => read,
                Err(error) => {
                    problem.get_or_insert(damage(error)?);
                    break;
                }
            };
            let (root, parent) = (read.root, read.commit.parents.first().copied());
            if child == commit.revision {
                self.parent = Some(read);
            }
            match self.version(root) {
                Ok(version) => return Ok(version),
                Err(error) => problem.get_or_insert(damage(error)?),
            };
            (child, next) = (revision, parent);
        }
        Ok((None, Bytes::default()))
    }

    fn read_commit(&mut self, revision: Revision) -> Result<ReadCommit, StoreError> {
        self.folder.objects.commit(revision, |commit| ReadCommit {
            commit: commit.to_commit(revision),
            root: commit.tree,
            flaw: commit.flaw,
        })
    }

    /// Returns the folder's tree below a root tree, and its bytes.
    fn version(&mut self, root: TreeId) -> Result<(Option<TreeId>, Bytes), StoreError> {
        let id = self.folder.below(root)?;
        match &self.tree {
            Some((known, bytes)) if Some(*known) == id => Ok((id, Arc::clone(bytes))),
            _ => Ok((id, self.folder.bytes(id)?)),
        }
    }
}

/// Describes damage for readers of the history; passes on any other error.
fn damage(error: StoreError) -> Result<String, StoreError> {
    match error {
        StoreError::Damaged { .. } => Ok(format!("{error}, so what was changed is not known for sure")),
        error => Err(error),
    }
}

/// Returns the commits whose parents a shallow clone lacks (git's file `shallow`: one id per line).
pub(crate) fn shallow_boundary(layout: &Layout) -> Result<HashSet<Revision>, StoreError> {
    let text = read_if_there(&layout.common_dir.join("shallow"))?.unwrap_or_default();
    Ok(text.split(|byte| *byte == b'\n').filter_map(unhex).map(Revision::new).collect())
}

/// The time of a commit and its parents.
type Links = (DateTime<Utc>, Vec<Revision>);

/// The links of a commit that can't be read.
const NO_LINKS: Links = (DateTime::UNIX_EPOCH, Vec::new());

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Ancestor,
    Descendant,
}

/// Walks from two commits, newest commit first, and stops when only commits remain that the ancestor reaches, because
/// none of those can lead back to it. So the cost depends on the commits between the two and not on the length of the
/// history.
pub(super) struct Search<'a> {
    objects: &'a mut Objects,
    cut: HashSet<Revision>,
    queue: BinaryHeap<(DateTime<Utc>, Revision, Side)>,
    /// The commits seen so far that the ancestor reaches.
    pub(super) reached_by_ancestor: HashSet<Revision>,
    /// The commits seen so far that the descendant reaches.
    pub(super) reached_by_descendant: HashSet<Revision>,
    /// The first commit that the descendant reaches and that can't be read.
    pub(super) unread: Option<Revision>,
    // The number of queue entries that belong to the descendant.
    open: usize,
}

impl<'a> Search<'a> {
    pub(super) fn begin(
        objects: &'a mut Objects,
        layout: &Layout,
        ancestor: Option<Revision>,
        descendant: Revision,
    ) -> Result<Self, StoreError> {
        let mut search = Self {
            cut: shallow_boundary(layout)?,
            objects,
            queue: BinaryHeap::new(),
            reached_by_ancestor: HashSet::new(),
            reached_by_descendant: HashSet::new(),
            unread: None,
            open: 0,
        };
        ancestor.map_or(Ok(()), |ancestor| search.push(ancestor, Side::Ancestor))?;
        search.push(descendant, Side::Descendant)?;
        Ok(search)
    }

    /// Returns the next commit that the descendant reaches and, as far as seen, the ancestor does not.
    pub(super) fn next(&mut self) -> Result<Option<Revision>, StoreError> {
        while self.open > 0
            && let Some((_, revision, side)) = self.queue.pop()
        {
            let is_above = side == Side::Descendant;
            self.open -= usize::from(is_above);
            if is_above && self.reached_by_ancestor.contains(&revision) {
                continue;
            }
            self.push_parents(revision, side)?;
            if is_above {
                return Ok(Some(revision));
            }
        }
        Ok(None)
    }

    /// Follows the ancestor's side back to a time, once the descendant's side is exhausted.
    pub(super) fn follow_ancestor(&mut self, until: DateTime<Utc>) -> Result<(), StoreError> {
        while self.queue.peek().is_some_and(|(at, ..)| *at >= until) {
            let Some((_, revision, side)) = self.queue.pop() else { break };
            self.push_parents(revision, side)?;
        }
        Ok(())
    }

    fn push_parents(&mut self, of: Revision, side: Side) -> Result<(), StoreError> {
        let parents = if self.cut.contains(&of) { Vec::new() } else { self.links(of)?.1 };
        parents.into_iter().try_for_each(|parent| self.push(parent, side))
    }

    fn push(&mut self, revision: Revision, side: Side) -> Result<(), StoreError> {
        let is_new = match side {
            Side::Ancestor => self.reached_by_ancestor.insert(revision),
            Side::Descendant => self.reached_by_descendant.insert(revision),
        };
        if is_new {
            self.open += usize::from(side == Side::Descendant);
            let links = self.intact_links(revision)?;
            if links.is_none() && side == Side::Descendant {
                self.unread.get_or_insert(revision);
            }
            let (at, _) = links.unwrap_or(NO_LINKS);
            self.queue.push((at, revision, side));
        }
        Ok(())
    }

    /// Returns the time of a commit and its parents; a commit that can't be read has none.
    pub(super) fn links(&mut self, revision: Revision) -> Result<Links, StoreError> {
        Ok(self.intact_links(revision)?.unwrap_or(NO_LINKS))
    }

    fn intact_links(&mut self, revision: Revision) -> Result<Option<Links>, StoreError> {
        match self.objects.commit(revision, |commit| (commit.at(), commit.parents.clone())) {
            Err(StoreError::Damaged { .. }) => Ok(None),
            links => links.map(Some),
        }
    }
}
