//! The packs that are about to be merged, in memory.
//!
//! What is copied is checked against the CRC of its old index first, so damage on disk is told
//! instead of spread.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::{Decompress, FlushDecompress, Status};

use crate::store::StoreError;
use crate::store::git::object::delta::{self, TREE_BYTES_MAX};
use crate::store::git::object::id::{Kind, Oid};
use crate::store::git::object::pack::{OFS_DELTA, Packed, parse_index};
use crate::store::git::object::zlib;
use crate::store::git::odb::pack::{Base, Head, parse_head};

/// So many trees that were put together from deltas are kept at hand.
const KEPT_LEN: usize = 6;

/// Some packs and what is in them.
pub(crate) struct Parts {
    paths: Vec<PathBuf>,
    packs: Vec<Vec<u8>>,
    /// In the order of the packs and of their places there; the same object may come twice.
    order: Vec<Oid>,
    entries: HashMap<Oid, Entry>,
    kept: VecDeque<(Oid, Rc<Vec<u8>>)>,
    // One for all, since making one takes longer than most contents do.
    decoder: RefCell<Decompress>,
}

/// Where an object is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Its kind in the pack, which for a delta is that.
    pub(crate) kind: u8,
    /// What it is a delta against.
    pub(crate) base: Option<Oid>,
    /// How many bytes its content has, or its delta.
    pub(crate) len: u64,
    pack: usize,
    start: usize,
    head_len: usize,
    body: usize,
    end: usize,
}

/// A pack that makes no sense.
pub(crate) struct Damaged;

impl Parts {
    /// Reads some packs; nothing when one of them is gone, or when it is to stop.
    pub(crate) fn read(paths: &[PathBuf], stop: &AtomicBool) -> Result<Option<Self>, StoreError> {
        let mut parts = Self {
            paths: paths.to_vec(),
            packs: Vec::new(),
            order: Vec::new(),
            entries: HashMap::new(),
            kept: VecDeque::new(),
            decoder: RefCell::new(Decompress::new(true)),
        };
        for path in paths {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let index_path = path.with_extension("idx");
            let (Some(pack), Some(index)) = (read(path)?, read(&index_path)?) else { return Ok(None) };
            let objects = parse_index(&index).ok_or_else(|| damaged(&index_path))?;
            parts.add(pack, &objects).ok_or_else(|| damaged(path))?;
        }
        Ok(Some(parts))
    }

    fn add(&mut self, pack: Vec<u8>, objects: &[Packed]) -> Option<()> {
        let end = pack.len().checked_sub(20)?;
        let ends = objects.iter().skip(1).map(|object| object.offset as usize).chain([end]);
        for (object, end) in objects.iter().zip(ends) {
            let start = object.offset as usize;
            let bytes = pack.get(start..end)?;
            if crc32fast::hash(bytes) != object.crc {
                return None;
            }
            let mut entry = parse_entry(bytes, object, objects)?;
            (entry.pack, entry.start, entry.end) = (self.packs.len(), start, end);
            self.order.push(object.oid);
            self.entries.entry(object.oid).or_insert(entry);
        }
        self.packs.push(pack);
        Some(())
    }

    /// All objects, in the order of the packs.
    pub(crate) fn order(&self) -> &[Oid] {
        &self.order
    }

    /// Where an object is.
    pub(crate) fn get(&self, oid: &Oid) -> Option<&Entry> {
        self.entries.get(oid)
    }

    /// An object as it is packed: its header, and what follows the distance to its base, if any.
    pub(crate) fn packed(&self, entry: &Entry) -> (&[u8], &[u8]) {
        let bytes = &self.packs[entry.pack][entry.start..entry.end];
        (&bytes[..entry.head_len], &bytes[entry.body..])
    }

    /// The content of an object, or the delta that it is.
    pub(crate) fn inflate(&self, entry: &Entry) -> Result<Vec<u8>, Damaged> {
        // What is said to be larger is no object of ours.
        let len = usize::try_from(entry.len).ok().filter(|len| *len <= TREE_BYTES_MAX).ok_or(Damaged)?;
        let stream = self.packed(entry).1;
        if let Some(content) = zlib::stored(stream, len) {
            return Ok(content.to_vec());
        }
        // A byte more, so that what is too long is seen.
        let mut content = Vec::with_capacity(len + 1);
        let mut decoder = self.decoder.borrow_mut();
        decoder.reset(true);
        let done = decoder.decompress_vec(stream, &mut content, FlushDecompress::Finish);
        let is_whole = matches!(done, Ok(Status::StreamEnd)) && content.len() == len;
        if is_whole { Ok(content) } else { Err(Damaged) }
    }

    /// The content of an object, put together from deltas where it must be.
    pub(crate) fn resolve(&mut self, oid: &Oid) -> Result<Rc<Vec<u8>>, Damaged> {
        let mut deltas = Vec::new();
        let mut at = *oid;
        let mut content = loop {
            if let Some((_, kept)) = self.kept.iter().find(|(kept, _)| *kept == at) {
                if deltas.is_empty() {
                    return Ok(Rc::clone(kept));
                }
                break kept.as_ref().clone();
            }
            let entry = self.get(&at).ok_or(Damaged)?;
            let bytes = self.inflate(entry)?;
            match entry.base {
                None => break bytes,
                Some(base) => {
                    deltas.push(bytes);
                    at = base;
                }
            }
        };
        for delta in deltas.into_iter().rev() {
            delta::apply(&mut content, &delta).map_err(|_| Damaged)?;
        }
        let content = Rc::new(content);
        self.kept.push_front((*oid, Rc::clone(&content)));
        self.kept.truncate(KEPT_LEN);
        Ok(content)
    }

    /// Says in which pack there is damage.
    pub(crate) fn damaged(&self, oid: &Oid) -> StoreError {
        let at = self.get(oid).map_or(0, |entry| entry.pack);
        damaged(&self.paths[at])
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let bytes = crate::store::git::disk::barrier::read_if_there(path)?;
    if bytes.is_none() {
        tracing::info!(path = %path.display(), "gone before it could be merged with others; it is tried again");
    }
    Ok(bytes)
}

fn damaged(path: &Path) -> StoreError {
    let why = "the pack is damaged; `git fsck --full` tells more";
    StoreError::at("merge", path, io::Error::new(io::ErrorKind::InvalidData, why))
}

fn parse_entry(bytes: &[u8], object: &Packed, objects: &[Packed]) -> Option<Entry> {
    let Head { kind, len, head_len: body } = parse_head(bytes, u64::from(object.offset))?;
    let (kind, base) = match kind {
        // Our packs have none of these.
        Ok(Kind::Tag) | Err(Base::Named(_)) => return None,
        Ok(kind) => (kind as u8, None),
        Err(Base::At(at)) => {
            let at = objects.binary_search_by_key(&at, |object| u64::from(object.offset)).ok()?;
            (OFS_DELTA, Some(objects[at].oid))
        }
    };
    let head_len = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
    Some(Entry { kind, base, len, pack: 0, start: 0, head_len, body, end: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::git::object::pack::PackBuilder;

    #[test]
    fn half_an_index_is_refused() {
        let mut pack = PackBuilder::new();
        pack.add(Kind::Blob, [7; 20], b"seven");
        let index = pack.finish().index;
        assert_eq!(parse_index(&index).unwrap().len(), 1);
        for len in 0..index.len() {
            assert!(parse_index(&index[..len]).is_none(), "{len}");
        }
    }
}
