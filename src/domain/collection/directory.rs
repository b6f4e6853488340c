//! Directories of the content store.

use crate::domain::excerpt;

/// A relative path with `/` separators: the value of the attributes that name a directory.
///
/// The content store joins it to a folder of its own, so it must not lead out of that folder on
/// any operating system: no empty, `.` or `..` part, no `\`, no drive letter, no control
/// character, at most [`Directory::BYTES_MAX`] bytes. One trailing `/` is dropped.
///
/// ```
/// use collectory::Directory;
///
/// assert_eq!(Directory::parse("content/posts/").unwrap().as_str(), "content/posts");
/// assert!(Directory::parse("../etc").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory(String);

impl Directory {
    /// Maximum length of a directory, in bytes.
    pub const BYTES_MAX: usize = 1024;

    /// Parses a directory.
    ///
    /// # Errors
    ///
    /// Returns one sentence for the caller: what was found and what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = text.strip_suffix('/').unwrap_or(text);
        if path.len() > Self::BYTES_MAX {
            return Err(format!(
                "a directory has at most {} bytes, this one has {}",
                Self::BYTES_MAX,
                path.len()
            ));
        }
        if text.is_empty() {
            return Err("a directory can't be empty; leave the attribute out instead".into());
        }
        if text.starts_with('/') {
            return Err(format!(
                "{:?} is absolute; write a relative path such as \"content/posts\"",
                excerpt(text)
            ));
        }
        if let Some(stray) = text.chars().find(|c| c.is_control()) {
            return Err(format!("a directory can't hold the control character {stray:?}"));
        }
        if text.contains('\\') {
            return Err(format!("{:?} holds a backslash; write `/` between the parts", excerpt(text)));
        }
        if matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic()) {
            return Err(format!("{:?} begins with a drive letter; write a relative path", excerpt(text)));
        }
        for part in path.split('/') {
            match part {
                "" => {
                    return Err(format!(
                        "{:?} has an empty part; write one `/` between the parts",
                        excerpt(text)
                    ));
                }
                "." | ".." => {
                    return Err(format!(
                        "{:?} has the part `{part}`; write the path without it",
                        excerpt(text)
                    ));
                }
                _ => {}
            }
        }
        Ok(Self(path.to_owned()))
    }

    /// The path as text, without a trailing `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Directory> for String {
    fn from(directory: Directory) -> Self {
        directory.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_directories() {
        for (text, kept) in [
            ("content/posts", "content/posts"),
            ("content/posts/", "content/posts"),
            ("a", "a"),
            ("...", "..."),
            (".hidden/x", ".hidden/x"),
            ("größe/日本", "größe/日本"),
            ("with space/x", "with space/x"),
        ] {
            assert_eq!(Directory::parse(text).map(String::from), Ok(kept.to_owned()), "{text:?}");
        }
        let longest = "d".repeat(Directory::BYTES_MAX);
        assert_eq!(Directory::parse(&longest).map(String::from), Ok(longest.clone()));
        assert_eq!(Directory::parse(&format!("{longest}/")).map(String::from), Ok(longest));
    }

    #[test]
    fn whatever_could_lead_elsewhere_is_refused() {
        let long = "d".repeat(Directory::BYTES_MAX + 1);
        let longer = format!("{long}/");
        for text in [
            "", "/", "/etc", "..", ".", "../x", "x/..", "x/../y", "x/./y", "x//y", "x//", "a\\b", "C:",
            "c:/x", "c:x", "a\nb", "a\0", "a\u{85}b", &long, &longer,
        ] {
            assert!(Directory::parse(text).is_err(), "{text:?}");
        }
    }
}
