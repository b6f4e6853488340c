//! Errors as the client sees them.
//!
//! `detail` is written for the client. What the operator needs to know is logged where the failure happens and never
//! put into these types, so nothing here can leak.

#![warn(clippy::wildcard_enum_match_arm)]

mod object;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use warp::http::header::{ALLOW, ETAG, RETRY_AFTER};
use warp::http::{HeaderName, HeaderValue, StatusCode};

use crate::domain::Refusal;
use crate::engine::history::{HistoryError, UndoRefusal};
use crate::engine::{Clash, Entry, SubmitError};
use crate::http::authorize::Denied;
pub(crate) use crate::http::jsonapi::error::object::{Code, ErrorExtras, ErrorObject, ErrorSource};
use crate::telemetry::Limit;
use crate::telemetry::error_chain;

/// The maximum number of errors in one answer.
const ERRORS_LEN_MAX: usize = 100;

/// The default `Retry-After`.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);

/// A failed request: one or more errors and the headers that go with them.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) errors: Vec<ErrorObject>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ApiError {
    pub(crate) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        ErrorObject::new(code, detail).into()
    }

    /// No resource has this path.
    pub(crate) fn no_such_path(path: &str) -> Self {
        Self::new(Code::NOT_FOUND, format!("Nothing is found at '{path}'."))
    }

    /// No collection has this key.
    pub(crate) fn no_such_collection(key: &str) -> Self {
        Self::new(Code::NOT_FOUND, format!("Collection '{key}' not found."))
    }

    /// The path does not support the method.
    pub(crate) fn method_not_allowed(allow: &str) -> Self {
        Self::new(Code::METHOD_NOT_ALLOWED, format!("This path takes only: {allow}."))
            .with_header(ALLOW, HeaderValue::from_str(allow).expect("methods are visible ASCII"))
    }

    /// The precondition fails for the served version.
    pub(crate) fn precondition(header: &'static str, current: Option<Arc<Entry>>) -> Self {
        let detail = match current {
            Some(_) => "The collection is not in the state that the precondition asks for.",
            None => "The precondition asks for a collection that exists.",
        };
        let error = ErrorObject::new(Code::PRECONDITION_FAILED, detail).at_header(header);
        match current {
            Some(current) => Self::met(error, current, Vec::new()),
            None => error.into(),
        }
    }

    /// Others have changed the same attributes since the version that the client's change is based on.
    fn clash(current: Arc<Entry>, clashes: Vec<Clash>) -> Self {
        let names: Vec<_> = clashes.iter().map(|clash| format!("`{}`", clash.attribute)).collect();
        let detail =
            format!("Others have changed {} since the version that the change builds on.", names.join(", "));
        let error = ErrorObject::new(Code::PRECONDITION_FAILED, detail).at_header("If-Match");
        Self::met(error, current, clashes)
    }

    /// Attaches the entry that the precondition was compared with.
    fn met(error: ErrorObject, current: Arc<Entry>, clashes: Vec<Clash>) -> Self {
        let more = ErrorExtras { clashes, current: Some(Arc::clone(&current)), ..ErrorExtras::default() };
        Self::from(error.with(more)).with_etag(&current)
    }

    /// Adds the entity tag of the served version, for the client's next attempt.
    pub(crate) fn with_etag(self, current: &Entry) -> Self {
        let tag = HeaderValue::try_from(format!("\"{}\"", current.tag()));
        self.with_header(ETAG, tag.expect("a tag is visible ASCII"))
    }

    /// The service can't answer now, but probably soon.
    pub(crate) fn unavailable(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::SERVICE_UNAVAILABLE, detail).with_retry_after(RETRY_AFTER_DEFAULT)
    }

    /// Adds `Retry-After`, in whole seconds and at least one.
    fn with_retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        self.with_header(RETRY_AFTER, seconds.max(1).into())
    }

    /// Other writers won the race each time the request was decided.
    pub(crate) fn lost_races(detail: String) -> Self {
        Self::unavailable(detail).with_limit(Limit::Races)
    }

    /// The first snapshot does not exist yet.
    pub(crate) fn loading() -> Self {
        Self::unavailable("The repository is still being read.")
    }

    /// The first snapshot does not exist yet, or could not be built for this reason.
    pub(crate) fn unread(trouble: Option<&String>) -> Self {
        trouble.map_or_else(Self::loading, |trouble| {
            Self::unavailable(format!("Nothing can be served yet, because {trouble}."))
        })
    }

    /// The service itself failed; the cause is in its log.
    pub(crate) fn internal() -> Self {
        Self::new(Code::INTERNAL_ERROR, "The service failed to answer; the cause is in its log.")
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Records the limit that was reached.
    pub(crate) fn with_limit(mut self, limit: Limit) -> Self {
        self.errors.iter_mut().take(1).for_each(|first| first.more().limit = Some(limit));
        self
    }

    /// Returns the limit that was reached, if any.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.clone().take_limit()
    }

    /// Returns the limit that was reached, if any, and forgets it, so that it is counted once.
    pub(crate) fn take_limit(&mut self) -> Option<Limit> {
        self.errors.iter_mut().find_map(|error| error.more.as_mut()?.limit.take())
    }

    /// Adds a sentence to the detail of the first error.
    pub(crate) fn with_extra_sentence(mut self, sentence: &str) -> Self {
        if let Some(first) = self.errors.first_mut() {
            first.detail = format!("{} {sentence}", first.detail).into();
        }
        self
    }

    /// Adds the status of the remote to the first error.
    pub(crate) fn with_remote(mut self, remote: serde_json::Value) -> Self {
        if let Some(first) = self.errors.first_mut() {
            first.more().remote = Some(remote);
        }
        self
    }

    /// Names a query parameter as the source of all errors that have none.
    pub(crate) fn parameter(self, name: &str) -> Self {
        self.each(|error| if error.source.is_none() { error.parameter(name) } else { error })
    }

    /// Names a value of the body as the source of all errors.
    pub(crate) fn at(self, pointer: &str) -> Self {
        self.each(|error| error.at(pointer))
    }

    /// Removes the pointers into the body, for a request whose body has no resource to point at.
    pub(crate) fn without_pointers(self) -> Self {
        self.each(ErrorObject::without_pointer)
    }

    /// Turns this into an error of a batch: pointers are prefixed with the operation's.
    pub(crate) fn below(self, prefix: &str) -> Self {
        self.each(|error| error.below(prefix))
    }

    fn each(self, change: impl Fn(ErrorObject) -> ErrorObject) -> Self {
        Self { errors: self.errors.into_iter().map(change).collect(), ..self }
    }

    /// Logs the failure where it is answered: at `warn` if the service is at fault, and at `debug` if the client is
    /// or if the answer is 503 (whose cause the engine has logged).
    pub(crate) fn log(&self) {
        let status = self.status().as_u16();
        for ErrorObject { code, detail, .. } in &self.errors {
            if status >= 500 && status != 503 {
                tracing::warn!(http.status = status, code = %code, "the request failed: {detail}");
            } else {
                tracing::debug!(http.status = status, code = %code, "the request was refused: {detail}");
            }
        }
    }

    /// Returns the detail of each error.
    pub(crate) fn details(&self) -> Vec<String> {
        self.errors.iter().map(|error| error.detail.to_string()).collect()
    }

    pub(crate) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    /// Returns the status of the whole answer: the status of the errors if they agree, or else the most general one
    /// that fits them.
    pub(crate) fn status(&self) -> StatusCode {
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

/// Reports all errors at once, up to a limit. An empty list is a bug: it panics in debug builds and becomes an
/// internal error in release builds.
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
        let status = denied.status();
        let Denied { code, title, detail, headers, limit, .. } = denied;
        let error = ErrorObject { status, code, title, detail, source: None, more: None };
        let error = Self { errors: vec![error], headers };
        match limit {
            Some(limit) => error.with_limit(limit),
            None => error,
        }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let conflict = |detail: String| Self::new(Code::CONFLICT, detail);
        match error {
            SubmitError::Refused { refusal, .. } => refusal.into(),
            SubmitError::ConditionFailed { current, .. } => Self::precondition("If-Match", current),
            SubmitError::Clash { current, clashes, .. } => Self::clash(current, clashes),
            SubmitError::Broken { problem, .. } => conflict(format!(
                "The file of the collection is broken and there is nothing to build on: {problem}"
            )),
            SubmitError::NotAFile { problem, .. } => conflict(format!(
                "What is no regular file can be removed with git only, by hand (`git rm -r`): {problem}"
            )),
            SubmitError::EditedByHand { path, .. } => conflict(format!(
                "The file {path} was edited by hand and the edit is not committed; commit or undo it first"
            )),
            SubmitError::Converted { path, .. } => conflict(format!(
                "The file {path} is not what is committed, and git would change it before it commits it, by a filter or \
                 in its line ends (gitattributes), which is not done here; commit it with git"
            )),
            SubmitError::UnreadableEdit { path, bytes_max, .. } => conflict(format!(
                "The file {path} was edited by hand and can't be committed as it is: it has more than {bytes_max} \
                 bytes, or was saved again just now; commit or undo the edit first, or try again"
            )),
            SubmitError::BeingWritten { path, .. } => Self::unavailable(format!(
                "The file {path} is open in a program that is writing it; try again when it has been closed."
            )),
            SubmitError::FilesTooLarge { bytes_max, .. } => Self::new(
                Code::PAYLOAD_TOO_LARGE,
                format!(
                    "The files that one request changes have at most {bytes_max} bytes together, and with this one \
                     they have more; send several requests."
                ),
            )
            .at("/data")
            .with_limit(Limit::OperationsBytes),
            SubmitError::KeyReused => ErrorObject::new(
                Code::UNPROCESSABLE,
                "The idempotency key was used for another request; every request needs one of its own.",
            )
            .at_header("Idempotency-Key")
            .into(),
            SubmitError::Busy => {
                Self::unavailable("The write queue is full; try again shortly.").with_limit(Limit::QueueLen)
            }
            SubmitError::Loading => Self::loading(),
            SubmitError::ShuttingDown => Self::unavailable("The service is shutting down."),
            SubmitError::RemoteRefused { why } => {
                Self::new(Code::REMOTE_REFUSED, format!("The remote refuses the write: {why}"))
                    .with_retry_after(RETRY_AFTER_DEFAULT)
            }
            SubmitError::RemoteUnreachable => Self::new(
                Code::REMOTE_UNREACHABLE,
                "The remote that keeps the collections cannot be reached; nothing was changed.",
            )
            .with_retry_after(RETRY_AFTER_DEFAULT),
            SubmitError::OutcomeUnknown { events } => {
                let detail = "The remote has not said whether it took the write, which may be there already or come \
                              to be; the events named show it later, and the same Idempotency-Key never does it twice.";
                let error = ErrorObject::new(Code::OUTCOME_UNKNOWN, detail);
                Self::from(error.with(ErrorExtras { events, ..ErrorExtras::default() }))
                    .with_retry_after(RETRY_AFTER_DEFAULT)
                    .with_limit(Limit::RemoteTimeout)
            }
            SubmitError::Unavailable { reason, retry_after } => {
                Self::new(Code::SERVICE_UNAVAILABLE, reason).with_retry_after(retry_after)
            }
        }
    }
}

