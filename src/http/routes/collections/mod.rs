//! `/collections` and `/collections/:key`.

mod read;
mod write;

use bytes::Bytes;

use crate::engine::Entry;
use crate::http::jsonapi::document::TaggedDocument;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::query::Fields;
use crate::http::jsonapi::{document, query};
use crate::http::request::call::Call;
pub(crate) use crate::http::routes::collections::read::{list, read};
pub(crate) use crate::http::routes::collections::write::{
    check_write, create, delete, terms_of, update, written,
};

/// Returns the requested fields. The query may have these `others` parameters too.
fn fields(call: &Call<'_>, others: &[&str]) -> Result<Fields, ApiError> {
    // Most requests have no query.
    if call.raw_query().is_empty() {
        return Ok(Fields::default());
    }
    query::fields_and_others(&call.query()?, query::COLLECTION_TYPES, others)
}

/// The document of one collection: the ready-made one, unless fields are left out.
fn one(call: &Call<'_>, entry: &Entry, ready: &TaggedDocument, fields: &Fields) -> Bytes {
    if fields.is_empty() {
        ready.body()
    } else {
        document::one(entry, &call.context.settings.base_path, None, fields, call.raw_query())
    }
}
