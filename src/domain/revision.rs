//! Commit ids.

use std::str::FromStr;

/// Defines a type for the git ids of one kind of object.
macro_rules! object_id {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 20]);

        impl $name {
            /// Wraps the raw bytes of an id.
            #[must_use]
            pub const fn new(bytes: [u8; 20]) -> Self {
                Self(bytes)
            }

            /// The raw bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 20] {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(std::str::from_utf8(&$crate::domain::hex(&self.0)).expect("digits are ASCII"))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

pub(crate) use object_id;

object_id! {
    /// A commit id on the served branch: compared and shown, never computed here.
    Revision
}

/// Returns the 40 hexadecimal digits of an object id. A table is faster than formatting each byte,
/// which matters because every response and every log line has an id.
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

/// Parses hexadecimal digits; `None` unless there are exactly two for each byte.
pub(crate) fn unhex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().as_chunks().0) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(bytes)
}

/// The error for a text that is not 40 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a revision is written as 40 hexadecimal digits")]
pub struct ParseRevisionError;

impl FromStr for Revision {
    type Err = ParseRevisionError;

    fn from_str(text: &str) -> Result<Self, ParseRevisionError> {
        unhex(text).map(Self).ok_or(ParseRevisionError)
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
            assert_eq!(wrong.parse::<Revision>(), Err(ParseRevisionError), "{wrong:?}");
        }
    }
}
