//! A new repository.

use std::fs;
use std::path::Path;

use crate::store::StoreError;
use crate::store::git::repo::layout::Place;

/// The branch of a new repository.
const BRANCH: &str = "main";

/// Makes a repository with a work tree at `path` when nothing is there, and answers whether it did.
///
/// # Errors
///
/// Refuses a folder that holds something but no repository.
pub(crate) fn init(path: &Path) -> Result<bool, StoreError> {
    if path.join(".git").exists() || Place::find(path, ".").is_ok() {
        return Ok(false);
    }
    let is_empty = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(source) => return Err(StoreError::at("open", path, source)),
    };
    if !is_empty {
        // Says what stands there instead.
        return Place::find(path, ".").map(|_| false);
    }
    let git_dir = path.join(".git");
    let made = ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"]
        .iter()
        .try_for_each(|folder| fs::create_dir_all(git_dir.join(folder)))
        .and_then(|()| fs::write(git_dir.join("config"), CONFIG))
        .and_then(|()| fs::write(git_dir.join("description"), DESCRIPTION))
        // `HEAD` comes last: without it the folder is no repository yet.
        .and_then(|()| fs::write(git_dir.join("HEAD"), format!("ref: refs/heads/{BRANCH}\n")));
    made.map_err(|source| StoreError::at("make a repository at", path, source))?;
    Ok(true)
}

/// What `git init` writes.
const CONFIG: &str = "[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
";

const DESCRIPTION: &str = "Unnamed repository; edit this file 'description' to name the repository.\n";
