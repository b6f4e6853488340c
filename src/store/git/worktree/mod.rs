//! The work tree of the served branch: [`scan`] inspects it, [`replace`] changes its files, [`apply`] decides which.
//!
//! Nothing here commits.

pub(crate) mod apply;
pub(crate) mod replace;
pub(crate) mod scan;
