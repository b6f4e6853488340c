//! Brings files and index up to the branch, and repairs them after a kill or a race with git.
//!
//! Nothing here overwrites a byte that a person saved or staged.

pub(crate) mod catch_up;
pub(crate) mod changes;
pub(crate) mod checkout;
pub(crate) mod lagging;
pub(crate) mod other_files;
mod outdated_paths;
pub(crate) mod repair;
pub(crate) mod update;
