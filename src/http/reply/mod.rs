//! Answers: what handlers say, and the response that it becomes.
//!
//! What every answer carries is put on here, once. Nothing here knows what the bytes of an answer say.

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
use crate::http::budgets::answers::AnswerRoom;
use crate::http::header::X_REQUEST_ID;
use crate::http::jsonapi::document;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::negotiate::JSON_API;

/// Names the revision that an answer comes from.
pub(crate) const COLLECTORY_REVISION: HeaderName = HeaderName::from_static("collectory-revision");

/// The header fields that a denial can't set.
const OURS: [HeaderName; 6] =
    [CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING, VARY, X_REQUEST_ID];

/// Stands in the place of a value that is not the same in all answers.
const NOT_YET: HeaderValue = HeaderValue::from_static("");

/// What a handler answers.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    media_type: Option<&'static str>,
    etag: Option<HeaderValue>,
    revision: Option<Revision>,
    /// The header fields that few answers have; of two with the same name the last counts.
    more: Vec<(HeaderName, HeaderValue)>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// All of it.
    Whole(Bytes),
    /// The body of this response, as it comes.
    Stream(Box<Response>),
}

impl Reply {
    /// An answer without a body.
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

    /// A JSON:API document.
    pub(crate) fn document(status: StatusCode, body: Bytes) -> Self {
        Self::typed(status, JSON_API, body)
    }

    /// Bytes of this media type.
    pub(crate) fn typed(status: StatusCode, media_type: &'static str, body: Bytes) -> Self {
        Self { media_type: Some(media_type), content: Content::Whole(body), ..Self::empty(status) }
    }

    /// The body of this response, of this media type; its own status and headers are not used.
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

    /// What may be asked of a path, which a browser may ask for a page of another origin.
    pub(crate) fn options(allow: &str, cors: &Cors, request: &HeaderMap) -> Self {
        let allow = HeaderValue::from_str(allow).expect("methods are visible ASCII");
        let mut reply = Self::empty(StatusCode::NO_CONTENT).with(ALLOW, allow.clone());
        cors.decorate_preflight(request, allow, &mut reply.more);
        reply
    }

    /// The status.
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// The revision that the answer comes from.
    pub(crate) const fn revision(&self) -> Option<&Revision> {
        self.revision.as_ref()
    }

    /// The document, for whoever asked on behalf of somebody; nothing of a stream.
    pub(crate) fn body(&self) -> &[u8] {
        match &self.content {
            Content::Whole(body) => body,
            Content::Stream(_) => &[],
        }
    }

    /// Takes the document out of the answer; nothing of a stream.
    pub(crate) fn into_body(self) -> Bytes {
        match self.content {
            Content::Whole(body) => body,
            Content::Stream(_) => Bytes::new(),
        }
    }

    /// Adds a header field.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.more.push((name, value));
        self
    }

    /// Adds the revision that is served.
    pub(crate) fn of_snapshot(self, snapshot: &Snapshot) -> Self {
        self.of_revision(snapshot.revision)
    }

    /// Adds the revision that the answer comes from; there is none before the first commit.
    pub(crate) fn of_revision(self, revision: Option<Revision>) -> Self {
        Self { revision, ..self }
    }

    /// Adds the entity tag of what is shown.
    pub(crate) fn with_etag(self, etag: HeaderValue) -> Self {
        Self { etag: Some(etag), ..self }
    }

    /// Another document of the same type, without what else is said of this one.
    pub(crate) fn previewed(&self, body: Bytes) -> Self {
        Self::typed(StatusCode::OK, self.media_type.unwrap_or(JSON_API), body)
    }

    /// Compresses the document for whoever takes it so, if it is large enough to pay.
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
    pub(crate) fn counted(mut self, room: AnswerRoom) -> Result<Self, ApiError> {
        if let Content::Whole(body) = &mut self.content {
            *body = room.counted(mem::take(body))?;
        }
        Ok(self)
    }

    /// Lets pages of the origins that may use the service read the answer.
    pub(crate) fn shared_with(mut self, cors: &Cors, request: &HeaderMap) -> Self {
        cors.decorate(request, &mut self.more);
        self
    }

    /// The answer to `HEAD`: every header of `GET`, the length of its body among them, and no body.
    pub(crate) fn without_body(mut self) -> Self {
        let content = mem::replace(&mut self.content, Content::Whole(Bytes::new()));
        if let (Content::Whole(body), Some(_)) = (content, self.media_type) {
            self.more.push((CONTENT_LENGTH, body.len().into()));
        }
        self
    }

    /// The response, with what every response says.
    pub(crate) fn into_response(self, common: &Common, request_id: Option<HeaderValue>) -> Response {
        let Self { status, media_type, etag, revision, more, content } = self;
        let revision = revision.as_ref().map(revision_header);
        let mut headers = match (media_type, etag, revision, request_id) {
            (Some(JSON_API), Some(etag), Some(revision), Some(request_id)) => {
                common.usual_with(etag, revision, request_id)
            }
            (media_type, etag, revision, request_id) => {
                fields(common.vary, media_type, etag, revision, request_id)
            }
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

/// What answers have in common.
#[derive(Debug)]
pub(crate) struct Common {
    /// What an answer depends on beside the address.
    vary: &'static str,
    /// The header fields of most answers, with room for the values that are not the same in all: to copy
    /// them costs a third of putting one after the other into a map.
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
        let usual = fields(vary, Some(JSON_API), Some(NOT_YET), Some(NOT_YET), Some(NOT_YET));
        Self { vary, usual }
    }

    /// The usual header fields with these values.
    fn usual_with(&self, etag: HeaderValue, revision: HeaderValue, request_id: HeaderValue) -> HeaderMap {
        let mut headers = self.usual.clone();
        let mut values = [(ETAG, etag), (COLLECTORY_REVISION, revision), (X_REQUEST_ID, request_id)];
        // To compare a few names costs less than to look them up.
        for (name, place) in headers.iter_mut().filter(|(_, place)| place.is_empty()) {
            if let Some((_, value)) = values.iter_mut().find(|(its, _)| its == name) {
                mem::swap(place, value);
            }
        }
        headers
    }
}

/// The header fields of an answer, those that it has.
fn fields(
    vary: &'static str,
    media_type: Option<&'static str>,
    etag: Option<HeaderValue>,
    revision: Option<HeaderValue>,
    request_id: Option<HeaderValue>,
) -> HeaderMap {
    let fields = [
        (CONTENT_TYPE, media_type.map(HeaderValue::from_static)),
        (ETAG, etag),
        (COLLECTORY_REVISION, revision),
        (CACHE_CONTROL, Some(HeaderValue::from_static("no-store"))),
        (VARY, Some(HeaderValue::from_static(vary))),
        (X_REQUEST_ID, request_id),
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
