//! Every failure as the client is told it.
//!
//! `detail` is written for the caller. What the operator needs to know goes to the log where the
//! failure happened and never into these types, so there is nothing here that could leak.

#![warn(clippy::wildcard_enum_match_arm)]

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use warp::http::header::{ALLOW, RETRY_AFTER};
use warp::http::{HeaderName, HeaderValue, StatusCode};

use super::super::authorize::Denied;
use crate::domain::{Refusal, Segment, Violation};
use crate::engine::{Entry, SubmitError};

/// The most errors that one answer lists.
const ERRORS_LEN_MAX: usize = 100;

/// When to come back if nothing better is known.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);

/// What kind of failure it is: status, code and title always go together.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Code(StatusCode, &'static str, &'static str);

impl Code {
    pub(in crate::http) const BAD_REQUEST: Self = Self(StatusCode::BAD_REQUEST, "bad_request", "Bad Request");
    pub(in crate::http) const INVALID_DATA: Self =
        Self(StatusCode::BAD_REQUEST, "invalid_data", "Invalid Data");
    pub(in crate::http) const NOT_FOUND: Self = Self(StatusCode::NOT_FOUND, "not_found", "Not Found");
    pub(in crate::http) const METHOD_NOT_ALLOWED: Self =
        Self(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method Not Allowed");
    pub(in crate::http) const NOT_ACCEPTABLE: Self =
        Self(StatusCode::NOT_ACCEPTABLE, "not_acceptable", "Not Acceptable");
    pub(in crate::http) const REQUEST_TIMEOUT: Self =
        Self(StatusCode::REQUEST_TIMEOUT, "request_timeout", "Request Timeout");
    pub(in crate::http) const CONFLICT: Self = Self(StatusCode::CONFLICT, "conflict", "Conflict");
    pub(in crate::http) const PRECONDITION_FAILED: Self =
        Self(StatusCode::PRECONDITION_FAILED, "precondition_failed", "Precondition Failed");
    pub(in crate::http) const PAYLOAD_TOO_LARGE: Self =
        Self(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "Payload Too Large");
    pub(in crate::http) const URI_TOO_LONG: Self =
        Self(StatusCode::URI_TOO_LONG, "uri_too_long", "URI Too Long");
    pub(in crate::http) const UNSUPPORTED_MEDIA_TYPE: Self =
        Self(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "Unsupported Media Type");
    pub(in crate::http) const PRECONDITION_REQUIRED: Self =
        Self(StatusCode::PRECONDITION_REQUIRED, "precondition_required", "Precondition Required");
    pub(in crate::http) const INTERNAL_ERROR: Self =
        Self(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "Internal Error");
    pub(in crate::http) const SERVICE_UNAVAILABLE: Self =
        Self(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", "Service Unavailable");
}

/// What in the request is to blame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) enum Source {
    /// A JSON pointer to something that exists in the body (RFC 6901).
    Pointer(String),
    /// A query parameter.
    Parameter(String),
    /// A header.
    Header(&'static str),
}

/// One JSON:API error object.
#[derive(Debug, Clone)]
pub(in crate::http) struct ErrorObject {
    pub(super) status: StatusCode,
    pub(super) code: Cow<'static, str>,
    pub(super) title: Cow<'static, str>,
    pub(super) detail: Cow<'static, str>,
    pub(super) source: Option<Source>,
    /// `links.type`: the page that explains this kind of error.
    pub(super) kind_link: Option<&'static str>,
    /// `meta.page.maxSize`
    pub(super) page_size_max: Option<usize>,
    /// `meta.current`: the resource that a precondition met.
    pub(super) current: Option<Arc<Entry>>,
}

impl ErrorObject {
    pub(in crate::http) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        let Code(status, code, title) = code;
        Self {
            status,
            code: code.into(),
            title: title.into(),
            detail: sentence(detail.into()),
            source: None,
            kind_link: None,
            page_size_max: None,
            current: None,
        }
    }

    /// A value of the body that is wrong.
    pub(in crate::http) fn invalid(pointer: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::INVALID_DATA, detail).at(pointer)
    }

    /// Blames a value of the body.
    pub(in crate::http) fn at(mut self, pointer: impl Into<String>) -> Self {
        self.source = Some(Source::Pointer(pointer.into()));
        self
    }

    /// Blames a query parameter.
    pub(in crate::http) fn parameter(mut self, name: impl Into<String>) -> Self {
        self.source = Some(Source::Parameter(name.into()));
        self
    }

    /// Blames a header.
    pub(in crate::http) fn header(mut self, name: &'static str) -> Self {
        self.source = Some(Source::Header(name));
        self
    }

    /// Names the page that explains this kind of error.
    pub(in crate::http) const fn explained_at(mut self, link: &'static str) -> Self {
        self.kind_link = Some(link);
        self
    }

    /// Tells how large a page may be.
    pub(in crate::http) const fn with_page_size_max(mut self, size: usize) -> Self {
        self.page_size_max = Some(size);
        self
    }

