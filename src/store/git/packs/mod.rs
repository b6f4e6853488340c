//! Our packs on disk: written, recognised by their names, protected from being removed too early.
//!
//! Nothing here decides when packs are merged or what is written into them.

pub(crate) mod geometry;
pub(crate) mod keep_files;
pub(crate) mod lost_index;
pub(crate) mod obsolete;
mod removal;
pub(crate) mod store;
