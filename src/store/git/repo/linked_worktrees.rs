//! Other work trees of the same repository.

use std::fs;
use std::path::Path;

use crate::store::StoreError;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::repo::branch::Branch;
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::refs::{self, Head};

/// Refuses a branch that another work tree of the repository shows, as git refuses to fetch or push
/// into such a branch. One may be added at any time, so this is asked before every group of commits.
pub(crate) fn check_elsewhere(branch: &Branch) -> Result<(), StoreError> {
    let layout = &branch.layout;
    let linked = fs::read_dir(layout.common_dir.join("worktrees"));
    let linked = linked.into_iter().flatten().flatten().map(|entry| entry.path());
    let main = (layout.git_dir != layout.common_dir).then(|| layout.common_dir.clone());
    for git_dir in linked.chain(main).filter(|git_dir| *git_dir != layout.git_dir) {
        if !matches!(refs::head(&git_dir), Ok(Head::Ref(name)) if name == branch.name) {
            continue;
        }
        let at = read_if_there(&git_dir.join("gitdir"))?
            .map(|text| String::from_utf8_lossy(&text).trim().to_owned());
        let Some(at) =
            at.map_or_else(|| main_work_tree(&git_dir), |at| Path::new(&at).parent().map(Path::to_owned))
        else {
            continue;
        };
        if at.exists() {
            let (path, branch) = (layout.path.clone(), branch.name.clone());
            return Err(StoreError::ShownElsewhere { path, branch, at });
        }
    }
    Ok(())
}

/// The main work tree of a repository, unless it is bare.
fn main_work_tree(common_dir: &Path) -> Option<std::path::PathBuf> {
    Layout::find(common_dir, ".").ok()?.work_tree
}