    /// The same error about a part of a larger body; without a pointer it is about the whole part.
    fn below(mut self, prefix: &str) -> Self {
        self.source = match self.source {
            Some(Source::Pointer(pointer)) => Some(Source::Pointer(format!("{prefix}{pointer}"))),
            None => Some(Source::Pointer(prefix.to_owned())),
            other @ Some(Source::Parameter(_) | Source::Header(_)) => other,
        };
        self
    }
}

/// Details are sentences: a capital at the start and a full stop at the end, whoever wrote them.
fn sentence(text: Cow<'static, str>) -> Cow<'static, str> {
    let starts_low = text.starts_with(|c: char| c.is_ascii_lowercase());
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

/// A failed request: one or more errors and the headers that go with them.
#[derive(Debug, Clone)]
pub(in crate::http) struct ApiError {
    pub(super) errors: Vec<ErrorObject>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ApiError {
    pub(in crate::http) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        ErrorObject::new(code, detail).into()
    }

    /// The path leads nowhere.
    pub(in crate::http) fn no_such_path(path: &str) -> Self {
        Self::new(Code::NOT_FOUND, format!("Nothing is found at '{path}'."))
    }

    /// No collection has this key.
    pub(in crate::http) fn no_such_collection(key: &str) -> Self {
        Self::new(Code::NOT_FOUND, format!("Collection '{key}' not found."))
    }

    /// The path knows other methods.
    pub(in crate::http) fn method_not_allowed(allow: &'static str) -> Self {
        Self::new(Code::METHOD_NOT_ALLOWED, format!("This path takes only: {allow}."))
            .with_header(ALLOW, HeaderValue::from_static(allow))
    }

    /// The precondition does not hold of what is served now.
    pub(in crate::http) fn precondition(header: &'static str, current: Option<Arc<Entry>>) -> Self {
        let detail = match current {
            Some(_) => "The collection is not in the state that the precondition asks for.",
            None => "The precondition asks for a collection that exists.",
        };
        let mut error = ErrorObject::new(Code::PRECONDITION_FAILED, detail).header(header);
        error.current = current;
        error.into()
    }

    /// Not now, but soon.
    pub(in crate::http) fn unavailable(detail: impl Into<Cow<'static, str>>, retry_after: Duration) -> Self {
        let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
        Self::new(Code::SERVICE_UNAVAILABLE, detail).with_header(RETRY_AFTER, seconds.max(1).into())
    }

    /// The first snapshot is not there yet.
    pub(in crate::http) fn loading() -> Self {
        Self::unavailable("The repository is still being read.", RETRY_AFTER_DEFAULT)
    }

    /// Something of ours failed; the log knows what.
    pub(in crate::http) fn internal() -> Self {
        Self::new(Code::INTERNAL_ERROR, "The service failed to answer; the cause is in its log.")
    }

    pub(in crate::http) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same failure as part of a batch: pointers start at its operation.
    pub(in crate::http) fn below(mut self, prefix: &str) -> Self {
        self.errors = self.errors.into_iter().map(|error| error.below(prefix)).collect();
        self
    }

    /// Logs the failure, where it is answered: a client's own is of interest to whoever looks for
    /// it, one of ours to everybody. What went wrong inside was logged there.
    pub(in crate::http) fn log(&self) {
        let status = self.status().as_u16();
        for ErrorObject { code, detail, .. } in &self.errors {
            if status >= 500 {
                tracing::warn!(http.status = status, code = %code, "the request failed: {detail}");
            } else {
                tracing::debug!(http.status = status, code = %code, "the request was refused: {detail}");
            }
        }
    }

    /// The errors alone.
    pub(in crate::http) fn into_errors(self) -> Vec<ErrorObject> {
        self.errors
    }

    /// The headers that go with it.
    pub(in crate::http) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    /// The status of the whole answer: that of the errors if they agree, else the most general one
    /// that fits them.
    pub(in crate::http) fn status(&self) -> StatusCode {
        let first = self.errors.first().map_or(StatusCode::INTERNAL_SERVER_ERROR, |error| error.status);
        if self.errors.iter().all(|error| error.status == first) {
            first
        } else if self.errors.iter().any(|error| error.status.is_server_error()) {
            StatusCode::INTERNAL_SERVER_ERROR
        } else {
            StatusCode::BAD_REQUEST
        }
    }
}

impl From<ErrorObject> for ApiError {
    fn from(error: ErrorObject) -> Self {
        Self { errors: vec![error], headers: Vec::new() }
    }
}

/// Tells all errors at once, up to a limit.
///
/// # Panics
///
/// Never: an empty list would be a failure without a reason and becomes an internal error.
impl From<Vec<ErrorObject>> for ApiError {
    fn from(mut errors: Vec<ErrorObject>) -> Self {
        debug_assert!(!errors.is_empty(), "BUG: a failure without an error");
        if errors.is_empty() {
            return Self::internal();
        }
        if errors.len() > ERRORS_LEN_MAX {
            let left = errors.len() - (ERRORS_LEN_MAX - 1);
            errors.truncate(ERRORS_LEN_MAX - 1);
            errors.push(ErrorObject::new(Code::INVALID_DATA, format!("There are {left} more errors.")));
        }
        Self { errors, headers: Vec::new() }
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        let error = ErrorObject {
            status: denied.status(),
            code: denied.code,
            title: denied.title,
            detail: denied.detail,
            source: None,
            kind_link: None,
            page_size_max: None,
            current: None,
        };
        Self { errors: vec![error], headers: denied.headers }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Refused { index: _, refusal } => refusal.into(),
            SubmitError::Condition { index: _, current } => Self::precondition("If-Match", current),
            SubmitError::Broken { index: _, problem } => Self::new(
                Code::CONFLICT,
                format!("The file of the collection is broken and there is nothing to build on: {problem}"),
            ),
            SubmitError::EditedByHand { index: _, path } => Self::new(
                Code::CONFLICT,
                format!("{path} was edited by hand and the edit is not committed; commit or undo it first"),
            ),
            SubmitError::Busy => {
                Self::unavailable("The write queue is full; try again shortly.", RETRY_AFTER_DEFAULT)
            }
            SubmitError::Loading => Self::loading(),
            SubmitError::ShuttingDown => {
                Self::unavailable("The service is shutting down.", RETRY_AFTER_DEFAULT)
            }
            SubmitError::Unavailable { reason, retry_after } => Self::unavailable(reason, retry_after),
        }
    }
}

/// Which change of a submission an error is about.
pub(in crate::http) const fn index_of(error: &SubmitError) -> Option<usize> {
    match error {
        SubmitError::Refused { index, .. }
        | SubmitError::Condition { index, .. }
        | SubmitError::Broken { index, .. }
        | SubmitError::EditedByHand { index, .. } => Some(*index),
        SubmitError::Busy
        | SubmitError::Loading
        | SubmitError::ShuttingDown
        | SubmitError::Unavailable { .. } => None,
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            Refusal::UnknownKey(key) => Self::no_such_collection(key.as_str()),
            Refusal::KeyTaken(_) | Refusal::KeyTakenInOtherCase { .. } => {
                ErrorObject::new(Code::CONFLICT, detail).at("/data/id").into()
            }
            Refusal::KindFixed { .. } => ErrorObject::new(Code::CONFLICT, detail).at("/data/type").into(),
            Refusal::Invalid(violations) => {
                violations.iter().map(ErrorObject::from).collect::<Vec<_>>().into()
            }
            Refusal::TooLarge { .. } => ErrorObject::invalid("/data", detail).into(),
        }
    }
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
        Self::invalid(pointer, violation.message.clone())
    }
}

