//! Creates commits exactly as a test needs them, quickly and without a work tree.

use std::path::Path;
use std::sync::Arc;

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Oid, Repository, Signature, Time};

use crate::domain::Revision;
use crate::store::git::GitArchive;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::read::reader::Reader;
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::refs::branch::{Branch, full_name};
use crate::store::git::tests::support::Repo;

fn oid(revision: Revision) -> Oid {
    Oid::from_bytes(revision.as_bytes()).unwrap()
}

fn revision(id: Oid) -> Revision {
    Revision::new(id.as_bytes().try_into().unwrap())
}

/// The time of the first commit of a person; each further one follows a minute later.
const FIRST_AT: i64 = 1_700_000_000;

/// The new entry of a name in the folder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NewEntry {
    File(String),
    Link,
    Nothing,
}

/// The description of a commit to create.
pub(crate) struct CommitSpec<'a> {
    pub(crate) parents: &'a [Revision],
    pub(crate) files: &'a [(&'a str, NewEntry)],
    pub(crate) message: &'a str,
    pub(crate) author: (&'a str, &'a str),
    pub(crate) committer: (&'a str, &'a str),
    pub(crate) at: i64,
}

/// The archive of the branch `main` of the repository at a path, in any state.
pub(crate) fn archive_at(path: &Path, collections: &str) -> GitArchive {
    let layout = Arc::new(Layout::find(path, collections).unwrap());
    let reader = Reader::new(&layout);
    GitArchive::beside(&reader, &Branch { layout, name: full_name("main") }, &Barrier::default())
}

impl Repo {
    fn library(&self) -> Repository {
        Repository::open(self.path()).unwrap()
    }

    pub(crate) fn archive(&self) -> Arc<GitArchive> {
        Arc::new(archive_at(self.path(), self.collections))
    }

    /// Creates a commit that no ref points to.
    pub(crate) fn make(&self, making: &CommitSpec<'_>) -> Revision {
        self.make_with(&self.library(), making)
    }

    fn make_with(&self, git: &Repository, making: &CommitSpec<'_>) -> Revision {
        let parents: Vec<_> = making.parents.iter().map(|it| git.find_commit(oid(*it)).unwrap()).collect();
        let mut update = TreeUpdateBuilder::new();
        for (name, put) in making.files {
            let path = Path::new(self.collections).join(name);
            match put {
                NewEntry::File(text) => {
                    update.upsert(path, git.blob(text.as_bytes()).unwrap(), FileMode::Blob)
                }
                NewEntry::Link => update.upsert(path, git.blob(b"elsewhere").unwrap(), FileMode::Link),
                NewEntry::Nothing => update.remove(path),
            };
        }
        let empty = || git.find_tree(git.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let base = parents.first().map_or_else(empty, |parent| parent.tree().unwrap());
        let tree = git.find_tree(update.create_updated(git, &base).unwrap()).unwrap();
        let who =
            |(name, email): (&str, &str)| Signature::new(name, email, &Time::new(making.at, 60)).unwrap();
        let parents: Vec<_> = parents.iter().collect();
        let id =
            git.commit(None, &who(making.author), &who(making.committer), making.message, &tree, &parents);
        revision(id.unwrap())
    }

    pub(crate) fn point(&self, reference: &str, at: Revision) {
        self.library().reference(reference, oid(at), true, "test").unwrap();
    }

    /// Adds a person's commit to `main`, with its files given as text; an empty text removes a file.
    pub(crate) fn add_commit(&self, files: &[(&str, &str)], message: &str) -> Revision {
        let git = self.library();
        let parent = git.find_reference("refs/heads/main").ok().map(|main| main.peel_to_commit().unwrap());
        let at = parent.as_ref().map_or(FIRST_AT, |parent| FIRST_AT.max(parent.time().seconds() + 60));
        let parent = parent.map(|parent| revision(parent.id()));
        let put =
            |text: &str| if text.is_empty() { NewEntry::Nothing } else { NewEntry::File(text.to_owned()) };
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, put(text))).collect();
        let parents: Vec<_> = parent.into_iter().collect();
        let mara = ("Mara", "mara@example.org");
        let (parents, files) = (parents.as_slice(), files.as_slice());
        let spec = CommitSpec { parents, files, message, author: mara, committer: mara, at };
        let made = self.make_with(&git, &spec);
        git.reference("refs/heads/main", oid(made), true, "test").unwrap();
        made
    }

    pub(crate) fn tag(&self, name: &str, at: &str) {
        self.git(&["tag", "-f", "-a", "-m", "tagged", name, at]);
    }

    /// The content of a file at a revision, as git reads it.
    pub(crate) fn show(&self, at: Revision, name: &str) -> Option<Vec<u8>> {
        let git = self.library();
        let tree = git.find_commit(oid(at)).unwrap().tree().unwrap();
        let entry = tree.get_path(&Path::new(self.collections).join(name)).ok()?;
        if entry.filemode() == i32::from(FileMode::Link) {
            return Some(b"(a link)".to_vec());
        }
        Some(git.find_blob(entry.id()).ok()?.content().to_vec())
    }

    /// The commits of `git log --first-parent`, oldest first.
    pub(crate) fn first_parents(&self) -> Vec<Revision> {
        let log = self.git(&["log", "--first-parent", "--format=%H", "--reverse", "main"]);
        log.lines().map(|line| line.parse().unwrap()).collect()
    }
}
