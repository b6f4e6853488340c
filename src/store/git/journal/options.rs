//! How a repository is to be opened.

use std::path::PathBuf;

use crate::domain::Actor;
use crate::store::StoreError;
use crate::store::git::maintenance::commit_graph;
use crate::store::git::repo::branch::Access;
use crate::store::git::repo::{branch, layout};
use crate::store::signature::SigningKey;

/// How a repository is to be opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The repository: a work tree, a linked work tree, or a bare repository.
    pub path: PathBuf,
    /// The branch to serve, with or without `refs/heads/`; by default the one that `HEAD` names. It
    /// must exist, unless the repository has no branch at all.
    pub branch: Option<String>,
    /// The collections folder inside the repository, such as `collections` or `.cms/collections`.
    pub folder: String,
    /// The committer of every commit.
    pub committer: Actor,
    /// What to sign every commit with; nothing without it.
    pub signing_key: Option<SigningKey>,
    /// How long to wait for a lock of another git process.
    pub lock_wait_ms_max: u64,
    /// What to open it for.
    pub access: Access,
    /// Whether to keep up the commit-graph, to merge small packs and to pack loose objects in the
    /// background; the latter two never where `extensions.preciousObjects` forbids to remove any.
    pub maintain: bool,
    /// How many commits the commit-graph may lack before it is written again.
    pub graph_commits_min: usize,
    /// The git command that writes it, looked for in `PATH`.
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

    /// Checks what can be told without looking at a repository.
    ///
    /// # Errors
    ///
    /// Refuses names that can be no branch and no folder ([`StoreError::Misnamed`]).
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
