//! A repository: its layout, its branch and `HEAD`, its owner.
//!
//! Nothing here reads an object or a file of the work tree. Only the repository's own configuration decides what is
//! served.

pub(crate) mod checkpoint;
pub(crate) mod format;
pub(crate) mod init;
pub(crate) mod layout;
pub(crate) mod owner;
pub(crate) mod refs;
pub(crate) mod served;
pub(crate) mod sharing;
pub(crate) mod user_config;
