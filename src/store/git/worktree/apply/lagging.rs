//! Files of the work tree that could not be brought up to the branch.
//!
//! The commits are made, whatever the obstacle (a full disk, a link in place of the folder). But such a file still has
//! what an older revision had, and that must not be taken for a person's edit: it would be served instead of what was
//! written, and committed in the person's name. So these files are remembered with the contents that they may have,
//! across restarts too, and tried again before the next write and whenever the work tree is brought forward. A file
//! with any other content is a person's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::store::git::disk::barrier::Barrier;
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::object::id::unhex;
use crate::store::git::worktree::replace::swap::holds_any;
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::{BlobId, Edit, StoreError, WorkTree};

/// The files that lag, by their names in the collections folder.
#[derive(Debug)]
pub(crate) struct Lagging {
    file: StateFile,
    files: Files,
    kept: Files,
}

/// The contents that each file may have from us; `None` for no file.
type Files = BTreeMap<String, BTreeSet<Option<BlobId>>>;

/// [`Files`] in the state file: ids as hex digits.
type Digits = BTreeMap<String, Vec<Option<String>>>;

impl Lagging {
    /// Loads the list from the state folder of this work tree; empty if it makes no sense.
    pub(crate) fn load(state: &Path, barrier: &Barrier) -> Result<Self, StoreError> {
        let file = StateFile::new(state, "behind", barrier);
        let bytes = file.read()?.unwrap_or_default();
        let kept: Digits = serde_json::from_slice(&bytes).unwrap_or_default();
        let known = |id: Option<String>| match id {
            Some(digits) => unhex(digits.as_bytes()).map(|id| Some(BlobId::new(id))),
            None => Some(None),
        };
        let files = kept.into_iter().map(|(name, ids)| (name, ids.into_iter().filter_map(known).collect()));
        let files: Files = files.collect();
        Ok(Self { file, kept: files.clone(), files })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    /// Removes a file for another attempt; returns the contents that it may have.
    pub(crate) fn take(&mut self, name: &str) -> BTreeSet<Option<BlobId>> {
        self.files.remove(name).unwrap_or_default()
    }

    /// Adds a file that may have any of these contents.
    pub(crate) fn put(&mut self, name: &str, ids: impl IntoIterator<Item = Option<BlobId>>) {
        self.files.insert(name.to_owned(), ids.into_iter().collect());
    }

    /// Adds a content that a file may have, besides those that it may have already.
    pub(crate) fn add(&mut self, name: &str, id: Option<BlobId>) {
        self.files.entry(name.to_owned()).or_default().insert(id);
    }

    /// Returns whether a file differs only because it could not be brought up to the branch.
    fn explains(&self, edit: &Edit) -> bool {
        let now = edit.current.blob();
        now.is_some_and(|now| self.files.get(&edit.name).is_some_and(|ids| ids.contains(&now)))
    }

    /// Removes differences that are not edits.
    pub(crate) fn forget_explained(&self, seen: &mut WorkTree) {
        if let (WorkTree::Available { edits, .. }, false) = (seen, self.files.is_empty()) {
            edits.retain(|edit| !self.explains(edit));
        }
    }

    /// Returns the names of the files that still have one of their remembered contents.
    pub(crate) fn names_in(&self, folder: &Folder) -> Result<Vec<&str>, StoreError> {
        let mut names = Vec::new();
        for (name, ids) in &self.files {
            if holds_any(folder, name, ids.iter().copied())? {
                names.push(name.as_str());
            }
        }
        Ok(names)
    }

    /// Saves the list durably, for after a restart or a power cut.
    pub(crate) fn keep(&mut self) -> Result<(), StoreError> {
        if self.files == self.kept {
            return Ok(());
        }
        let digits = |id: &Option<BlobId>| id.map(|id| id.to_string());
        let files = self.files.iter().map(|(name, ids)| (name.clone(), ids.iter().map(digits).collect()));
        let text = serde_json::to_vec(&files.collect::<Digits>()).expect("texts are JSON");
        self.file.replace(&text)?;
        self.kept.clone_from(&self.files);
        Ok(())
    }
}
