//! Inspects the collections folder of the work tree, and judges whether what it finds can be trusted.
//!
//! Nothing here changes a file of the work tree or the index.

pub(crate) mod conversion;
pub(crate) mod folder;
pub(crate) mod listing;
#[cfg_attr(not(target_os = "linux"), path = "no_open_writers.rs")]
pub(crate) mod open_writers;
pub(crate) mod stat_cache;
pub(crate) mod status;
