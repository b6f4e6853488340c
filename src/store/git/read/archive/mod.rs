//! The archive on a git repository; it writes nothing but derived notes.

pub(crate) mod name;

use std::sync::Arc;

use crate::domain::Revision;
use crate::domain::file_name::is_collection_file;
use crate::store::git::disk::barrier::{Barrier, make_folders};
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::object::commit::signature;
use crate::store::git::object::id::ObjectKind;
use crate::store::git::object::tree::entries;
use crate::store::git::odb::database::Database;
use crate::store::git::odb::objects::Objects;
use crate::store::git::odb::parallel::run_parallel;
use crate::store::git::read::reader::Reader;
use crate::store::git::read::recent_commits::RecentCommits;
use crate::store::git::read::walk::{FolderFinder, Walker, shallow_boundary, walk_first_parents};
use crate::store::git::repo::refs::branch::Branch;
use crate::store::{
    Archive, BlobId, Commit, CommitChanges, Commits as _, Damage, EachContent, FileChange, FirstParents,
    RawSignature, ResolveError, StoreError, TreeEntry,
};

/// The read side of a git repository.
///
/// Objects are trusted as stored, as git itself does: `git fsck` checks their ids, not every read.
#[derive(Debug)]
pub struct GitArchive {
    pub(crate) branch: Branch,
    database: Arc<Database>,
    recent_commits: Arc<RecentCommits>,
    barrier: Barrier,
}

impl GitArchive {
    /// Returns the read side of a branch for other threads; commits made by the journal of `reader` need not be read
    /// for it.
    pub(in crate::store::git) fn beside(reader: &Reader, branch: &Branch, barrier: &Barrier) -> Self {
        Self {
            branch: branch.clone(),
            database: Arc::clone(reader.objects.database()),
            recent_commits: Arc::clone(&reader.recent_commits),
            barrier: barrier.clone(),
        }
    }

    fn note(&self, name: &str) -> StateFile {
        StateFile::new(&self.branch.layout.state(), name, &self.barrier)
    }

    fn objects(&self) -> Objects {
        Objects::new(&self.database)
    }

    fn reader(&self) -> Reader {
        Reader::of(&self.branch.layout, self.objects(), Arc::clone(&self.recent_commits))
    }
}

impl Archive for GitArchive {
    fn head(&self) -> Result<Option<Revision>, StoreError> {
        self.branch.tip()
    }

    fn resolve(&self, name: &str) -> Result<Revision, ResolveError> {
        name::resolve(&self.branch.layout, &mut self.objects(), name)
    }

    fn commit(&self, revision: Revision) -> Result<Option<Commit>, StoreError> {
        if let Some(step) = self.recent_commits.commit_changes(revision) {
            return Ok(Some(step.commit));
        }
        match self.objects().commit(revision, |commit| commit.to_commit(revision)) {
            Err(StoreError::Damaged { damage: Damage::Missing, .. }) => Ok(None),
            commit => commit.map(Some),
        }
    }

    fn signature(&self, revision: Revision) -> Result<Option<RawSignature>, StoreError> {
        let mut objects = self.objects();
        // The header tells whether the whole commit has to be read.
        match objects.commit(revision, |commit| commit.is_signed)? {
            true => Ok(signature(&objects.whole(ObjectKind::Commit, revision.as_bytes())?)),
            false => Ok(None),
        }
    }

    fn shallow_boundary(&self) -> Result<Vec<Revision>, StoreError> {
        let mut cut: Vec<_> = shallow_boundary(&self.branch.layout)?.into_iter().collect();
        cut.sort_unstable();
        Ok(cut)
    }

    fn first_parents(
        &self,
        from: Revision,
        is_known: &dyn Fn(&Revision) -> bool,
    ) -> Result<FirstParents, StoreError> {
        let cut = shallow_boundary(&self.branch.layout)?;
        let mut objects = None;
        let mut line = FirstParents { revisions: Vec::new(), stopped_at: None };
        walk_first_parents(&cut, from, |revision| {
            if is_known(&revision) {
                line.stopped_at = Some(revision);
                return Ok(None);
            }
            let parent = match self.recent_commits.first_parent(revision) {
                Some(parent) => parent,
                None => objects
                    .get_or_insert_with(|| self.objects())
                    .commit(revision, |commit| commit.parents.first().copied())?,
            };
            line.revisions.push(revision);
            Ok(parent)
        })?;
        Ok(line)
    }

    fn commit_changes(
        &self,
        revisions: &[Revision],
        each: &(dyn Fn(usize, CommitChanges) + Sync),
    ) -> Result<(), StoreError> {
        // The remembered commits are the newest, and come first.
        let cut = shallow_boundary(&self.branch.layout)?;
        let remembered = |revision: &Revision| {
            let is_whole = !cut.contains(revision);
            is_whole.then(|| self.recent_commits.commit_changes(*revision)).flatten()
        };
        let mut fresh = 0;
        while let Some(step) = revisions.get(fresh).and_then(remembered) {
            each(fresh, step);
            fresh += 1;
        }
        if fresh == revisions.len() {
            return Ok(());
        }
        run_parallel(&mut self.objects(), revisions.len() - fresh, &|objects, range| {
            let mut walker = Walker::new(objects, &self.branch.layout.folder, &cut);
            for index in range {
                each(fresh + index, walker.commit_changes(revisions[fresh + index])?);
            }
            Ok(())
        })
    }

    fn files(
        &self,
        revision: Revision,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<(String, TreeEntry)>, StoreError> {
        let mut objects = self.objects();
        let mut folder = FolderFinder::new(&mut objects, &self.branch.layout.folder);
        let id = folder.at(revision)?;
        let bytes = folder.bytes(id)?;
        let named = entries(&bytes).filter_map(|entry| {
            let name = String::from_utf8_lossy(entry.name);
            (is_collection_file(&name) && is_wanted(&name))
                .then(|| (name.into_owned(), entry.pointer.tree_entry()))
        });
        let mut files: Vec<_> = named.collect();
        files.sort_by(|(one, _), (two, _)| one.cmp(two));
        files.dedup_by(|(one, _), (two, _)| one == two);
        Ok(files)
    }

    fn changes(&self, from: Option<Revision>, to: Option<Revision>) -> Result<Vec<FileChange>, StoreError> {
        self.reader().differences(from, to)
    }

    fn contents(&self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError> {
        self.reader().contents(blobs, each)
    }

    fn descends(&self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        self.reader().descends(descendant, ancestor)
    }

    fn read_cached(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.note(name).read()
    }

    fn write_cached(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let note = self.note(name);
        make_folders(&self.branch.layout.common_dir, note.folder())?;
        note.replace(bytes)
    }
}
