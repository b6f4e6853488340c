//! Packs loose objects.
//!
//! Git stores each object that people commit by hand as a file, until it collects garbage. Objects that have been
//! loose for a [while](LOOSE_AGE_MIN) are put into a pack of ours, which is merged with the others later.
//!
//! The id of each object is recomputed from its content. A mismatch stays, for `git fsck` to report, and so do
//! annotated tags, which our packs don't contain, and objects that are [too large](LOOSE_BYTES_MAX).
//!
//! A kill at any instant leaves everything readable: a loose object is removed only after the pack is on disk under
//! its name, as git does it (`git prune-packed`). While `gc.pid` says that git collects garbage, nothing is packed or
//! removed. An unreachable object becomes as young as its pack, so `git gc` keeps it longer and never shorter.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::store::StoreError;
use crate::store::git::disk::barrier::remove_if_there;
use crate::store::git::object::id::{ObjectKind, Oid, hash_object, unhex};
use crate::store::git::object::pack::PackBuilder;
use crate::store::git::odb::inflate::Inflater;
use crate::store::git::odb::loose::{self, FoundObject};
use crate::store::git::packs::store::Packs;

/// Younger objects are left alone, because their writer may not be done.
pub(crate) const LOOSE_AGE_MIN: Duration = Duration::from_secs(600);

/// Fewer objects are not worth a pack; git also keeps up to that many fetched objects loose (`fetch.unpackLimit`).
pub(crate) const LOOSE_LEN_MIN: usize = 100;

/// How many bytes of content are packed at once, in memory; a larger object stays loose.
const LOOSE_BYTES_MAX: usize = 32 << 20;

type Loose = (Oid, PathBuf);

/// Packs loose objects, as many as fit into one pack; returns whether any were packed and removed.
pub(crate) fn pack_loose(packs: &Arc<Packs>, stop: &AtomicBool) -> Result<bool, StoreError> {
    let loose = if packs.is_git_collecting() { Vec::new() } else { find(packs.objects(), stop) };
    if loose.len() < LOOSE_LEN_MIN {
        return Ok(false);
    }
    let (taken, pack) = take(&loose, stop);
    if taken.is_empty() || stop.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let pack = pack.finish();
    drop(packs.write(&pack, &[])?);
    tracing::info!(objects = taken.len(), bytes = pack.pack.len(), "loose objects were packed");
    if packs.is_git_collecting() {
        return Ok(false);
    }
    taken.iter().try_for_each(|(_, path)| remove_if_there(path))?;
    Ok(true)
}

/// Returns the loose objects that are old enough; what can't be read is skipped.
fn find(objects: &Path, stop: &AtomicBool) -> Vec<Loose> {
    let mut found = Vec::new();
    for first in 0..=u8::MAX {
        if stop.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let prefix = format!("{first:02x}");
        let Ok(entries) = fs::read_dir(objects.join(&prefix)) else { continue };
        found.extend(entries.flatten().filter_map(|entry| {
            let oid = unhex(format!("{prefix}{}", entry.file_name().to_str()?).as_bytes())?;
            let metadata = entry.metadata().ok().filter(Metadata::is_file)?;
            let age = metadata.modified().ok()?.elapsed().ok()?;
            (age >= LOOSE_AGE_MIN).then(|| (oid, entry.path()))
        }));
    }
    found
}

/// Packs as many objects as fit; returns which.
fn take<'a>(loose: &'a [Loose], stop: &AtomicBool) -> (Vec<&'a Loose>, PackBuilder) {
    let (mut taken, mut objects, mut room) = (Vec::new(), Vec::new(), LOOSE_BYTES_MAX);
    let mut inflater = Inflater::default();
    for it in loose {
        if stop.load(Ordering::Relaxed) || room == 0 {
            break;
        }
        let (oid, path) = it;
        match read(path, oid, &mut inflater, room) {
            Ok(Some((kind, content))) => {
                room -= content.len();
                taken.push(it);
                objects.push((kind, *oid, content));
            }
            Ok(None) => (),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "a loose object is left as it is");
            }
        }
    }
    // In git's order within packs, so that a walk of the history reads forward.
    objects.sort_by_key(|(kind, ..)| *kind as u8);
    let mut pack = PackBuilder::deflating(0);
    for (kind, oid, content) in &objects {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        pack.add(*kind, *oid, content);
    }
    (taken, pack)
}

/// Reads an object and verifies its id; `None` if it does not fit.
fn read(
    path: &Path,
    oid: &Oid,
    inflater: &mut Inflater,
    len_max: usize,
) -> io::Result<Option<(ObjectKind, Arc<Vec<u8>>)>> {
    let odd = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let FoundObject { kind, len, content } = loose::read(File::open(path)?, inflater, len_max)?;
    if kind == ObjectKind::Tag {
        return Err(odd("it is no commit, tree or blob"));
    }
    if len > len_max as u64 {
        return Ok(None);
    }
    let is_right = hash_object(kind, &content).map_err(io::Error::other)? == *oid;
    if is_right { Ok(Some((kind, content))) } else { Err(odd("it is damaged; `git fsck --full` tells more")) }
}
