//! Flags that several commands share, and what they mean: which repository, which service, in which form it is told.
//!
//! Nothing here knows a command.

pub(crate) mod client;
pub(crate) mod output;
pub(crate) mod repository;
