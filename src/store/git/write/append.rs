//! Builds the objects of a group of commits, and the one pack that contains them.
//!
//! Nothing is visible before the branch moves; until then the objects are unreachable, and `git gc` removes them.

use crate::domain::file_name::is_collection_file;
use crate::domain::{Actor, Revision};
use crate::store::git::object::commit::{RawCommit, encode_commit, with_signature};
use crate::store::git::object::delta;
use crate::store::git::object::id::{ObjectKind, Oid, hash_object};
use crate::store::git::object::pack::{EncodedPack, PackBuilder};
use crate::store::git::object::tree::{
    FILE, FOLDER, PathChange, PathChanges, Pointer, Splice, add_change, same_len_of, undone,
};
use crate::store::git::read::trees::Trees;
use crate::store::git::repo::layout::Layout;
use crate::store::signature::SigningKey;
use crate::store::{CommitChanges, Committed, Draft, FileChange, StoreError, TreeEntry, TreeId};

/// Trees up to this size are packed whole, because a delta would save too little to justify a chain.
const WHOLE_TREE_BYTES_MAX: usize = 512;

/// The longest chain of deltas from a tree to a whole one. Git's own packs have up to 50 (`pack.depth`); a chain as
/// long as the longest group saves a second whole tree in the pack.
const CHAIN_LEN_MAX: usize = 128;

#[derive(Debug)]
pub(crate) struct CommitGroup {
    pub(crate) committed: Vec<Committed>,
    /// The commits with what each changed, for `RecentCommits`.
    pub(crate) steps: Vec<CommitChanges>,
    pub(crate) pack: EncodedPack,
    pub(crate) trees: Trees,
    /// The changes to apply to the work tree.
    pub(crate) changes: PathChanges,
}

impl CommitGroup {
    pub(crate) fn tip(&self) -> Revision {
        self.trees.revision.expect("a group has commits")
    }
}

/// Builds the objects of a group on top of `trees`; with `joined`, its first commit is a merge with that other parent.
pub(crate) fn build(
    layout: &Layout,
    trees: Trees,
    joined: Option<Revision>,
    drafts: &[Draft],
    committer: &Committer,
) -> Result<CommitGroup, StoreError> {
    let mut group = GroupBuilder {
        layout,
        committer,
        pack: PackBuilder::new(),
        oids: vec![Oid::default(); trees.levels.len()],
        versions: trees.levels.iter().map(|_| Vec::new()).collect(),
        trees,
        changes: PathChanges::new(),
        committed: Vec::with_capacity(drafts.len()),
        steps: Vec::with_capacity(drafts.len()),
    };
    for (index, draft) in drafts.iter().enumerate() {
        let ends_chain = (drafts.len() - index).is_multiple_of(CHAIN_LEN_MAX);
        group.add(draft, joined.filter(|_| index == 0), ends_chain)?;
    }
    group.pack_trees();
    let GroupBuilder { pack, trees, changes, committed, steps, .. } = group;
    Ok(CommitGroup { committed, steps, pack: pack.finish(), trees, changes })
}

/// The committer, and the key that signs its commits.
#[derive(Debug)]
pub(crate) struct Committer {
    pub(crate) actor: Actor,
    pub(crate) key: Option<SigningKey>,
}

impl Committer {
    pub(crate) fn commit(
        &self,
        tree: TreeId,
        parents: &[Revision],
        draft: &Draft,
    ) -> Result<Vec<u8>, StoreError> {
        let commit = encode_commit(tree, parents, [&draft.author, &self.actor], draft.at, &draft.message);
        match &self.key {
            Some(key) => Ok(with_signature(&commit, &key.sign(&commit)?)),
            None => Ok(commit),
        }
    }
}

struct GroupBuilder<'a> {
    layout: &'a Layout,
    committer: &'a Committer,
    pack: PackBuilder,
    trees: Trees,
    // The ids of the current trees.
    oids: Vec<Oid>,
    // Former trees by level, oldest first, each with its id.
    versions: Vec<Vec<(Oid, Before)>>,
    changes: PathChanges,
    committed: Vec<Committed>,
    steps: Vec<CommitChanges>,
}

/// A tree before a step, encoded relative to the tree after it.
enum Before {
    Nothing,
    Whole(Vec<u8>),
    Delta(Vec<u8>),
}

impl Before {
    fn of(new: &[u8], splices: &[Splice], ends_chain: bool) -> Self {
        let (added, taken) =
            splices.iter().fold((0, 0), |(new, old), it| (new + it.new.len(), old + it.old.len()));
        let old_len = new.len() + taken - added;
        match splices {
            _ if old_len == 0 => Self::Nothing,
            _ if ends_chain || new.is_empty() || old_len <= WHOLE_TREE_BYTES_MAX => {
                Self::Whole(undone(new, splices))
            }
            [splice] => Self::Delta(delta::back(new.len(), splice)),
            _ => {
                let delta = delta::between(new, &undone(new, splices));
                Self::Delta(delta.expect("entries were checked when they came in"))
            }
        }
    }
}

