//! On which packs a multi-pack index counts (gitformat-pack(5), "multi-pack-index (MIDX) files").
//!
//! ```text
//! "MIDX" · version · kind of names · number of chunks C · of base files · number of packs (4 bytes)
//! C + 1 times: id of a chunk (4 bytes) · where it begins (8 bytes); the last one ends them all
//! the chunks; of "PNAM" the names of the indexes, each with a NUL behind it, filled up with NULs
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use crate::store::StoreError;
use crate::store::git::disk::barrier::read_if_there;

const HEADER_LEN: usize = 12;
const CHUNK_LEN: usize = 12;

/// The packs on which the multi-pack index of a folder counts, without endings; `None` if it makes no sense.
pub(crate) fn packs_in(folder: &Path) -> Result<Option<BTreeSet<String>>, StoreError> {
    let bytes = read_if_there(&folder.join("multi-pack-index"))?;
    Ok(bytes.map_or(Some(BTreeSet::new()), |bytes| parse(&bytes)))
}

fn parse(bytes: &[u8]) -> Option<BTreeSet<String>> {
    let chunks_len = usize::from(*bytes.strip_prefix(b"MIDX")?.get(2)?);
    let table = bytes.get(HEADER_LEN..)?.chunks_exact(CHUNK_LEN).take(chunks_len + 1);
    let begin = |entry: &[u8]| usize::try_from(u64::from_be_bytes(entry[4..].try_into().ok()?)).ok();
    let table: Vec<_> = table.collect();
    let names = table.windows(2).find(|pair| pair[0].starts_with(b"PNAM"))?;
    let names = bytes.get(begin(names[0])?..begin(names[1])?)?.split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty());
    names.map(|name| Some(std::str::from_utf8(name).ok()?.strip_suffix(".idx")?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_read_and_nonsense_is_refused() {
        let mut bytes = b"MIDX\x01\x01\x02\0\0\0\0\x02".to_vec();
        for (id, begin) in [(b"OTHR", 48_u64), (b"PNAM", 49), (b"\0\0\0\0", 64)] {
            bytes.extend_from_slice(id);
            bytes.extend_from_slice(&begin.to_be_bytes());
        }
        bytes.extend_from_slice(b"?a.idx\0bc.idx\0\0\0");
        assert_eq!(parse(&bytes), Some(["a", "bc"].map(str::to_owned).into()));
        assert_eq!(parse(&bytes[..60]), None);
        assert_eq!(parse(b"MIDX"), None);
        assert_eq!(parse(b""), None);
    }
}
