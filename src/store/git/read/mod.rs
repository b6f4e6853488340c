//! Reading what is committed: objects, history, differences, revisions by name.
//!
//! ```text
//! journal, archive ─▶ walk, diff, trees ─▶ objects ─▶ database ─▶ pack, loose ─▶ inflate
//!  one thread, many    what a commit did    bounded    which packs   as git keeps them
//! ```
//!
//! What is served now and what is told of the past are read by the same code, so that they can't differ.
//!
//! Nothing here writes, and nothing here looks at the index or the work tree.

pub(crate) mod archive;
mod cache;
pub(crate) mod database;
pub(crate) mod diff;
pub(crate) mod inflate;
pub(crate) mod loose;
pub(crate) mod objects;
pub(crate) mod pack;
mod parallel;
pub(crate) mod reader;
pub(crate) mod recent_commits;
pub mod rev_parse;
pub(crate) mod trees;
pub(crate) mod walk;
