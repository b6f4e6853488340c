//! The domain model: collections, commands on them, and the events and refusals that result.
//!
//! ```text
//! Command ──decide(&Catalog)──▶ Event ──apply──▶ Catalog
//!                 └───────────▶ Refusal
//! ```
//!
//! Everything here is pure: no clock, no disk, no locks, no serialisation. A [`Command`] carries
//! everything from outside that a decision needs, so it can be decided again after a lost race.
//!
//! | word | type |
//! |---|---|
//! | collection | [`Collection`], of a [`Kind`], named by a [`Key`] |
//! | attribute | [`Attribute`] and its [`Value`] |
//! | command, event, refusal | [`Command`], [`Event`], [`Refusal`] |
//! | catalog | [`Catalog`]: all collections at one moment |
//! | file name | [`file_name`]: names of collection files and their keys |
//! | revision | [`Revision`]: a commit of the served branch |
//! | actor | [`Actor`]: the person or program behind a change |
//! | grant | [`Grant`]: what an actor with a token may do |
//!
//! YAML is in [`format`](crate::format), git in [`store`](crate::store) and HTTP in
//! [`http`](crate::http).

#![warn(clippy::wildcard_enum_match_arm)]

mod access;
mod change;
mod collection;
pub mod file_name;
mod key;
mod revision;

use chrono::{DateTime, SecondsFormat, Utc};

pub(crate) use crate::domain::access::parse_date;
pub use crate::domain::access::{Actor, Expiry, Grant, KeyPattern, Right, SecretHash, Token};
pub(crate) use crate::domain::change::updated;
pub use crate::domain::change::{
    Catalog, Command, Event, ExactFile, HasCollection, REASON_BYTES_MAX, Refusal, Restore, Reversal, decide,
};
pub(crate) use crate::domain::collection::excerpt;
pub use crate::domain::collection::{
    ATTRIBUTES_MAX, Attribute, Change, Collection, Directory, Extension, FloatRangeError, Kind, MediaType,
    Number, Patch, Segment, Shorthand, VALUE_DEPTH_MAX, Value, Violation, changes, schema,
};
pub use crate::domain::key::{Key, KeyError};
pub use crate::domain::revision::Revision;
pub(crate) use crate::domain::revision::{hex, object_id, unhex};

/// Formats a time as everyone is shown it: RFC 3339, in UTC, without fractions of a second.
pub(crate) fn to_the_second(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}
