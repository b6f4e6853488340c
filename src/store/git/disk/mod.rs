//! What "on disk" means, and the files of ours that stand for it: flushes and locks.
//!
//! Nothing here knows what a file says: neither git's formats nor the layout of a repository.

pub(crate) mod barrier;
#[cfg(test)]
pub(crate) mod flush_hook;
pub(crate) mod links;
pub(crate) mod lock;
pub(crate) mod stamp;
