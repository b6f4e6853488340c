//! The fields in the head of a message, by their names.

use warp::http::header::CONTENT_LENGTH;
use warp::http::{HeaderMap, HeaderName, HeaderValue};

/// Carries the id of a request both ways.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The fields of this name, as they came. Requests have few fields: to compare their names costs less than to look one
/// up, for which it has to be hashed.
pub(crate) fn fields<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h HeaderValue> {
    headers.iter().filter(move |(field, _)| *field == name).map(|(_, value)| value)
}

/// The first field of this name.
pub(crate) fn field<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    fields(headers, name).next()
}

/// How long the body says it is.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
