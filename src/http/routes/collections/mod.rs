//! `/collections` and `/collections/:key`.

mod read;
mod write;

use bytes::Bytes;

use super::super::call::Call;
use super::super::jsonapi::document::{self, Ready};
use super::super::jsonapi::query::Fields;
use crate::engine::Entry;
pub(super) use read::{list, read};
pub(super) use write::{asked, check_write, create, delete, update, written};

/// The document of one collection, the ready-made one unless fields are left out.
fn one(call: &Call<'_>, entry: &Entry, ready: &Ready, fields: &Fields) -> Bytes {
    if fields.is_empty() {
        ready.body()
    } else {
        document::one(entry, &call.context.base_path, fields, call.raw_query())
    }
}
