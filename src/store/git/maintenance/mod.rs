//! Maintenance: when it is due, and how packs, loose objects and the commit-graph are tidied up.
//!
//! No write waits for anything here but the daily trimming of a reflog, for as long as git holds the lock of the
//! branch, and no object that someone may need is removed.

pub(crate) mod commit_graph;
pub(crate) mod due;
pub(crate) mod git_process;
pub(crate) mod packing;
pub(crate) mod reflogs;
pub(crate) mod runner;
pub(crate) mod statistics;
