//! What differs between two trees, told without parsing what is the same in both.

use std::cmp::Ordering;
use std::ops::Range;

use crate::store::git::object::tree::{BadTree, Pointer, order, parse_entry};

/// A name under which two trees have different entries.
pub(crate) type Difference = (Vec<u8>, Option<Pointer>, Option<Pointer>);

/// What differs between the contents of two trees, in the order of the names.
///
/// Equal entries are compared as bytes and never parsed on the second side: with 100,000 entries
/// of which one differs, that is about a millisecond.
pub(crate) fn differences(old: &[u8], new: &[u8]) -> Result<Vec<Difference>, BadTree> {
    let mut found: Vec<Difference> = Vec::new();
    for part in parts(old, new)? {
        match part {
            DifferencePart::Same { .. } => (),
            DifferencePart::Old { at } => {
                let entry = parse_entry(old, at)?;
                found.push((entry.name.to_vec(), Some(entry.pointer), None));
            }
            DifferencePart::New { range } => {
                let entry = parse_entry(new, range.start)?;
                found.push((entry.name.to_vec(), None, Some(entry.pointer)));
            }
        }
    }
    // In order but for the names of folders; a stable sort sees that.
    found.sort_by(|(one, ..), (two, ..)| one.cmp(two));
    found.dedup_by(|(name, before, after), (first, first_before, first_after)| {
        // One that has changed, or has changed its kind and stands in two places, is told once.
        let same = name == first;
        if same {
            (*first_before, *first_after) = (first_before.or(*before), first_after.or(*after));
        }
        same
    });
    Ok(found)
}

/// A piece of a comparison of two trees, in the order of the entries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DifferencePart {
    /// These bytes stand in both.
    Same {
        /// Where they begin in the old tree.
        old: usize,
        /// Where they stand in the new tree.
        new: Range<usize>,
    },
    /// This entry stands only in the old tree.
    Old { at: usize },
    /// This entry stands only in the new tree.
    New { range: Range<usize> },
}

/// Compares the contents of two trees entry by entry.
pub(crate) fn parts(old: &[u8], new: &[u8]) -> Result<Vec<DifferencePart>, BadTree> {
    let mut parts = Vec::new();
    let (mut a, mut b) = (0, 0);
    while a < old.len() || b < new.len() {
        let same = same_len(&old[a..], &new[b..]);
        if same > 0 {
            parts.push(DifferencePart::Same { old: a, new: b..b + same });
            (a, b) = (a + same, b + same);
            continue;
        }
        let left = (a < old.len()).then(|| parse_entry(old, a)).transpose()?;
        let right = (b < new.len()).then(|| parse_entry(new, b)).transpose()?;
        let ordering = match (&left, &right) {
            (Some(left), Some(right)) => order(left.place(), right.place()),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        if let Some(left) = left.filter(|_| ordering.is_le()) {
            parts.push(DifferencePart::Old { at: a });
            a += left.len;
        }
        if let Some(right) = right.filter(|_| ordering.is_ge()) {
            parts.push(DifferencePart::New { range: b..b + right.len });
            b += right.len;
        }
    }
    Ok(parts)
}

/// How many bytes of whole entries both begin with.
fn same_len(old: &[u8], new: &[u8]) -> usize {
    if old == new {
        return old.len();
    }
    let equal = same_blocks_len(old, new);
    let mut at = 0;
    while let Ok(entry) = parse_entry(old, at) {
        let end = at + entry.len;
        if end > equal && old.get(at..end) != new.get(at..end) {
            break;
        }
        at = end;
    }
    at
}

/// How many bytes both begin with, in whole blocks: comparing memory is faster than parsing it.
fn same_blocks_len(old: &[u8], new: &[u8]) -> usize {
    const BLOCKS: [usize; 2] = [4096, 64];
    BLOCKS.into_iter().fold(0, |equal, block| {
        let blocks = old[equal..].chunks_exact(block).zip(new[equal..].chunks_exact(block));
        equal + blocks.take_while(|(one, two)| one == two).count() * block
    })
}
