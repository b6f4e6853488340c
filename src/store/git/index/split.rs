//! A split index (gitformat-index(5), "Split index"), as made by `git update-index --split-index` and
//! `core.splitIndex`: most entries are in a file that many versions of the index share.
//!
//! ```text
//! "link" · 20 bytes: the checksum of `sharedindex.CHECKSUM` beside the index
//!          bitmap of the shared entries that are deleted · bitmap of those that are replaced
//! entries: the replacements, in the order of the replaced entries and without a path; then new entries
//!
//! bitmap (EWAH): number of bits · number of words · words of 8 bytes · position of the last marker, 4 bytes
//! marker: 1 bit that is repeated · 32 bits: for how many words · 31 bits: how many literal words follow
//! ```
//!
//! A split index is read as the whole index that it represents, and we write whole indexes. Git reads those and
//! splits them again when it chooses to.

use std::collections::BTreeMap;

use crate::store::git::index::entry::{IndexCursor, IndexEntry};
use crate::store::git::object::id::{Oid, hex};

/// The name of the shared index file that a link refers to.
pub(super) fn shared(link: &[u8]) -> Option<String> {
    Some(format!("sharedindex.{}", hex(link.first_chunk()?)))
}

/// Applies the changes of a link to the shared entries; `new` are the entries of the split index itself. `None` if
/// they don't match.
pub(super) fn join(link: &[u8], shared: Vec<IndexEntry>, new: Vec<IndexEntry>) -> Option<Vec<IndexEntry>> {
    let mut link = IndexCursor { bytes: link, at: size_of::<Oid>() };
    let mut old: Vec<Option<IndexEntry>> = shared.into_iter().map(Some).collect();
    let mut new = new.into_iter();
    if link.at < link.bytes.len() {
        let deleted = bits(&mut link, old.len())?;
        for at in bits(&mut link, old.len())? {
            old[at] = Some(new.next()?.named(old[at].take()?));
        }
        deleted.into_iter().for_each(|at| old[at] = None);
    }
    // If both parts have an entry, the new one takes precedence.
    let place = |entry: IndexEntry| ((entry.path.clone(), entry.stage()), entry);
    let entries: BTreeMap<_, _> = old.into_iter().flatten().chain(new).map(place).collect();
    Some(entries.into_values().collect())
}

/// Decodes the positions of the set bits of a bitmap, all of them below `len`.
fn bits(cursor: &mut IndexCursor<'_>, len: usize) -> Option<Vec<usize>> {
    let _bits = cursor.number()?;
    let words = cursor.number()? as usize;
    let words = cursor.take(words.checked_mul(8)?)?;
    let _last_marker = cursor.number()?;
    let mut words = words.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
    let (mut set, mut at) = (Vec::new(), 0_usize);
    while let Some(marker) = words.next() {
        let repeated = usize::try_from(marker >> 1 & 0xffff_ffff).ok()?.checked_mul(64)?;
        let end = at.checked_add(repeated)?;
        if marker & 1 == 1 {
            // The last word may have more bits than there are entries.
            set.extend(at..end.min(len));
        }
        at = end;
        for _ in 0..marker >> 33 {
            let word = words.next()?;
            set.extend((0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| at + bit));
            at = at.checked_add(64)?;
        }
    }
    set.iter().all(|at| *at < len).then_some(set)
}
