//! Differences between revisions, and contents.

use std::borrow::Cow;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use git2::ObjectType;

use crate::domain::Revision;
use crate::store::git::object::id::Oid;
use crate::store::git::object::tree::differences;
use crate::store::git::read::damage;
use crate::store::git::read::objects::{Objects, damaged};
use crate::store::git::read::trees::{Trees, folder_oid};
use crate::store::git::repo::layout::Place;
use crate::store::{BlobId, EachContent, FileChange, StoreError};

/// From so many contents on, all cores read.
const PARALLEL_LEN_MIN: usize = 512;
/// No more threads than this: the disk and libgit2's caches bound reading soon enough.
const THREADS_MAX: usize = 8;
/// How many contents a thread takes at a time.
const SHARE_LEN: usize = 64;

/// Whether a name in the collections folder is that of a collection file.
pub(crate) fn is_told(name: &str) -> bool {
    !name.starts_with('.') && [".yaml", ".yml"].iter().any(|ending| name.ends_with(ending))
}

/// What differs in the collections folder; see [`Journal::changes`](crate::store::Journal::changes).
pub(crate) fn changes(
    objects: &mut Objects,
    place: &Place,
    known: Option<&Trees>,
    [from, to]: [Option<Revision>; 2],
) -> Result<Vec<FileChange>, StoreError> {
    let mut folder = |revision: Option<Revision>| match revision {
        Some(revision) => folder_oid(objects, place, revision.as_bytes()),
        None => Ok(None),
    };
    let oids = [folder(from)?, folder(to)?];
    if let (None, Some(to)) = (oids[1], to) {
        // Nothing there is an empty folder; something else in its place is no folder at all.
        Trees::load(objects, place, Some(*to.as_bytes()))?;
    }
    if oids[0] == oids[1] {
        return Ok(Vec::new());
    }
    let mut tree = |oid: Option<Oid>, revision: Option<Revision>| {
        let revision = revision.map(|revision| *revision.as_bytes());
        match (known.filter(|trees| trees.revision == revision), oid) {
            (_, None) => Ok(Cow::Borrowed(&[][..])),
            (Some(trees), Some(_)) => Ok(Cow::Borrowed(trees.folder().bytes())),
            (None, Some(oid)) => objects.read(&oid, ObjectType::Tree, <[u8]>::to_vec).map(Cow::Owned),
        }
    };
    compare(&tree(oids[0], from)?, &tree(oids[1], to)?, &oids[1].unwrap_or_default())
}

/// What differs between the contents of two versions of the collections folder.
pub(crate) fn compare(old: &[u8], new: &[u8], at: &Oid) -> Result<Vec<FileChange>, StoreError> {
    let found = differences(old, new).map_err(|error| damaged("tree", at, &error.to_string()))?;
    let told = found.into_iter().filter_map(|(name, before, after)| {
        let name = String::from_utf8(name)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let [before, after] = [before, after].map(|pointer| pointer.map(|pointer| pointer.entry()));
        // A file that became executable is the same file.
        (is_told(&name) && before != after).then_some(FileChange { name, before, after })
    });
    Ok(told.collect())
}

/// Reads contents; see [`Journal::read`](crate::store::Journal::read).
pub(crate) fn contents(objects: &mut Objects, blobs: &[BlobId], each: &EachContent<'_>) {
    // Counting the cores takes a look at files of the system: only where there is much to do.
    let cores = || thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let threads = if blobs.len() < PARALLEL_LEN_MIN { 1 } else { cores() };
    if threads == 1 {
        return read_some(objects, blobs.iter().enumerate(), each);
    }
    // Whoever is done first takes the next share.
    let next = AtomicUsize::new(0);
    let work = |objects: &mut Objects| {
        loop {
            let start = next.fetch_add(SHARE_LEN, Ordering::Relaxed);
            if start >= blobs.len() {
                return;
            }
            read_some(objects, blobs.iter().enumerate().skip(start).take(SHARE_LEN), each);
        }
    };
    let others: Vec<_> = (1..threads).map(|_| Mutex::new(objects.another())).collect();
    thread::scope(|scope| {
        for other in &others {
            scope.spawn(|| work(&mut other.lock().expect("each thread has its own")));
        }
        work(objects);
    });
    // What libgit2 has cached for so many contents, 16 MB a pack, is of no use for what comes next.
    objects.close();
}

fn read_some<'a>(
    objects: &mut Objects,
    blobs: impl Iterator<Item = (usize, &'a BlobId)>,
    each: &EachContent<'_>,
) {
    for (index, blob) in blobs {
        let read = objects.read(blob.as_bytes(), ObjectType::Blob, |content| each(index, Ok(content)));
        if let Err(error) = read {
            each(index, Err(damage::of(objects.folder(), *blob, error)));
        }
    }
}
