//! What "on disk" means, and the files of ours that stand for it: flushes and locks.
//!
//! Nothing here knows what a file says: neither git's formats nor the layout of a repository.

pub(crate) mod barrier;
pub(crate) mod failpoint;
pub(crate) mod links;
pub(crate) mod lock;
pub(crate) mod stamp;
