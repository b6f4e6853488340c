//! The owner of the repository. Git refuses a repository of another user (`ensure_valid_ownership` in its
//! `setup.c`), because its owner controls what happens in it, and so do we. `safe.directory` is honoured as in git:
//! in the configuration of the system and of the user, never in the repository's own.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::geteuid;

use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::user_config::{environment, safe_directories};
use crate::store::{AtPath as _, StoreError};

/// The value of `safe.directory` that covers every repository.
const EVERYWHERE: &str = "*";

/// Refuses the repository of another user, unless the configuration declares it safe.
pub(crate) fn check(layout: &Layout) -> Result<(), StoreError> {
    let parts = [Some(&layout.git_dir), Some(&layout.common_dir), layout.work_tree.as_ref()];
    let named = layout.work_tree.as_ref().unwrap_or(&layout.git_dir);
    let sudo_user = environment("SUDO_UID").and_then(|uid| uid.to_str()?.parse().ok());
    for part in parts.into_iter().flatten() {
        let there = fs::metadata(part).at("look at", part)?;
        let owner = there.uid();
        if !is_ours(owner, geteuid().as_raw(), sudo_user) && !is_among(&safe_directories(), named) {
            return Err(layout.unsuitable(format!(
                "{} belongs to another user ({owner}); if you trust them, run `git config --global --add \
                 safe.directory {}`, or start `serve` with --any-owner",
                part.display(),
                named.display()
            )));
        }
    }
    Ok(())
}

/// Reports whether a file belongs to our user; for root also to the user who became root with sudo.
fn is_ours(owner: u32, user: u32, sudo_user: Option<u32>) -> bool {
    owner == user || user == 0 && sudo_user == Some(owner)
}

/// Reports whether a list covers a folder; an empty value discards the values before it.
fn is_among(list: &[String], folder: &Path) -> bool {
    let mut is_safe = false;
    for text in list {
        is_safe = match text.as_str() {
            "" => false,
            EVERYWHERE => true,
            text => {
                let (text, below) = text.strip_suffix("/*").map_or((text, false), |above| (above, true));
                let path = fs::canonicalize(text).unwrap_or_else(|_| text.into());
                is_safe || path == folder || below && folder.starts_with(&path)
            }
        };
    }
    is_safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_of_who_runs_us_and_of_who_became_root() {
        assert!(is_ours(7, 7, None) && is_ours(0, 0, None));
        assert!(!is_ours(7, 8, None) && !is_ours(7, 0, None) && !is_ours(0, 7, None));
        assert!(is_ours(7, 0, Some(7)));
        assert!(!is_ours(7, 8, Some(7)), "only root has become somebody");
    }

    #[test]
    fn safe_folders_are_named_as_in_git() {
        let is = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|text| (*text).to_owned()).collect();
            is_among(&list, Path::new("/srv/settings"))
        };
        assert!(is(&["/srv/settings"]) && is(&["/srv/settings/"]) && is(&["*"]) && is(&["/srv/*"]));
        assert!(!is(&[]) && !is(&["/srv"]) && !is(&["/srv/set"]) && !is(&["/srv/set/*"]));
        assert!(!is(&["*", ""]) && is(&["", "*"]));
    }
}
