//! Deltas between versions of a folder's tree ("Deltified representation" in gitformat-pack(5)).
//!
//! ```text
//! length of the base · length of the result          seven bits a byte, the lowest first
//! 1ooossss [offset bytes] [size bytes]               copy from the base
//! 0nnnnnnn <n bytes>                                 insert these
//! ```

use super::tree::{BadTree, Part, parts};

/// A copy instruction's size has three bytes.
const COPY_LEN_MAX: usize = 0xff_ffff;
/// An insert instruction's size has seven bits.
const INSERT_LEN_MAX: usize = 0x7f;

/// The delta that makes the tree `target` from the tree `base`.
///
/// `single` says that at most one entry differs: then the common beginning and end are compared as
/// plain bytes, which is many times faster than entry by entry.
pub(super) fn between(base: &[u8], target: &[u8], single: bool) -> Result<Vec<u8>, BadTree> {
    let mut delta = Vec::new();
    varint(&mut delta, base.len());
    varint(&mut delta, target.len());
    if single {
        let head = common(base.iter().zip(target), base, target);
        let (base_rest, target_rest) = (&base[head..], &target[head..]);
        let tail = common(base_rest.iter().rev().zip(target_rest.iter().rev()), base_rest, target_rest);
        copy(&mut delta, 0, head);
        insert(&mut delta, &target[head..target.len() - tail]);
        copy(&mut delta, base.len() - tail, tail);
        return Ok(delta);
    }
    for part in parts(base, target)? {
        match part {
            Part::Same { old, new } => copy(&mut delta, old, new.len()),
            Part::New { range } => insert(&mut delta, &target[range]),
            Part::Old { .. } => (),
        }
    }
    Ok(delta)
}

fn common<'a>(pairs: impl Iterator<Item = (&'a u8, &'a u8)>, a: &[u8], b: &[u8]) -> usize {
    pairs.enumerate().find(|(_, (x, y))| x != y).map_or(a.len().min(b.len()), |(index, _)| index)
}

fn varint(delta: &mut Vec<u8>, mut value: usize) {
    while value > 0x7f {
        delta.push(0x80 | low_byte(value & 0x7f));
        value >>= 7;
    }
    delta.push(low_byte(value));
}

fn copy(delta: &mut Vec<u8>, mut offset: usize, mut len: usize) {
    while len > 0 {
        let size = len.min(COPY_LEN_MAX);
        let op_at = delta.len();
        let mut op = 0x80;
        delta.push(op);
        // Bytes that are zero are left out; the bits say which are there.
        for (bit, byte) in
            (0..4).map(|i| (i, offset >> (8 * i))).chain((0..3).map(|i| (i + 4, size >> (8 * i))))
        {
            let byte = low_byte(byte & 0xff);
            if byte != 0 {
                op |= 1 << bit;
                delta.push(byte);
            }
        }
        delta[op_at] = op;
        (offset, len) = (offset + size, len - size);
    }
}

fn insert(delta: &mut Vec<u8>, bytes: &[u8]) {
    for piece in bytes.chunks(INSERT_LEN_MAX) {
        delta.push(low_byte(piece.len()));
        delta.extend_from_slice(piece);
    }
}

fn low_byte(value: usize) -> u8 {
    u8::try_from(value).expect("masked to eight bits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tree::{FILE, Pointer, RawTree};
    use super::*;

    /// Applies a delta as `patch-delta.c` does.
    fn apply(base: &[u8], delta: &[u8]) -> Vec<u8> {
        let mut bytes = delta.iter().copied();
        let mut varint = || {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = bytes.next().unwrap();
                value |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    return value;
                }
            }
        };
        assert_eq!(varint(), base.len());
        let len = varint();
        let mut target = Vec::new();
        while let Some(op) = bytes.next() {
            if op & 0x80 == 0 {
                assert!(op > 0);
                target.extend(bytes.by_ref().take(usize::from(op)));
                continue;
            }
            let mut fields = [0_usize; 7];
            for (bit, field) in fields.iter_mut().enumerate().filter(|(bit, _)| op & (1 << bit) != 0) {
                *field = usize::from(bytes.next().unwrap()) << (8 * if bit < 4 { bit } else { bit - 4 });
            }
            let (offset, size): (usize, usize) = (fields[..4].iter().sum(), fields[4..].iter().sum());
            target.extend_from_slice(&base[offset..offset + if size == 0 { 0x10000 } else { size }]);
        }
        assert_eq!(target.len(), len);
        target
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_delta_makes_the_target_from_the_base(
            names in prop::collection::btree_map("[a-c]{1,4}", any::<u8>(), 0..60),
            edits in prop::collection::btree_map("[a-c]{1,4}", prop::option::of(any::<u8>()), 0..12),
        ) {
            let mut base = RawTree::default();
            let pointer = |byte| Pointer { mode: FILE, oid: [byte; 20] };
            names.iter().for_each(|(name, byte)| base.set(name.as_bytes(), Some(pointer(*byte))));
            let mut target = base.clone();
            edits.iter().for_each(|(name, byte)| target.set(name.as_bytes(), byte.map(pointer)));
            for single in [false, true] {
                let delta = between(base.bytes(), target.bytes(), single).unwrap();
                prop_assert_eq!(apply(base.bytes(), &delta), target.bytes());
            }
        }
    }

    #[test]
    fn a_copy_longer_than_one_instruction_holds_is_cut_in_two() {
        let base: Vec<u8> = (0..40_000_000_u32).map(|i| low_byte((i % 251) as usize)).collect();
        let delta = between(&base, &base, true).unwrap();
        assert!(delta.len() < 40);
        assert!(apply(&base, &delta) == base);
    }
}
