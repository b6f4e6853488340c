//! Incoming requests: the head, the body, and what the header fields ask for.
//!
//! Nothing here knows the routes (`routes`) or the content of documents (`jsonapi`). A body is never read beyond its
//! limit, nor before the caller is known, except where it identifies the caller (a sign-in, a signed notice).

pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod caller;
pub(crate) mod caught;
pub(crate) mod head;
pub(crate) mod id;
pub(crate) mod idempotency;
pub(crate) mod prefer;
pub(crate) mod reason;
