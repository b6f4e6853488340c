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

/// Reads a file name.
#[must_use]
pub fn file_name(_name: &str) -> FileName {
    unimplemented!("by the format layer")
}

/// The name of a new collection's file.
#[must_use]
pub fn new_file_name(key: &Key) -> String {
    format!("{key}.yaml")
}
