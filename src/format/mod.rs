//! Reading and writing of collection files and commit messages: bytes to meaning and back.
//!
//! ```text
//! bytes ──read──▶ Collection or faults         Event ──compose──▶ message ──parse──▶ Message
//! Collection ──write──▶ bytes
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
//! The same file in canonical order and form:
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
//! **Reading is strict**, so that a file means the same to every reader. Allowed are UTF-8
//! (a byte order mark at the start is skipped and kept), lines that end in LF or CR LF, and at
//! most [`FILE_BYTES_MAX`] bytes. Refused, with line and column, are: a second document,
//! directives (`%YAML`), anchors, aliases, tags, duplicate names, names that are not strings, tabs
//! outside of values and comments, unescaped control characters and line separators, and values
//! nested deeper than [`VALUE_DEPTH_MAX`](crate::domain::VALUE_DEPTH_MAX).
//!
//! **Plain scalars** are read only where YAML 1.1 and 1.2 agree: `true` and `false` (also `True`,
//! `TRUE`), `null`, `~` and the empty scalar, and numbers in the form of JSON; one with an exponent
//! needs a fraction and a sign in the exponent. A scalar that is a boolean, a number or a date to
//! some readers and a string to others is refused, with a hint how to write it:
//!
//! ```text
//! posts.yaml:2:7: name: `yes` is a boolean to some YAML readers and a string to others; write "yes" in quotes
//! ```
//!
//! **An edit** changes only the bytes of the values that change:
//!
//! ```text
//! type: document # not media      type: document # not media
//!
//! name:   'Posts'  # ask Mara     name:   'All posts'  # ask Mara
//!                                 recursive: true
//! ```
//!
//! Files and commits are kept by [`store`](crate::store); attributes are defined in
//! [`domain`](crate::domain).

pub mod csv;
mod diagnose;
mod edit;
pub mod foreign;
mod line_column;
mod lookalike;
pub mod message;
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
pub use crate::format::read::{attribute_lines, missing_status_names, read};
pub(crate) use crate::format::scalar::turns_text;
pub use crate::format::write::document as write_document;

/// Maximum size of a collection file, in bytes.
pub const FILE_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of faults reported for one file.
pub const PROBLEMS_PER_FILE_MAX: usize = 20;

/// A fault in a file and its position, counted as in editors and compilers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What was found and what is expected.
    pub message: String,
}

impl Fault {
    /// A fault of the file as a whole.
    #[must_use]
    pub fn at_start(message: impl Into<String>) -> Self {
        Self { line: 1, column: 1, message: message.into() }
    }

    /// Whether the fault is that a collection has too many attributes.
    #[must_use]
    pub fn is_too_many_attributes(&self) -> bool {
        self.message.starts_with(&Violation::too_many_attributes_prefix())
    }
}

/// The new content of an edited file.
#[derive(Debug, Clone, PartialEq)]
pub struct EditedFile {
    /// The content.
    pub bytes: Vec<u8>,
    /// The collection that the content reads as; members of maps are in the order of the file.
    pub collection: Collection,
    /// Why more than the changed values had to be rewritten, if so; for the log and a counter.
    pub fallback: Option<String>,
}

/// Writes a new file in canonical form.
#[must_use]
pub fn write(collection: &Collection) -> Vec<u8> {
    write::write(collection).into_bytes()
}
