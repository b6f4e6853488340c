//! Repositories for tests: any commit, made as one wants it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Oid, Repository, RepositoryInitOptions, Signature, Time};

use super::GitArchive;
use crate::domain::Revision;

fn oid(bytes: &[u8; 20]) -> Oid {
    Oid::from_bytes(bytes).unwrap()
}

fn revision(id: Oid) -> Revision {
    Revision::new(id.as_bytes().try_into().unwrap())
}

/// What a commit does to a name of the folder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Put {
    File(String),
    Link,
    Nothing,
}

/// A repository in a temporary folder.
pub(crate) struct Repo {
    dir: tempfile::TempDir,
    repository: Repository,
    folder: &'static str,
}

/// A commit to be made.
pub(crate) struct Making<'a> {
    pub(crate) parents: &'a [Revision],
    pub(crate) files: &'a [(&'a str, Put)],
    pub(crate) message: &'a str,
    pub(crate) author: (&'a str, &'a str),
    pub(crate) committer: (&'a str, &'a str),
    pub(crate) at: i64,
}

impl Repo {
    /// A bare repository whose branch is `main`.
    pub(crate) fn new(folder: &'static str) -> Self {
        Self::init(folder, true)
    }

    pub(crate) fn init(folder: &'static str, bare: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = RepositoryInitOptions::new();
        options.initial_head("main").bare(bare).external_template(false);
        let repository = Repository::init_opts(dir.path().join("repo"), &options).unwrap();
        Self { dir, repository, folder }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("repo")
    }

    pub(crate) fn outside(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn archive(&self) -> Arc<GitArchive> {
        Arc::new(GitArchive::open(&self.path(), "main", self.folder).unwrap())
    }

    /// Makes a commit that nothing points to.
    pub(crate) fn make(&self, making: &Making<'_>) -> Revision {
        let git = &self.repository;
        let parents: Vec<_> =
            making.parents.iter().map(|it| git.find_commit(oid(it.as_bytes())).unwrap()).collect();
        let mut update = TreeUpdateBuilder::new();
        for (name, put) in making.files {
            let path =
                if self.folder.is_empty() { (*name).to_owned() } else { format!("{}/{name}", self.folder) };
            match put {
                Put::File(text) => update.upsert(path, git.blob(text.as_bytes()).unwrap(), FileMode::Blob),
                Put::Link => update.upsert(path, git.blob(b"elsewhere").unwrap(), FileMode::Link),
                Put::Nothing => update.remove(path),
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

    /// Points a branch to a commit.
    pub(crate) fn point(&self, reference: &str, at: Revision) {
        self.repository.reference(reference, oid(at.as_bytes()), true, "test").unwrap();
    }

    /// Makes a person's commit on `main`, with its files given as text; an empty text removes.
    pub(crate) fn commit(&self, files: &[(&str, &str)], message: &str) -> Revision {
        let parent = self.repository.refname_to_id("refs/heads/main").ok().map(revision);
        let put = |text: &str| if text.is_empty() { Put::Nothing } else { Put::File(text.to_owned()) };
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, put(text))).collect();
        let parents: Vec<_> = parent.into_iter().collect();
        let at = 1_700_000_000 + self.count(parents.first().copied()) * 60;
        let mara = ("Mara", "mara@example.org");
        let (parents, files) = (parents.as_slice(), files.as_slice());
        let made = self.make(&Making { parents, files, message, author: mara, committer: mara, at });
        self.point("refs/heads/main", made);
        made
    }

    fn count(&self, from: Option<Revision>) -> i64 {
        let mut walk = self.repository.revwalk().unwrap();
        let pushed = from.map(|from| walk.push(oid(from.as_bytes())).unwrap());
        if pushed.is_some() { i64::try_from(walk.count()).unwrap() } else { 0 }
    }

    pub(crate) fn tag(&self, name: &str, at: &str) {
        let object = self.repository.revparse_single(at).unwrap();
        let who = Signature::new("t", "t@t", &Time::new(1, 0)).unwrap();
        self.repository.tag(name, &object, &who, "tagged", true).unwrap();
    }

    /// Runs git, hermetically, and returns what it prints.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .current_dir(self.path())
            .args(arguments)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The content of a file at a revision, as git shows it.
    pub(crate) fn show(&self, revision: Revision, name: &str) -> Option<Vec<u8>> {
        let id = Oid::from_bytes(revision.as_bytes()).unwrap();
        let tree = self.repository.find_commit(id).unwrap().tree().unwrap();
        let entry = tree.get_path(&Path::new(self.folder).join(name)).ok()?;
        if entry.filemode() == i32::from(FileMode::Link) {
            return Some(b"(a link)".to_vec());
        }
        Some(self.repository.find_blob(entry.id()).ok()?.content().to_vec())
    }

    /// The commits of `git log --first-parent`, oldest first.
    pub(crate) fn first_parents(&self) -> Vec<Revision> {
        let log = self.git(&["log", "--first-parent", "--format=%H", "--reverse", "main"]);
        log.lines().map(|line| line.parse().unwrap()).collect()
    }
}
