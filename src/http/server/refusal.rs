//! Answers that the server gives itself, before or in place of the routes.

use chrono::Utc;
use warp::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use warp::http::{HeaderName, HeaderValue, StatusCode};
use warp::reply::Response;

use crate::http::server::HeaderFields;
use crate::telemetry::Limit;

/// One JSON:API error that ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    detail: &'static str,
}

impl Refusal {
    /// The head is not well-formed HTTP/1.1.
    pub(crate) const MALFORMED: Self = Self {
        status: StatusCode::BAD_REQUEST,
        code: "bad_request",
        detail: "The head of the request is not well-formed HTTP/1.1.",
    };

    /// The request asks for a tunnel.
    pub(crate) const NO_PROXY: Self = Self {
        status: StatusCode::NOT_IMPLEMENTED,
        code: "not_implemented",
        detail: "This service is no proxy and opens no tunnels.",
    };

    /// The body is coded in other ways than in chunks.
    pub(crate) const TRANSFER_CODING: Self = Self {
        status: StatusCode::NOT_IMPLEMENTED,
        code: "not_implemented",
        detail: "Of transfer codings this service takes `chunked` alone, and once (RFC 9112 section 6.1).",
    };

    /// There is not exactly one valid `Host`.
    pub(crate) const HOST: Self = Self {
        status: StatusCode::BAD_REQUEST,
        code: "bad_request",
        detail: "A request has exactly one Host header, which names a host and may name a port (RFC 9112 section 3.2).",
    };

    pub(crate) const URI_TOO_LONG: Self = Self {
        status: StatusCode::URI_TOO_LONG,
        code: "uri_too_long",
        detail: "The path and query of the request are longer than this service takes.",
    };

    /// There are too many header fields, or they are too large.
    pub(crate) const HEADERS_TOO_LARGE: Self = Self {
        status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        code: "header_fields_too_large",
        detail: "The header fields of the request are more than 100, or larger than this service takes.",
    };

    /// All connections are in use.
    pub(crate) const NO_ROOM: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        code: "service_unavailable",
        detail: "This service has as many connections as it takes; try again shortly.",
    };

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// The limit that was reached, if the refusal is about one.
    pub(crate) fn limit(&self) -> Option<Limit> {
        match self.status {
            StatusCode::URI_TOO_LONG => Some(Limit::UriBytes),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Some(Limit::HeaderBytes),
            StatusCode::SERVICE_UNAVAILABLE => Some(Limit::Connections),
            _ => None,
        }
    }

    /// The JSON body. All texts are constants without characters that JSON would have to escape.
    pub(crate) fn body(&self) -> String {
        let Self { status, code, detail } = self;
        let title = status.canonical_reason().unwrap_or_default();
        format!(
            r#"{{"jsonapi":{{"version":"1.1"}},"errors":[{{"status":"{}","code":"{code}","title":"{title}","detail":"{detail}"}}]}}"#,
            status.as_str()
        )
    }

    fn headers(&self, fields: HeaderFields) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let all =
            [(CONTENT_TYPE, "application/vnd.api+json"), (CACHE_CONTROL, "no-store"), (CONNECTION, "close")];
        let retry = (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some((RETRY_AFTER, "1"));
        let ours = all.into_iter().chain(retry);
        ours.map(|(name, value)| (name, HeaderValue::from_static(value))).chain(fields)
    }

    /// The answer as a response for hyper. The connection ends after it.
    pub(crate) fn into_response(self, fields: HeaderFields) -> Response {
        let mut response = Response::new(self.body().into());
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers(fields));
        response
    }

    /// The answer as raw bytes, for writing without hyper.
    pub(crate) fn to_bytes(self, fields: HeaderFields) -> Vec<u8> {
        [self.head_bytes(fields), self.body().into_bytes()].concat()
    }

    /// The head of the answer as raw bytes, which is the whole answer to a `HEAD`.
    pub(crate) fn head_bytes(self, fields: HeaderFields) -> Vec<u8> {
        let (length, date) = (self.body().len(), date());
        let mut head = format!("HTTP/1.1 {}\r\ncontent-length: {length}\r\ndate: {date}\r\n", self.status);
        for (name, value) in self.headers(fields) {
            head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
        }
        format!("{head}\r\n").into_bytes()
    }
}

/// Returns the time as `Date` has it (RFC 9110 section 5.6.7).
#[expect(clippy::disallowed_methods, reason = "hyper gives all other answers the system's time too")]
fn date() -> impl std::fmt::Display {
    Utc::now().format("%a, %d %b %Y %H:%M:%S GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_a_json_api_error() {
        for refusal in [
            Refusal::MALFORMED,
            Refusal::NO_PROXY,
            Refusal::TRANSFER_CODING,
            Refusal::HOST,
            Refusal::URI_TOO_LONG,
            Refusal::HEADERS_TOO_LARGE,
            Refusal::NO_ROOM,
        ] {
            let body: serde_json::Value = serde_json::from_str(&refusal.body()).unwrap();
            assert_eq!(body["errors"][0]["status"], refusal.status.as_str());
            assert_eq!(body["errors"][0]["detail"], refusal.detail);
        }
    }
}
