//! Reading what is committed: objects, history, differences, revisions by name.
//!
//! Nothing here writes, and nothing here looks at the index or the work tree.

pub(crate) mod archive;
pub(crate) mod damage;
pub(crate) mod diff;
pub(crate) mod history;
pub(crate) mod objects;
pub(crate) mod recent_commits;
pub(crate) mod recent_contents;
pub mod rev_parse;
pub(crate) mod trees;
