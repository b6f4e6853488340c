//! From a text that names a commit to the commit.

use git2::{ErrorCode, ObjectType, Odb, Oid, Repository};

use crate::domain::Revision;
use crate::store::{NameError, StoreError};

/// The fewest digits of an abbreviated id.
pub(super) const DIGITS_MIN: usize = 7;

/// Finds the commit that a text names.
pub(super) fn resolve(repository: &Repository, name: &str) -> Result<Revision, NameError> {
    let digits = name.len() >= DIGITS_MIN && name.len() <= 40 && name.bytes().all(|b| b.is_ascii_hexdigit());
    if digits && name.len() == 40 {
        return whole(repository, name);
    }
    let named = [by_ref(repository, "refs/tags/", name)?, by_ref(repository, "refs/heads/", name)?];
    match named {
        [Some(tag), Some(branch)] if tag != branch => {
            Err(NameError::Bad("a tag and a branch have this name; write the commit's id".to_owned()))
        }
        [Some(found), _] | [None, Some(found)] => Ok(found),
        [None, None] if digits => abbreviated(repository, name),
        [None, None] => Err(NameError::Bad(format!(
            "write the id of a commit, whole or its first {DIGITS_MIN} or more digits, the name of a tag or branch, \
             or a time such as 2026-03-01T09:30:00Z"
        ))),
    }
}

fn whole(repository: &Repository, name: &str) -> Result<Revision, NameError> {
    let id = Oid::from_str(name).map_err(|_| NameError::Unknown)?;
    match repository.find_commit(id) {
        Ok(commit) => Ok(told(commit.id())),
        Err(error) => Err(unknown_or(error)),
    }
}

/// The commit of a ref, if there is such a ref; an annotated tag stands for what it names.
fn by_ref(repository: &Repository, prefix: &str, name: &str) -> Result<Option<Revision>, NameError> {
    let full = format!("{prefix}{name}");
    if !git2::Reference::is_valid_name(&full) {
        return Ok(None);
    }
    let reference = match repository.find_reference(&full) {
        Ok(reference) => reference,
        Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error).into()),
    };
    match reference.peel_to_commit() {
        Ok(commit) => Ok(Some(told(commit.id()))),
        Err(_) => Err(NameError::Bad("it names something that is no commit".to_owned())),
    }
}

fn abbreviated(repository: &Repository, name: &str) -> Result<Revision, NameError> {
    match repository.find_commit_by_prefix(name) {
        Ok(commit) => Ok(told(commit.id())),
        // Git lets the kind decide where an abbreviation fits several objects; libgit2 does not.
        Err(error) if error.code() == ErrorCode::Ambiguous => only_commit(repository, name),
        Err(error) => Err(unknown_or(error)),
    }
}

fn only_commit(repository: &Repository, name: &str) -> Result<Revision, NameError> {
    let odb = repository.odb().map_err(failed)?;
    let name = name.to_ascii_lowercase();
    let mut fitting: Vec<Oid> = Vec::new();
    odb.foreach(|id| {
        if id.to_string().starts_with(&name) && is_commit(&odb, *id) && !fitting.contains(id) {
            fitting.push(*id);
        }
        true
    })
    .map_err(failed)?;
    match fitting[..] {
        [] => Err(NameError::Unknown),
        [one] => Ok(told(one)),
        _ => Err(NameError::Bad("several commits begin with these digits; write more of them".to_owned())),
    }
}

fn is_commit(odb: &Odb<'_>, id: Oid) -> bool {
    odb.read_header(id).is_ok_and(|(_, kind)| kind == ObjectType::Commit)
}

fn unknown_or(error: git2::Error) -> NameError {
    match error.code() {
        ErrorCode::NotFound | ErrorCode::InvalidSpec | ErrorCode::Peel => NameError::Unknown,
        _ => failed(error).into(),
    }
}

fn failed(source: git2::Error) -> StoreError {
    StoreError::Git { action: "look up a commit by name".to_owned(), source }
}

/// A commit's id as the rest of the service knows it.
pub(super) fn told(id: Oid) -> Revision {
    Revision::new(id.as_bytes().try_into().expect("only repositories with SHA-1 names are opened"))
}
