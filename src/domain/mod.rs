//! The domain: what a collection is, what may be asked of it and what may happen to it.
//!
//! ```text
//! Command ──decide(&Catalog)──▶ Event ──apply──▶ Catalog
//!                 └───────────▶ Refusal
//! ```
//!
//! Everything here is pure: no clock, no disk, no lock, no serialisation. Whatever a decision
//! needs from outside travels inside the [`Command`], so the same question can be asked again
//! after a lost race and gets an honest second answer.
//!
//! | word | type |
//! |---|---|
//! | collection | [`Collection`], of a [`Kind`], named by a [`Key`] |
//! | attribute | [`Attribute`] and its [`Value`] |
//! | command, event, refusal | [`Command`], [`Event`], [`Refusal`] |
//! | catalog | [`Catalog`]: all collections at one moment |
//! | revision | [`Revision`]: a commit of the served branch |
//! | actor | [`Actor`]: on whose behalf a change is made |
//! | grant | [`Grant`]: what an actor with a token may do |
//!
//! What is not here: YAML (see [`format`](crate::format)), git (see [`store`](crate::store)) and
//! HTTP (see [`http`](crate::http)).

#![warn(clippy::wildcard_enum_match_arm)]

mod actor;
mod attribute;
mod catalog;
mod collection;
mod command;
mod decide;
mod diff;
mod directory;
mod event;
mod expiry;
mod grant;
mod key;
mod key_pattern;
mod media_type;
mod refusal;
mod revision;
mod rule;
mod secret_hash;
mod value;

pub use actor::Actor;
pub use attribute::{Attribute, Extension, Shorthand};
pub use catalog::{Catalog, Held};
pub use collection::{ATTRIBUTES_MAX, Collection, Kind, Patch};
pub use command::{Command, Exact, Restore, Reverses};
pub use decide::decide;
pub use diff::{Change, changes};
pub use directory::Directory;
pub use event::Event;
pub use expiry::Expiry;
pub use grant::{Grant, Right, Token};
pub use key::{Key, KeyError};
pub use key_pattern::KeyPattern;
pub use media_type::MediaType;
pub use refusal::{Refusal, Segment, Violation};
pub use revision::Revision;
pub(crate) use revision::hex;
pub use rule::TEXT_CHARS_MAX;
pub use secret_hash::SecretHash;
pub(crate) use value::shown;
pub use value::{Number, VALUE_DEPTH_MAX, Value};
