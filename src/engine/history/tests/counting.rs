//! An archive that counts its reads.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::history::tests::*;
use crate::store::git::GitArchive;
use crate::store::{BlobId, CommitChanges, EachContent, FileChange, FirstParents, RawSignature};

/// Counts the reads of folders and of contents.
#[derive(Debug)]
pub(crate) struct Counting {
    archive: Arc<GitArchive>,
    folders: AtomicUsize,
    contents: AtomicUsize,
}

impl Counting {
    pub(crate) fn new(archive: Arc<GitArchive>) -> Arc<Self> {
        Arc::new(Self { archive, folders: AtomicUsize::new(0), contents: AtomicUsize::new(0) })
    }

    /// Returns the numbers of folders and contents read since the last call.
    pub(crate) fn take(&self) -> (usize, usize) {
        (self.folders.swap(0, Ordering::Relaxed), self.contents.swap(0, Ordering::Relaxed))
    }
}

impl Archive for Counting {
    fn head(&self) -> Result<Option<Revision>, StoreError> {
        self.archive.head()
    }

    fn resolve(&self, name: &str) -> Result<Revision, crate::store::ResolveError> {
        self.archive.resolve(name)
    }

    fn commit(&self, revision: Revision) -> Result<Option<crate::store::Commit>, StoreError> {
        self.archive.commit(revision)
    }

    fn signature(&self, revision: Revision) -> Result<Option<RawSignature>, StoreError> {
        self.archive.signature(revision)
    }

    fn shallow_boundary(&self) -> Result<Vec<Revision>, StoreError> {
        self.archive.shallow_boundary()
    }

    fn first_parents(
        &self,
        from: Revision,
        known: &dyn Fn(&Revision) -> bool,
    ) -> Result<FirstParents, StoreError> {
        self.archive.first_parents(from, known)
    }

    fn commit_changes(
        &self,
        revisions: &[Revision],
        each: &(dyn Fn(usize, CommitChanges) + Sync),
    ) -> Result<(), StoreError> {
        self.archive.commit_changes(revisions, each)
    }

    fn files(
        &self,
        revision: Revision,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<(String, TreeEntry)>, StoreError> {
        self.folders.fetch_add(1, Ordering::Relaxed);
        self.archive.files(revision, is_wanted)
    }

    fn changes(&self, from: Option<Revision>, to: Option<Revision>) -> Result<Vec<FileChange>, StoreError> {
        self.archive.changes(from, to)
    }

    fn contents(&self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError> {
        self.contents.fetch_add(blobs.len(), Ordering::Relaxed);
        self.archive.contents(blobs, each)
    }

    fn descends(&self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        self.archive.descends(descendant, ancestor)
    }

    fn read_cached(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.archive.read_cached(name)
    }

    fn write_cached(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.archive.write_cached(name, bytes)
    }
}
