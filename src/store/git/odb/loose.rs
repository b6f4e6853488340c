//! Loose objects: one file each, a zlib stream of `KIND LENGTH\0CONTENT` (gitformat-loose(5)).

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::store::git::object::id::ObjectKind;
use crate::store::git::odb::inflate::{Inflater, damaged};

/// The longest header: the longest kind, a length of twenty digits, a space and a NUL.
const HEADER_LEN_MAX: usize = 28;

/// An object, or the requested part of it.
#[derive(Debug, Clone)]
pub(crate) struct FoundObject {
    pub(crate) kind: ObjectKind,
    pub(crate) len: u64,
    /// Its content, truncated to the requested length.
    pub(crate) content: Arc<Vec<u8>>,
}

/// Reads a loose object and at most `len_max` bytes of its content.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] if it is not an object, is cut short, or is longer than its header says.
pub(crate) fn read(file: File, inflater: &mut Inflater, len_max: usize) -> io::Result<FoundObject> {
    inflater.peek(&Arc::new(file), 0, u64::MAX)?;
    let mut begun = Vec::new();
    inflater.fill(&mut begun, HEADER_LEN_MAX)?;
    let header_len = begun.iter().position(|byte| *byte == 0).ok_or_else(|| damaged("it has no header"))?;
    let (kind, len) =
        parse_header(&begun[..header_len]).ok_or_else(|| damaged("its header makes no sense"))?;
    begun.drain(..=header_len);
    let content = Arc::new(inflater.content(begun, len, len_max)?);
    Ok(FoundObject { kind, len, content })
}

fn parse_header(header: &[u8]) -> Option<(ObjectKind, u64)> {
    let (word, len) = std::str::from_utf8(header).ok()?.split_once(' ')?;
    let kind = ObjectKind::ALL.into_iter().find(|kind| kind.word() == word)?;
    Some((kind, len.parse().ok()?))
}
