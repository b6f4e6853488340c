//! The served branch: which one it is, how it is accessed, whether it exists, and which work trees show it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::repo::layout::{Layout, path_named_in};
use crate::store::git::repo::refs::{self, GitHead};
use crate::store::git::repo::served;

const BRANCHES: &str = "refs/heads/";

/// The pseudo-branch of a survey of a detached `HEAD`.
pub(crate) const DETACHED: &str = "HEAD";

const NAMED_MAX: usize = 10;

/// Reports whether git accepts this as a branch name, with or without `refs/heads/` (`git check-ref-format --branch`).
pub(crate) fn is_name(name: &str) -> bool {
    let short = name.strip_prefix(BRANCHES).unwrap_or(name);
    short != "HEAD"
        && !short.starts_with('-')
        && git2::Reference::is_valid_name(&format!("{BRANCHES}{short}"))
}

/// The purpose for which a repository is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read and write, exclusively: a second opening is refused.
    Serve,
    /// To read, alongside the process that serves; nothing is written, not even a note.
    Read,
    /// To read the files of the work tree, on any branch or none; nothing is written either.
    Survey,
}

#[derive(Debug, Clone)]
pub(crate) struct Branch {
    pub(crate) layout: Arc<Layout>,
    /// Its full name, or [`DETACHED`].
    pub(crate) name: String,
}

impl Branch {
    /// Chooses the branch that is requested or else the one that `HEAD` names. If `HEAD` is detached, as in the
    /// middle of a rebase or a bisection, it is the branch that was served last; for a survey it is [`DETACHED`].
    ///
    /// # Errors
    ///
    /// Refuses an unborn branch if other branches have commits, or a branch that is gone was served: an empty list would
    /// then be the result of a typing error or of damage. The first branch of a new repository is accepted. A survey may also read what is about to become the
    /// first commit of another branch (`git checkout --orphan`).
    pub(crate) fn choose(layout: Layout, wanted: Option<&str>, access: Access) -> Result<Self, StoreError> {
        let name = match wanted {
            Some(name) => full_name(name),
            None => match layout.head()? {
                GitHead::Ref(name) if name.starts_with(BRANCHES) => name,
                GitHead::Ref(name) => {
                    return Err(layout.unsuitable(format!("HEAD names {name}, which is no branch")));
                }
                GitHead::Detached(_) if access == Access::Survey => DETACHED.to_owned(),
                GitHead::Detached(_) => last_served(&layout)?,
            },
        };
        if name != DETACHED && !is_name(&name) {
            return Err(layout.unsuitable(format!("{name} is no name for a branch")));
        }
        let branch = Self { layout: Arc::new(layout), name };
        let is_about_to_be =
            access == Access::Survey && wanted.is_none() && branch.layout.work_tree.is_some();
        if !is_about_to_be {
            branch.check_born(wanted.is_some())?;
        }
        Ok(branch)
    }

    fn check_born(&self, is_wanted: bool) -> Result<(), StoreError> {
        if self.tip()?.is_some() {
            return Ok(());
        }
        let others = all(&self.layout)?;
        if others.is_empty() {
            return check_never_served(&self.layout);
        }
        let whose = if is_wanted { "" } else { ", which HEAD names," };
        Err(self.layout.unsuitable(format!(
            "it has no branch `{}`{whose} but {}; name one of them with --branch",
            self.short_name(),
            listed(&others)
        )))
    }

    /// The commit that the branch names, or `HEAD` in its stead.
    pub(crate) fn tip(&self) -> Result<Option<Revision>, StoreError> {
        match self.name.as_str() {
            DETACHED => self.layout.head_commit(),
            name => Ok(refs::read(&self.layout.common_dir, name)?.map(Revision::new)),
        }
    }

    /// Refuses a branch that another work tree of the repository shows, as git refuses to fetch or push into such a
    /// branch. A work tree may be added at any time, so this is checked before every group of commits.
    pub(crate) fn check_other_work_trees(&self) -> Result<(), StoreError> {
        let layout = &self.layout;
        let linked = fs::read_dir(layout.common_dir.join("worktrees"));
        let linked = linked.into_iter().flatten().flatten().map(|entry| entry.path());
        let main = (layout.git_dir != layout.common_dir).then(|| layout.common_dir.clone());
        for git_dir in linked.chain(main).filter(|git_dir| *git_dir != layout.git_dir) {
            if !matches!(refs::head(&git_dir), Ok(GitHead::Ref(name)) if name == self.name) {
                continue;
            }
            let dot_git = read_if_there(&git_dir.join("gitdir"))?;
            let at = match dot_git {
                // The path of the work tree's `.git`, which may be relative to the file.
                Some(text) => path_named_in(&git_dir, &text).parent().map(Path::to_owned),
                None => main_work_tree(&git_dir),
            };
            let Some(at) = at else { continue };
            if at.exists() {
                let (path, branch) = (layout.path.clone(), self.name.clone());
                return Err(StoreError::CheckedOutElsewhere { path, branch, at });
            }
        }
        Ok(())
    }

    /// Its name without `refs/heads/`.
    pub(crate) fn short_name(&self) -> &str {
        self.name.strip_prefix(BRANCHES).unwrap_or(&self.name)
    }
}

/// Refuses a repository without branches in which one was served.
fn check_never_served(layout: &Layout) -> Result<(), StoreError> {
    let Some((name, revision)) = served::read(layout)? else { return Ok(()) };
    Err(layout.unsuitable(format!(
        "{name}, which was served last, is gone, and no other branch is there; bring it back with `git update-ref {name} \
         {revision}`, or remove `collectory/served` from the git folder to begin anew"
    )))
}

/// Returns the branch that was served last, to be served again where `HEAD` is detached.
fn last_served(layout: &Layout) -> Result<String, StoreError> {
    let is_there =
        |name: &String| is_name(name) && matches!(refs::read(&layout.common_dir, name), Ok(Some(_)));
    let Some(name) = served::read(layout)?.map(|(name, _)| name).filter(is_there) else {
        let why = "HEAD is detached, so it names no branch to serve; check one out or name one with --branch";
        return Err(layout.unsuitable(why));
    };
    tracing::warn!(branch = name, "HEAD is detached, so the branch that was served last is served");
    Ok(name)
}

fn main_work_tree(common_dir: &Path) -> Option<PathBuf> {
    Layout::find(common_dir, ".").ok()?.work_tree
}

/// Returns the full name of a branch, given with or without `refs/heads/`.
pub(crate) fn full_name(name: &str) -> String {
    format!("{BRANCHES}{}", name.strip_prefix(BRANCHES).unwrap_or(name))
}

fn listed(names: &[String]) -> String {
    let named = names.iter().take(NAMED_MAX).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn all(layout: &Layout) -> Result<Vec<String>, StoreError> {
    let mut names = refs::names(&layout.common_dir, BRANCHES)?;
    names.retain(|name| is_name(name));
    Ok(names.into_iter().map(|name| name[BRANCHES.len()..].to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_called_what_git_would_call_it() {
        for name in ["main", "team/settings", "refs/heads/main", "a/HEAD", "@"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "HEAD", "refs/heads/HEAD", "-x", "a..b", "a b", "x.lock", "main~1", "a//b", "x/"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
