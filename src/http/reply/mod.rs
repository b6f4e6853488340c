//! The answers of handlers, and how they become responses.
//!
//! The headers that every answer has are added here, once. Nothing here knows what the bytes of a body mean.

pub(crate) mod compress;

use std::mem;

use bytes::Bytes;
use warp::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, TRANSFER_ENCODING, VARY,
};
use warp::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use warp::reply::Response;

use crate::config::BasePath;
use crate::domain::{Revision, hex};
use crate::engine::Snapshot;
use crate::http::browser::cors::Cors;
use crate::http::budgets::answers::AnswerReservation;
use crate::http::header::X_REQUEST_ID;
use crate::http::jsonapi::document;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::negotiate::JSON_API;

/// Names the revision that an answer comes from.
pub(crate) const COLLECTORY_REVISION: HeaderName = HeaderName::from_static("collectory-revision");

/// The header fields that a denial can't set.
const OURS: [HeaderName; 6] =
    [CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING, VARY, X_REQUEST_ID];

/// Placeholder for a value that differs between answers.
const NOT_YET: HeaderValue = HeaderValue::from_static("");

/// A handler's answer.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    media_type: Option<&'static str>,
    etag: Option<HeaderValue>,
    revision: Option<Revision>,
    /// Less common header fields. Of two with the same name the last one counts.
    more: Vec<(HeaderName, HeaderValue)>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Whole(Bytes),
    /// The streaming body of this response.
    Stream(Box<Response>),
}

impl Reply {
    pub(crate) const fn empty(status: StatusCode) -> Self {
        Self {
            status,
            media_type: None,
            etag: None,
            revision: None,
            more: Vec::new(),
            content: Content::Whole(Bytes::new()),
        }
    }

    pub(crate) fn document(status: StatusCode, body: Bytes) -> Self {
        Self::typed(status, JSON_API, body)
    }

    pub(crate) fn typed(status: StatusCode, media_type: &'static str, body: Bytes) -> Self {
        Self { media_type: Some(media_type), content: Content::Whole(body), ..Self::empty(status) }
    }

    /// A streaming body of this media type. The response's own status and headers are not used.
    pub(crate) fn stream(media_type: &'static str, response: Response) -> Self {
        let content = Content::Stream(Box::new(response));
        Self { media_type: Some(media_type), content, ..Self::empty(StatusCode::OK) }
    }

    /// A failure, as a JSON:API document with its headers.
    pub(crate) fn failure(error: &ApiError, base: &BasePath) -> Self {
        let more = error.headers().iter().filter(|(name, _)| !OURS.contains(name)).cloned();
        let document = Self::document(error.status(), document::errors(error, base));
        Self { more: more.collect(), ..document }
    }

    /// The answer to `OPTIONS`, which may be a browser's preflight for a page of another origin.
    pub(crate) fn options(allow: &str, cors: &Cors, request: &HeaderMap) -> Self {
        let allow = HeaderValue::from_str(allow).expect("methods are visible ASCII");
        let mut reply = Self::empty(StatusCode::NO_CONTENT).with(ALLOW, allow.clone());
        cors.decorate_preflight(request, allow, &mut reply.more);
        reply
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) const fn revision(&self) -> Option<&Revision> {
        self.revision.as_ref()
    }

    /// The body, for a caller inside the service; empty for a stream.
    pub(crate) fn body(&self) -> &[u8] {
        match &self.content {
            Content::Whole(body) => body,
            Content::Stream(_) => &[],
        }
    }

