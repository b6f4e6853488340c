//! Whether one object is to blame for not being readable, or what holds all of them.
//!
//! libgit2 says "not found" for an object that is gone and for one whose folder can't be opened
//! alike. The first harms one collection; the second must not make many of them seem to be broken,
//! so everything that an object may be in is looked at before it is blamed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use git2::{ErrorClass, ErrorCode};

use crate::store::{BlobId, StoreError};

/// What it means that this content could not be read from the objects in `folder`.
pub(crate) fn of(folder: &Path, blob: BlobId, error: StoreError) -> StoreError {
    let StoreError::Git { source, action } = error else { return error };
    if source.class() == ErrorClass::Os {
        return StoreError::Git { source, action };
    }
    match look_over(folder, blob) {
        Ok(()) => StoreError::Damaged { blob, is_missing: source.code() == ErrorCode::NotFound, source },
        Err(error) => error,
    }
}

/// Fails if something that may hold this object can't be read.
fn look_over(folder: &Path, blob: BlobId) -> Result<(), StoreError> {
    let name = blob.to_string();
    let (first, rest) = name.split_at(2);
    open_folder(folder)?;
    let loose = folder.join(first);
    if_there(open_folder(&loose))?;
    if_there(read(&loose.join(rest)).map(drop))?;
    if_there(look_over_packs(&folder.join("pack")))?;
    let alternates = folder.join("info/alternates");
    let Some(list) = if_there(read(&alternates))? else { return Ok(()) };
    for other in String::from_utf8_lossy(&list).lines().filter(|line| !line.starts_with('#')) {
        open_folder(&folder.join(other))?;
    }
    Ok(())
}

/// Packs and their indexes, which come in pairs.
fn look_over_packs(folder: &Path) -> Result<(), StoreError> {
    let failed = |path: &Path, source| StoreError::at("open", path, source);
    for entry in fs::read_dir(folder).map_err(|source| failed(folder, source))? {
        let path = entry.map_err(|source| failed(folder, source))?.path();
        if path.extension().is_some_and(|extension| extension == "idx") {
            for path in [path.with_extension("pack"), path] {
                drop(File::open(&path).map_err(|source| other_than_missing(failed(&path, source)))?);
            }
        }
    }
    Ok(())
}

/// A pack without its index's other half is no "nothing there".
fn other_than_missing(error: StoreError) -> StoreError {
    match error {
        StoreError::Path { action, path, source } if source.kind() == io::ErrorKind::NotFound => {
            StoreError::Path { action, path, source: io::Error::other("it is gone") }
        }
        error => error,
    }
}

fn open_folder(path: &Path) -> Result<(), StoreError> {
    fs::read_dir(path).map(drop).map_err(|source| StoreError::at("open the folder", path, source))
}

fn read(path: &PathBuf) -> Result<Vec<u8>, StoreError> {
    fs::read(path).map_err(|source| StoreError::at("read", path, source))
}

fn if_there<T>(outcome: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::Path { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a missing object means after `prepare` has done something to the folder of objects.
    fn judged(prepare: impl FnOnce(&Path)) -> StoreError {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("pack")).unwrap();
        fs::create_dir_all(folder.path().join("info")).unwrap();
        prepare(folder.path());
        let source = git2::Error::new(ErrorCode::NotFound, ErrorClass::Odb, "not found");
        let error = StoreError::Git { action: "read".to_owned(), source };
        of(folder.path(), BlobId::of(b"lost"), error)
    }

    #[test]
    fn an_object_that_is_nowhere_is_to_blame_itself() {
        assert!(matches!(judged(|_| ()), StoreError::Damaged { is_missing: true, .. }));
        let pair = |folder: &Path| {
            fs::write(folder.join("pack/pack-1.idx"), "").unwrap();
            fs::write(folder.join("pack/pack-1.pack"), "").unwrap();
        };
        assert!(matches!(judged(pair), StoreError::Damaged { .. }));
    }

    #[test]
    fn an_object_is_not_to_blame_for_what_may_hold_it() {
        let lost_pack = |folder: &Path| fs::write(folder.join("pack/pack-1.idx"), "").unwrap();
        let lost_disk = |folder: &Path| fs::write(folder.join("info/alternates"), "/nowhere\n").unwrap();
        let no_folder = |folder: &Path| {
            let name = BlobId::of(b"lost").to_string();
            fs::write(folder.join(&name[..2]), "in the way").unwrap();
        };
        let nothing = |folder: &Path| fs::remove_dir_all(folder).unwrap();
        let ways: [&dyn Fn(&Path); 4] = [&lost_pack, &lost_disk, &no_folder, &nothing];
        for (at, prepare) in ways.into_iter().enumerate() {
            let judged = judged(prepare);
            assert!(matches!(judged, StoreError::Path { .. }), "{at}: {judged:?}");
        }
    }
}
