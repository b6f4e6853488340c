//! JSON, strictly: what can't be kept exactly is refused instead of being bent.
//!
//! A general reader keeps the last of two members with one name, turns a whole number that is too
//! long into a float and hides where in the text it stands. Settings have to come back as they
//! were sent, so this reader takes RFC 8259 and leaves nothing to chance:
//!
//! * UTF-8 without a byte order mark, one value, nothing after it;
//! * no two members of an object with one name;
//! * whole numbers that fit into 64 bits, other numbers that are finite;
//! * no escape for half a surrogate pair;
//! * a bounded depth, since reading is recursive and the stack is not endless.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use crate::http::jsonapi::json::read::read;
pub(crate) use crate::http::jsonapi::json::write::{Members, write, write_list, write_object, write_text};
