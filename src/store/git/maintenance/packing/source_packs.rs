//! The packs to be merged: as raw bytes in memory, and their contents through the reader of `odb`.
//!
//! Before anything is copied, its pack is verified by checksum, so that damage on disk is reported and not spread.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha1::{Digest as _, Sha1};

use crate::store::StoreError;
use crate::store::git::object::id::{ObjectKind, Oid};
use crate::store::git::odb::inflate::damaged;
use crate::store::git::odb::objects::{OBJECT_BYTES_MAX, Objects};
use crate::store::git::odb::pack::{Base, ObjectPlace, Pack, parse_head};

const DAMAGED: &str = "the pack is damaged; `git fsck --full` tells more";

pub(crate) struct SourcePacks {
    packs: Vec<Source>,
    /// Maps an object to its pack and its index there, in few bytes because there are many objects.
    found: HashMap<Oid, (u32, u32)>,
    objects: Objects,
}

struct Source {
    pack: Arc<Pack>,
    /// Without the checksum at the end.
    bytes: Vec<u8>,
    /// In the order of the pack.
    places: Vec<ObjectPlace>,
}

pub(crate) struct Packed<'a> {
    /// Its kind, or the base of a delta.
    pub(crate) kind: Result<ObjectKind, Oid>,
    /// The length of its content or of its delta, in bytes.
    pub(crate) len: u64,
    /// The encoded kind and length.
    pub(crate) head: &'a [u8],
    /// The zlib stream.
    pub(crate) body: &'a [u8],
}

impl SourcePacks {
    /// Reads packs of a repository; `None` if one of them is gone, or if it is to stop.
    pub(crate) fn read(
        objects: Objects,
        paths: &[PathBuf],
        stop: &AtomicBool,
    ) -> Result<Option<Self>, StoreError> {
        let mut sources = Self { packs: Vec::new(), found: HashMap::new(), objects };
        for path in paths {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match Source::read(path) {
                Ok(source) => sources.add(source),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    tracing::info!(path = %path.display(), "gone before it could be merged with others; it is tried again");
                    return Ok(None);
                }
                Err(source) => return Err(StoreError::at("merge", path, source)),
            }
        }
        Ok(Some(sources))
    }

    fn add(&mut self, source: Source) {
        let number = self.packs.len() as u32;
        for (index, (oid, _)) in (0..).zip(&source.places) {
            self.found.entry(*oid).or_insert((number, index));
        }
        self.packs.push(source);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.packs.iter().map(|source| source.bytes.len()).sum()
    }

    /// Returns all objects, in the order of the packs and within each; an object may occur twice.
    pub(crate) fn order(&self) -> Vec<Oid> {
        self.packs.iter().flat_map(|source| &source.places).map(|(oid, _)| *oid).collect()
    }

    pub(crate) fn has(&self, oid: &Oid) -> bool {
        self.found.contains_key(oid)
    }

    pub(crate) fn packed(&self, oid: &Oid) -> io::Result<Packed<'_>> {
        let (source, index) = self.find(oid)?;
        source.packed(index).ok_or_else(|| damaged(DAMAGED))
    }

    /// Returns the content of an object, with deltas resolved.
    pub(crate) fn content(&mut self, oid: &Oid) -> io::Result<Arc<Vec<u8>>> {
        let (source, index) = self.find(oid)?;
        let (pack, at) = (Arc::clone(&source.pack), source.places[index].1);
        let found = self.objects.resolve(&pack, at, OBJECT_BYTES_MAX)?;
        if found.content.len() as u64 == found.len { Ok(found.content) } else { Err(damaged(DAMAGED)) }
    }

    fn find(&self, oid: &Oid) -> io::Result<(&Source, usize)> {
        let (number, index) = self.found.get(oid).ok_or_else(|| damaged(DAMAGED))?;
        Ok((&self.packs[*number as usize], *index as usize))
    }

    /// Builds an error that names the pack of an object.
    pub(crate) fn failed(&self, oid: &Oid, error: io::Error) -> StoreError {
        let source = self.find(oid).map_or(&self.packs[0], |(source, _)| source);
        StoreError::at("merge", &source.pack.path, error)
    }
}

impl Source {
    fn read(path: &Path) -> io::Result<Self> {
        let mut pack = Pack::open(path)?;
        let mut bytes = vec![0; usize::try_from(pack.end).unwrap_or(usize::MAX)];
        pack.file.read_exact_at(&mut bytes, 0)?;
        if pack.is_doubtful || Sha1::digest(&bytes)[..] != pack.sum {
            return Err(damaged(DAMAGED));
        }
        Ok(Self { places: pack.take_places(), pack: Arc::new(pack), bytes })
    }

    fn packed(&self, index: usize) -> Option<Packed<'_>> {
        let (_, start) = self.places[index];
        let end = self.places.get(index + 1).map_or(self.bytes.len() as u64, |(_, at)| *at);
        let bytes = self.bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
        let found = parse_head(bytes, start)?;
        let kind = match found.kind {
            // Our packs contain neither.
            Ok(ObjectKind::Tag) | Err(Base::Named(_)) => return None,
            Ok(kind) => Ok(kind),
            Err(Base::At(at)) => {
                let index = self.places.binary_search_by_key(&at, |(_, at)| *at).ok()?;
                Err(self.places[index].0)
            }
        };
        let head_len = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
        Some(Packed { kind, len: found.len, head: &bytes[..head_len], body: &bytes[found.head_len..] })
    }
}
