//! The object database: packs and loose objects, as git keeps them and as somebody else may have left them.
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