/// Adds a step to a JSON pointer (RFC 6901 section 3).
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
    use crate::domain::{Key, Kind};

    #[test]
    fn a_pointer_escapes_what_would_be_a_step() {
        let violation = Violation::at("x-a~b/c", "is wrong").below([Segment::Index(2)]);
        let error = ErrorObject::from(&violation);
        assert_eq!(error.source, Some(Source::Pointer("/data/attributes/x-a~0b~1c/2".into())));
        assert_eq!(error.detail, "Is wrong.");
    }

    #[test]
    fn an_error_in_a_batch_points_into_its_operation() {
        let key = Key::parse("posts").unwrap();
        let pointer = |refusal: Refusal| match ApiError::from(refusal).below("/atomic:operations/3").errors[0]
            .source
            .clone()
        {
            Some(Source::Pointer(pointer)) => pointer,
            other => panic!("{other:?}"),
        };
        assert_eq!(pointer(Refusal::UnknownKey(key.clone())), "/atomic:operations/3");
        assert_eq!(pointer(Refusal::KeyTaken(key.clone())), "/atomic:operations/3/data/id");
        let fixed = Refusal::KindFixed { key, stored: Kind::Media, asked: Kind::Document };
        assert_eq!(pointer(fixed), "/atomic:operations/3/data/type");
    }

    #[test]
    fn many_errors_are_cut_with_a_count() {
        let errors: Vec<_> = (0..250).map(|n| ErrorObject::invalid(format!("/{n}"), "wrong")).collect();
        let error = ApiError::from(errors);
        assert_eq!(error.errors.len(), ERRORS_LEN_MAX);
        assert_eq!(error.errors[ERRORS_LEN_MAX - 1].detail, "There are 151 more errors.");
    }

    #[test]
    fn waiting_is_told_in_whole_seconds_and_never_as_none() {
        for (wait, header) in [(0, "1"), (1, "1"), (1000, "1"), (1001, "2")] {
            let error = ApiError::unavailable("later", Duration::from_millis(wait));
            assert_eq!(error.headers[0].1, header, "{wait} ms");
        }
    }
}
