//! The repository that a command works on.
//!
//! Commands that serve or create a repository take `--repo`, or else `./settings`. Commands that read one, or undo in
//! it, search further, as git does: without `./settings` they take the repository around the current folder, where
//! people who edit by hand usually are.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::builder::NonEmptyStringValueParser;

use crate::config::{FOLDER_DEFAULT, REPOSITORY_DEFAULT};
use crate::store::StoreError;
use crate::store::git::{Access, GitJournal, Options, enclosing_repository};

/// The repository and the branch.
#[derive(Debug, clap::Args)]
pub(crate) struct Repository {
    /// The repository [default: ./settings, else the one around the current directory].
    #[arg(id = "repository", long = "repo", env = "COLLECTORY_REPO", value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// The branch [default: the one that a running service serves, else the one that HEAD names].
    #[arg(long, env = "COLLECTORY_BRANCH", value_name = "NAME",
          value_parser = NonEmptyStringValueParser::new())]
    pub(crate) branch: Option<String>,
}

/// The folder of the collection files.
#[derive(Debug, clap::Args)]
pub(crate) struct FolderArgs {
    /// The folder of the collection files inside the repository.
    #[arg(id = "folder", long = "path", env = "COLLECTORY_PATH", value_name = "FOLDER", default_value = FOLDER_DEFAULT,
          value_parser = NonEmptyStringValueParser::new())]
    pub(crate) path: String,
}

/// The signing key of commits.
#[derive(Debug, clap::Args)]
pub(crate) struct Signing {
    /// Sign the commit with the SSH key in this file, as `serve --signing-key` does.
    #[arg(id = "signing_key", long = "signing-key", env = "COLLECTORY_SIGNING_KEY", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

impl Repository {
    /// Returns the path of the repository.
    ///
    /// # Errors
    ///
    /// Suggests `--repo` if there is no repository.
    pub(crate) fn find(&self) -> anyhow::Result<PathBuf> {
        find(self.dir.as_deref())
    }

    /// Returns how the repository is opened. Wrong flags are refused first, because they are wrong for any repository.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find), and if a flag is wrong.
    pub(crate) fn options(&self, folder: &FolderArgs, access: Access) -> anyhow::Result<Options> {
        let (branch, folder) = (self.branch.clone(), folder.path.clone());
        let options = Options { branch, folder, access, ..Options::new(".") };
        options.check()?;
        Ok(Options { path: self.find()?, ..options })
    }
}

/// Whether a service holds the repository; the kernel releases its lock when it dies.
pub(crate) fn is_served(common_dir: &Path) -> bool {
    let lock = File::open(common_dir.join("collectory/lock"));
    // Shared, because two commands may look at the same time, and an NFS grants no other lock on a file opened to read.
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Opens the repository for reading; without a named branch at the one that a running service serves, whatever is checked
/// out.
///
/// # Errors
///
/// As `open`.
pub(crate) fn open_as_served(
    options: &Options,
    open: fn(Options) -> Result<GitJournal, StoreError>,
) -> Result<GitJournal, StoreError> {
    let journal = open(options.clone())?;
    if options.branch.is_some() || !is_served(journal.common_dir()) {
        return Ok(journal);
    }
    match journal.last_served_branch()? {
        Some(branch) => open(Options { branch: Some(branch), ..options.clone() }),
        None => Ok(journal),
    }
}

/// Returns the path of the repository to read.
///
/// # Errors
///
/// Suggests `--repo` if there is no repository.
pub(crate) fn find(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let usual = Path::new(REPOSITORY_DEFAULT);
    if usual.exists() {
        return Ok(usual.to_owned());
    }
    enclosing_repository(Path::new(".")).with_context(|| {
        format!(
            "there is no {REPOSITORY_DEFAULT}, and no repository around this folder; name one with --repo DIR"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_service_is_told_from_another_command_that_looks_for_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_served(folder.path()));
        fs::create_dir(folder.path().join("collectory")).unwrap();
        let lock = File::create(folder.path().join("collectory/lock")).unwrap();
        lock.lock_shared().unwrap();
        assert!(!is_served(folder.path()), "another command looks");
        lock.unlock().unwrap();
        lock.lock().unwrap();
        assert!(is_served(folder.path()));
    }
}
