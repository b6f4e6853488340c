//! The object database: packs and loose objects in git's formats, which other programs may have damaged.
//!
//! ```text
//! objects ─▶ database ─▶ pack, loose ─▶ inflate
//! bounded    which packs  as git keeps them
//! ```
//!
//! Nothing here knows what a branch or the collections folder is, and nothing here writes.

pub(crate) mod database;
pub(crate) mod inflate;
pub(crate) mod loose;
pub(crate) mod objects;
pub(crate) mod pack;
pub(crate) mod parallel;
