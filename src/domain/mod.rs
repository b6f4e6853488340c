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
//! | file name | [`file_name`]: which key a file is of |
//! | revision | [`Revision`]: a commit of the served branch |
//! | actor | [`Actor`]: on whose behalf a change is made |
//! | grant | [`Grant`]: what an actor with a token may do |
//!
//! What is not here: YAML (see [`format`](crate::format)), git (see [`store`](crate::store)) and
//! HTTP (see [`http`](crate::http)).

#![warn(clippy::wildcard_enum_match_arm)]

mod access;
mod change;
mod collection;
pub mod file_name;
mod key;
mod revision;

pub(crate) use crate::domain::access::day;
pub use crate::domain::access::{Actor, Expiry, Grant, KeyPattern, Right, SecretHash, Token};
pub use crate::domain::change::{
    Catalog, Command, Event, Exact, HasCollection, REASON_BYTES_MAX, Refusal, Restore, Reverses, Segment,
    Violation, decide,
};
pub(crate) use crate::domain::collection::shown;
pub use crate::domain::collection::{
    ATTRIBUTES_MAX, Attribute, Change, Collection, Directory, Extension, Kind, MediaType, Number, Patch,
    Shorthand, Unfit, VALUE_DEPTH_MAX, Value, changes, schema,
};
pub use crate::domain::key::{Key, KeyError};
pub use crate::domain::revision::Revision;
pub(crate) use crate::domain::revision::{hex, object_id, unhex};
