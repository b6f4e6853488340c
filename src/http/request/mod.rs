//! One request on its way in: its head, its body, and what its header fields ask for.
//!
//! Nothing here knows which path leads where (`routes`) or what a document says (`jsonapi`). A body is never
//! read before the caller is known, and never beyond its limit.

pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod caller;
pub(crate) mod caught;
pub(crate) mod head;
pub(crate) mod id;
pub(crate) mod idempotency;
pub(crate) mod prefer;
pub(crate) mod reason;
