//! Turns a group of drafts into signed commits, writes them to disk and publishes them by moving the branch.
//!
//! Nothing here touches the work tree, and the branch moves by compare-and-swap only.

pub(crate) mod append;
pub(crate) mod writer;
