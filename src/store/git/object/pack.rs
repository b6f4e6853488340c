//! Writes packs and their indexes (gitformat-pack(5), both in version 2).
//!
//! ```text
//! pack    "PACK" · version 2 · number of objects                      (big-endian, 4 bytes each)
//!         per object: kind and length · [distance to the base] · zlib stream of content or delta
//!         SHA-1 of all that
//! index   FF "tOc" · version 2 · 256 running totals by first byte of the name
//!         names, sorted · CRC-32 of each object's packed bytes · offset of each in the pack
//!         SHA-1 of the pack (its last 20 bytes) · SHA-1 of the index so far
//! ```
//!
//! A pack is built in memory, because it holds only the objects of one group of commits. It is self-contained: the
//! base of every delta precedes it in the same pack.

use std::collections::HashMap;
use std::slice;

use sha1::{Digest as _, Sha1};

use crate::store::git::object::id::{ObjectKind, Oid, unhex};
use crate::store::git::object::zlib::{self, Deflater};

/// The type number of a delta against an earlier object of the same pack.
pub(crate) const OFS_DELTA: u8 = 6;

#[derive(Debug, Clone, Copy)]
struct Packed {
    oid: Oid,
    // Of the packed bytes, header included.
    crc: u32,
    offset: u32,
}

pub(crate) struct PackBuilder {
    bytes: Vec<u8>,
    objects: Vec<Packed>,
    offsets: HashMap<Oid, u32>,
    // `None` while a caller waits for the pack: its contents are then stored.
    deflater: Option<Deflater>,
}

#[derive(Debug)]
pub(crate) struct EncodedPack {
    pub(crate) pack: Vec<u8>,
    pub(crate) index: Vec<u8>,
}

/// The length of a pack's name: `pack-` and 40 digits.
pub(crate) const NAME_LEN: usize = 45;

pub(crate) fn is_name(name: &[u8]) -> bool {
    name.strip_prefix(b"pack-").is_some_and(|digits| unhex(digits).is_some())
}

impl PackBuilder {
    /// Starts a pack whose contents are stored without compression.
    pub(crate) fn new() -> Self {
        let bytes = b"PACK\0\0\0\x02\0\0\0\0".to_vec();
        Self { bytes, objects: Vec::new(), offsets: HashMap::new(), deflater: None }
    }

