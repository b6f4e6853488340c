//! Which repository a command means.
//!
//! What serves or makes a repository takes `--repo`, else `./settings`. What reads one, or undoes in it,
//! looks further, as git does: where there is no `./settings`, it takes the repository around the present
//! folder, in which whoever edits by hand stands.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::config::REPOSITORY_DEFAULT;
use crate::store::git::around;

/// The repository to read.
///
/// # Errors
///
/// Names `--repo` where there is none.
pub(crate) fn find(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let usual = Path::new(REPOSITORY_DEFAULT);
    if usual.exists() {
        return Ok(usual.to_owned());
    }
    around(Path::new(".")).with_context(|| {
        format!(
            "there is no {REPOSITORY_DEFAULT}, and no repository around this folder; name one with --repo DIR"
        )
    })
}