impl From<HistoryError> for ApiError {
    fn from(error: HistoryError) -> Self {
        let detail = error.to_string();
        match error {
            HistoryError::Building { .. } | HistoryError::Left | HistoryError::NotFetched(_) => {
                Self::unavailable(detail)
            }
            HistoryError::BadRevision { .. } | HistoryError::BadCursor | HistoryError::BadToken => {
                Self::new(Code::INVALID_DATA, detail)
            }
            HistoryError::UnknownRevision(_)
            | HistoryError::BeforeFirst(_)
            | HistoryError::CutOff(_)
            | HistoryError::NotOnBranch(_) => Self::new(Code::NOT_FOUND, detail),
            HistoryError::UnknownKey(key) => Self::no_such_collection(key.as_str()),
            HistoryError::UnknownEvent(id) => Self::new(Code::NOT_FOUND, format!("Event '{id}' not found.")),
            HistoryError::Gone => Self::new(Code::GONE, detail),
            HistoryError::Lost(_) => {
                tracing::warn!(error = detail, "a question about the history has no answer");
                // No path, because it may belong to a collection that the caller may not see.
                Self::unavailable(
                    "A file of that time can't be read, as the repository lacks its content; `git fsck` tells more, and \
                     `git fetch --refetch --no-filter` completes a partial clone.",
                )
            }
            HistoryError::Store(_) | HistoryError::Unreadable(_) => {
                tracing::warn!(error = error_chain(&error), "a question about the history has no answer");
                Self::unavailable("The history can't be read at the moment.")
            }
        }
    }
}

