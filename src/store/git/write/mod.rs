//! A group of drafts made into signed commits, put on disk and made visible by moving the branch.
//!
//! Nothing here touches the work tree; the branch moves by compare-and-set only.

pub(crate) mod append;
pub(crate) mod committer;
pub(crate) mod writer;
