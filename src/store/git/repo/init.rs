//! Creates repositories.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::store::git::disk::barrier::Barrier;
use crate::store::git::repo::layout::Layout;
use crate::store::{AtPath as _, StoreError};

const BRANCH: &str = "main";

/// The form of a new repository.
#[derive(Debug, Clone, Copy)]
pub struct NewRepository<'a> {
    /// Whether it has no work tree.
    pub is_bare: bool,
    /// The branch that `HEAD` names, without `refs/heads/`.
    pub branch: &'a str,
}

impl Default for NewRepository<'_> {
    fn default() -> Self {
        Self { is_bare: false, branch: BRANCH }
    }
}

/// Creates a repository at `path` if nothing is there; returns whether it did.
///
/// # Errors
///
/// Refuses a folder that is neither empty nor a repository.
pub(crate) fn init(path: &Path, new: NewRepository<'_>, barrier: &Barrier) -> Result<bool, StoreError> {
    const MAKE: &str = "make a repository at";
    let path = &std::path::absolute(path).at(MAKE, path)?;
    let git_dir = if new.is_bare { path.clone() } else { path.join(".git") };
    if !path.exists() {
        barrier.make_folder(Path::new("/"), path)?;
    }
    // Of several programs that make it at once, one does, and the others find it made. Where the folder can't be locked,
    // they are told of each other by the lock of the service.
    let _alone = File::open(path).and_then(|folder| folder.lock().map(|()| folder));
    if !is_unfinished(path, &git_dir) {
        if path.join(".git").exists() || Layout::find(path, ".").is_ok() {
            return Ok(false);
        }
        if !is_empty(path)? {
            // This fails with a description of what is there instead.
            return Layout::find(path, ".").map(|_| false);
        }
    }
    barrier.make_folder(Path::new("/"), &git_dir)?;
    fill(&git_dir, new).at(MAKE, path)?;
    // `HEAD` is created last, when everything else is on disk; until then the folder is not a repository.
    barrier.file_system(&git_dir)?;
    fs::rename(git_dir.join(HEAD_DRAFT), git_dir.join("HEAD")).at(MAKE, path)?;
    barrier.folder(&git_dir)?;
    Ok(true)
}

fn fill(git_dir: &Path, new: NewRepository<'_>) -> io::Result<()> {
    // First, because a bare repository that is unfinished is recognised by it.
    fs::write(git_dir.join(HEAD_DRAFT), format!("ref: refs/heads/{}\n", new.branch))?;
    FOLDERS.iter().try_for_each(|folder| fs::create_dir_all(git_dir.join(folder)))?;
    fs::write(git_dir.join("config"), config(new.is_bare))?;
    fs::write(git_dir.join("description"), DESCRIPTION)
}

fn is_empty(path: &Path) -> Result<bool, StoreError> {
    let entries = fs::read_dir(path).at_if_there("open", path)?;
    Ok(entries.is_none_or(|mut entries| entries.next().is_none()))
}

/// Reports whether a previous [`init`] was interrupted here: the folder contains only a part of what `init` creates.
fn is_unfinished(path: &Path, git_dir: &Path) -> bool {
    let made = FOLDERS.iter().flat_map(|folder| Path::new(folder).ancestors());
    let made: BTreeSet<PathBuf> = made
        .chain(["config", "description", HEAD_DRAFT].map(Path::new))
        .map(|inside| git_dir.join(inside))
        .collect();
    let is_alone = git_dir == path && git_dir.join(HEAD_DRAFT).exists()
        || git_dir != path && fs::read_dir(path).is_ok_and(|entries| entries.count() == 1);
    is_alone && git_dir.is_dir() && holds_only(git_dir, &made)
}

fn holds_only(folder: &Path, made: &BTreeSet<PathBuf>) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.map(|entry| entry.map(|entry| entry.path())).all(|path| {
        path.is_ok_and(|path| made.contains(&path) && (!path.is_dir() || holds_only(&path, made)))
    })
}

const FOLDERS: [&str; 5] = ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"];

const HEAD_DRAFT: &str = "HEAD.new";

/// What `git init` writes, plus reflogs even for a bare repository, because they record where branches were before.
fn config(is_bare: bool) -> String {
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = {is_bare}\n\tlogallrefupdates = true\n"
    )
}

const DESCRIPTION: &str = "Unnamed repository; edit this file 'description' to name the repository.\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_whose_making_was_cut_short_is_made_again() {
        for is_bare in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("settings");
            let git_dir = if is_bare { path.clone() } else { path.join(".git") };
            let new = NewRepository { is_bare, ..NewRepository::default() };
            // Something in the place of a file cuts it short.
            fs::create_dir_all(git_dir.join("config")).unwrap();
            fill(&git_dir, new).unwrap_err();
            fs::remove_dir(git_dir.join("config")).unwrap();
            assert!(init(&path, new, &Barrier::default()).unwrap());
            assert!(!init(&path, new, &Barrier::default()).unwrap());
        }
    }

    #[test]
    fn of_several_that_make_a_repository_at_once_one_does() {
        for is_bare in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let new = NewRepository { is_bare, ..NewRepository::default() };
            for round in 0..20 {
                let path = folder.path().join(format!("{round}/settings"));
                let made = std::thread::scope(|scope| {
                    let makers = [(); 6].map(|()| scope.spawn(|| init(&path, new, &Barrier::default())));
                    makers.map(|maker| maker.join().unwrap().unwrap())
                });
                assert_eq!(made.iter().filter(|made| **made).count(), 1);
                assert_eq!(
                    fs::read_to_string(Layout::find(&path, ".").unwrap().git_dir.join("HEAD")).unwrap(),
                    "ref: refs/heads/main\n"
                );
            }
        }
    }

    #[test]
    fn a_folder_with_more_than_an_unfinished_repository_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let new = NewRepository { is_bare: true, ..NewRepository::default() };
        for theirs in ["refs/heads", "objects/info", "objects/pack"] {
            fs::create_dir_all(folder.path().join(theirs)).unwrap();
        }
        init(folder.path(), new, &Barrier::default()).unwrap_err();
        fs::write(folder.path().join(HEAD_DRAFT), "").unwrap();
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        init(folder.path(), new, &Barrier::default()).unwrap_err();
    }
}
