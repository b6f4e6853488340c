//! The `git` command: how it is run, how it authenticates, and how its output is read.
//!
//! Nothing here knows what a commit means: this module asks, fetches and pushes as it is told, and returns ids.

pub(crate) mod access;
pub(crate) mod branch;
pub(crate) mod default_branch;
pub(crate) mod folder;
pub(crate) mod git;
pub(crate) mod git_merge;
mod private_refs;
pub(crate) mod process;
pub(crate) mod pushed;
pub(crate) mod url;
pub(crate) mod words;