impl GroupBuilder<'_> {
    /// Adds the commit of a draft; with `joined`, a merge commit with that second parent.
    fn add(&mut self, draft: &Draft, joined: Option<Revision>, ends_chain: bool) -> Result<(), StoreError> {
        let mut splices = Vec::new();
        let mut files = Vec::with_capacity(draft.files.len());
        for (name, content) in &draft.files {
            files.push(self.set(&mut splices, name, content.as_deref())?);
        }
        self.raise(splices, ends_chain);
        let parents: Vec<Revision> = self.trees.revision.into_iter().chain(joined).collect();
        let commit = self.committer.commit(TreeId::new(self.oids[0]), &parents, draft)?;
        let oid = hash_object(ObjectKind::Commit, &commit)?;
        self.pack.add(ObjectKind::Commit, oid, &commit);
        let revision = Revision::new(oid);
        self.trees.revision = Some(revision);
        let blobs = files.iter().map(|file| file.after.and_then(TreeEntry::blob)).collect();
        self.committed.push(Committed { revision, blobs });
        let raw = RawCommit::parse(&commit, false).expect("it was made with a tree");
        let commit = raw.to_commit(revision);
        self.steps.push(CommitChanges { commit, changes: changed(files), problem: None });
        Ok(())
    }

    /// Adds, replaces or removes a file in the folder's tree, and packs its blob.
    fn set(
        &mut self,
        splices: &mut Vec<Splice>,
        file: &str,
        content: Option<&[u8]>,
    ) -> Result<FileChange, StoreError> {
        if file.is_empty() || file.contains(['/', '\0']) || matches!(file, "." | ".." | ".git") {
            return Err(self.layout.unsuitable(format!("`{file}` is no name for a file")));
        }
        let folder = self.trees.levels.last_mut().expect("there is a root");
        let before = folder.get(file.as_bytes());
        if let Some(TreeEntry::Special(what)) = before.map(|pointer| pointer.tree_entry()) {
            let path = self.layout.path_in_repository(file);
            return Err(self.layout.unsuitable(format!("`{path}` is {what} on the branch, not a file")));
        }
        let mut after = None;
        if let Some(content) = content {
            let oid = hash_object(ObjectKind::Blob, content)?;
            self.pack.add(ObjectKind::Blob, oid, content);
            after = Some(Pointer { mode: before.map_or(FILE, |pointer| pointer.canonical_mode()), oid });
        }
        splices.extend(folder.put(file.as_bytes(), after));
        let content = content.map(<[u8]>::to_vec);
        add_change(&mut self.changes, file, PathChange::new(before, after, content));
        let [before, after] = [before, after].map(|pointer| pointer.map(|pointer| pointer.tree_entry()));
        Ok(FileChange { name: file.to_owned(), before, after })
    }

    /// Computes the id of the folder's tree after these splices and enters it in the trees above, up to the root. The
    /// trees from before the group are packed already.
    fn raise(&mut self, mut splices: Vec<Splice>, ends_chain: bool) {
        for depth in (0..self.oids.len()).rev() {
            let tree = &self.trees.levels[depth];
            let oid = self.trees.midstates[depth].hash_tree(tree.bytes(), same_len_of(&splices));
            let old = std::mem::replace(&mut self.oids[depth], oid);
            if old != oid && !self.committed.is_empty() {
                self.versions[depth].push((old, Before::of(tree.bytes(), &splices, ends_chain)));
            }
            let Some(above) = depth.checked_sub(1) else { break };
            // Git has no empty folders.
            let pointer = (!tree.is_empty()).then_some(Pointer { mode: FOLDER, oid });
            splices = self.trees.levels[above].put(self.layout.folder[above].as_bytes(), pointer);
        }
    }

    /// Packs the trees, newest first, because a base must precede its delta.
    fn pack_trees(&mut self) {
        for (depth, versions) in std::mem::take(&mut self.versions).into_iter().enumerate() {
            let newest = &self.trees.levels[depth];
            if depth == 0 || !newest.is_empty() {
                self.pack.add(ObjectKind::Tree, self.oids[depth], newest.bytes());
            }
            let mut newer = self.oids[depth];
            for (oid, before) in versions.into_iter().rev() {
                match before {
                    Before::Nothing if depth == 0 => self.pack.add(ObjectKind::Tree, oid, &[]),
                    Before::Nothing => (),
                    Before::Whole(bytes) => self.pack.add(ObjectKind::Tree, oid, &bytes),
                    Before::Delta(delta) => self.pack.add_delta(oid, &newer, &delta),
                }
                newer = oid;
            }
        }
    }
}

/// Returns the files that a draft really changed, as a comparison of the trees would report them.
fn changed(mut files: Vec<FileChange>) -> Vec<FileChange> {
    files.retain(|file| is_collection_file(&file.name) && file.before != file.after);
    files.sort_unstable_by(|one, two| one.name.cmp(&two.name));
    files
}
