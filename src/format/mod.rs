//! Bytes to meaning and back: the file of a collection and the message of a commit.

pub mod layout;
pub mod message;
pub mod policy;

use crate::domain::{Collection, Key};

/// The most bytes a collection file has.
pub const FILE_BYTES_MAX: usize = 64 * 1024;

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What was found and what would be right.
    pub message: String,
}

/// The new content of a file, and how it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The content.
    pub bytes: Vec<u8>,
    /// Why more than the changed values had to be rewritten, if so: for the log and the count.
    pub fallback: Option<String>,
}

/// Reads the file of a collection, strictly.
///
/// # Errors
///
/// Returns the first fault by position; its message tells how many more there are.
pub fn read(_key: &Key, _bytes: &[u8]) -> Result<Collection, Fault> {
    unimplemented!("by the format layer")
}

/// Writes a new file in canonical form.
#[must_use]
pub fn write(_collection: &Collection) -> Vec<u8> {
    unimplemented!("by the format layer")
}

/// Turns the file of `before` into a file of `after`, changing only the bytes of what changed.
///
/// `old` must read as `before`.
#[must_use]
pub fn edit(_old: &[u8], _before: &Collection, _after: &Collection) -> Edited {
    unimplemented!("by the format layer")
}
