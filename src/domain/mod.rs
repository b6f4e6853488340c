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

pub use crate::domain::actor::Actor;
pub use crate::domain::attribute::{Attribute, Extension, Shorthand};
pub use crate::domain::catalog::{Catalog, Held};
pub use crate::domain::collection::{ATTRIBUTES_MAX, Collection, Kind, Patch};
pub use crate::domain::command::{Command, Exact, Restore, Reverses};
pub use crate::domain::decide::decide;
pub use crate::domain::diff::{Change, changes};
pub use crate::domain::directory::Directory;
pub use crate::domain::event::Event;
pub use crate::domain::expiry::Expiry;
pub use crate::domain::grant::{Grant, Right, Token};
pub use crate::domain::key::{Key, KeyError};
pub use crate::domain::key_pattern::KeyPattern;
pub use crate::domain::media_type::MediaType;
pub use crate::domain::refusal::{Refusal, Segment, Violation};
pub use crate::domain::revision::Revision;
pub(crate) use crate::domain::revision::hex;
pub use crate::domain::rule::TEXT_CHARS_MAX;
pub use crate::domain::secret_hash::SecretHash;
pub(crate) use crate::domain::value::shown;
pub use crate::domain::value::{Number, VALUE_DEPTH_MAX, Value};
