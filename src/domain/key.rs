//! The keys of collections.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Identifies a collection: its JSON:API `id` and the stem of its file name.
///
/// A key is a URL path segment, and a file name on every file system that the repository may be
/// checked out on. It must be valid in all of them: 1 to [`Key::BYTES_MAX`] bytes of
/// `A-Z a-z 0-9 . _ -`, beginning with a letter, a digit or `_`, not ending in `.`, not a Windows
/// device name (the list is git's own, `is_valid_win32_path` in `compat/mingw.c`), and not ending
/// in `.yaml`, `.yml` or `.lock`.
///
/// ```
/// use collectory::Key;
///
/// assert!(Key::parse("blog-posts").is_ok());
/// assert!(Key::parse("../posts").is_err());
/// assert!(Key::parse("con").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// Why a text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is empty.
    #[error("a key has at least one character")]
    Empty,
    /// The text has more than [`Key::BYTES_MAX`] bytes.
    #[error("a key has at most {max} bytes, this one has {0}", max = Key::BYTES_MAX)]
    TooLong(usize),
    /// The first character is not a letter, a digit or `_`.
    #[error("a key begins with a letter, a digit or `_`, not with {0:?}")]
    Start(char),
    /// A character outside `A-Z a-z 0-9 . _ -`.
    #[error("a key is made of `A-Z a-z 0-9 . _ -`, it can't hold {0:?}")]
    Character(char),
    /// The key ends in a dot or in a reserved file extension.
    #[error("a key can't end in `{0}`")]
    Ending(&'static str),
    /// The key is a Windows device name, with or without an extension.
    #[error("`{0}` is a device name of Windows and can't be a file there")]
    Device(String),
}

impl Key {
    /// Maximum length of a key, in bytes.
    pub const BYTES_MAX: usize = 128;

    /// Parses a key.
    ///
    /// # Errors
    ///
    /// Returns the first part of the rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let first = *text.as_bytes().first().ok_or(KeyError::Empty)?;
        if text.len() > Self::BYTES_MAX {
            return Err(KeyError::TooLong(text.len()));
        }
        if let Some(at) = text.bytes().position(|byte| !IS_KEY_BYTE[usize::from(byte)]) {
            let stray = text[at..].chars().next().expect("all before it are ASCII");
            return Err(KeyError::Character(stray));
        }
        if matches!(first, b'.' | b'-') {
            return Err(KeyError::Start(char::from(first)));
        }
        let dot = text.bytes().position(|byte| byte == b'.');
        let mut endings = [".", ".yaml", ".yml", ".lock"].into_iter();
        if let Some(ending) = dot.and_then(|_| endings.find(|it| ends_folded(text, it))) {
            return Err(KeyError::Ending(ending));
        }
        if is_device(&text[..dot.unwrap_or(text.len())]) {
            return Err(KeyError::Device(text.to_owned()));
        }
        Ok(Self(text.into()))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key as a case-insensitive file system sees it. Two keys with the same folded form can't
    /// both exist.
    #[must_use]
    pub fn folded(&self) -> Self {
        if self.0.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Self(self.0.to_ascii_lowercase().into())
        } else {
            self.clone()
        }
    }
}

/// The bytes that a key may contain: a table, because most requests have a key to check.
static IS_KEY_BYTE: [bool; 256] = {
    let mut is = [false; 256];
    let mut byte = 0;
    while byte < is.len() {
        is[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'.' | b'_' | b'-');
        byte += 1;
    }
    is
};

/// Whether a text has this ending, ignoring letter case.
fn ends_folded(text: &str, ending: &str) -> bool {
    let start = text.len().checked_sub(ending.len());
    start.is_some_and(|start| text.as_bytes()[start..].eq_ignore_ascii_case(ending.as_bytes()))
}

fn is_device(stem: &str) -> bool {
    if !(3..=4).contains(&stem.len()) {
        return false;
    }
    let stem = stem.to_ascii_lowercase();
    let numbered =
        |prefix| stem.strip_prefix(prefix).is_some_and(|rest: &str| matches!(rest.as_bytes(), [b'1'..=b'9']));
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.0)
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_keys() {
        for text in ["posts", "Posts", "a", "0", "_drafts", "blog.2024", "a-b_c.d", "console", "com10", "lpt"]
        {
            assert_eq!(Key::parse(text).map(|key| key.to_string()), Ok(text.to_owned()), "{text}");
        }
        assert!(Key::parse(&"k".repeat(Key::BYTES_MAX)).is_ok());
    }

    #[test]
    fn every_part_of_the_rule_is_kept() {
        use KeyError::*;
        let long = "k".repeat(Key::BYTES_MAX + 1);
        for (text, error) in [
            ("", Empty),
            (long.as_str(), TooLong(129)),
            (".posts", Start('.')),
            ("-posts", Start('-')),
            ("..", Start('.')),
            ("a/b", Character('/')),
            ("a\\b", Character('\\')),
            ("a b", Character(' ')),
            ("a\n", Character('\n')),
            ("a\0", Character('\0')),
            ("pösts", Character('ö')),
            ("a%2fb", Character('%')),
            ("posts.", Ending(".")),
            ("posts.yaml", Ending(".yaml")),
            ("posts.YML", Ending(".yml")),
            ("posts.lock", Ending(".lock")),
            ("con", Device("con".into())),
            ("NUL", Device("NUL".into())),
            ("com1.posts", Device("com1.posts".into())),
            ("Lpt9", Device("Lpt9".into())),
        ] {
            assert_eq!(Key::parse(text), Err(error), "{text:?}");
        }
    }
}
