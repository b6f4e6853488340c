//! A group of commits: objects, one pack, one move of the branch.
//!
//! Design section 6, steps 3 to 6. Nothing is visible before the branch moves; what was written
//! until then is unreachable objects, which `git gc` removes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::delta;
use super::object::{Kind, Oid, name};
use super::objects::damaged;
use super::pack::{Pack, PackBuilder};
use super::place::Place;
use super::sign::Committer;
use super::tree::{FILE, FOLDER, Pointer, RawTree};
use super::trees::Trees;
use crate::domain::Revision;
use crate::store::{BlobId, Committed, Draft, StoreError};

/// Trees up to this size are packed whole: a delta saves nothing worth a chain.
const WHOLE_TREE_BYTES_MAX: usize = 512;

/// The longest chain of deltas from one tree to a whole one; git's own default (`pack.depth`).
const CHAIN_LEN_MAX: usize = 50;

/// A path that a group changes, from what it was before to what it is after.
#[derive(Debug, Clone)]
pub(super) struct PathChange {
    /// What the old head has.
    pub(super) before: Option<Pointer>,
    /// What commits between the old head and the new one have: an edit that was committed for a
    /// person stands in the work tree already, and is in the history now.
    pub(super) passed: Vec<Option<Oid>>,
    /// What the new head has.
    pub(super) after: Option<Pointer>,
    /// Its content, when there is one.
    pub(super) content: Option<Vec<u8>>,
}

/// The paths that a group changes, by their names in the collections folder.
pub(super) type PathChanges = BTreeMap<String, PathChange>;

/// A group of commits, ready to be written.
#[derive(Debug)]
pub(super) struct Group {
    /// What each draft became.
    pub(super) committed: Vec<Committed>,
    /// All new objects.
    pub(super) pack: Pack,
    /// The trees of the last commit.
    pub(super) trees: Trees,
    /// What changes for the work tree.
    pub(super) changes: PathChanges,
}

/// One version of one tree in the group.
#[derive(Debug)]
enum Version {
    Whole(Oid, Vec<u8>),
    /// Against the next newer version of the same tree.
    Delta {
        oid: Oid,
        base: Oid,
        delta: Vec<u8>,
    },
}

/// Builds the objects of a group on top of `trees`.
pub(super) fn build(
    place: &Place,
    trees: &Trees,
    drafts: &[Draft],
    committer: &Committer,
) -> Result<Group, StoreError> {
    let mut group = Builder {
        place,
        pack: PackBuilder::new(),
        trees: trees.clone(),
        versions: Vec::new(),
        oids: Vec::new(),
        changes: PathChanges::new(),
        committed: Vec::with_capacity(drafts.len()),
    };
    group.versions.resize_with(trees.levels.len(), Vec::new);
    for (index, draft) in drafts.iter().enumerate() {
        group.add(draft, committer, (drafts.len() - index).is_multiple_of(CHAIN_LEN_MAX))?;
    }
    Ok(group.finish())
}

struct Builder<'a> {
    place: &'a Place,
    pack: PackBuilder,
    trees: Trees,
    // Per level, oldest first; the newest of all is still in `trees`.
    versions: Vec<Vec<Version>>,
    // The names of the trees as they are now, the root's first.
    oids: Vec<Oid>,
    changes: PathChanges,
    committed: Vec<Committed>,
}

