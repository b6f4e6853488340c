//! Answers: a status, headers that cost nothing to repeat, and bytes.

use bytes::Bytes;
use hyper::body::Body as _;
use warp::http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY};
use warp::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use warp::reply::Response;

use super::call::Call;
use super::cors::Cors;
use super::jsonapi::document;
use super::jsonapi::error::ApiError;
use super::jsonapi::negotiate::JSON_API;
use super::request_id::X_REQUEST_ID;
use crate::config::BasePath;
use crate::domain::{Revision, hex};
use crate::engine::Snapshot;

/// Names the revision that an answer comes from.
pub(super) const COLLECTORY_REVISION: HeaderName = HeaderName::from_static("collectory-revision");

/// As many headers as an answer usually has: media type, entity tag, revision, request id, and what
/// every answer says.
const HEADERS_LEN_TYPICAL: usize = 6;

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Response {
    with_body(status, Bytes::new())
}

/// A JSON:API document.
pub(super) fn document(status: StatusCode, body: Bytes) -> Response {
    static MEDIA_TYPE: HeaderValue = HeaderValue::from_static(JSON_API);
    of_type(status, MEDIA_TYPE.clone(), body)
}

/// Bytes of this media type.
pub(super) fn typed(status: StatusCode, media_type: &'static str, body: Bytes) -> Response {
    of_type(status, HeaderValue::from_static(media_type), body)
}

fn of_type(status: StatusCode, media_type: HeaderValue, body: Bytes) -> Response {
    let mut response = with_body(status, body);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

fn with_body(status: StatusCode, body: Bytes) -> Response {
    let mut response = Response::new(body.into());
    *response.headers_mut() = HeaderMap::with_capacity(HEADERS_LEN_TYPICAL);
    *response.status_mut() = status;
    response
}

/// A failure, as a JSON:API document with its headers.
pub(super) fn failure(error: &ApiError, base: &BasePath) -> Response {
    let mut response = document(error.status(), document::errors(error, base));
    response.headers_mut().extend(error.headers().iter().cloned());
    response
}

/// Adds the entity tag and the revision that an answer comes from.
pub(super) fn of_snapshot(response: Response, snapshot: &Snapshot, etag: Option<HeaderValue>) -> Response {
    of_revision(response, snapshot.revision, etag)
}

/// The same for an answer to a write, which may have been carried out earlier.
pub(super) fn of_revision(
    mut response: Response,
    revision: Option<Revision>,
    etag: Option<HeaderValue>,
) -> Response {
    if let Some(etag) = etag {
        response.headers_mut().insert(ETAG, etag);
    }
    if let Some(revision) = &revision {
        response.headers_mut().insert(COLLECTORY_REVISION, revision_header(revision));
    }
    response
}

fn revision_header(revision: &Revision) -> HeaderValue {
    HeaderValue::from_bytes(&hex(revision.as_bytes())).expect("digits can stand in a header")
}

/// What may be asked of a path.
pub(super) fn options(allow: &'static str) -> Response {
    let mut response = empty(StatusCode::NO_CONTENT);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// What every answer says, whatever it answers.
pub(super) fn add_common(headers: &mut HeaderMap, cors: &Cors, compress: bool) {
    let vary = match (cors.is_off(), compress) {
        (true, false) => "Accept",
        (true, true) => "Accept, Accept-Encoding",
        (false, false) => "Accept, Origin",
        (false, true) => "Accept, Accept-Encoding, Origin",
    };
    static NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
    headers.insert(CACHE_CONTROL, NO_STORE.clone());
    headers.insert(VARY, HeaderValue::from_static(vary));
}

/// The last touch to every answer.
pub(super) fn finish(mut response: Response, call: &Call<'_>) -> Response {
    let cors = &call.context.cors;
    let headers = response.headers_mut();
    add_common(headers, cors, call.context.compress);
    headers.insert(X_REQUEST_ID, call.id.header());
    if !cors.is_off() {
        cors.decorate(call.headers(), headers);
    }
    if call.method() == Method::HEAD { without_body(response) } else { response }
}

/// The answer to `HEAD`: every header of `GET`, the length of its body among them, and no body.
fn without_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact().filter(|_| parts.headers.contains_key(CONTENT_TYPE)) {
        parts.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(parts, Bytes::new().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_stands_in_its_header_as_everywhere() {
        let revision: Revision = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
        assert_eq!(revision_header(&revision), revision.to_string().as_str());
    }
}
