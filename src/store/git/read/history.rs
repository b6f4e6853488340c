//! The past: first-parent walks, and who descends from whom.

use std::collections::{BinaryHeap, HashSet};

use chrono::{DateTime, Utc};

use crate::domain::Revision;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::object::id::{Oid, unhex};
use crate::store::git::object::tree::RawTree;
use crate::store::git::read::diff::compare;
use crate::store::git::read::objects::Objects;
use crate::store::git::read::trees::folder_oid;
use crate::store::git::repo::layout::Place;
use crate::store::{Commit, FileChange, StoreError};

/// Walks the first parents; see [`Journal::walk`](crate::store::Journal::walk).
pub(crate) fn walk(
    objects: &mut Objects,
    place: &Place,
    from: Revision,
    each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
) -> Result<(), StoreError> {
    let cut = cut_off(place)?;
    let newest = folder_at(objects, place, Some(from))?;
    let mut newer = Folder::read(objects, newest)?;
    let mut next = Some(from);
    while let Some(revision) = next {
        let mut commit = objects.commit(revision.as_bytes())?.commit;
        if cut.contains(revision.as_bytes()) {
            commit.parents.clear();
        }
        next = commit.parents.first().copied();
        let older_oid = folder_at(objects, place, next)?;
        if older_oid == newer.oid {
            if !each(&commit, &[]) {
                return Ok(());
            }
            continue;
        }
        let older = Folder::read(objects, older_oid)?;
        let changes = compare(older.tree.bytes(), newer.tree.bytes(), &newer.oid.unwrap_or_default())?;
        if !each(&commit, &changes) {
            return Ok(());
        }
        newer = older;
    }
    Ok(())
}

/// See [`Journal::log`](crate::store::Journal::log).
pub(crate) fn log(
    objects: &mut Objects,
    place: &Place,
    from: Revision,
    each: &mut dyn FnMut(&Commit) -> bool,
) -> Result<(), StoreError> {
    let cut = cut_off(place)?;
    let mut next = Some(from);
    while let Some(revision) = next {
        let commit = objects.commit(revision.as_bytes())?.commit;
        next = commit.parents.first().copied().filter(|_| !cut.contains(revision.as_bytes()));
        if !each(&commit) {
            return Ok(());
        }
    }
    Ok(())
}

/// The collections folder of one commit of a walk.
struct Folder {
    oid: Option<Oid>,
    tree: RawTree,
}

impl Folder {
    fn read(objects: &mut Objects, oid: Option<Oid>) -> Result<Self, StoreError> {
        let tree = oid.map(|oid| objects.tree(&oid)).transpose()?.unwrap_or_default();
        Ok(Self { oid, tree })
    }
}

fn folder_at(
    objects: &mut Objects,
    place: &Place,
    revision: Option<Revision>,
) -> Result<Option<Oid>, StoreError> {
    Ok(revision.map(|revision| folder_oid(objects, place, revision.as_bytes())).transpose()?.flatten())
}

/// The commits whose parents a shallow clone does not have (gitformat of `shallow`: one id a line).
pub(crate) fn cut_off(place: &Place) -> Result<HashSet<Oid>, StoreError> {
    let text = read_if_there(&place.common_dir.join("shallow"))?.unwrap_or_default();
    Ok(text.split(|byte| *byte == b'\n').filter_map(unhex).collect())
}

/// Whether `descendant` reaches `ancestor`; what is not there (any more) reaches nothing and is
/// not reached.
///
/// Walks from both, the newest commit first, and stops when only commits are left that the
/// ancestor reaches: none of those can lead back to it. So the cost is that of the commits between
/// them, whatever the length of the history.
pub(crate) fn descends(
    objects: &mut Objects,
    place: &Place,
    descendant: Oid,
    ancestor: Oid,
) -> Result<bool, StoreError> {
    if descendant == ancestor {
        return Ok(true);
    }
    if !objects.has(&descendant) || !objects.has(&ancestor) {
        return Ok(false);
    }
    let mut search = Search { cut: cut_off(place)?, ..Search::default() };
    search.push(objects, ancestor, Side::Ancestor)?;
    search.push(objects, descendant, Side::Descendant)?;
    while search.open > 0 {
        let Some((_, oid, side)) = search.queue.pop() else { break };
        if side == Side::Descendant {
            search.open -= 1;
            if oid == ancestor {
                return Ok(true);
            }
            if search.below.contains(&oid) {
                continue;
            }
        }
        if search.cut.contains(&oid) {
            continue;
        }
        for parent in objects.commit(&oid)?.commit.parents {
            search.push(objects, *parent.as_bytes(), side)?;
        }
    }
    Ok(false)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Ancestor,
    Descendant,
}

#[derive(Default)]
struct Search {
    cut: HashSet<Oid>,
    queue: BinaryHeap<(DateTime<Utc>, Oid, Side)>,
    // What the ancestor reaches, and what the descendant reaches, as far as seen.
    below: HashSet<Oid>,
    above: HashSet<Oid>,
    // How many entries of the queue are the descendant's.
    open: usize,
}

impl Search {
    fn push(&mut self, objects: &mut Objects, oid: Oid, side: Side) -> Result<(), StoreError> {
        let is_new = match side {
            Side::Ancestor => self.below.insert(oid),
            Side::Descendant => self.above.insert(oid),
        };
        if is_new {
            self.open += usize::from(side == Side::Descendant);
            let at = objects.commit(&oid)?.commit.at;
            self.queue.push((at, oid, side));
        }
        Ok(())
    }
}
