//! What "on disk" means, and the files that depend on it: flushes, locks, state files.
//!
//! Nothing here knows what a file contains: neither git's formats nor the layout of a repository.

pub(crate) mod barrier;
pub(crate) mod failpoint;
pub(crate) mod links;
pub(crate) mod lock;
pub(crate) mod open;
pub(crate) mod stamp;
pub(crate) mod state_file;
