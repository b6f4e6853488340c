//! Actors, and tokens with their grants, key patterns and expiry.
//!
//! Nothing here handles a secret or reads the clock: only the hash of a secret is known, and the caller passes
//! the time. [`http`](crate::http) decides when an authorizer is asked, and which one.

mod actor;
mod expiry;
mod grant;
mod key_pattern;
mod secret_hash;

pub use crate::domain::access::actor::Actor;
pub use crate::domain::access::expiry::Expiry;
pub(crate) use crate::domain::access::expiry::parse_date;
pub use crate::domain::access::grant::{Grant, Right, Token};
pub use crate::domain::access::key_pattern::KeyPattern;
pub use crate::domain::access::secret_hash::SecretHash;
