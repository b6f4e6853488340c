//! A group of commits: objects, one pack, one move of the branch.
//!
//! Nothing is visible before the branch moves; what was written
//! until then is unreachable objects, which `git gc` removes.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;

use crate::domain::Revision;
use crate::domain::file_name::is_collection_file;
use crate::store::git::object::commit::RawCommit;
use crate::store::git::object::delta;
use crate::store::git::object::id::{Kind, Oid, name};
use crate::store::git::object::pack::{Pack, PackBuilder};
use crate::store::git::object::path_change::{PathChange, PathChanges};
use crate::store::git::object::tree::{BadTree, FILE, FOLDER, Pointer, RawTree, Splice, same_len_of, undone};
use crate::store::git::odb::objects::corrupt;
use crate::store::git::read::trees::Trees;
use crate::store::git::repo::layout::Layout;
use crate::store::git::write::committer::Committer;
use crate::store::{CommitChanges, Committed, Draft, FileChange, StoreError, TreeEntry, TreeId};

/// Trees up to this size are packed whole: a delta saves nothing worth a chain.
const WHOLE_TREE_BYTES_MAX: usize = 512;

/// The longest chain of deltas from one tree to a whole one. Git's own packs have up to 50
/// (`pack.depth`); a chain as long as the longest group saves a second whole tree in it.
const CHAIN_LEN_MAX: usize = 128;

#[derive(Debug)]
pub(crate) struct CommitGroup {
    pub(crate) committed: Vec<Committed>,
    /// The commits with what each changed, for `RecentCommits`.
    pub(crate) steps: Vec<CommitChanges>,
    pub(crate) pack: Pack,
    pub(crate) trees: Trees,
    /// What changes for the work tree.
    pub(crate) changes: PathChanges,
}

impl CommitGroup {
    pub(crate) fn tip(&self) -> Revision {
        self.trees.revision.expect("a group has commits")
    }
}

/// Builds the objects of a group on top of `trees`; the first of its commits is a merge if there is another parent.
pub(crate) fn build(
    layout: &Layout,
    trees: Trees,
    joined: Option<Revision>,
    drafts: &[Draft],
    committer: &Committer,
) -> Result<CommitGroup, StoreError> {
    let mut group = GroupBuilder {
        layout,
        joined,
        pack: PackBuilder::new(),
        versions: trees.levels.iter().map(|_| Vec::new()).collect(),
        trees,
        changes: PathChanges::new(),
    };
    let folder_changes = group.take(drafts)?;
    let (committed, steps) = group.commit(drafts, committer, folder_changes)?;
    let GroupBuilder { pack, trees, changes, .. } = group;
    Ok(CommitGroup { committed, steps, pack: pack.finish(), trees, changes })
}

struct GroupBuilder<'a> {
    layout: &'a Layout,
    // The second parent of the first commit.
    joined: Option<Revision>,
    pack: PackBuilder,
    trees: Trees,
    // Per level, oldest first, each with its name.
    versions: Vec<Vec<(Oid, Before)>>,
    changes: PathChanges,
}

/// What a draft does to the folder.
struct FolderChange {
    files: Vec<FileChange>,
    name: Oid,
    is_empty: bool,
    before: Before,
}

/// What a tree was before a step, told by what it is after it.
enum Before {
    Nothing,
    Whole(Vec<u8>),
    Delta(Vec<u8>),
}

impl Before {
    fn of(new: &[u8], splices: &[Splice], ends_chain: bool) -> Result<Self, BadTree> {
        let (added, taken) =
            splices.iter().fold((0, 0), |(new, old), it| (new + it.new.len(), old + it.old.len()));
        let old_len = new.len() + taken - added;
        Ok(match splices {
            _ if old_len == 0 => Self::Nothing,
            _ if ends_chain || new.is_empty() || old_len <= WHOLE_TREE_BYTES_MAX => {
                Self::Whole(undone(new, splices))
            }
            [splice] => Self::Delta(delta::back(new.len(), splice)),
            _ => Self::Delta(delta::between(new, &undone(new, splices))?),
        })
    }
}

