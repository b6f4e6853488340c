//! The work tree of the served branch: looked at in [`scan`], changed in [`apply`] only.
//!
//! Nothing here commits.

pub(crate) mod apply;
pub(crate) mod scan;
