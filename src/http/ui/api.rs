//! Requests to the API, which the pages make within the service on behalf of their visitors.
//!
//! Every write of a page, and every answer about the past, goes through the same routes as a request over the
//! network: the same authorizer with the same actions, the same conditions, merges, limits and error messages.
//! There is no second way in.

use std::sync::Arc;

use bytes::Bytes;
use warp::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH, TRANSFER_ENCODING};
use warp::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::domain::Value;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::negotiate::JSON_API;
use crate::http::jsonapi::request;
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::request::idempotency::IDEMPOTENCY_KEY;
use crate::http::request::prefer::PREFER;
use crate::http::request::reason::{COMMIT_MESSAGE, COMMIT_MESSAGE_ENCODED};
use crate::http::routes;
use crate::http::ui::AT_ONCE_BYTES_MAX;
use crate::http::ui::frame::encoded;

/// How deep the API's own documents may nest: deeper than any value in them.
const DEPTH_MAX: usize = 128;

/// Header fields of a page's request that are not passed on to the API.
const LEFT_OUT: [HeaderName; 10] = [
    ACCEPT,
    CONTENT_TYPE,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    IF_MATCH,
    IF_NONE_MATCH,
    PREFER,
    COMMIT_MESSAGE,
    COMMIT_MESSAGE_ENCODED,
    IDEMPOTENCY_KEY,
];

pub(crate) struct Request {
    method: Method,
    /// The path below the base path, with the query.
    target: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

impl Request {
    pub(crate) fn new(method: Method, target: impl Into<String>) -> Self {
        Self { method, target: target.into(), headers: Vec::new(), body: Bytes::new() }
    }

    /// Adds a header field, if its value is valid.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    /// Adds a reason for the commit.
    pub(crate) fn because(self, reason: &str) -> Self {
        if reason.is_empty() { self } else { self.header(COMMIT_MESSAGE_ENCODED, &encoded(reason)) }
    }

    /// Makes the request conditional on this entity tag of the collection.
    pub(crate) fn of(self, tag: &str) -> Self {
        if tag.is_empty() { self } else { self.header(IF_MATCH, &format!("\"{tag}\"")) }
    }

    pub(crate) fn document(self, document: &Value) -> Self {
        Self { body: document.to_string().into(), ..self }.header(CONTENT_TYPE, JSON_API)
    }

    /// Turns the request into a dry run, if wanted.
    pub(crate) fn dry_run(self, dry_run: bool) -> Self {
        if dry_run { self.header(PREFER, "dry-run") } else { self }
    }

    /// Asks the API to merge changes of different attributes.
    pub(crate) fn merging(self) -> Self {
        self.header(PREFER, "merge=attributes")
    }

    /// Sends the request to the API's routes.
    pub(crate) async fn answer(self, call: &Call<'_>) -> Result<Reply, ApiError> {
        let target = format!("{}{}", call.context.settings.base_path.as_str(), self.target);
        let uri: Uri = target.parse().map_err(|_| ApiError::no_such_path(call.path()))?;
        let mut headers: HeaderMap = call.headers().clone();
        LEFT_OUT.iter().for_each(|name| drop(headers.remove(name)));
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        let has_body = !self.body.is_empty();
        let head = Arc::new(call.head.asking(self.method, uri, headers, has_body));
        let mut body = if has_body { Body::whole(self.body) } else { Body::none() };
        let inner = call.inner(head);
        // Counted here, since many a page shows the error with a form instead of passing it on.
        let counted = |mut error: ApiError| {
            call.count_limit(&mut error);
            error
        };
        let reply = Box::pin(routes::answer(&inner, &mut body)).await.map_err(counted)?;
        if !inner.method().is_safe() {
            call.record_page_revision(reply.revision().copied());
        }
        Ok(reply)
    }

    /// Sends the request and returns the document of the answer.
    pub(crate) async fn read(self, call: &Call<'_>) -> Result<Value, ApiError> {
        let body = self.answer(call).await?.into_body();
        let is_long = body.len() > AT_ONCE_BYTES_MAX;
        let read = move || match &*body {
            [] => Ok(Value::Null),
            body => request::parse(body, DEPTH_MAX).map_err(|_| ApiError::internal()),
        };
        if is_long { call.build_off_thread(read).await? } else { read() }
    }
}

/// Returns the document at a path of the API.
pub(crate) async fn get(call: &Call<'_>, target: impl Into<String>) -> Result<Value, ApiError> {
    Request::new(Method::GET, target).read(call).await
}
