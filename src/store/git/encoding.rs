//! Texts of commits that are not written in UTF-8.
//!
//! A commit says in its header `encoding` how its names and its message are written
//! (`i18n.commitEncoding` in git-config(1)); without one it is UTF-8. Git converts with iconv. Here
//! are those encodings that people of western Europe have set, all of them one byte a character and
//! ASCII below 128. A commit in another one is read as if it were UTF-8, and what is none in it is
//! shown as U+FFFD.

use std::borrow::Cow;

/// The characters 128 to 159 of windows-1252, the others of which are those of ISO-8859-1
/// (<https://encoding.spec.whatwg.org/index-windows-1252.txt>); five are none.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{fffd}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{fffd}', 'Ž', '\u{fffd}',
    '\u{fffd}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{fffd}', 'ž', 'Ÿ',
];

/// How the text of a commit is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Encoding {
    /// UTF-8, or one that is not known here.
    #[default]
    Utf8,
    /// ISO-8859-1.
    Latin1,
    /// ISO-8859-15: the former with the euro and a few letters more.
    Latin9,
    /// windows-1252: the former with quotation marks and other signs.
    Windows1252,
}

impl Encoding {
    /// The encoding of a commit object.
    pub(super) fn of_commit(raw: &[u8]) -> Self {
        let header = raw.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
        Self::among(header)
    }

    /// The encoding that one of these lines of a header names; a continued one begins with a blank.
    pub(super) fn among<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let name = lines.find_map(|line| line.strip_prefix(b"encoding "));
        name.map_or_else(Self::default, Self::named)
    }

    /// The names are those that iconv knows them by, in any case.
    fn named(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase().replace('_', "-");
        match name.as_str() {
            "iso-8859-1" | "iso8859-1" | "iso88591" | "latin1" | "latin-1" | "l1" | "cp819" | "ibm819" => {
                Self::Latin1
            }
            "iso-8859-15" | "iso8859-15" | "iso885915" | "latin9" | "latin-9" => Self::Latin9,
            "windows-1252" | "cp1252" | "ms-ansi" => Self::Windows1252,
            _ => Self::Utf8,
        }
    }

    /// The text that bytes of the commit are.
    pub(super) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            Self::Latin1 | Self::Latin9 | Self::Windows1252 if !bytes.is_ascii() => {
                Cow::Owned(bytes.iter().map(|byte| self.character(*byte)).collect())
            }
            Self::Utf8 | Self::Latin1 | Self::Latin9 | Self::Windows1252 => String::from_utf8_lossy(bytes),
        }
    }

    /// The character of a byte in an encoding of one byte a character.
    fn character(self, byte: u8) -> char {
        match (self, byte) {
            (Self::Windows1252, 0x80..=0x9f) => WINDOWS_1252[usize::from(byte - 0x80)],
            (Self::Latin9, 0xa4) => '€',
            (Self::Latin9, 0xa6) => 'Š',
            (Self::Latin9, 0xa8) => 'š',
            (Self::Latin9, 0xb4) => 'Ž',
            (Self::Latin9, 0xb8) => 'ž',
            (Self::Latin9, 0xbc) => 'Œ',
            (Self::Latin9, 0xbd) => 'œ',
            (Self::Latin9, 0xbe) => 'Ÿ',
            (Self::Utf8 | Self::Latin1 | Self::Latin9 | Self::Windows1252, _) => char::from(byte),
        }
    }
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
            ("CP1252", b"\x84x\x93 \x80 \x81 \xe9", "„x“ € \u{fffd} é"),
            ("UTF-8", "é".as_bytes(), "é"),
            ("Shift_JIS", b"a\x83", "a\u{fffd}"),
        ] {
            let raw = format!("tree 0\ngpgsig x\n encoding CP1252\nencoding {name}\n\nencoding CP1252\n");
            assert_eq!(Encoding::of_commit(raw.as_bytes()).decode(bytes), text, "{name}");
        }
        assert_eq!(Encoding::of_commit(b"tree 0\n\nencoding CP1252\n"), Encoding::Utf8);
    }
}
