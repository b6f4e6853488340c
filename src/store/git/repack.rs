//! Many packs into one, without unpacking anything.
//!
//! The entries are copied as they are, deflated; only the distance from a delta to its base is
//! written anew. What is copied is checked against the CRC of its old index first, so damage on
//! disk is told instead of spread.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::object::Oid;
use super::pack::{OFS_DELTA, Pack, PackBuilder, Packed, distance};
use crate::store::StoreError;

/// Makes one pack of several.
pub(super) fn merge(packs: &[PathBuf]) -> Result<Pack, StoreError> {
    let mut merged = PackBuilder::new();
    for path in packs {
        let read = |path: &Path| fs::read(path).map_err(|source| StoreError::at("read", path, source));
        let index_path = path.with_extension("idx");
        let damaged = |path: &Path| {
            let why = "the pack is damaged; `git fsck --full` tells more";
            StoreError::at("merge", path, io::Error::new(io::ErrorKind::InvalidData, why))
        };
        let index = parse_index(&read(&index_path)?).ok_or_else(|| damaged(&index_path))?;
        copy(&mut merged, &read(path)?, index).ok_or_else(|| damaged(path))?;
    }
    Ok(merged.finish())
}

/// The objects of an index, by their place in the pack.
fn parse_index(index: &[u8]) -> Option<Vec<Packed>> {
    let tables = index.strip_prefix(b"\xfftOc\0\0\0\x02")?;
    let (totals, tables) = tables.split_at_checked(256 * 4)?;
    let count = usize::try_from(u32::from_be_bytes(totals[255 * 4..].try_into().ok()?)).ok()?;
    let (names, tables) = tables.split_at_checked(count.checked_mul(20)?)?;
    let (crcs, tables) = tables.split_at_checked(count * 4)?;
    let (offsets, checksums) = tables.split_at_checked(count * 4)?;
    if checksums.len() != 40 {
        return None;
    }
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    let fields = names.chunks(20).zip(crcs.chunks(4)).zip(offsets.chunks(4));
    let objects = fields.map(|((oid, crc), offset)| {
        Some(Packed { oid: oid.try_into().ok()?, crc: number(crc)?, offset: number(offset)? })
    });
    let mut objects: Vec<Packed> = objects.collect::<Option<_>>()?;
    objects.sort_unstable_by_key(|object| object.offset);
    Some(objects)
}

fn copy(merged: &mut PackBuilder, pack: &[u8], objects: Vec<Packed>) -> Option<()> {
    let end = pack.len().checked_sub(20)?;
    let ends = objects.iter().skip(1).map(|object| object.offset as usize).chain([end]);
    for (object, end) in objects.iter().zip(ends) {
        let entry = pack.get(object.offset as usize..end)?;
        if crc32fast::hash(entry) != object.crc {
            return None;
        }
        if !merged.contains(&object.oid) {
            copy_entry(merged, entry, object, &objects)?;
        }
    }
    Some(())
}

fn copy_entry(merged: &mut PackBuilder, entry: &[u8], object: &Packed, objects: &[Packed]) -> Option<()> {
    let header_len = entry.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let (head, rest) = entry.split_at(header_len);
    if head[0] >> 4 & 7 != OFS_DELTA {
        merged.add_packed(object.oid, head, rest);
        return Some(());
    }
    let (back, len) = parse_distance(rest)?;
    let base_at = u32::try_from(u64::from(object.offset).checked_sub(back)?).ok()?;
    let base: Oid = objects[objects.binary_search_by_key(&base_at, |object| object.offset).ok()?].oid;
    // The base was copied before: it stands before its delta, or came with an earlier pack.
    let back = merged.len().checked_sub(merged.offset(&base)? as usize)?;
    merged.add_packed(object.oid, &[head, &distance(back as u64)].concat(), &rest[len..]);
    Some(())
}

/// Reads what [`distance`] writes, and how long it is.
fn parse_distance(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = u64::from(bytes.first()? & 0x7f);
    let mut len = 1;
    while bytes[len - 1] & 0x80 != 0 {
        value = value.checked_add(1)?.checked_mul(128)? + u64::from(bytes.get(len)? & 0x7f);
        len += 1;
    }
    Some((value, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_reads_as_it_was_written() {
        for value in [0, 1, 127, 128, 16_511, 16_512, 1 << 31, u64::from(u32::MAX)] {
            let bytes = distance(value);
            assert_eq!(parse_distance(&bytes), Some((value, bytes.len())));
        }
    }

    #[test]
    fn half_an_index_is_refused() {
        let mut pack = PackBuilder::new();
        pack.add(super::super::object::Kind::Blob, [7; 20], b"seven");
        let index = pack.finish().index;
        assert_eq!(parse_index(&index).unwrap().len(), 1);
        for len in 0..index.len() {
            assert!(parse_index(&index[..len]).is_none(), "{len}");
        }
    }
}
