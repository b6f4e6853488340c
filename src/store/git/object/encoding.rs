//! Commit texts that are not encoded in UTF-8.
//!
//! The header `encoding` of a commit names the encoding of its names and its message (`i18n.commitEncoding` in
//! git-config(1)); without it they are in UTF-8. The encodings and their labels are those of the web
//! (<https://encoding.spec.whatwg.org>), as far as they are ASCII-compatible, which the header's words and line
//! ends require. A commit in any other encoding is read as UTF-8. Invalid bytes are shown as U+FFFD.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};

/// Returns the encoding that one of these header lines names; continuation lines begin with a space.
pub(crate) fn among<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> &'static Encoding {
    let name = lines.find_map(|line| line.strip_prefix(b"encoding "));
    let known = name.and_then(Encoding::for_label);
    known.filter(|encoding| encoding.is_ascii_compatible()).unwrap_or(UTF_8)
}

pub(crate) fn decode<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> Cow<'a, str> {
    encoding.decode_without_bom_handling(bytes).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_in_the_encoding_that_its_commit_names() {
        for (name, bytes, text) in [
            ("ISO-8859-1", b"\xe9ric \xa4".as_slice(), "éric ¤"),
            ("latin1", b"Gr\xfc\xdfe", "Grüße"),
            ("ISO_8859-15", b"5 \xa4 \xbd", "5 € œ"),
            ("CP1252", b"\x84x\x93 \x80 \xe9", "„x“ € é"),
            ("Shift_JIS", b"\x83e", "テ"),
            ("UTF-8", "é".as_bytes(), "é"),
            ("UTF-8", b"a\xe9", "a\u{fffd}"),
            ("UTF-16", b"a", "a"),
            ("unknown", "é".as_bytes(), "é"),
        ] {
            let raw = format!("tree 0\ngpgsig x\n encoding CP1252\nencoding {name}");
            let encoding = among(raw.as_bytes().split(|byte| *byte == b'\n'));
            assert_eq!(decode(encoding, bytes), text, "{name}");
        }
    }
}
