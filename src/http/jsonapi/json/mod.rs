//! Strict JSON: what can't be stored exactly is refused instead of being converted.
//!
//! A general-purpose parser keeps the last of two members with the same name, converts an oversized integer to a
//! float, and does not report where in the text the value is. Settings must come back as they were sent, so this
//! reader implements RFC 8259 and is strict where the RFC leaves a choice:
//!
//! * UTF-8 without a byte order mark, one value, nothing after it;
//! * no two members of an object with the same name;
//! * integers that fit into 64 bits, other numbers that are finite;
//! * no escape for half a surrogate pair;
//! * bounded depth, because reading is recursive and the stack is limited.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use crate::http::jsonapi::json::read::read;
pub(crate) use crate::http::jsonapi::json::write::{Members, write, write_list, write_object, write_text};
