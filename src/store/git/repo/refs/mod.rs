//! Refs and `HEAD`: read here, moved and kept by the modules below.
//!
//! A branch is a file `refs/heads/x` that contains an id or, if there is no such file, a line of `packed-refs`
//! (gitrepository-layout(5)).

pub(crate) mod branch;
pub(crate) mod branch_move;
pub(crate) mod kept;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::domain::Revision;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::disk::open;
use crate::store::git::object::id::{Oid, unhex};
use crate::store::{AtPath as _, StoreError};

/// Longer than an id: a ref file with anything else need not be read whole to be refused.
const REF_BYTES_MAX: usize = 256;

/// The null id, which stands for "no commit" in reflogs and in the checkpoint.
pub(crate) const NO_COMMIT: Revision = Revision::new([0; 20]);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GitHead {
    /// The full name of a ref, which may be unborn.
    Ref(String),
    Detached(Revision),
}

pub(crate) fn head(git_dir: &Path) -> Result<GitHead, StoreError> {
    let path = git_dir.join("HEAD");
    // In 2005 git made `HEAD` a symbolic link, and it still reads one.
    if let Ok(target) = fs::read_link(&path) {
        return Ok(GitHead::Ref(target.to_string_lossy().into_owned()));
    }
    let text = open::read(&path).at("read", &path)?;
    let text = text.trim_ascii();
    if let Some(name) = text.strip_prefix(b"ref:") {
        return Ok(GitHead::Ref(String::from_utf8_lossy(name.trim_ascii()).into_owned()));
    }
    let commit = unhex(text).map(|oid| GitHead::Detached(Revision::new(oid)));
    commit.ok_or_else(|| damaged(&path, "it names neither a branch nor a commit"))
}

/// Returns the commit that a branch names; `None` if the branch is unborn.
pub(crate) fn read(common_dir: &Path, name: &str) -> Result<Option<Oid>, StoreError> {
    let loose = common_dir.join(name);
    // Git packs refs by writing `packed-refs` before it removes the file, so checking the file first can miss both.
    // A second check of the file finds out what happened.
    for _ in 0..2 {
        if let Some(text) = read_ref(&loose)? {
            let oid = unhex(text.trim_ascii());
            return oid.map(Some).ok_or_else(|| damaged(&loose, "it holds no commit id"));
        }
        if let Some(oid) = packed(common_dir)?.and_then(|refs| find_packed(&refs, name)) {
            return Ok(Some(oid));
        }
    }
    Ok(None)
}

/// Reads a ref file; `None` if it does not exist, is a folder of other refs, or has a name that no file can have.
fn read_ref(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let mut text = Vec::with_capacity(REF_BYTES_MAX);
    let read = open::open(path).and_then(|file| file.take(REF_BYTES_MAX as u64).read_to_end(&mut text));
    match read {
        Ok(_) => Ok(Some(text)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::InvalidFilename
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error).at("read", path),
    }
}

fn damaged(path: &Path, why: &str) -> StoreError {
    StoreError::at("read", path, io::Error::new(io::ErrorKind::InvalidData, why.to_owned()))
}

/// Reads `packed-refs`; `None` if there is none.
///
/// # Errors
///
/// Refuses a damaged file, as git does (`next_record` in `refs/packed-backend.c`): each ref in it may be the one that
/// is not found.
pub(crate) fn packed(common_dir: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let path = common_dir.join("packed-refs");
    let refs = read_if_there(&path)?;
    let is_bad = |line: &[u8]| !is_packed_line(line);
    match refs.as_deref().and_then(|refs| lines(refs).position(is_bad)) {
        Some(index) => Err(damaged(&path, &format!("line {} is damaged", index + 1))),
        None => Ok(refs),
    }
}

/// Iterates over the ids and full names in `packed-refs`.
pub(crate) fn packed_lines(refs: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(refs).filter_map(packed_ref)
}

/// Iterates over lines with their line ends.
fn lines(refs: &[u8]) -> impl Iterator<Item = &[u8]> {
    refs.split_inclusive(|byte| *byte == b'\n')
}

/// The first line is `# pack-refs with: ...`; a line `^<id>` is the target of the tag above it.
fn is_packed_line(line: &[u8]) -> bool {
    let is_ref = || packed_ref(line).is_some_and(|(id, _)| unhex(id).is_some());
    line.ends_with(b"\n") && (matches!(line[0], b'#' | b'^') || is_ref())
}

fn packed_ref(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (id, name) = line.split_at_checked(40)?;
    let name = name.strip_prefix(b" ")?.trim_ascii_end();
    (!name.is_empty()).then_some((id, name))
}

/// Returns the full names of all refs with this prefix, sorted.
pub(crate) fn names(common_dir: &Path, prefix: &str) -> Result<Vec<String>, StoreError> {
    let refs = packed(common_dir)?.unwrap_or_default();
    let packed = packed_lines(&refs).map(|(_, name)| String::from_utf8_lossy(name).into_owned());
    let mut names: Vec<String> = packed.filter(|name| name.starts_with(prefix)).collect();
    add_loose(&common_dir.join(prefix), prefix, &mut names)?;
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Adds the refs that have files of their own. Locks and empty folders are not refs.
fn add_loose(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Result<(), StoreError> {
    for entry in fs::read_dir(folder).at_if_there("read", folder)?.into_iter().flatten() {
        let entry = entry.at("read", folder)?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        // Symbolic links to folders are not followed, because they may form a loop.
        if entry.file_type().is_ok_and(|there| there.is_dir()) {
            add_loose(&entry.path(), &format!("{name}/"), names)?;
        } else if git2::Reference::is_valid_name(&name) {
            names.push(name);
        }
    }
    Ok(())
}

fn find_packed(refs: &[u8], name: &str) -> Option<Oid> {
    packed_lines(refs).find(|(_, found)| *found == name.as_bytes()).and_then(|(oid, _)| unhex(oid))
}

/// Returns the path of the reflog of a ref.
pub(crate) fn reflog(git_dir: &Path, name: &str) -> PathBuf {
    git_dir.join("logs").join(name)
}
