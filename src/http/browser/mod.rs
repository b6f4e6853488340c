//! What web pages may do to the service: which origins may read its answers, and by which names it may be reached.
//!
//! Nobody is known or allowed here: who may do what is asked of the authorizer, for pages and programs alike.

pub(crate) mod cors;
pub(crate) mod sites;
