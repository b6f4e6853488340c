//! From a text that names a commit to the commit.

use crate::domain::Revision;
use crate::store::NameError;
use crate::store::git::object::id::{Kind, Oid, unhex};
use crate::store::git::odb::objects::{Objects, corrupt};
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::refs;

/// The fewest digits of an abbreviated id.
const DIGITS_MIN: usize = 7;

pub(super) fn resolve(layout: &Layout, objects: &mut Objects, name: &str) -> Result<Revision, NameError> {
    if name.len() == 40 && is_id(name) {
        return by_id(objects, name)?.ok_or(NameError::Unknown);
    }
    let named = [by_ref(layout, objects, "refs/tags/", name)?, by_ref(layout, objects, "refs/heads/", name)?];
    match named {
        [Some(tag), Some(branch)] if tag != branch => {
            Err(NameError::Bad("a tag and a branch have this name; write the commit's id".to_owned()))
        }
        [Some(found), _] | [None, Some(found)] => Ok(found),
        [None, None] if is_id(name) => by_id(objects, name)?.ok_or(NameError::Unknown),
        [None, None] => Err(NameError::Bad(format!(
            "write the id of a commit, whole or its first {DIGITS_MIN} or more digits, the name of a tag or branch, \
             or a time such as 2026-03-01T09:30:00Z"
        ))),
    }
}

/// Whether this may be an id, whole or abbreviated.
fn is_id(name: &str) -> bool {
    (DIGITS_MIN..=40).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The commit of a ref, if there is such a ref; an annotated tag stands for what it names.
fn by_ref(
    layout: &Layout,
    objects: &mut Objects,
    prefix: &str,
    name: &str,
) -> Result<Option<Revision>, NameError> {
    let full = format!("{prefix}{name}");
    if !git2::Reference::is_valid_name(&full) {
        return Ok(None);
    }
    let Some(mut id) = refs::read(&layout.common_dir, &full)? else { return Ok(None) };
    // A tag may name a tag; each is another object, so this ends.
    while objects.kind(&id)? == Some(Kind::Tag) {
        id = tagged(&objects.whole(Kind::Tag, &id)?)
            .ok_or_else(|| corrupt(Kind::Tag, &id, "it names nothing"))?;
    }
    match objects.kind(&id)? {
        Some(Kind::Commit) => Ok(Some(Revision::new(id))),
        Some(_) | None => Err(NameError::Bad("it names something that is no commit".to_owned())),
    }
}

fn tagged(tag: &[u8]) -> Option<Oid> {
    unhex(tag.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"object "))?)
}

/// The commit whose id this is or begins with, if there is one. Where an abbreviation fits several
/// objects the kind decides, as in git.
fn by_id(objects: &mut Objects, name: &str) -> Result<Option<Revision>, NameError> {
    let mut found = None;
    for oid in objects.beginning_with(&name.to_ascii_lowercase()) {
        if objects.kind(&oid)? == Some(Kind::Commit) && found.replace(Revision::new(oid)).is_some() {
            return Err(NameError::Bad(
                "several commits begin with these digits; write more of them".to_owned(),
            ));
        }
    }
    Ok(found)
}
