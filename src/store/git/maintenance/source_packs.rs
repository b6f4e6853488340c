//! The packs that are about to be merged, in memory.
//!
//! What is copied is checked against the checksum of its pack first, so damage on disk is told
//! instead of spread.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::{Decompress, FlushDecompress, Status};
use sha1::{Digest as _, Sha1};

use crate::store::StoreError;
use crate::store::git::object::delta;
use crate::store::git::object::id::{Kind, Oid};
use crate::store::git::object::pack::OFS_DELTA;
use crate::store::git::object::zlib;
use crate::store::git::odb::inflate;
use crate::store::git::odb::pack::{Base, Head, Pack, Place, parse_head};

/// No tree is larger: one of a million files is not. What says so would have us make it up.
const TREE_BYTES_MAX: usize = 128 << 20;

/// So many trees that were put together from deltas are kept at hand.
const KEPT_LEN: usize = 6;

const DAMAGED: &str = "the pack is damaged; `git fsck --full` tells more";

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

/// Where an object is, in few bytes, since there are many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Its kind in the pack, which for a delta is that.
    pub(crate) kind: u8,
    pub(crate) base: Option<Oid>,
    /// How many bytes its content has, or its delta.
    pub(crate) len: u32,
    pack: u32,
    start: u32,
    end: u32,
    head_len: u8,
    body: u8,
}

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
            match read(path) {
                Ok((bytes, objects)) => parts.add(bytes, &objects).ok_or_else(|| damaged(path))?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    tracing::info!(path = %path.display(), "gone before it could be merged with others; it is tried again");
                    return Ok(None);
                }
                Err(source) => return Err(StoreError::at("merge", path, source)),
            }
        }
        Ok(Some(parts))
    }

    fn add(&mut self, pack: Vec<u8>, objects: &[Place]) -> Option<()> {
        let ends = objects.iter().skip(1).map(|(_, at)| *at).chain([pack.len() as u64]);
        for ((oid, start), end) in objects.iter().zip(ends) {
            let (start, end) = (u32::try_from(*start).ok()?, u32::try_from(end).ok()?);
            let bytes = pack.get(start as usize..end as usize)?;
            let mut entry = parse_entry(bytes, u64::from(start), objects)?;
            entry.pack = u32::try_from(self.packs.len()).ok()?;
            (entry.start, entry.end) = (start, end);
            self.order.push(*oid);
            self.entries.entry(*oid).or_insert(entry);
        }
        self.packs.push(pack);
        Some(())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.packs.iter().map(Vec::len).sum()
    }

    pub(crate) fn order(&self) -> &[Oid] {
        &self.order
    }

    pub(crate) fn get(&self, oid: &Oid) -> Option<&Entry> {
        self.entries.get(oid)
    }

    /// An object as it is packed: its header, and what follows the distance to its base, if any.
    pub(crate) fn packed(&self, entry: &Entry) -> (&[u8], &[u8]) {
        let bytes = &self.packs[entry.pack as usize][entry.start as usize..entry.end as usize];
        (&bytes[..usize::from(entry.head_len)], &bytes[usize::from(entry.body)..])
    }

    /// The content of an object, or the delta that it is.
    pub(crate) fn inflate(&self, entry: &Entry) -> Result<Vec<u8>, Damaged> {
        // What is said to be larger is no object of ours.
        let len = Some(entry.len as usize).filter(|len| *len <= TREE_BYTES_MAX).ok_or(Damaged)?;
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
                break Rc::clone(kept);
            }
            let entry = self.get(&at).ok_or(Damaged)?;
            let bytes = self.inflate(entry)?;
            match entry.base {
                None => break Rc::new(bytes),
                Some(base) => {
                    deltas.push(bytes);
                    at = base;
                }
            }
        };
        for delta in deltas.into_iter().rev() {
            let (len, made) = delta::applied(&content, &delta, TREE_BYTES_MAX).map_err(|_| Damaged)?;
            content = if len == made.len() as u64 { Rc::new(made) } else { return Err(Damaged) };
        }
        self.kept.push_front((*oid, Rc::clone(&content)));
        self.kept.truncate(KEPT_LEN);
        Ok(content)
    }

    /// Says in which pack there is damage.
    pub(crate) fn damaged(&self, oid: &Oid) -> StoreError {
        let at = self.get(oid).map_or(0, |entry| entry.pack);
        damaged(&self.paths[at as usize])
    }
}

/// The bytes of a pack without its checksum, which they have, and where its objects begin.
fn read(path: &Path) -> io::Result<(Vec<u8>, Vec<Place>)> {
    let pack = Pack::open(path)?;
    let mut bytes = vec![0; usize::try_from(pack.end).unwrap_or(usize::MAX)];
    pack.file.read_exact_at(&mut bytes, 0)?;
    let is_whole = !pack.is_doubtful && Sha1::digest(&bytes)[..] == pack.sum;
    if is_whole { Ok((bytes, pack.by_place())) } else { Err(inflate::damaged(DAMAGED)) }
}

fn damaged(path: &Path) -> StoreError {
    StoreError::at("merge", path, inflate::damaged(DAMAGED))
}

fn parse_entry(bytes: &[u8], at: u64, objects: &[Place]) -> Option<Entry> {
    let Head { kind, len, head_len: body } = parse_head(bytes, at)?;
    let (kind, base) = match kind {
        // Our packs have none of these.
        Ok(Kind::Tag) | Err(Base::Named(_)) => return None,
        Ok(kind) => (kind as u8, None),
        Err(Base::At(at)) => {
            let at = objects.binary_search_by_key(&at, |(_, at)| *at).ok()?;
            (OFS_DELTA, Some(objects[at].0))
        }
    };
    let head_len = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let [head_len, body] = [head_len, body].map(|len| u8::try_from(len).ok());
    let len = u32::try_from(len).ok()?;
    Some(Entry { kind, base, len, pack: 0, start: 0, end: 0, head_len: head_len?, body: body? })
}
