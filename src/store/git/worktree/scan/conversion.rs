//! Recognises files that git converted when it checked them out (gitattributes(5)): their line ends (`core.autocrlf`,
//! `eol=crlf`), or `$Id$` (`ident`).
//!
//! Such a file is not an edit, although its bytes are not the blob's. We do not evaluate attributes and configuration,
//! and run no filter: the index is the evidence. If it says that the file, with its present times and length, is the
//! checkout of that blob, and the file is the blob except for carriage returns before line feeds and what follows
//! `$Id:`, then git made the difference. Where the index says nothing (the file was copied or saved again), `git status`
//! makes git look and record it.

use rustix::fs::Stat;

use crate::store::git::index::git_index::GitIndex;
use crate::store::git::object::id::{ObjectKind, hash_object};
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::{BlobId, StoreError};

/// Returns whether the bytes are a checkout of `blob` that git converted.
pub(crate) fn is_checkout(
    index: &GitIndex,
    path: &str,
    blob: BlobId,
    stat: &Stat,
    bytes: &[u8],
) -> Result<bool, StoreError> {
    let is_whole = u64::try_from(stat.st_size).is_ok_and(|len| len == bytes.len() as u64);
    if !is_whole || !may_be_converted(bytes) || !index.is_checkout(path, blob, stat) {
        return Ok(false);
    }
    let [plain_ends, plain_ids] = [with_line_feeds(bytes), with_plain_ids(bytes)];
    for back in [&plain_ends, &plain_ids, &with_plain_ids(&plain_ends)] {
        if hash_object(ObjectKind::Blob, back)? == *blob.as_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
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

fn has_crlf(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\r\n")
}

/// Returns whether the bytes have anything that git may have converted.
pub(crate) fn may_be_converted(bytes: &[u8]) -> bool {
    has_crlf(bytes) || find_id(bytes).is_some()
}

/// Returns the place of the first `$Id:`.
fn find_id(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|part| part == b"$Id:")
}

/// Turns `$Id: anything $` on one line back into `$Id$` (`ident_to_git` in git's `convert.c`).
fn with_plain_ids(bytes: &[u8]) -> Vec<u8> {
    let (mut text, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some(at) = find_id(rest) {
        let (before, behind) = rest.split_at(at + 3);
        text.extend_from_slice(before);
        let end = behind.iter().position(|byte| matches!(byte, b'$' | b'\n'));
        rest = match end {
            Some(end) if behind[end] == b'$' => {
                text.push(b'$');
                &behind[end + 1..]
            }
            Some(_) | None => behind,
        };
    }
    text.extend_from_slice(rest);
    text
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

    #[test]
    fn only_ids_that_end_on_their_line_are_taken_back() {
        let same = ["", "$Id$", "$Id: a\nb$", "$Id:", "Id: a$"];
        let changed =
            [("$Id: a $", "$Id$"), ("x$Id:$y$Id: b$\n", "x$Id$y$Id$\n"), ("$Id: a\n$Id: b$", "$Id: a\n$Id$")];
        for (from, to) in same.map(|text| (text, text)).into_iter().chain(changed) {
            assert_eq!(with_plain_ids(from.as_bytes()), to.as_bytes(), "{from}");
        }
    }
}
