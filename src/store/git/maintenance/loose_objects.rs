//! Loose objects, packed.
//!
//! Of what people commit by hand git makes one file an object, until they collect garbage. What has been lying there
//! for a [while](LOOSE_AGE_MIN) is put into a pack of ours, which is merged with the others later.
//!
//! An object's name is made anew from its content; what is not what it is called is left where it is, for `git fsck`
//! to tell, and so are annotated tags, which our packs have none of, and what is [too large](LOOSE_BYTES_MAX).
//!
//! A kill at any instant leaves everything readable: a loose object is removed once the pack is on disk with its name,
//! as git does it (`git prune-packed`). While git says in `gc.pid` that it collects, nothing is packed and nothing is
//! removed. What nothing refers to is as young as its pack then, so `git gc` keeps it for longer and never for less.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::store::StoreError;
use crate::store::git::disk::barrier::remove_if_there;
use crate::store::git::object::id::{Kind, Oid, name, unhex};
use crate::store::git::object::pack::PackBuilder;
use crate::store::git::odb::inflate::Inflater;
use crate::store::git::odb::loose::{self, FoundObject};
use crate::store::git::packs::store::Packs;

/// Younger objects are left alone: whoever is writing them may not be done.
pub(crate) const LOOSE_AGE_MIN: Duration = Duration::from_secs(600);

/// Fewer objects are not worth a pack; git, too, keeps what it fetches loose up to that number
/// (`fetch.unpackLimit`).
pub(crate) const LOOSE_LEN_MIN: usize = 100;

/// How much content is packed at once, in memory; an object that is larger stays loose.
const LOOSE_BYTES_MAX: usize = 32 << 20;

/// An object and its file.
type Loose = (Oid, PathBuf);

/// Packs loose objects, at most as many as fit into one pack; answers whether there were enough.
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

/// The loose objects of a repository that are old enough; what can't be looked at is none.
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

/// Packs as many as fit; answers which.
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
    // As git orders packs, so that a walk of the history reads on.
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

/// Reads an object and makes sure of its name; `None` when there is no room for it.
fn read(
    path: &Path,
    oid: &Oid,
    inflater: &mut Inflater,
    len_max: usize,
) -> io::Result<Option<(Kind, Arc<Vec<u8>>)>> {
    let odd = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let FoundObject { kind, len, content } = loose::read(File::open(path)?, inflater, len_max)?;
    if kind == Kind::Tag {
        return Err(odd("it is no commit, tree or blob"));
    }
    if len > len_max as u64 {
        return Ok(None);
    }
    let is_right = name(kind, &content).map_err(io::Error::other)? == *oid;
    if is_right { Ok(Some((kind, content))) } else { Err(odd("it is damaged; `git fsck --full` tells more")) }
}
