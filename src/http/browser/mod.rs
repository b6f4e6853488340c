//! Protection against web pages: which origins may read answers, and by which host names the service may be reached.
//!
//! Nothing here authenticates or authorizes. That is the authorizer's task, for pages and programs alike.

pub(crate) mod cors;
pub(crate) mod sites;
