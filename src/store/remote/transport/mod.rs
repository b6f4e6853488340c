//! The `git` command: how it is run, what it is told to let it in, and what it says.
//!
//! Nothing here knows what a commit means to anybody: it asks, fetches and pushes what it is told, and answers ids.

pub(crate) mod access;
pub(crate) mod branch;
mod folder;
pub(crate) mod git;
pub(crate) mod git_merge;
pub(crate) mod notes;
pub(crate) mod process;
pub(crate) mod pushed;
pub(crate) mod url;
pub(crate) mod words;