impl From<UndoRefusal> for ApiError {
    fn from(refusal: UndoRefusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            UndoRefusal::ChangedSince { .. }
            | UndoRefusal::FileChangedSince
            | UndoRefusal::Broken(_)
            | UndoRefusal::Unfit(_) => Self::new(Code::CONFLICT, detail),
            UndoRefusal::History(error) => error.into(),
            UndoRefusal::Submit(error) => error.into(),
        }
    }
}

/// Returns the index of the change that an error is about.
pub(crate) const fn index_of(error: &SubmitError) -> Option<usize> {
    match error {
        SubmitError::Refused { index, .. }
        | SubmitError::ConditionFailed { index, .. }
        | SubmitError::Clash { index, .. }
        | SubmitError::Broken { index, .. }
        | SubmitError::NotAFile { index, .. }
        | SubmitError::EditedByHand { index, .. }
        | SubmitError::Converted { index, .. }
        | SubmitError::UnreadableEdit { index, .. }
        | SubmitError::BeingWritten { index, .. }
        | SubmitError::FilesTooLarge { index, .. } => Some(*index),
        SubmitError::KeyReused
        | SubmitError::Busy
        | SubmitError::Loading
        | SubmitError::ShuttingDown
        | SubmitError::RemoteRefused { .. }
        | SubmitError::RemoteUnreachable
        | SubmitError::OutcomeUnknown { .. }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Key, Kind};
    use crate::http::authorize::ErrorStatus;

    #[test]
    fn an_error_in_a_batch_points_into_its_operation() {
        let key = Key::parse("posts").unwrap();
        let pointer = |refusal: Refusal| match ApiError::from(refusal).below("/atomic:operations/3").errors[0]
            .source
            .clone()
        {
            Some(ErrorSource::Pointer(pointer)) => pointer,
            other => panic!("{other:?}"),
        };
        assert_eq!(pointer(Refusal::UnknownKey(key.clone())), "/atomic:operations/3");
        assert_eq!(pointer(Refusal::KeyTaken(key.clone())), "/atomic:operations/3/data/id");
        let fixed = Refusal::KindFixed { key, stored: Kind::Media, asked: Kind::Document };
        assert_eq!(pointer(fixed), "/atomic:operations/3/data/type");
        let error = ApiError::from(SubmitError::FilesTooLarge { index: 3, bytes_max: 65_536 });
        assert_eq!((error.status().as_u16(), error.limit()), (413, Some(Limit::OperationsBytes)));
    }

    #[test]
    fn many_errors_are_cut_with_a_count() {
        let errors: Vec<_> = (0..250).map(|n| ErrorObject::invalid(format!("/{n}"), "wrong")).collect();
        let error = ApiError::from(errors);
        assert_eq!(error.errors.len(), ERRORS_LEN_MAX);
        assert_eq!(error.errors[ERRORS_LEN_MAX - 1].detail, "There are 151 more errors.");
    }

    #[test]
    fn what_an_embedder_refuses_as_too_much_reaches_no_limit_of_the_service() {
        let denied = Denied::new(ErrorStatus::TOO_MANY_REQUESTS, "slow", "Slow Down", "Ask less often.");
        assert_eq!(ApiError::from(denied).limit(), None);
    }

    #[test]
    fn waiting_is_told_in_whole_seconds_and_never_as_none() {
        for (wait, header) in [(0, "1"), (1, "1"), (1000, "1"), (1001, "2")] {
            let error = ApiError::loading().with_retry_after(Duration::from_millis(wait));
            assert_eq!(error.headers.last().unwrap().1, header, "{wait} ms");
        }
    }
}
