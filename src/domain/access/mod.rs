//! Who acts, and what they may: actors, and the grants of a token with their keys and their end.
//!
//! Nothing here asks for a secret or looks at the clock: a secret is known by its hash only, and the time is
//! told by whoever asks. Who is asked, and when, is the business of [`http`](crate::http).

mod actor;
mod expiry;
mod grant;
mod key_pattern;
mod secret_hash;

pub use crate::domain::access::actor::Actor;
pub use crate::domain::access::expiry::Expiry;
pub(crate) use crate::domain::access::expiry::day;
pub use crate::domain::access::grant::{Grant, Right, Token};
pub use crate::domain::access::key_pattern::KeyPattern;
pub use crate::domain::access::secret_hash::SecretHash;
