//! Repairs of files and index: after a kill, and after a race with git.
//!
//! Nothing here takes a person's edit for ours: each repair has evidence of what we wrote.

pub(crate) mod interrupted;
pub(crate) mod races;
pub(crate) mod recent;
