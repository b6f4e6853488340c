//! Recognises files whose line ends git changed when it checked them out (`core.autocrlf`, `eol=crlf`).
//!
//! Such a file is not an edit, although its bytes are not the blob's. We do not evaluate attributes and configuration,
//! and run no filter: the index is the evidence. If it says that the file, with its present times and length, is the
//! checkout of that blob, and the file is the blob except for carriage returns before line feeds, then git made the
//! difference. Where the index says nothing (the file was copied or saved again), `git status` makes git look and
//! record it.

use rustix::fs::Stat;

use crate::store::git::index::git_index::GitIndex;
use crate::store::git::object::id::{ObjectKind, hash_object};
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::{BlobId, StoreError};

/// Returns whether the bytes are a checkout of `blob` in which git changed the line ends.
pub(crate) fn is_checkout(
    index: &GitIndex,
    path: &str,
    blob: BlobId,
    stat: &Stat,
    bytes: &[u8],
) -> Result<bool, StoreError> {
    let is_whole = u64::try_from(stat.st_size).is_ok_and(|len| len == bytes.len() as u64);
    if !is_whole || !has_crlf(bytes) || !index.is_checkout(path, blob, stat) {
        return Ok(false);
    }
    Ok(hash_object(ObjectKind::Blob, &with_line_feeds(bytes))? == *blob.as_bytes())
}

/// Returns the id of the bytes of a file, if they are such a checkout.
pub(crate) fn checked_out(
    folder: &Folder,
    index: &GitIndex,
    file: &str,
    path: &str,
    blob: BlobId,
) -> Result<Option<BlobId>, StoreError> {
    let Some(content) = folder.read(file)?.filter(|content| content.oid != blob) else { return Ok(None) };
    Ok(is_checkout(index, path, blob, &content.stat, &content.bytes)?.then_some(content.oid))
}

pub(crate) fn has_crlf(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\r\n")
}

fn with_line_feeds(bytes: &[u8]) -> Vec<u8> {
    let mut text = bytes.to_vec();
    let mut next = bytes.iter().skip(1);
    text.retain(|byte| !(next.next() == Some(&b'\n') && *byte == b'\r'));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_carriage_returns_before_line_feeds_go() {
        for (from, to) in [("a\r\nb\r\n", "a\nb\n"), ("a\r\r\n\r", "a\r\n\r"), ("\r\n", "\n"), ("", "")] {
            assert_eq!(with_line_feeds(from.as_bytes()), to.as_bytes());
        }
        assert!(has_crlf(b"a\r\n") && !has_crlf(b"a\r") && !has_crlf(b"\n\r"));
    }
}