impl Builder<'_> {
    fn add(&mut self, draft: &Draft, committer: &Committer, ends_chain: bool) -> Result<(), StoreError> {
        let before = (!self.committed.is_empty()).then(|| (self.trees.levels.clone(), self.oids.clone()));
        let mut blobs = Vec::with_capacity(draft.files.len());
        for (name, content) in &draft.files {
            blobs.push(self.set(name, content.as_deref())?);
        }
        let root = self.hash_levels()?;
        if let Some((levels, oids)) = before {
            self.keep_versions(&levels, &oids, draft.files.len() == 1, ends_chain)?;
        }
        let parent = self.trees.revision;
        let commit = committer.commit(&root, parent.as_ref(), draft)?;
        let oid = name(Kind::Commit, &commit)?;
        self.pack.add(Kind::Commit, oid, &commit);
        self.trees.revision = Some(oid);
        self.committed.push(Committed { revision: Revision::new(oid), blobs });
        Ok(())
    }

    fn set(&mut self, file: &str, content: Option<&[u8]>) -> Result<Option<BlobId>, StoreError> {
        let folder = self.trees.levels.last_mut().expect("there is a root");
        if file.is_empty() || file.contains(['/', '\0']) || matches!(file, "." | ".." | ".git") {
            return Err(self.place.unsuitable(format!("`{file}` is no name for a file")));
        }
        let before = folder.get(file.as_bytes());
        if let Some(other) = before.filter(|pointer| !pointer.is_file()) {
            let why =
                format!("`{}` is {:?} on the branch, not a file", self.place.inside(file), other.entry());
            return Err(self.place.unsuitable(why));
        }
        let mut after = None;
        if let Some(content) = content {
            let oid = name(Kind::Blob, content)?;
            self.pack.add(Kind::Blob, oid, content);
            after = Some(Pointer { mode: before.map_or(FILE, |pointer| pointer.file_mode()), oid });
        }
        folder.set(file.as_bytes(), after);
        let content = content.map(<[u8]>::to_vec);
        match self.changes.entry(file.to_owned()) {
            Entry::Vacant(slot) => {
                slot.insert(PathChange { before, passed: Vec::new(), after, content });
            }
            Entry::Occupied(slot) => {
                let known = slot.into_mut();
                known.passed.push(before.map(|pointer| pointer.oid));
                (known.after, known.content) = (after, content);
            }
        }
        Ok(after.map(|pointer| BlobId::new(pointer.oid)))
    }

    /// Hashes the folder and puts its name into the tree above, up to the root's.
    fn hash_levels(&mut self) -> Result<Oid, StoreError> {
        self.oids.resize(self.trees.levels.len(), Oid::default());
        for depth in (0..self.trees.levels.len()).rev() {
            let (above, below) = self.trees.levels.split_at_mut(depth);
            let oid = name(Kind::Tree, below[0].bytes())?;
            self.oids[depth] = oid;
            // Git has no empty folders.
            let pointer = (!below[0].is_empty()).then_some(Pointer { mode: FOLDER, oid });
            if let Some(above) = above.last_mut() {
                above.set(self.place.folder[depth - 1].as_bytes(), pointer);
            }
        }
        Ok(self.oids[0])
    }

    /// Keeps what each tree was before the last draft, as a delta against what it is now.
    fn keep_versions(
        &mut self,
        before: &[RawTree],
        oids: &[Oid],
        single: bool,
        ends_chain: bool,
    ) -> Result<(), StoreError> {
        for (depth, (old, new)) in before.iter().zip(&self.trees.levels).enumerate() {
            let (oid, base) = (oids[depth], self.oids[depth]);
            let unneeded = oid == base || (old.is_empty() && depth > 0);
            if unneeded {
                continue;
            }
            let whole = ends_chain || new.is_empty() || old.bytes().len() <= WHOLE_TREE_BYTES_MAX;
            self.versions[depth].push(if whole {
                Version::Whole(oid, old.bytes().to_vec())
            } else {
                let delta = delta::between(new.bytes(), old.bytes(), single);
                let delta = delta.map_err(|error| damaged("tree", &oid, &error.to_string()))?;
                Version::Delta { oid, base, delta }
            });
        }
        Ok(())
    }

    /// Packs the trees, the newest first, since a base must stand before its delta.
    fn finish(mut self) -> Group {
        for (depth, versions) in self.versions.into_iter().enumerate() {
            let newest = &self.trees.levels[depth];
            if depth == 0 || !newest.is_empty() {
                self.pack.add(Kind::Tree, self.oids[depth], newest.bytes());
            }
            for version in versions.into_iter().rev() {
                match version {
                    Version::Whole(oid, bytes) => self.pack.add(Kind::Tree, oid, &bytes),
                    Version::Delta { oid, base, delta } => self.pack.add_delta(oid, &base, &delta),
                }
            }
        }
        let Self { pack, trees, changes, committed, .. } = self;
        Group { committed, pack: pack.finish(), trees, changes }
    }
}
