//! A single JSON:API error object, and the kinds of errors.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use uuid::Uuid;
use warp::http::StatusCode;

use crate::domain::{Segment, Violation};
use crate::engine::{Clash, Entry};
use crate::telemetry::Limit;

/// The kind of an error: status, code and title always belong together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code(StatusCode, &'static str, &'static str);

impl Code {
    pub(crate) const BAD_REQUEST: Self = Self(StatusCode::BAD_REQUEST, "bad_request", "Bad Request");
    pub(crate) const INVALID_DATA: Self = Self(StatusCode::BAD_REQUEST, "invalid_data", "Invalid Data");
    pub(crate) const NOT_FOUND: Self = Self(StatusCode::NOT_FOUND, "not_found", "Not Found");
    pub(crate) const METHOD_NOT_ALLOWED: Self =
        Self(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method Not Allowed");
    pub(crate) const NOT_ACCEPTABLE: Self =
        Self(StatusCode::NOT_ACCEPTABLE, "not_acceptable", "Not Acceptable");
    pub(crate) const REQUEST_TIMEOUT: Self =
        Self(StatusCode::REQUEST_TIMEOUT, "request_timeout", "Request Timeout");
    pub(crate) const FORBIDDEN: Self = Self(StatusCode::FORBIDDEN, "forbidden", "Forbidden");
    pub(crate) const MISDIRECTED_REQUEST: Self =
        Self(StatusCode::MISDIRECTED_REQUEST, "misdirected_request", "Misdirected Request");
    pub(crate) const CONFLICT: Self = Self(StatusCode::CONFLICT, "conflict", "Conflict");
    pub(crate) const GONE: Self = Self(StatusCode::GONE, "gone", "Gone");
    pub(crate) const PRECONDITION_FAILED: Self =
        Self(StatusCode::PRECONDITION_FAILED, "precondition_failed", "Precondition Failed");
    pub(crate) const PAYLOAD_TOO_LARGE: Self =
        Self(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "Payload Too Large");
    pub(crate) const UNSUPPORTED_MEDIA_TYPE: Self =
        Self(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "Unsupported Media Type");
    pub(crate) const UNPROCESSABLE: Self =
        Self(StatusCode::UNPROCESSABLE_ENTITY, "unprocessable", "Unprocessable Content");
    pub(crate) const PRECONDITION_REQUIRED: Self =
        Self(StatusCode::PRECONDITION_REQUIRED, "precondition_required", "Precondition Required");
    pub(crate) const INTERNAL_ERROR: Self =
        Self(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "Internal Error");
    pub(crate) const SERVICE_UNAVAILABLE: Self =
        Self(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", "Service Unavailable");
    pub(crate) const REMOTE_REFUSED: Self =
        Self(StatusCode::SERVICE_UNAVAILABLE, "remote_refused", "Remote Refused");
    pub(crate) const REMOTE_UNREACHABLE: Self =
        Self(StatusCode::SERVICE_UNAVAILABLE, "remote_unreachable", "Remote Unreachable");
    pub(crate) const OUTCOME_UNKNOWN: Self =
        Self(StatusCode::SERVICE_UNAVAILABLE, "outcome_unknown", "Outcome Unknown");
}

/// The part of the request that caused an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ErrorSource {
    /// A JSON pointer to something that exists in the body (RFC 6901).
    Pointer(String),
    /// A query parameter.
    Parameter(String),
    Header(&'static str),
}

#[derive(Debug, Clone)]
pub(crate) struct ErrorObject {
    pub(crate) status: StatusCode,
    pub(crate) code: Cow<'static, str>,
    pub(crate) title: Cow<'static, str>,
    pub(crate) detail: Cow<'static, str>,
    pub(crate) source: Option<ErrorSource>,
    pub(crate) more: Option<Box<ErrorExtras>>,
}

/// Details that only few errors have.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErrorExtras {
    /// `links.type`: the page that explains this kind of error.
    pub(crate) kind_link: Option<&'static str>,
    /// `meta.page.maxSize`
    pub(crate) page_size_max: Option<usize>,
    /// `meta.attributes`: attributes that the client and others changed in different ways.
    pub(crate) clashes: Vec<Clash>,
    /// `meta.current`: the resource that failed a precondition.
    pub(crate) current: Option<Arc<Entry>>,
    /// `meta.events`: the ids of events that may have happened.
    pub(crate) events: Vec<Uuid>,
    /// `meta.remote`: the status of the remote.
    pub(crate) remote: Option<serde_json::Value>,
    /// The limit that was reached; it is counted, but not part of the answer.
    pub(crate) limit: Option<Limit>,
}

impl ErrorObject {
    pub(crate) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        let Code(status, code, title) = code;
        Self {
            status,
            code: code.into(),
            title: title.into(),
            detail: sentence(detail.into()),
            source: None,
            more: None,
        }
    }

    /// Returns the pointer to the fault in the body; for the header `Commit-Message-Encoded` it is `/meta/reason`.
    pub(crate) fn place(&self) -> Option<&str> {
        match self.source.as_ref()? {
            ErrorSource::Pointer(pointer) => Some(pointer),
            ErrorSource::Header("Commit-Message-Encoded") => Some("/meta/reason"),
            ErrorSource::Header(_) | ErrorSource::Parameter(_) => None,
        }
    }

