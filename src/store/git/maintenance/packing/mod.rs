//! What is put into packs: loose objects, and small packs that are merged.
//!
//! Nothing here decides when that is due, and no object is removed before a pack on disk has it.

pub(crate) mod loose_objects;
pub(crate) mod merge_packs;
pub(crate) mod repack;
pub(crate) mod source_packs;
