//! Where the file of a key stands in the repository.

use crate::domain::Key;

/// What a file name inside the collections folder means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileName {
    /// The file of a collection; `preferred` for `.yaml`, false for `.yml`.
    Collection {
        /// The collection.
        key: Key,
        /// Whether the ending is the one that wins when both exist.
        preferred: bool,
    },
    /// Looks like a collection file but its stem is no key: a problem, with the reason.
    BadKey(String),
    /// Not a collection file: ignored.
    Other,
}

/// How the name of a collection's file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// `.yaml`, which is written and wins.
    Yaml,
    /// `.yml`, which is read and kept.
    Yml,
}

impl Ending {
    /// The ending of a collection's file.
    #[must_use]
    pub fn of(name: &str) -> Self {
        if name.ends_with(".yml") { Self::Yml } else { Self::Yaml }
    }

    /// The ending, with its dot.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yaml => ".yaml",
            Self::Yml => ".yml",
        }
    }
}

/// Reads a file name.
///
/// Endings are compared as they stand: `posts.YAML` is not a collection file.
///
/// ```
/// use collectory::domain::Key;
/// use collectory::format::layout::{FileName, file_name};
///
/// let key = Key::parse("posts").unwrap();
/// assert_eq!(file_name("posts.yaml"), FileName::Collection { key, preferred: true });
/// assert_eq!(file_name("posts.yaml~"), FileName::Other);
/// assert!(matches!(file_name("all posts.yaml"), FileName::BadKey(_)));
/// ```
#[must_use]
pub fn file_name(name: &str) -> FileName {
    if name.starts_with('.') {
        return FileName::Other;
    }
    let (stem, preferred) = match (name.strip_suffix(".yaml"), name.strip_suffix(".yml")) {
        (Some(stem), _) => (stem, true),
        (None, Some(stem)) => (stem, false),
        (None, None) => return FileName::Other,
    };
    match Key::parse(stem) {
        Ok(key) => FileName::Collection { key, preferred },
        Err(reason) => FileName::BadKey(format!("the file's name gives no key: {reason}")),
    }
}

/// The name of a new collection's file.
#[must_use]
pub fn new_file_name(key: &Key) -> String {
    format!("{key}.yaml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collection(key: &str, preferred: bool) -> FileName {
        FileName::Collection { key: Key::parse(key).unwrap(), preferred }
    }

    #[test]
    fn both_endings_are_read_and_one_is_preferred() {
        assert_eq!(file_name("posts.yaml"), collection("posts", true));
        assert_eq!(file_name("posts.yml"), collection("posts", false));
        assert_eq!(file_name("a.b.yaml"), collection("a.b", true));
    }

    #[test]
    fn what_editors_and_people_leave_beside_the_files_is_ignored() {
        for name in [
            ".yaml",
            ".posts.yaml.swp",
            ".posts.yaml",
            "posts.yaml~",
            "README.md",
            "posts.yaml.bak",
            "posts",
            "4913",
            "posts.YAML",
            "",
        ] {
            assert_eq!(file_name(name), FileName::Other, "{name:?}");
        }
    }

    #[test]
    fn a_stem_that_is_no_key_is_told_with_its_reason() {
        for (name, reason) in [
            (
                "all posts.yaml",
                "the file's name gives no key: a key is made of `A-Z a-z 0-9 . _ -`, it can't hold ' '",
            ),
            (
                "con.yml",
                "the file's name gives no key: `con` is a device name of Windows and can't be a file there",
            ),
            ("posts.yml.yaml", "the file's name gives no key: a key can't end in `.yml`"),
            (
                "-a.yaml",
                "the file's name gives no key: a key begins with a letter, a digit or `_`, not with '-'",
            ),
        ] {
            assert_eq!(file_name(name), FileName::BadKey(reason.to_owned()), "{name:?}");
        }
    }

    #[test]
    fn a_new_name_is_read_as_its_key() {
        let key = Key::parse("posts").unwrap();
        assert_eq!(file_name(&new_file_name(&key)), FileName::Collection { key, preferred: true });
    }
}
