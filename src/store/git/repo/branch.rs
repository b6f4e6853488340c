//! Which branch is served, and whether there is one of that name.

use crate::store::StoreError;
use crate::store::git::object::id::Oid;
use crate::store::git::repo::access::Access;
use crate::store::git::repo::layout::Place;
use crate::store::git::repo::refs::{self, Head};

const BRANCHES: &str = "refs/heads/";

/// What stands for a branch while a survey looks at a commit that is checked out by itself.
pub(crate) const DETACHED: &str = "HEAD";

/// How many branches an error names.
const NAMED_MAX: usize = 10;

/// Whether git would make a branch of this name, given with or without `refs/heads/`
/// (`git check-ref-format --branch`).
pub(crate) fn is_name(name: &str) -> bool {
    let short = name.strip_prefix(BRANCHES).unwrap_or(name);
    short != "HEAD"
        && !short.starts_with('-')
        && git2::Reference::is_valid_name(&format!("{BRANCHES}{short}"))
}

/// The whole name of the branch that is asked for, or that `HEAD` names; [`DETACHED`] if it names
/// none and that will do.
pub(crate) fn choose(place: &Place, wanted: Option<&str>, access: Access) -> Result<String, StoreError> {
    let branch = match wanted {
        Some(name) => format!("{BRANCHES}{}", name.strip_prefix(BRANCHES).unwrap_or(name)),
        None => match place.head.read()? {
            Head::Ref(name) if name.starts_with(BRANCHES) => name,
            Head::Ref(name) => return Err(place.unsuitable(format!("HEAD names {name}, which is no branch"))),
            Head::Detached(_) if access == Access::Survey => return Ok(DETACHED.to_owned()),
            Head::Detached(_) => {
                let why = "HEAD is detached, so it names no branch to serve; check one out or name one with --branch";
                return Err(place.unsuitable(why));
            }
        },
    };
    if is_name(&branch) {
        return Ok(branch);
    }
    Err(place.unsuitable(format!("{branch} is no name for a branch")))
}

/// Refuses a branch without a commit where others have some: an empty list is then a typing error
/// and not the truth. The first branch of a new repository is fine.
///
/// A survey may look at what is about to become the first commit of another branch
/// (`git checkout --orphan`).
pub(crate) fn check_born(
    place: &Place,
    branch: &str,
    wanted: Option<&str>,
    access: Access,
) -> Result<(), StoreError> {
    let is_about_to_be = access == Access::Survey && wanted.is_none() && place.work_tree.is_some();
    if is_about_to_be || tip(place, branch)?.is_some() {
        return Ok(());
    }
    let others = all(place)?;
    if others.is_empty() {
        return Ok(());
    }
    let name = branch.strip_prefix(BRANCHES).unwrap_or(branch);
    let whose = if wanted.is_some() { "" } else { ", which HEAD names," };
    Err(place.unsuitable(format!(
        "it has no branch `{name}`{whose} but {}; name one of them with --branch",
        listed(&others)
    )))
}

/// The commit that the branch names, or `HEAD` in its stead.
pub(crate) fn tip(place: &Place, branch: &str) -> Result<Option<Oid>, StoreError> {
    if branch != DETACHED {
        return refs::read(&place.common_dir, branch);
    }
    match place.head.read()? {
        Head::Detached(oid) => Ok(Some(oid)),
        Head::Ref(name) => refs::read(&place.common_dir, &name),
    }
}

fn listed(names: &[String]) -> String {
    let named = names.iter().take(NAMED_MAX).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The short names of all branches, sorted.
fn all(place: &Place) -> Result<Vec<String>, StoreError> {
    let mut names = refs::names(&place.common_dir, BRANCHES)?;
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
