//! What is checked: a repository, or some files of one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::cli::flags::repository;
use crate::cli::{Failure, folder_of};
use crate::store::git::enclosing_repository;

/// A repository, and the files to check if only some are wanted.
pub(crate) struct CheckSubject {
    pub(crate) repository: PathBuf,
    pub(crate) files: Vec<PathBuf>,
}

impl CheckSubject {
    /// Sorts the arguments into a folder and files. Without a folder, the repository is the given one, that of the
    /// files, or the one that [`repository::find`] returns.
    pub(crate) fn of(arguments: &[PathBuf], given: Option<&Path>) -> Result<Self, Failure> {
        let (files, folders): (Vec<_>, Vec<_>) = arguments.iter().cloned().partition(|it| it.is_file());
        let repository = match (&folders[..], files.first(), given) {
            ([folder], ..) => whole(folder),
            ([], Some(file), None) => {
                let nowhere = || format!("{} lies in no repository", file.display());
                enclosing_repository(folder_of(file)).with_context(nowhere)?
            }
            ([], ..) => repository::find(given)?,
            _ => return Err(Failure::Usage("name one repository, or files of one".to_owned())),
        };
        Ok(Self { repository, files })
    }
}

/// Returns the repository that a folder is, or is inside of.
fn whole(folder: &Path) -> PathBuf {
    let is_itself = |above: &PathBuf| fs::canonicalize(folder).is_ok_and(|folder| folder == *above);
    enclosing_repository(folder).filter(|above| !is_itself(above)).unwrap_or_else(|| folder.to_owned())
}

/// Returns the path of a file inside a work tree; a link is not followed.
pub(crate) fn path_in_work_tree(work_tree: &Path, file: &Path) -> anyhow::Result<String> {
    let elsewhere = || format!("{} is not in {}", file.display(), work_tree.display());
    let folder = fs::canonicalize(folder_of(file)).with_context(elsewhere)?;
    let path = folder.join(file.file_name().with_context(elsewhere)?);
    let path = path.strip_prefix(fs::canonicalize(work_tree)?).ok().and_then(Path::to_str);
    Ok(path.with_context(elsewhere)?.replace(std::path::MAIN_SEPARATOR, "/"))
}
