//! Git's index: edited in place, written as a draft and renamed, and rolled back after a failed write.
//!
//! Nothing here looks at the work tree or decides which entries have to change.

pub(crate) mod cached_tree;
mod entry;
pub(crate) mod file;
pub(crate) mod git_index;
pub(crate) mod rollback;
mod split;
pub(crate) mod staged;
