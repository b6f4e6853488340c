//! Looking where the journal does not: at a commit by any of its names, and at what is staged.

use std::collections::BTreeMap;
use std::path::Path;

use crate::domain::Revision;
use crate::store::git::disk::open;
use crate::store::git::odb::objects::Objects;
use crate::store::git::read::archive::name::{by_id, by_ref};
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::refs::{self, Head};
use crate::store::{BlobId, NameError, Special, StoreError, TreeEntry};

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
        return Ok(match layout.head()? {
            Head::Detached(revision) => Some(revision),
            Head::Ref(name) => refs::read(&layout.common_dir, &name)?.map(Revision::new),
        });
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

/// What an index has in a folder, by the names in it; what is not merged yet or only announced is
/// left out.
///
/// # Errors
///
/// Says so when the index can't be read.
pub fn staged(index: &Path, folder: &str) -> Result<BTreeMap<String, TreeEntry>, StoreError> {
    let failed = |source| StoreError::Git { action: format!("read the index {}", index.display()), source };
    // Looked at first, so that nobody waits for the other end of a pipe.
    if let Err(source) = open::open(index)
        && source.kind() != std::io::ErrorKind::NotFound
    {
        return Err(StoreError::at("read", index, source));
    }
    let index = git2::Index::open(index).map_err(failed)?;
    let prefix = match folder.trim_matches('/') {
        "" | "." => String::new(),
        folder => format!("{folder}/"),
    };
    let would_be_committed = |entry: &git2::IndexEntry| {
        entry.flags & STAGE_MASK == 0 && entry.flags_extended & ANNOUNCED_FLAG == 0
    };
    let entries = index.iter().filter(would_be_committed).filter_map(|entry| {
        let path = String::from_utf8(entry.path).ok()?;
        let name = path.strip_prefix(&prefix)?;
        Some(match name.split_once('/') {
            Some((folder, _)) => (folder.to_owned(), TreeEntry::Special(Special::Folder)),
            None => (name.to_owned(), kind(entry.mode, entry.id)?),
        })
    });
    Ok(entries.collect())
}

/// The stage of an entry, 0 once it is merged (gitformat-index(5), "flags").
const STAGE_MASK: u16 = 0x3000;
/// In the extended flags: `git add --intent-to-add`, of which a commit takes nothing.
const ANNOUNCED_FLAG: u16 = 0x2000;

/// Reads a mode as gitformat-index(5) gives it.
fn kind(mode: u32, id: git2::Oid) -> Option<TreeEntry> {
    Some(match mode & 0o170_000 {
        0o100_000 => TreeEntry::File(BlobId::new(id.as_bytes().try_into().ok()?)),
        0o120_000 => TreeEntry::Special(Special::Link),
        _ => TreeEntry::Special(Special::Submodule),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_staged_is_told_by_name_and_kind() {
        let folder = tempfile::tempdir().unwrap();
        let repository = git2::Repository::init(folder.path()).unwrap();
        let blob = repository.blob(b"type: media\n").unwrap();
        let mut index = repository.index().unwrap();
        for (path, mode) in [
            ("cols/a.yaml", 0o100_644),
            ("cols/b.yaml", 0o120_000),
            ("cols/c.yaml/d", 0o100_644),
            ("e.yaml", 0o100_755),
        ] {
            let entry = git2::IndexEntry { mode, path: path.into(), ..blank(blob) };
            index.add(&entry).unwrap();
        }
        let announced = git2::IndexEntry {
            path: b"cols/d.yaml".into(),
            mode: 0o100_644,
            flags_extended: ANNOUNCED_FLAG,
            ..blank(blob)
        };
        index.add(&announced).unwrap();
        index.write().unwrap();

        let found = staged(&folder.path().join(".git/index"), "cols/").unwrap();
        let expected = [
            ("a.yaml", TreeEntry::File(BlobId::new(blob.as_bytes().try_into().unwrap()))),
            ("b.yaml", TreeEntry::Special(Special::Link)),
            ("c.yaml", TreeEntry::Special(Special::Folder)),
        ];
        assert_eq!(found, expected.map(|(name, entry)| (name.to_owned(), entry)).into());
    }

    fn blank(id: git2::Oid) -> git2::IndexEntry {
        let never = git2::IndexTime::new(0, 0);
        git2::IndexEntry {
            ctime: never,
            mtime: never,
            dev: 0,
            ino: 0,
            mode: 0,
            uid: 0,
            gid: 0,
            file_size: 0,
            id,
            flags: 0,
            flags_extended: 0,
            path: Vec::new(),
        }
    }

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
