//! From a text that names a commit to the commit.

use git2::{ErrorCode, ObjectType, Odb, Oid};

use super::object;
use crate::domain::Revision;
use crate::store::git::repo::layout::Place;
use crate::store::git::repo::refs;
use crate::store::{NameError, StoreError};

/// The fewest digits of an abbreviated id.
pub(super) const DIGITS_MIN: usize = 7;

/// Finds the commit that a text names.
pub(super) fn resolve(place: &Place, odb: &Odb<'static>, name: &str) -> Result<Revision, NameError> {
    let digits = name.len() >= DIGITS_MIN && name.len() <= 40 && name.bytes().all(|b| b.is_ascii_hexdigit());
    if digits && name.len() == 40 {
        return whole(odb, name);
    }
    let named = [by_ref(place, odb, "refs/tags/", name)?, by_ref(place, odb, "refs/heads/", name)?];
    match named {
        [Some(tag), Some(branch)] if tag != branch => {
            Err(NameError::Bad("a tag and a branch have this name; write the commit's id".to_owned()))
        }
        [Some(found), _] | [None, Some(found)] => Ok(found),
        [None, None] if digits => abbreviated(odb, name),
        [None, None] => Err(NameError::Bad(format!(
            "write the id of a commit, whole or its first {DIGITS_MIN} or more digits, the name of a tag or branch, \
             or a time such as 2026-03-01T09:30:00Z"
        ))),
    }
}

fn whole(odb: &Odb<'static>, name: &str) -> Result<Revision, NameError> {
    let revision: Revision = name.parse().map_err(|_| NameError::Unknown)?;
    match object(odb, revision.as_bytes(), ObjectType::Commit)? {
        Some(_) => Ok(revision),
        None => Err(NameError::Unknown),
    }
}

/// The commit of a ref, if there is such a ref; an annotated tag stands for what it names.
fn by_ref(
    place: &Place,
    odb: &Odb<'static>,
    prefix: &str,
    name: &str,
) -> Result<Option<Revision>, NameError> {
    let full = format!("{prefix}{name}");
    if !git2::Reference::is_valid_name(&full) {
        return Ok(None);
    }
    let Some(mut id) = refs::read(&place.common_dir, &full)? else { return Ok(None) };
    // A tag may name a tag; each is another object, so this ends.
    while let Some(tag) = object(odb, &id, ObjectType::Tag)? {
        let named = tag.data().split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"object "));
        let named = named.and_then(|hex| std::str::from_utf8(hex).ok()?.parse::<Revision>().ok());
        id = *named.ok_or_else(|| failed(git2::Error::from_str("a tag names nothing")))?.as_bytes();
    }
    match object(odb, &id, ObjectType::Commit)? {
        Some(_) => Ok(Some(Revision::new(id))),
        None => Err(NameError::Bad("it names something that is no commit".to_owned())),
    }
}

fn abbreviated(odb: &Odb<'static>, name: &str) -> Result<Revision, NameError> {
    let short = Oid::from_str(name).map_err(|_| NameError::Unknown)?;
    match odb.exists_prefix(short, name.len()) {
        Ok(id) if is_commit(odb, id) => Ok(told(id)),
        Ok(_) => Err(NameError::Unknown),
        // Git lets the kind decide where an abbreviation fits several objects; libgit2 does not.
        Err(error) if error.code() == ErrorCode::Ambiguous => only_commit(odb, name),
        Err(error) if error.code() == ErrorCode::NotFound => Err(NameError::Unknown),
        Err(error) => Err(failed(error).into()),
    }
}

fn only_commit(odb: &Odb<'static>, name: &str) -> Result<Revision, NameError> {
    let name = name.to_ascii_lowercase();
    let mut fitting: Vec<Oid> = Vec::new();
    odb.foreach(|id| {
        if id.to_string().starts_with(&name) && is_commit(odb, *id) && !fitting.contains(id) {
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

fn failed(source: git2::Error) -> StoreError {
    StoreError::Git { action: "look up a commit by name".to_owned(), source }
}

/// A commit's id as the rest of the service knows it.
pub(super) fn told(id: Oid) -> Revision {
    Revision::new(id.as_bytes().try_into().expect("only repositories with SHA-1 names are opened"))
}
