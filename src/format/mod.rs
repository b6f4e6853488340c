//! Bytes to meaning and back: the file of a collection and the message of a commit.
//!
//! ```text
//! bytes ──read──▶ Collection or Fault          Event ──compose──▶ message ──parse──▶ Message
//! Collection ──write──▶ bytes                  name ──file_name──▶ Key
//! bytes, before, after ──edit──▶ bytes
//! ```
//!
//! # The file of a collection
//!
//! One YAML document, a map of attributes by their wire names; only `type` is required.
//!
//! ```yaml
//! # Shown first in the sidebar.
//! type: document
//! name: Posts
//! draftDirectory: drafts/   # a shorthand for unpublishedStatuses.draft
//! x-colour: [12, blue]
//! ```
//!
//! Written anew, in canonical order and form, it is:
//!
//! ```yaml
//! type: document
//! name: Posts
//! unpublishedStatuses:
//!   draft:
//!     directory: drafts
//!     name: Draft
//! x-colour:
//!   - 12
//!   - blue
//! ```
//!
//! **Reading is strict**, so a file means the same to everyone who reads it. Allowed are UTF-8
//! (a byte order mark at the start is skipped and kept), lines that end in LF or CR LF, and at
//! most [`FILE_BYTES_MAX`] bytes. Refused, with line and column, are: a second document,
//! directives (`%YAML`), anchors, aliases, tags, duplicate names, names that are no strings, tabs
//! outside of values and comments, control characters and line separators as they are, and values
//! nested deeper than [`VALUE_DEPTH_MAX`](crate::domain::VALUE_DEPTH_MAX).
//!
//! **Plain scalars** are read only where YAML 1.1 and 1.2 agree: `true` and `false` (also `True`,
//! `TRUE`), `null`, `~` and nothing at all, and numbers as JSON writes them, with a fraction and a
//! signed exponent if there is an exponent. Everything that some reader takes for a boolean, a
//! number or a date and another for a string is refused with the way to write it:
//!
//! ```text
//! posts.yaml:2:7: name: `yes` is a boolean to some YAML readers and a string to others; write "yes" in quotes
//! ```
//!
//! **An edit** changes the bytes of the values that change, and nothing else:
//!
//! ```text
//! type: document # not media      type: document # not media
//!
//! name:   'Posts'  # ask Mara     name:   'All posts'  # ask Mara
//!                                 recursive: true
//! ```
//!
//! What is not here: where files and commits are kept ([`store`](crate::store)) and which
//! attributes there are ([`domain`](crate::domain)).

pub mod csv;
mod diagnose;
mod edit;
pub mod foreign;
mod lookalike;
pub mod message;
mod place;
mod plain;
pub mod policy;
mod read;
mod scalar;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
pub mod webhooks;
mod write;

use crate::domain::{Collection, Violation};
pub use crate::format::edit::edit;
pub use crate::format::read::{attribute_lines, lacking, read};
pub(crate) use crate::format::scalar::turns_text;
pub use crate::format::write::document as write_document;

/// The most bytes a collection file has.
pub const FILE_BYTES_MAX: usize = 64 * 1024;

/// The most faults of one file that are told.
pub const PROBLEMS_PER_FILE_MAX: usize = 20;

/// What is wrong with a file, and where; it tells the place as editors and compilers do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What was found and what would be right.
    pub message: String,
}

impl Fault {
    /// A fault of a file as a whole.
    #[must_use]
    pub fn at_start(message: impl Into<String>) -> Self {
        Self { line: 1, column: 1, message: message.into() }
    }

    /// Whether a collection has more attributes than it may have.
    #[must_use]
    pub fn is_of_too_many_attributes(&self) -> bool {
        self.message.starts_with(&Violation::too_many_begins())
    }
}

/// The new content of a file, and how it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Edited {
    /// The content.
    pub bytes: Vec<u8>,
    /// What a reading of it gives: the members of its maps are in the order of the file.
    pub collection: Collection,
    /// Why more than the changed values had to be rewritten, if so: for the log and the count.
    pub fallback: Option<String>,
}

/// Writes a new file in canonical form.
#[must_use]
pub fn write(collection: &Collection) -> Vec<u8> {
    write::write(collection).into_bytes()
}
