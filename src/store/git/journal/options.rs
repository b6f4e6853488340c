//! Options for opening a repository.

use std::path::PathBuf;

use crate::domain::Actor;
use crate::store::StoreError;
use crate::store::git::maintenance::commit_graph;
use crate::store::git::repo::layout;
use crate::store::git::repo::refs::branch;
use crate::store::git::repo::refs::branch::Access;
use crate::store::signature::SigningKey;

/// Options for opening a repository.
#[derive(Debug, Clone)]
pub struct Options {
    /// The repository: a work tree, a linked work tree, or a bare repository.
    pub path: PathBuf,
    /// The branch to serve, with or without `refs/heads/`; by default the one that `HEAD` names. It must exist, unless
    /// the repository has no branches yet.
    pub branch: Option<String>,
    /// The collections folder inside the repository, such as `collections` or `.cms/collections`.
    pub folder: String,
    /// The committer of every commit.
    pub committer: Actor,
    /// The key that signs every commit; without it commits are unsigned.
    pub signing_key: Option<SigningKey>,
    /// How long to wait for a lock of another git process.
    pub lock_wait_ms_max: u64,
    /// The purpose of opening it.
    pub access: Access,
    /// Whether to update the commit-graph, merge small packs and pack loose objects in the background; the latter two
    /// never happen where `extensions.preciousObjects` forbids removing objects.
    pub maintain: bool,
    /// How many commits must be missing from the commit-graph before it is written again.
    pub graph_commits_min: usize,
    /// The git command that maintenance runs, looked up in `PATH`.
    pub git: PathBuf,
}

impl Options {
    /// Options with the defaults of `collectory serve`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            branch: None,
            folder: "collections".to_owned(),
            committer: Actor::service(),
            signing_key: None,
            lock_wait_ms_max: 2_000,
            access: Access::Serve,
            maintain: true,
            graph_commits_min: commit_graph::COMMITS_MIN,
            git: PathBuf::from("git"),
        }
    }

    /// Checks what can be checked without a repository.
    ///
    /// # Errors
    ///
    /// Refuses invalid names of branches and folders ([`StoreError::Misnamed`]).
    pub fn check(&self) -> Result<(), StoreError> {
        layout::parse_folder(&self.folder)?;
        match &self.branch {
            Some(name) if !branch::is_name(name) => {
                Err(StoreError::Misnamed(format!("`{name}` is no name for a branch")))
            }
            Some(_) | None => Ok(()),
        }
    }
}
