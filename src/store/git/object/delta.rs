//! Deltas between versions of a folder's tree ("Deltified representation" in gitformat-pack(5)).
//!
//! ```text
//! length of the base · length of the result          seven bits per byte, lowest first
//! 1ooossss [offset bytes] [size bytes]               copy from the base
//! 0nnnnnnn <n bytes>                                 insert these bytes
//! ```

use std::slice;

use crate::store::git::object::tree::{BadTree, DifferencePart, Splice, parts};

/// The largest size of a copy instruction, which has three bytes for it.
const COPY_LEN_MAX: usize = 0xff_ffff;
/// The largest size of an insert instruction, which has seven bits for it.
const INSERT_LEN_MAX: usize = 0x7f;

/// Builds the delta that turns the tree `base` into the tree `target`.
pub(crate) fn between(base: &[u8], target: &[u8]) -> Result<Vec<u8>, BadTree> {
    let mut delta = Vec::new();
    varint(&mut delta, base.len());
    varint(&mut delta, target.len());
    for part in parts(base, target)? {
        match part {
            DifferencePart::Same { old, new } => copy(&mut delta, old, new.len()),
            DifferencePart::New { range } => insert(&mut delta, &target[range]),
            DifferencePart::Old { .. } => (),
        }
    }
    Ok(delta)
}

/// Builds the delta that undoes one splice of a tree, without comparing the rest of the tree.
pub(crate) fn back(base_len: usize, splice: &Splice) -> Vec<u8> {
    let behind = splice.at + splice.new.len();
    let mut delta = Vec::new();
    varint(&mut delta, base_len);
    varint(&mut delta, base_len - splice.new.len() + splice.old.len());
    copy(&mut delta, 0, splice.at);
    insert(&mut delta, &splice.old);
    copy(&mut delta, behind, base_len - behind);
    delta
}

/// Applies a delta; returns the length of the result and at most `len_max` bytes of it (`patch-delta.c` in git), or
/// `None` if the delta does not fit the base.
pub(crate) fn patch(base: &[u8], delta: &[u8], len_max: usize) -> Option<(u64, Vec<u8>)> {
    let mut rest = delta.iter();
    let (base_len, target_len) = (read_varint(&mut rest)?, read_varint(&mut rest)?);
    let wanted = target_len.min(len_max);
    // The length in the header is not trusted until the instructions have confirmed it.
    let mut target = Vec::with_capacity(wanted.min(base.len() + delta.len()));
    let mut made_len = 0_usize;
    while let Some(op) = rest.next() {
        let piece = if op & 0x80 == 0 {
            let (piece, behind) = rest.as_slice().split_at_checked(usize::from(*op)).filter(|_| *op > 0)?;
            rest = behind.iter();
            piece
        } else {
            let mut fields = [0_usize; 7];
            for (bit, field) in fields.iter_mut().enumerate().filter(|(bit, _)| op & (1 << bit) != 0) {
                *field = usize::from(*rest.next()?) << (8 * if bit < 4 { bit } else { bit - 4 });
            }
            let (start, len): (usize, usize) = (fields[..4].iter().sum(), fields[4..].iter().sum());
            base.get(start..start.checked_add(if len == 0 { 0x10000 } else { len })?)?
        };
        made_len = made_len.checked_add(piece.len())?;
        target.extend_from_slice(&piece[..piece.len().min(wanted - target.len())]);
    }
    (base_len == base.len() && made_len == target_len).then_some((target_len as u64, target))
}

fn read_varint(bytes: &mut slice::Iter<'_, u8>) -> Option<usize> {
    let (mut value, mut shift) = (0_usize, 0);
    loop {
        let byte = usize::from(*bytes.next()?);
        value |= (byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
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
        // Zero bytes are left out; the bits of `op` record which bytes are present.
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

    use super::*;
    use crate::random::cases;
    use crate::store::git::object::tree::{FILE, Pointer, RawTree};

    fn apply(base: &[u8], delta: &[u8]) -> Vec<u8> {
        patch(base, delta, usize::MAX).unwrap().1
    }

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn a_delta_makes_the_target_from_the_base(
            names in prop::collection::btree_map("[a-c]{1,4}", any::<u8>(), 0..60),
            edits in prop::collection::btree_map("[a-c]{1,4}", prop::option::of(any::<u8>()), 0..12),
        ) {
            let mut base = RawTree::default();
            let pointer = |byte| Pointer { mode: FILE, oid: [byte; 20] };
            names.iter().for_each(|(name, byte)| drop(base.put(name.as_bytes(), Some(pointer(*byte)))));
            let mut target = base.clone();
            for (name, byte) in &edits {
                let before = target.clone();
                for splice in target.put(name.as_bytes(), byte.map(pointer)) {
                    let delta = back(target.bytes().len(), &splice);
                    prop_assert_eq!(apply(target.bytes(), &delta), before.bytes());
                }
            }
            let delta = between(base.bytes(), target.bytes()).unwrap();
            prop_assert_eq!(apply(base.bytes(), &delta), target.bytes());
        }
    }

    #[test]
    fn half_a_delta_and_one_of_another_base_are_refused() {
        let base: Vec<u8> = (0..200).collect();
        let splice = Splice { at: 90, old: vec![1, 2, 3], new: base[90..95].to_vec() };
        let delta = back(base.len(), &splice);
        for len in 0..delta.len() {
            assert_eq!(patch(&base, &delta[..len], usize::MAX), None, "{len}");
        }
        assert_eq!(patch(&base[1..], &delta, usize::MAX), None);
    }

    #[test]
    fn a_copy_longer_than_one_instruction_holds_is_cut_in_two() {
        let base = vec![7; COPY_LEN_MAX + 70_000];
        let mut delta = Vec::new();
        varint(&mut delta, base.len());
        varint(&mut delta, base.len());
        copy(&mut delta, 0, base.len());
        assert!(delta.len() < 30);
        assert!(apply(&base, &delta) == base);
    }
}
