//! Git's index: edited in place, written aside and put in its place, and brought back after a kill.
//!
//! Nothing here looks at the work tree or decides which entries have to change.

pub(crate) mod cached_tree;
mod entry;
pub(crate) mod file;
pub(crate) mod git_index;
pub(crate) mod rollback;
mod split;
pub(crate) mod staged;
