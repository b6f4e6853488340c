//! Reads what a person has staged, for checking a commit before it is made.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::domain::file_name::name_in;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::index::file;
use crate::store::{Special, StoreError, TreeEntry};

/// Returns the staged entries of a folder, by name; unmerged and intent-to-add paths are left out.
///
/// # Errors
///
/// Fails if the index can't be read.
pub fn staged_entries(index: &Path, folder: &str) -> Result<BTreeMap<String, TreeEntry>, StoreError> {
    let failed = |why| StoreError::at("read", index, io::Error::new(io::ErrorKind::InvalidData, why));
    let read = file::parse_verified(index, read_if_there(index)?).map_err(failed)?;
    let entries = read.staged().filter_map(|(path, pointer)| {
        let name = name_in(folder, std::str::from_utf8(path).ok()?)?;
        Some(match name.split_once('/') {
            Some((folder, _)) => (folder.to_owned(), TreeEntry::Special(Special::Folder)),
            None => (name.to_owned(), pointer.tree_entry()),
        })
    });
    Ok(entries.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::BlobId;

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
            flags_extended: 0x2000,
            ..blank(blob)
        };
        index.add(&announced).unwrap();
        index.write().unwrap();

        let found = staged_entries(&folder.path().join(".git/index"), "cols/").unwrap();
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
}
