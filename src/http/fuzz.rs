//! Fuzz targets for client input: documents, queries and media types.

use warp::http::HeaderMap;
use warp::http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};

use crate::http::jsonapi::negotiate::{self, Dialect};
use crate::http::jsonapi::query::{self, EventScope, Query};
use crate::http::jsonapi::request::{self, Resource};

/// The default nesting limit of documents.
const DEPTH_MAX: usize = 64;

/// Parses a document into a create and an update; each either succeeds or has faults.
pub(crate) fn document(bytes: &[u8]) {
    let data = || request::parse(bytes, DEPTH_MAX).and_then(request::data_of);
    if let Ok(data) = data() {
        let new = Resource::read(data).into_new();
        assert!(new.collection.is_some() || !new.faults.is_empty(), "nothing is refused without a reason");
    }
    if let Ok(data) = data() {
        let change = Resource::read(data).into_change();
        assert!(change.content().is_some() || !change.faults.is_empty());
    }
}

/// Parses a query as each kind of query.
pub(crate) fn query(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(query) = Query::parse(text) else { return };
    for cursor_profile in [false, true] {
        drop(query::list(&query, cursor_profile));
        drop(query::events(&query, EventScope { collection: true, pages: true, cursor_profile }));
    }
    drop(query::fields(&query, query::COLLECTION_TYPES));
}

/// Negotiates media types from arbitrary headers.
pub(crate) fn accept(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let headers = HeaderMap::from_iter([(ACCEPT, value.clone()), (CONTENT_TYPE, value)]);
    for dialect in [Dialect::Plain, Dialect::Atomic] {
        drop(negotiate::accept(&headers, dialect));
        drop(negotiate::content_type(&headers, dialect, true));
    }
    negotiate::prefers(&headers, "text/csv");
}
