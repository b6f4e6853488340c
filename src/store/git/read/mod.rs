//! Reads what is committed: history, differences, revisions by name.
//!
//! ```text
//! reader, archive ─▶ walk, trees ─▶ odb::objects
//!  one thread, many   what a commit did  bounded
//! ```
//!
//! The live state and the past are read by the same code, so that they can't differ.
//!
//! Nothing here writes or looks at the index or the work tree.

pub(crate) mod archive;
pub(crate) mod reader;
pub(crate) mod recent_commits;
pub(crate) mod trees;
pub(crate) mod walk;
