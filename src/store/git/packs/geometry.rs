//! Chooses which packs to merge into one.
//!
//! As in `git repack --geometric`, packs are weighed by their number of objects, which determines the cost of a
//! merge. Their size in bytes would mislead: the pack of one group contains a whole undeltified tree, and a merged
//! pack of the same size holds a thousand commits.

/// A pack of this size or more is not merged any more, because copying it repeatedly would cost more than keeping it.
/// A merge holds its parts and its result in memory, and about as much again for the offsets of their objects, which
/// take a hundred bytes each for small files. The history of a million commits is some hundred packs of this size.
pub(crate) const MERGED_BYTES_MAX: u64 = 8 << 20;

/// A pack is merged with all smaller packs if they have at least this many times its objects together. Each of a
/// million commits is then copied six times. With `git repack --geometric=2`, which merges two packs at a time, it
/// would be twelve times, and there would be no fewer packs on average.
const SMALLER_RATIO_MIN: u64 = 4;

/// The size of an index per object, and its size besides that (gitformat-pack(5), version 2): its header, 256
/// counts and two checksums.
const INDEX_ENTRY_BYTES: u64 = 20 + 4 + 4;
const INDEX_OTHER_BYTES: u64 = 8 + 256 * 4 + 2 * 20;

/// A pack that may be merged; ordered by number of objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PackSize {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    pub(crate) name: String,
}

/// Computes the number of objects in a pack from the length of its index.
pub(crate) const fn objects_of(index_len: u64) -> u64 {
    index_len.saturating_sub(INDEX_OTHER_BYTES) / INDEX_ENTRY_BYTES
}

/// Chooses which of the packs, smallest first, to merge into one: at least two, and as many as are small relative
/// to all smaller ones, unless the result would be too large.
pub(crate) fn packs_to_merge(sized: &[PackSize]) -> &[PackSize] {
    let mut smaller = 0;
    let mut count = 2;
    for (index, pack) in sized.iter().enumerate() {
        if index > 0 && SMALLER_RATIO_MIN * pack.objects <= smaller {
            count = index + 1;
        }
        smaller += pack.objects;
    }
    let mut sum = 0;
    let fitting = sized.iter().take(count).take_while(|pack| {
        sum += pack.bytes;
        sum <= MERGED_BYTES_MAX
    });
    &sized[..fitting.count().max(2)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::git::object::id::{ObjectKind, hash_object};
    use crate::store::git::object::pack::PackBuilder;

    fn pack(objects: u64, bytes: u64) -> PackSize {
        PackSize { objects, bytes, name: String::new() }
    }

    fn count(objects: &[u64]) -> usize {
        packs_to_merge(&objects.iter().map(|objects| pack(*objects, 1)).collect::<Vec<_>>()).len()
    }

    #[test]
    fn packs_of_one_size_are_merged_all_together_and_a_geometric_row_hardly() {
        assert_eq!(count(&[1; 30]), 30);
        assert_eq!(count(&[1, 2, 6, 18, 54]), 2);
        assert_eq!(count(&[1, 1, 1, 1, 1, 6, 18, 54]), 5);
        assert_eq!(count(&[1, 1, 1, 1, 1, 1, 1, 1, 2, 18, 54]), 9);
    }

    #[test]
    fn an_index_tells_how_many_objects_there_are() {
        let mut builder = PackBuilder::new();
        for number in 0..1_000_u32 {
            let content = number.to_string();
            builder.add(
                ObjectKind::Blob,
                hash_object(ObjectKind::Blob, content.as_bytes()).unwrap(),
                content.as_bytes(),
            );
        }
        assert_eq!(objects_of(builder.finish().index.len() as u64), 1_000);
    }

    #[test]
    fn a_merged_pack_stays_below_the_largest_size() {
        assert_eq!(packs_to_merge(&vec![pack(1, MERGED_BYTES_MAX / 3); 30]).len(), 3);
    }

    #[test]
    fn merging_copies_each_object_a_few_times_however_many_there_are() {
        const PACKS_MAX: usize = 24;
        let (mut packs, mut copied) = (Vec::new(), 0);
        let count = 100_000;
        for _ in 0..count {
            packs.push(pack(1, 1));
            if packs.len() > PACKS_MAX {
                packs.sort_unstable();
                let len = packs_to_merge(&packs).len();
                let objects = packs.drain(..len).map(|pack| pack.objects).sum();
                copied += objects;
                packs.push(pack(objects, 1));
            }
        }
        assert!(copied < 6 * count, "{copied} copies of {count} objects");
    }
}