    /// Starts a pack whose contents are deflated, with room for `len` bytes. Room that is never written costs
    /// nothing, whereas a buffer that grows is in memory twice for a moment.
    pub(crate) fn deflating(len: usize) -> Self {
        let mut builder = Self { deflater: Some(Deflater::default()), ..Self::new() };
        builder.bytes.reserve(len);
        builder
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a whole object, unless the pack already has it.
    pub(crate) fn add(&mut self, kind: ObjectKind, oid: Oid, content: &[u8]) {
        self.put(oid, &entry_header(kind as u8, content.len() as u64), content);
    }

    /// Adds an object as a delta against an object added before, unless the pack already has it.
    pub(crate) fn add_delta(&mut self, oid: Oid, base: &Oid, delta: &[u8]) {
        let mut head = entry_header(OFS_DELTA, delta.len() as u64);
        head.extend(distance((self.bytes.len() - self.offsets[base] as usize) as u64));
        self.put(oid, &head, delta);
    }

    /// Adds an object unless the pack already has it. `head` is its header (with the distance to the base, for a
    /// delta); `content` is stored or deflated.
    pub(crate) fn put(&mut self, oid: Oid, head: &[u8], content: &[u8]) {
        if self.offsets.contains_key(&oid) {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(head);
        match &mut self.deflater {
            None => zlib::store(&mut self.bytes, content),
            Some(deflater) => deflater.deflate(&mut self.bytes, content),
        }
        self.record(oid, start);
    }

    /// Copies an object from another pack; `body` is already deflated.
    pub(crate) fn add_packed(&mut self, oid: Oid, head: &[u8], body: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(body);
        self.record(oid, start);
    }

    pub(crate) fn offset(&self, oid: &Oid) -> Option<u32> {
        self.offsets.get(oid).copied()
    }

    pub(crate) fn finish(mut self) -> EncodedPack {
        let count = u32::try_from(self.objects.len()).expect("offsets of four bytes bound the number");
        self.bytes[8..12].copy_from_slice(&count.to_be_bytes());
        let checksum: Oid = Sha1::digest(&self.bytes).into();
        self.bytes.extend_from_slice(&checksum);
        let index = encode_index(&mut self.objects, &checksum);
        EncodedPack { pack: self.bytes, index }
    }

    fn record(&mut self, oid: Oid, start: usize) {
        let crc = crc32fast::hash(&self.bytes[start..]);
        let offset = u32::try_from(start).expect("a group, or a merged pack, is far below 4 GiB");
        self.objects.push(Packed { oid, crc, offset });
        self.offsets.insert(oid, offset);
    }
}

/// Encodes the header of an object: its kind with four bits of the length, then seven bits per byte, with the
/// highest bit set while more bytes follow.
pub(crate) fn entry_header(kind: u8, len: u64) -> Vec<u8> {
    let more = |rest: u64| if rest > 0 { 0x80 } else { 0 };
    let mut rest = len >> 4;
    let mut header = vec![more(rest) | kind << 4 | low_bits(len, 4)];
    while rest > 0 {
        let next = rest >> 7;
        header.push(more(next) | low_bits(rest, 7));
        rest = next;
    }
    header
}

/// Encodes the distance back to a delta's base: seven bits per byte, highest first, with one added for each further
/// byte ("offset encoding" in gitformat-pack(5)).
pub(crate) fn distance(distance: u64) -> Vec<u8> {
    let mut bytes = vec![low_bits(distance, 7)];
    let mut rest = distance >> 7;
    while rest > 0 {
        rest -= 1;
        bytes.push(0x80 | low_bits(rest, 7));
        rest >>= 7;
    }
    bytes.reverse();
    bytes
}

pub(crate) fn read_distance(bytes: &mut slice::Iter<'_, u8>) -> Option<u64> {
    let mut byte = *bytes.next()?;
    let mut value = u64::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = *bytes.next()?;
        value = value.checked_add(1)?.checked_mul(128)? + u64::from(byte & 0x7f);
    }
    Some(value)
}

fn low_bits(value: u64, bits: u32) -> u8 {
    u8::try_from(value & ((1 << bits) - 1)).expect("at most seven bits")
}

fn encode_index(objects: &mut [Packed], pack_checksum: &Oid) -> Vec<u8> {
    objects.sort_unstable_by_key(|object| object.oid);
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    let mut total = 0;
    for first in 0..=u8::MAX {
        total += objects[total..].iter().take_while(|object| object.oid[0] == first).count();
        index.extend_from_slice(&u32::try_from(total).expect("counted in four bytes above").to_be_bytes());
    }
    objects.iter().for_each(|object| index.extend_from_slice(&object.oid));
    objects.iter().for_each(|object| index.extend_from_slice(&object.crc.to_be_bytes()));
    objects.iter().for_each(|object| index.extend_from_slice(&object.offset.to_be_bytes()));
    index.extend_from_slice(pack_checksum);
    let checksum: Oid = Sha1::digest(&index).into();
    index.extend_from_slice(&checksum);
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_distances_are_written_as_git_reads_them() {
        assert_eq!(entry_header(3, 15), [0x3f]);
        assert_eq!(entry_header(3, 16), [0xb0, 0x01]);
        assert_eq!(entry_header(2, 0x7ff), [0xaf, 0x7f]);
        assert_eq!(entry_header(2, 0x800), [0xa0, 0x80, 0x01]);
        assert_eq!(distance(127), [0x7f]);
        assert_eq!(distance(128), [0x80, 0x00]);
        assert_eq!(distance(16_511), [0xff, 0x7f]);
        assert_eq!(distance(16_512), [0x80, 0x80, 0x00]);
        for len in [0, 1, 127, 128, 16_511, 16_512, 1 << 31, u64::from(u32::MAX)] {
            let bytes = distance(len);
            let mut rest = bytes.iter();
            assert_eq!((read_distance(&mut rest), rest.len()), (Some(len), 0));
        }
        assert_eq!(read_distance(&mut [0xff; 20].iter()), None);
    }
}
