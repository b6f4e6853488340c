//! The name of a commit.

use std::fmt;
use std::str::FromStr;

/// A commit id on the served branch: compared and shown, never computed here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision([u8; 20]);

impl Revision {
    /// Wraps the raw bytes of a commit id.
    #[must_use]
    pub const fn new(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The raw bytes of the commit id.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

/// The forty digits of an object's name: written for every answer and every log line, so without
/// the detour of formatting each byte.
pub(crate) fn hex(name: &[u8; 20]) -> [u8; 40] {
    static DIGITS: [[u8; 2]; 256] = {
        let digits = b"0123456789abcdef";
        let mut pairs = [[0; 2]; 256];
        let mut byte = 0;
        while byte < pairs.len() {
            pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
            byte += 1;
        }
        pairs
    };
    let mut text = [0; 40];
    for (digits, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(name) {
        *digits = DIGITS[usize::from(*byte)];
    }
    text
}

/// A text that is not forty hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a revision is written as 40 hexadecimal digits")]
pub struct NotARevision;

impl FromStr for Revision {
    type Err = NotARevision;

    fn from_str(text: &str) -> Result<Self, NotARevision> {
        let digits = text.as_bytes();
        if digits.len() != 40 {
            return Err(NotARevision);
        }
        let value = |digit: u8| char::from(digit).to_digit(16).ok_or(NotARevision);
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::try_from(value(pair[0])? << 4 | value(pair[1])?).expect("two digits are a byte");
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&hex(&self.0)).expect("digits are ASCII"))
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_reads_as_it_is_shown() {
        let text = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(text.parse::<Revision>().unwrap().to_string(), text);
        for wrong in [
            "",
            "0123",
            &text[1..],
            "g123456789abcdef0123456789abcdef01234567",
            "+123456789abcdef0123456789abcdef01234567",
        ] {
            assert_eq!(wrong.parse::<Revision>(), Err(NotARevision), "{wrong:?}");
        }
    }
}
