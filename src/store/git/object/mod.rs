//! Git's formats as pure bytes: ids, commits, trees, deltas, packs and the zlib streams that hold them.
//!
//! Nothing here opens a file, reads a clock or reads configuration: bytes go in, bytes come out.

pub(crate) mod commit;
pub(crate) mod delta;
pub(crate) mod encoding;
pub(crate) mod hash_midstates;
pub(crate) mod id;
pub(crate) mod pack;
pub(crate) mod tree;
pub(crate) mod zlib;
