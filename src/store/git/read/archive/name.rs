//! Resolves the name of a commit.

use crate::domain::Revision;
use crate::store::ResolveError;
use crate::store::git::object::id::{ObjectKind, Oid, unhex};
use crate::store::git::odb::objects::{Objects, corrupt};
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::refs;

/// The fewest digits of an abbreviated id.
const DIGITS_MIN: usize = 7;

const NO_COMMIT: &str = "it names something that is no commit";

pub(super) fn resolve(layout: &Layout, objects: &mut Objects, name: &str) -> Result<Revision, ResolveError> {
    if name.len() == 40 && is_id(name) {
        return by_id(objects, name);
    }
    let named = [by_ref(layout, objects, "refs/tags/", name)?, by_ref(layout, objects, "refs/heads/", name)?];
    match named {
        [Some(tag), Some(branch)] if tag != branch => {
            Err(ResolveError::Bad("a tag and a branch have this name; write the commit's id".to_owned()))
        }
        [Some(found), _] | [None, Some(found)] => Ok(found),
        [None, None] if is_id(name) => by_id(objects, name),
        [None, None] => Err(ResolveError::Bad(format!(
            "write the id of a commit, whole or its first {DIGITS_MIN} or more digits, the name of a tag or branch, \
             or a time such as 2026-03-01T09:30:00Z"
        ))),
    }
}

/// Returns whether this may be an id, full or abbreviated.
fn is_id(name: &str) -> bool {
    (DIGITS_MIN..=40).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns the commit of a ref, if the ref exists; an annotated tag is peeled.
fn by_ref(
    layout: &Layout,
    objects: &mut Objects,
    prefix: &str,
    name: &str,
) -> Result<Option<Revision>, ResolveError> {
    let full = format!("{prefix}{name}");
    if !git2::Reference::is_valid_name(&full) {
        return Ok(None);
    }
    let Some(mut id) = refs::read(&layout.common_dir, &full)? else { return Ok(None) };
    // A tag may point to a tag; each is another object, so this terminates.
    while objects.kind(&id)? == Some(ObjectKind::Tag) {
        id = tagged(&objects.whole(ObjectKind::Tag, &id)?)
            .ok_or_else(|| corrupt(ObjectKind::Tag, &id, "it names nothing"))?;
    }
    match objects.kind(&id)? {
        Some(ObjectKind::Commit) => Ok(Some(Revision::new(id))),
        Some(_) | None => Err(ResolveError::Bad(NO_COMMIT.to_owned())),
    }
}

fn tagged(tag: &[u8]) -> Option<Oid> {
    unhex(tag.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"object "))?)
}

/// Returns the commit whose id is or begins with `name`. Where an abbreviation fits several objects, only commits
/// count, as in git.
fn by_id(objects: &mut Objects, name: &str) -> Result<Revision, ResolveError> {
    let mut found = None;
    let mut has_other = false;
    for oid in objects.beginning_with(&name.to_ascii_lowercase()) {
        match objects.kind(&oid)? {
            Some(ObjectKind::Commit) if found.is_some() => {
                return Err(ResolveError::Bad(
                    "several commits begin with these digits; write more of them".to_owned(),
                ));
            }
            Some(ObjectKind::Commit) => found = Some(Revision::new(oid)),
            Some(_) => has_other = true,
            None => {}
        }
    }
    match found {
        Some(revision) => Ok(revision),
        None if has_other => Err(ResolveError::Bad(NO_COMMIT.to_owned())),
        None => Err(ResolveError::Unknown),
    }
}
