//! Flags that several commands share: the repository, the service, and the output format.
//!
//! Nothing here knows a command.

pub(crate) mod client;
pub(crate) mod output;
pub(crate) mod repository;