    /// Returns the attributes that the client and others changed in different ways.
    pub(crate) fn clashes(&self) -> &[Clash] {
        self.more.as_ref().map_or(&[], |more| &more.clashes)
    }

    /// Returns the resource that failed a precondition.
    pub(crate) fn current(&self) -> Option<&Arc<Entry>> {
        self.more.as_ref()?.current.as_ref()
    }

    pub(super) fn more(&mut self) -> &mut ErrorExtras {
        self.more.get_or_insert_default()
    }

    /// The error for an invalid value in the body.
    pub(crate) fn invalid(pointer: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::INVALID_DATA, detail).at(pointer)
    }

    /// The error for an attribute that a resource does not have.
    pub(crate) fn unknown_attribute(name: &str) -> Self {
        let mut pointer = String::from("/data/attributes");
        push_escaped(&mut pointer, name);
        Self::invalid(pointer, "there is no such attribute")
    }

    /// Names a value of the body as the source.
    pub(crate) fn at(mut self, pointer: impl Into<String>) -> Self {
        self.source = Some(ErrorSource::Pointer(pointer.into()));
        self
    }

    /// Names a query parameter as the source.
    pub(crate) fn parameter(mut self, name: impl Into<String>) -> Self {
        self.source = Some(ErrorSource::Parameter(name.into()));
        self
    }

    /// Names a header as the source.
    pub(crate) fn at_header(mut self, name: &'static str) -> Self {
        self.source = Some(ErrorSource::Header(name));
        self
    }

    /// Adds the details that only few errors have.
    pub(crate) fn with(self, more: ErrorExtras) -> Self {
        Self { more: Some(Box::new(more)), ..self }
    }

    /// Removes the pointer into the body, for an error about a request without one.
    pub(crate) fn without_pointer(mut self) -> Self {
        self.source = self.source.filter(|source| !matches!(source, ErrorSource::Pointer(_)));
        self
    }

    /// Turns this into an error about a part of a larger body, at the pointer `prefix`. An error without a pointer
    /// becomes one about the whole part.
    pub(crate) fn below(mut self, prefix: &str) -> Self {
        self.source = match self.source {
            Some(ErrorSource::Pointer(pointer)) => Some(ErrorSource::Pointer(format!("{prefix}{pointer}"))),
            None => Some(ErrorSource::Pointer(prefix.to_owned())),
            other @ Some(ErrorSource::Parameter(_) | ErrorSource::Header(_)) => other,
        };
        self
    }
}

/// Turns a detail into a sentence, with a capital at the start and a full stop at the end.
///
/// Only a plain word is capitalized; a path or a key at the start stays as it is.
fn sentence(text: Cow<'static, str>) -> Cow<'static, str> {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    let is_word = first.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b',' | b';'));
    let starts_low = is_word && text.starts_with(|c: char| c.is_ascii_lowercase());
    let ends = text.ends_with(['.', '!', '?']);
    if !starts_low && ends {
        return text;
    }
    let mut text = text.into_owned();
    if starts_low {
        text[..1].make_ascii_uppercase();
    }
    if !ends {
        text.push('.');
    }
    Cow::Owned(text)
}

impl From<&Violation> for ErrorObject {
    fn from(violation: &Violation) -> Self {
        let mut pointer = String::from("/data/attributes");
        for segment in &violation.path {
            match segment {
                Segment::Name(name) => push_escaped(&mut pointer, name),
                Segment::Index(index) => {
                    let _ = write!(pointer, "/{index}");
                }
            }
        }
        let error = Self::invalid(pointer, violation.message.clone());
        match violation.is_too_many_attributes() {
            true => error.with(ErrorExtras { limit: Some(Limit::Attributes), ..ErrorExtras::default() }),
            false => error,
        }
    }
}

/// Appends an escaped name to a JSON pointer (RFC 6901 section 3).
fn push_escaped(pointer: &mut String, name: &str) {
    pointer.push('/');
    for c in name.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_a_sentence_whoever_wrote_it() {
        for (text, detail) in [
            ("expected a string", "Expected a string."),
            ("Done!", "Done!"),
            ("did you mean `name`?", "Did you mean `name`?"),
            ("collections/posts.yaml is broken", "collections/posts.yaml is broken."),
            ("index.lock is held", "index.lock is held."),
            ("`x` is wrong.", "`x` is wrong."),
        ] {
            assert_eq!(ErrorObject::new(Code::CONFLICT, text).detail, detail);
        }
    }

    #[test]
    fn a_pointer_escapes_what_would_be_a_step() {
        let path = vec![Segment::Name("x-a~b/c".to_owned()), Segment::Index(2)];
        let violation = Violation { path, message: "is wrong".to_owned() };
        let error = ErrorObject::from(&violation);
        assert_eq!(error.source, Some(ErrorSource::Pointer("/data/attributes/x-a~0b~1c/2".into())));
        assert_eq!(error.detail, "Is wrong.");
    }
}
