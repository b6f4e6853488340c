//! The names and paths of collection files, and their keys. Only this module knows the naming rules.

use crate::domain::Key;

/// The meaning of a file name in the collections folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileName {
    /// The file of the collection with this key.
    Collection(Key),
    /// Looks like a collection file, but its stem is not a key: a problem, with the reason.
    BadKey(String),
    /// Not a collection file: ignored.
    Other,
}

impl FileName {
    /// Parses a file name.
    ///
    /// Endings are case-sensitive: `posts.YAML` is not a collection file.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        let Some((stem, _)) = split(name) else { return Self::Other };
        match Key::parse(stem) {
            Ok(key) => Self::Collection(key),
            Err(reason) => Self::BadKey(format!("the file's name gives no key: {reason}")),
        }
    }
}

/// The ending of a collection file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileExtension {
    /// `.yaml`: used for new files, and preferred if both files exist.
    Yaml,
    /// `.yml`: read, and kept for a file that has it.
    Yml,
}

impl FileExtension {
    /// Returns the ending of a collection file.
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

    /// The file name of a key with this ending.
    #[must_use]
    pub fn file_of(self, key: &Key) -> String {
        format!("{key}{}", self.as_str())
    }
}

/// Returns the key of a collection file; `None` for any other name.
#[must_use]
pub fn key_of(name: &str) -> Option<Key> {
    split(name).and_then(|(stem, _)| Key::parse(stem).ok())
}

/// Splits the name of a collection file into stem and ending; `None` for any other name. The stem
/// need not be a key.
#[must_use]
pub fn split(name: &str) -> Option<(&str, FileExtension)> {
    if name.starts_with('.') { None } else { without_ending(name) }
}

fn without_ending(name: &str) -> Option<(&str, FileExtension)> {
    let stem = |ending: FileExtension| Some((name.strip_suffix(ending.as_str())?, ending));
    stem(FileExtension::Yaml).or_else(|| stem(FileExtension::Yml))
}

/// Returns the other of the two names that a collection file can have; also works for its path.
#[must_use]
pub fn with_other_extension(name: &str) -> Option<String> {
    let (stem, ending) = without_ending(name)?;
    let other = match ending {
        FileExtension::Yaml => FileExtension::Yml,
        FileExtension::Yml => FileExtension::Yaml,
    };
    Some(format!("{stem}{}", other.as_str()))
}

/// Whether a name is that of a collection file, whether or not its stem is a key.
#[must_use]
pub fn is_collection_file(name: &str) -> bool {
    split(name).is_some()
}

/// Whether a file's name belongs to this key, or to one that differs in letter case only.
#[must_use]
pub fn belongs_to_key(name: &str, key: &Key) -> bool {
    let key = key.as_str().as_bytes();
    name.as_bytes()
        .split_at_checked(key.len())
        .is_some_and(|(stem, ending)| matches!(ending, b".yaml" | b".yml") && stem.eq_ignore_ascii_case(key))
}

/// The two names that the file of a key can have, the preferred one first.
#[must_use]
pub fn names_of(key: &Key) -> [String; 2] {
    [FileExtension::Yaml, FileExtension::Yml].map(|ending| ending.file_of(key))
}

/// The name of a new collection's file.
#[must_use]
pub fn default_name(key: &Key) -> String {
    FileExtension::Yaml.file_of(key)
}

/// The path of a collections folder's file in the repository; the folder `.` is the repository's root.
#[must_use]
pub fn path_in(folder: &str, name: &str) -> String {
    match folder.trim_end_matches('/') {
        "" | "." => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

/// The part of a repository path below the collections folder; `None` if the path is outside of it.
#[must_use]
pub fn name_in<'p>(folder: &str, path: &'p str) -> Option<&'p str> {
    match folder.trim_end_matches('/') {
        "" | "." => Some(path),
        folder => path.strip_prefix(folder)?.strip_prefix('/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_endings_are_read_and_one_is_preferred() {
        for (name, key, ending) in [
            ("posts.yaml", "posts", FileExtension::Yaml),
            ("posts.yml", "posts", FileExtension::Yml),
            ("a.b.yaml", "a.b", FileExtension::Yaml),
        ] {
            let key = Key::parse(key).unwrap();
            assert_eq!(FileExtension::of(name), ending);
            assert_eq!(names_of(&key)[usize::from(ending == FileExtension::Yml)], name);
            assert_eq!(FileName::parse(name), FileName::Collection(key));
        }
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
            assert_eq!(FileName::parse(name), FileName::Other, "{name:?}");
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
            assert_eq!(FileName::parse(name), FileName::BadKey(reason.to_owned()), "{name:?}");
        }
    }

    #[test]
    fn a_path_has_the_folder_before_the_name_unless_that_is_the_root() {
        for (folder, path) in
            [("a", "a/posts.yaml"), ("a/b/", "a/b/posts.yaml"), (".", "posts.yaml"), ("", "posts.yaml")]
        {
            assert_eq!(path_in(folder, "posts.yaml"), path);
            assert_eq!(name_in(folder, path), Some("posts.yaml"));
        }
        assert_eq!(name_in("a", "ab/posts.yaml"), None);
    }

    #[test]
    fn a_new_name_is_read_as_its_key() {
        let key = Key::parse("posts").unwrap();
        assert_eq!(FileExtension::of(&default_name(&key)), FileExtension::Yaml);
        assert_eq!(key_of(&default_name(&key)), Some(key));
    }
}