    /// Returns the body; empty for a stream.
    pub(crate) fn into_body(self) -> Bytes {
        match self.content {
            Content::Whole(body) => body,
            Content::Stream(_) => Bytes::new(),
        }
    }

    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.more.push((name, value));
        self
    }

    pub(crate) fn of_snapshot(self, snapshot: &Snapshot) -> Self {
        self.of_revision(snapshot.revision)
    }

    /// Sets the revision that the answer comes from. There is none before the first commit.
    pub(crate) fn of_revision(self, revision: Option<Revision>) -> Self {
        Self { revision, ..self }
    }

    pub(crate) fn with_etag(self, etag: HeaderValue) -> Self {
        Self { etag: Some(etag), ..self }
    }

    /// Creates a 200 answer with another body of the same media type and without the other headers of this one.
    pub(crate) fn previewed(&self, body: Bytes) -> Self {
        Self::typed(StatusCode::OK, self.media_type.unwrap_or(JSON_API), body)
    }

    /// Compresses the body for clients that accept it, if it is large enough.
    pub(crate) fn compressed(mut self, request: &HeaderMap) -> Self {
        let Content::Whole(body) = &mut self.content else { return self };
        if body.len() < compress::BYTES_MIN {
            return self;
        }
        self.more.push((VARY, HeaderValue::from_static("Accept, Accept-Encoding")));
        if compress::accepts_gzip(request) {
            *body = compress::gzip(body);
            self.more.push((CONTENT_ENCODING, HeaderValue::from_static("gzip")));
        }
        self
    }

    /// Counts the answer among those under way.
    ///
    /// # Errors
    ///
    /// 503 when those take too much.
    pub(crate) fn counted(mut self, reservation: AnswerReservation) -> Result<Self, ApiError> {
        if let Content::Whole(body) = &mut self.content {
            *body = reservation.counted(mem::take(body))?;
        }
        Ok(self)
    }

    /// Lets pages of the allowed origins read the answer.
    pub(crate) fn with_cors(mut self, cors: &Cors, request: &HeaderMap) -> Self {
        cors.add_headers(request, &mut self.more);
        self
    }

    /// Turns the answer to `GET` into that to `HEAD`, with all its headers, `Content-Length` included, but no body.
    pub(crate) fn without_body(mut self) -> Self {
        let content = mem::replace(&mut self.content, Content::Whole(Bytes::new()));
        if let (Content::Whole(body), Some(_)) = (content, self.media_type) {
            self.more.push((CONTENT_LENGTH, body.len().into()));
        }
        self
    }

    /// Converts the answer to a response, with the headers that all responses have.
    pub(crate) fn into_response(self, common: &Common, request_id: HeaderValue) -> Response {
        let Self { status, media_type, etag, revision, more, content } = self;
        let revision = revision.as_ref().map(revision_header);
        let mut headers = match (media_type, etag, revision) {
            (Some(JSON_API), Some(etag), Some(revision)) => common.common_headers(etag, revision, request_id),
            (media_type, etag, revision) => fields(common.vary, media_type, etag, revision, request_id),
        };
        for (name, value) in more {
            headers.insert(name, value);
        }
        let mut response = match content {
            Content::Whole(body) => Response::new(body.into()),
            Content::Stream(response) => *response,
        };
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// What all answers have in common.
#[derive(Debug)]
pub(crate) struct Common {
    /// The request headers that an answer depends on (`Vary`).
    vary: &'static str,
    /// The header fields of most answers, with placeholders for values that differ. Cloning this map costs a third
    /// of inserting the fields one by one.
    usual: HeaderMap,
}

impl Common {
    pub(crate) fn new(cors: &Cors, compress: bool) -> Self {
        let vary = match (cors.is_off(), compress) {
            (true, false) => "Accept",
            (true, true) => "Accept, Accept-Encoding",
            (false, false) => "Accept, Origin",
            (false, true) => "Accept, Accept-Encoding, Origin",
        };
        let usual = fields(vary, Some(JSON_API), Some(NOT_YET), Some(NOT_YET), NOT_YET);
        Self { vary, usual }
    }

    /// The value of `Vary` that an answer has if it depends on nothing else.
    pub(crate) const fn vary(&self) -> HeaderValue {
        HeaderValue::from_static(self.vary)
    }

    /// Returns the usual header fields with these values.
    fn common_headers(&self, etag: HeaderValue, revision: HeaderValue, request_id: HeaderValue) -> HeaderMap {
        let mut headers = self.usual.clone();
        let mut values = [(ETAG, etag), (COLLECTORY_REVISION, revision), (X_REQUEST_ID, request_id)];
        // Comparing a few names is cheaper than looking them up.
        for (name, place) in headers.iter_mut().filter(|(_, place)| place.is_empty()) {
            if let Some((_, value)) = values.iter_mut().find(|(its, _)| its == name) {
                mem::swap(place, value);
            }
        }
        headers
    }
}

/// Builds the header fields that an answer has.
fn fields(
    vary: &'static str,
    media_type: Option<&'static str>,
    etag: Option<HeaderValue>,
    revision: Option<HeaderValue>,
    request_id: HeaderValue,
) -> HeaderMap {
    let fields = [
        (CONTENT_TYPE, media_type.map(HeaderValue::from_static)),
        (ETAG, etag),
        (COLLECTORY_REVISION, revision),
        (CACHE_CONTROL, Some(HeaderValue::from_static("no-store"))),
        (VARY, Some(HeaderValue::from_static(vary))),
        (X_REQUEST_ID, Some(request_id)),
    ];
    let mut headers = HeaderMap::with_capacity(fields.len());
    headers.extend(fields.into_iter().filter_map(|(name, value)| Some((name, value?))));
    headers
}

fn revision_header(revision: &Revision) -> HeaderValue {
    HeaderValue::from_bytes(&hex(revision.as_bytes())).expect("digits can stand in a header")
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
