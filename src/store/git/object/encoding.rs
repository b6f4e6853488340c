//! Texts of commits that are not written in UTF-8.
//!
//! A commit says in its header `encoding` how its names and its message are written
//! (`i18n.commitEncoding` in git-config(1)); without one it is UTF-8. The encodings and their names are
//! those of the web (<https://encoding.spec.whatwg.org>), as far as they have ASCII for the words and ends
//! of lines; with another one a commit is read as if it were UTF-8. What is no text is shown as U+FFFD.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};

/// The encoding that one of these lines of a header names; a continued one begins with a blank.
pub(crate) fn among<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> &'static Encoding {
    let name = lines.find_map(|line| line.strip_prefix(b"encoding "));
    let known = name.and_then(Encoding::for_label);
    known.filter(|encoding| encoding.is_ascii_compatible()).unwrap_or(UTF_8)
}

/// The text that bytes of the commit are.
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
