//! One pack and its index (gitformat-pack(5)), either of which may be damaged.
//!
//! An index is checked once, when it is read: its length, its order and its checksums. A damaged index affects only
//! the objects that it is wrong about, because every offset is checked against the pack, and objects found through
//! a doubtful index are checked against their ids.

use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha1::{Digest as _, Sha1};

use crate::store::git::disk::open;
use crate::store::git::object::id::{ObjectKind, Oid};
use crate::store::git::object::pack::{OFS_DELTA, read_distance};
use crate::store::git::odb::inflate::{Inflater, damaged};

/// The type number of a delta against an object that is named by its id.
const REF_DELTA: u8 = 7;

/// The length of a pack's header; the length of the checksums at its end and in the index.
const PACK_HEAD_LEN: usize = 12;
const SUM_LEN: usize = 20;

/// The length of the running totals at the start of an index.
const TOTALS_LEN: usize = 256 * 4;
/// The magic number and version of an index of version 2.
const INDEX_2: &[u8] = b"\xfftOc\0\0\0\x02";

/// An object's id and its offset in the pack.
pub(crate) type ObjectPlace = (Oid, u64);

#[derive(Debug)]
pub(crate) struct Pack {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
    /// The end of its objects.
    pub(crate) end: u64,
    pub(crate) sum: [u8; SUM_LEN],
    /// The id and offset of every object, by id.
    places: Vec<ObjectPlace>,
    /// Whether the index differs from what was once written.
    pub(crate) is_doubtful: bool,
}

#[derive(Debug)]
pub(crate) struct ObjectHeader {
    /// The kind; a delta has the kind of its base.
    pub(crate) kind: Result<ObjectKind, Base>,
    /// The length of the content, or of the delta.
    pub(crate) len: u64,
    /// The length of the header; a zlib stream follows.
    pub(crate) head_len: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Base {
    /// The offset of the base in the same pack.
    At(u64),
    Named(Oid),
}

impl Pack {
    /// Opens a pack and reads its index.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if the files are not a pack and its index.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = Arc::new(open::open(path)?);
        let index = open::read(&path.with_extension("idx"))?;
        let end = file.metadata()?.len().saturating_sub(SUM_LEN as u64);
        let mut head = [0; PACK_HEAD_LEN];
        file.read_exact_at(&mut head, 0).map_err(cut_short)?;
        let [b'P', b'A', b'C', b'K', 0, 0, 0, 2 | 3, count @ ..] = head else {
            return Err(damaged("it is no pack"));
        };
        let mut sum = [0; SUM_LEN];
        file.read_exact_at(&mut sum, end).map_err(cut_short)?;
        let unfit = || damaged("its index makes no sense");
        // The checksum of the pack, followed by that of the index.
        let (content, sums) = index.split_last_chunk::<{ 2 * SUM_LEN }>().ok_or_else(unfit)?;
        let is_doubtful =
            sums[..SUM_LEN] != sum || Sha1::digest(&index[..index.len() - SUM_LEN])[..] != sums[SUM_LEN..];
        let count = if is_doubtful { number(&count) } else { total(content).ok_or_else(unfit)? };
        let mut places = parse_index(content, count as usize).ok_or_else(unfit)?;
        if is_doubtful || !places.is_sorted() {
            places.sort_unstable();
        }
        Ok(Self { path: path.to_owned(), file, end, sum, places, is_doubtful })
    }

    pub(crate) fn find(&self, oid: &Oid) -> Option<u64> {
        let at = self.places.binary_search_by(|(name, _)| name.cmp(oid)).ok()?;
        Some(self.places[at].1)
    }

    /// Takes the id and offset of every object, by offset, for a reader that looks none up by id.
    pub(crate) fn take_places(&mut self) -> Vec<ObjectPlace> {
        let mut places = mem::take(&mut self.places);
        places.sort_unstable_by_key(|(_, at)| *at);
        places
    }

    /// Iterates over the ids from this one on, in order.
    pub(crate) fn names_from(&self, first: &Oid) -> impl Iterator<Item = &Oid> {
        let start = self.places.partition_point(|(name, _)| name < first);
        self.places[start..].iter().map(|(name, _)| name)
    }

    pub(crate) fn head(&self, inflater: &mut Inflater, at: u64) -> io::Result<ObjectHeader> {
        if at < PACK_HEAD_LEN as u64 || at >= self.end {
            return Err(damaged("its place is not in the pack"));
        }
        let bytes = inflater.peek(&self.file, at, self.end)?;
        parse_head(bytes, at).ok_or_else(|| damaged("what stands in front of it in the pack makes no sense"))
    }
}

/// Tells a pack that ends too early, which is damage, from one that can't be read now.
fn cut_short(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("the pack is cut short"),
        _ => error,
    }
}

/// Returns how many objects an index claims to have.
pub(crate) fn total(index: &[u8]) -> Option<u64> {
    index.strip_prefix(INDEX_2).unwrap_or(index).get(TOTALS_LEN - 4..TOTALS_LEN).map(number)
}

/// Parses the objects of an index without its checksums. The running totals only speed up lookups and are ignored.
pub(crate) fn parse_index(index: &[u8], count: usize) -> Option<Vec<ObjectPlace>> {
    let Some(tables) = index.strip_prefix(INDEX_2) else { return parse_index_1(index, count) };
    let (names, tables) = tables.get(TOTALS_LEN..)?.split_at_checked(count.checked_mul(20)?)?;
    let (places, far) = tables.get(count * 4..)?.split_at_checked(count * 4)?;
    // The table of 8-byte offsets, for objects beyond two gigabytes.
    let place = |place: u32| match place.checked_sub(1 << 31) {
        None => u64::from(place),
        // No pack has an object at offset 0.
        Some(at) => far.chunks_exact(8).nth(at as usize).map_or(0, number),
    };
    let places = places.chunks_exact(4).map(|bytes| place(number(bytes) as u32));
    Some(names.chunks_exact(20).map(oid).zip(places).collect())
}

/// Parses a pack index of version 1, which git has not written since 2008.
fn parse_index_1(index: &[u8], count: usize) -> Option<Vec<ObjectPlace>> {
    let entries = index.get(TOTALS_LEN..).filter(|it| count.checked_mul(24) == Some(it.len()))?;
    Some(entries.chunks_exact(24).map(|entry| (oid(&entry[4..]), number(&entry[..4]))).collect())
}

fn oid(bytes: &[u8]) -> Oid {
    bytes.try_into().expect("cut to twenty bytes")
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Parses the header of an object that begins at offset `at` of its pack.
pub(crate) fn parse_head(bytes: &[u8], at: u64) -> Option<ObjectHeader> {
    let mut rest = bytes.iter();
    let first = *rest.next()?;
    let (mut len, mut shift, mut byte) = (u64::from(first & 0xf), 4, first);
    while byte & 0x80 != 0 {
        byte = *rest.next()?;
        len |= u64::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 60)?;
        shift += 7;
    }
    let kind = match first >> 4 & 7 {
        OFS_DELTA => Err(Base::At(at.checked_sub(read_distance(&mut rest)?).filter(|base| *base < at)?)),
        REF_DELTA => {
            let (name, behind) = rest.as_slice().split_at_checked(20)?;
            rest = behind.iter();
            Err(Base::Named(oid(name)))
        }
        number => Ok(ObjectKind::ALL.into_iter().find(|kind| *kind as u8 == number)?),
    };
    Some(ObjectHeader { kind, len, head_len: bytes.len() - rest.len() })
}
