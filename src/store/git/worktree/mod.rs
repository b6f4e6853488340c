//! The work tree of the served branch: looked at in [`scan`], its files changed by [`replace`], which
//! [`apply`] decides.
//!
//! Nothing here commits.

pub(crate) mod apply;
pub(crate) mod replace;
pub(crate) mod scan;
