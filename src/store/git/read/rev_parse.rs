//! Looking where the journal does not: at a commit by any of its names.

use std::path::Path;

use crate::domain::Revision;
use crate::store::git::odb::objects::Objects;
use crate::store::git::read::archive::name::{by_id, by_ref};
use crate::store::git::repo::layout::Layout;
use crate::store::{NameError, StoreError};

/// Where git looks for a name, in its order (gitrevisions(7)).
const PREFIXES: [&str; 5] = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];

/// Finds the commit that a person means: a branch, a tag, an abbreviated id, `HEAD~2`; `None` when nothing
/// is called so.
///
/// # Errors
///
/// Says why the repository can't be read.
pub fn resolve(repository: &Path, name: &str) -> Result<Option<Revision>, StoreError> {
    let layout = Layout::find(repository, "")?;
    let mut objects = Objects::at(&layout.common_dir);
    let (base, mut steps) = name.split_at(name.find(['~', '^']).unwrap_or(name.len()));
    let mut at = match named(&layout, &mut objects, base) {
        Ok(found) => found,
        Err(NameError::Store(error)) => return Err(error),
        Err(NameError::Bad(_) | NameError::Unknown) => None,
    };
    while let (Some(revision), Some(rest)) = (at, steps.strip_prefix(['~', '^'])) {
        let is_back = steps.starts_with('~');
        let (number, behind) =
            rest.split_at(rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len()));
        let number = if number.is_empty() { Ok(1) } else { number.parse::<usize>() };
        steps = behind;
        at = match number {
            Err(_) => None,
            Ok(count) if is_back => ancestor(&mut objects, revision, count)?,
            Ok(0) => Some(revision),
            Ok(number) => parents(&mut objects, revision)?.get(number - 1).copied(),
        };
    }
    Ok(at.filter(|_| steps.is_empty()))
}

fn named(layout: &Layout, objects: &mut Objects, name: &str) -> Result<Option<Revision>, NameError> {
    if matches!(name, "HEAD" | "@") {
        return Ok(layout.head_commit()?);
    }
    for prefix in PREFIXES {
        if let Some(found) = by_ref(layout, objects, prefix, name)? {
            return Ok(Some(found));
        }
    }
    by_id(objects, name)
}

fn parents(objects: &mut Objects, revision: Revision) -> Result<Vec<Revision>, StoreError> {
    objects.commit(revision, |commit| commit.parents.clone())
}

fn ancestor(objects: &mut Objects, from: Revision, count: usize) -> Result<Option<Revision>, StoreError> {
    let mut at = Some(from);
    for _ in 0..count {
        let Some(revision) = at else { break };
        at = parents(objects, revision)?.first().copied();
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_found_by_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let repository = git2::Repository::init(folder.path()).unwrap();
        let tree = repository.find_tree(repository.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let who = git2::Signature::new("Mara", "mara@example.org", &git2::Time::new(0, 0)).unwrap();
        let commit = repository.commit(Some("HEAD"), &who, &who, "first", &tree, &[]).unwrap();
        repository.tag("v1", &repository.find_object(commit, None).unwrap(), &who, "", false).unwrap();
        for name in
            ["HEAD", "@", "v1", "tags/v1", "v1^0", "HEAD~0", &commit.to_string(), &commit.to_string()[..8]]
        {
            let found = resolve(folder.path(), name).unwrap().map(|revision| revision.to_string());
            assert_eq!(found, Some(commit.to_string()), "{name}");
        }
        for name in [
            "v2",
            "a..b",
            "",
            "HEAD~1",
            "HEAD^",
            "HEAD^{x}",
            "HEAD~0é",
            "HEAD~~",
            "main~99999999999999999999",
        ] {
            assert_eq!(resolve(folder.path(), name).unwrap(), None, "{name}");
        }
    }
}