impl GroupBuilder<'_> {
    /// Makes the blobs of the drafts and changes the folder accordingly.
    fn take(&mut self, drafts: &[Draft]) -> Result<Vec<FolderChange>, StoreError> {
        let mut folder = self.trees.levels.pop().expect("there is a root");
        let mut midstates = self.trees.midstates.pop().expect("as many as trees");
        let mut folder_changes = Vec::with_capacity(drafts.len());
        for (index, draft) in drafts.iter().enumerate() {
            let mut splices = Vec::new();
            let mut files = Vec::with_capacity(draft.files.len());
            for (name, content) in &draft.files {
                files.push(self.set(&mut folder, &mut splices, name, content.as_deref())?);
            }
            let ends_chain = (drafts.len() - index).is_multiple_of(CHAIN_LEN_MAX);
            let before = Before::of(folder.bytes(), &splices, ends_chain);
            let before = before.map_err(|error| self.layout.unsuitable(error.to_string()))?;
            let name = midstates.name(folder.bytes(), same_len_of(&splices));
            folder_changes.push(FolderChange { files, name, is_empty: folder.is_empty(), before });
        }
        self.trees.levels.push(folder);
        self.trees.midstates.push(midstates);
        Ok(folder_changes)
    }

    fn set(
        &mut self,
        folder: &mut RawTree,
        splices: &mut Vec<Splice>,
        file: &str,
        content: Option<&[u8]>,
    ) -> Result<FileChange, StoreError> {
        if file.is_empty() || file.contains(['/', '\0']) || matches!(file, "." | ".." | ".git") {
            return Err(self.layout.unsuitable(format!("`{file}` is no name for a file")));
        }
        let before = folder.get(file.as_bytes());
        if let Some(TreeEntry::Special(what)) = before.map(|pointer| pointer.entry()) {
            let path = self.layout.inside(file);
            return Err(self.layout.unsuitable(format!("`{path}` is {what} on the branch, not a file")));
        }
        let mut after = None;
        if let Some(content) = content {
            let oid = name(Kind::Blob, content)?;
            self.pack.add(Kind::Blob, oid, content);
            after = Some(Pointer { mode: before.map_or(FILE, |pointer| pointer.canonical_mode()), oid });
        }
        splices.extend(folder.put(file.as_bytes(), after));
        let content = content.map(<[u8]>::to_vec);
        match self.changes.entry(file.to_owned()) {
            Entry::Vacant(slot) => {
                slot.insert(PathChange { before, passed: BTreeSet::new(), after, content });
            }
            Entry::Occupied(slot) => {
                let known = slot.into_mut();
                known.passed.insert(before.map(|pointer| pointer.blob()));
                (known.after, known.content) = (after, content);
            }
        }
        let [before, after] = [before, after].map(|pointer| pointer.map(|pointer| pointer.entry()));
        Ok(FileChange { name: file.to_owned(), before, after })
    }

    /// Puts the folder's names into the trees above, and makes the commits.
    fn commit(
        &mut self,
        drafts: &[Draft],
        committer: &Committer,
        folder_changes: Vec<FolderChange>,
    ) -> Result<(Vec<Committed>, Vec<CommitChanges>), StoreError> {
        let mut committed = Vec::with_capacity(drafts.len());
        let mut steps = Vec::with_capacity(drafts.len());
        let mut oids = vec![Oid::default(); self.trees.levels.len()];
        let count = drafts.len();
        for (index, (draft, folder_change)) in drafts.iter().zip(folder_changes).enumerate() {
            let ends_chain = (count - index).is_multiple_of(CHAIN_LEN_MAX);
            let folder = (folder_change.name, folder_change.before, folder_change.is_empty);
            let versions = self.raise(folder, &mut oids, ends_chain)?;
            if index > 0 {
                self.versions.iter_mut().zip(versions).for_each(|(all, version)| all.extend(version));
            }
            let joined = self.joined.filter(|_| index == 0);
            let parents: Vec<Revision> = self.trees.revision.into_iter().chain(joined).collect();
            let commit = committer.commit(TreeId::new(oids[0]), &parents, draft)?;
            let oid = name(Kind::Commit, &commit)?;
            self.pack.add(Kind::Commit, oid, &commit);
            let revision = Revision::new(oid);
            self.trees.revision = Some(revision);
            let blobs = folder_change.files.iter().map(|file| file.after.and_then(TreeEntry::blob)).collect();
            committed.push(Committed { revision, blobs });
            let raw = RawCommit::parse(&commit, false).expect("it was made with a tree");
            let commit = raw.to_commit(revision);
            steps.push(CommitChanges { commit, changes: changed(folder_change.files), problem: None });
        }
        self.pack_trees(&oids);
        Ok((committed, steps))
    }

    /// Gives the folder its new name in the trees above, up to the root; answers what each tree was
    /// before, if it was another.
    fn raise(
        &mut self,
        folder: (Oid, Before, bool),
        oids: &mut [Oid],
        ends_chain: bool,
    ) -> Result<Vec<Option<(Oid, Before)>>, StoreError> {
        let mut versions: Vec<_> = oids.iter().map(|_| None).collect();
        let (mut oid, mut before, mut is_empty) = folder;
        for depth in (0..oids.len()).rev() {
            let old = std::mem::replace(&mut oids[depth], oid);
            versions[depth] = (old != oid).then_some((old, before));
            let Some(above) = depth.checked_sub(1) else { break };
            // Git has no empty folders.
            let pointer = (!is_empty).then_some(Pointer { mode: FOLDER, oid });
            let tree = &mut self.trees.levels[above];
            let splices = tree.put(self.layout.folder[above].as_bytes(), pointer);
            oid = self.trees.midstates[above].name(tree.bytes(), same_len_of(&splices));
            before = Before::of(tree.bytes(), &splices, ends_chain)
                .map_err(|error| corrupt(Kind::Tree, &oid, error.to_string()))?;
            is_empty = tree.is_empty();
        }
        Ok(versions)
    }

    /// Packs the trees, the newest first, since a base must stand before its delta.
    fn pack_trees(&mut self, oids: &[Oid]) {
        for (depth, versions) in std::mem::take(&mut self.versions).into_iter().enumerate() {
            let newest = &self.trees.levels[depth];
            if depth == 0 || !newest.is_empty() {
                self.pack.add(Kind::Tree, oids[depth], newest.bytes());
            }
            let mut newer = oids[depth];
            for (oid, before) in versions.into_iter().rev() {
                match before {
                    Before::Nothing if depth == 0 => self.pack.add(Kind::Tree, oid, &[]),
                    Before::Nothing => (),
                    Before::Whole(bytes) => self.pack.add(Kind::Tree, oid, &bytes),
                    Before::Delta(delta) => self.pack.add_delta(oid, &newer, &delta),
                }
                newer = oid;
            }
        }
    }
}

/// The files that a draft changed indeed, as a comparison of the trees tells them.
fn changed(mut files: Vec<FileChange>) -> Vec<FileChange> {
    files.retain(|file| is_collection_file(&file.name) && file.before != file.after);
    files.sort_unstable_by(|one, two| one.name.cmp(&two.name));
    files
}
