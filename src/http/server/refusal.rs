//! What the server answers by itself, before or in place of the routes.

use warp::http::{HeaderValue, StatusCode, header};
use warp::reply::Response;

use crate::http::header::X_REQUEST_ID;
use crate::telemetry::Limit;

/// One JSON:API error that ends a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: &'static str,
    retry_after_s: Option<u64>,
}

impl Refusal {
    const fn new(status: StatusCode, code: &'static str, title: &'static str, detail: &'static str) -> Self {
        Self { status, code, title, detail, retry_after_s: None }
    }

    /// The head is not HTTP/1.1.
    pub(crate) const fn malformed() -> Self {
        let detail = "The head of the request is not well-formed HTTP/1.1.";
        Self::new(StatusCode::BAD_REQUEST, "bad_request", "Bad Request", detail)
    }

    /// A tunnel is asked for.
    pub(crate) const fn no_proxy() -> Self {
        let detail = "This service is no proxy and opens no tunnels.";
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", "Not Implemented", detail)
    }

    /// There is not exactly one `Host`.
    pub(crate) const fn host() -> Self {
        let detail = "A request has exactly one Host header, which names a host and may name a port (RFC 9112 section 3.2).";
        Self::new(StatusCode::BAD_REQUEST, "bad_request", "Bad Request", detail)
    }

    /// The path and query are too long.
    pub(crate) const fn uri_too_long() -> Self {
        let detail = "The path and query of the request are longer than this service takes.";
        Self::new(StatusCode::URI_TOO_LONG, "uri_too_long", "URI Too Long", detail)
    }

    /// There are too many header fields, or too much in them.
    pub(crate) const fn headers_too_large() -> Self {
        let detail = "The header fields of the request are more than 100, or larger than this service takes.";
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Self::new(status, "header_fields_too_large", "Request Header Fields Too Large", detail)
    }

    /// All connections are taken.
    pub(crate) const fn no_room() -> Self {
        let detail = "This service has as many connections as it takes; try again shortly.";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let refusal = Self::new(status, "service_unavailable", "Service Unavailable", detail);
        Self { retry_after_s: Some(1), ..refusal }
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// The limit that was reached, if it was one.
    pub(crate) fn limit(&self) -> Option<Limit> {
        match self.status {
            StatusCode::URI_TOO_LONG => Some(Limit::UriBytes),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Some(Limit::HeaderBytes),
            StatusCode::SERVICE_UNAVAILABLE => Some(Limit::Connections),
            _ => None,
        }
    }

    /// The texts are all ours and hold nothing that JSON would need to escape.
    pub(crate) fn body(&self) -> String {
        let Self { status, code, title, detail, .. } = self;
        format!(
            r#"{{"jsonapi":{{"version":"1.1"}},"errors":[{{"status":"{}","code":"{code}","title":"{title}","detail":"{detail}"}}]}}"#,
            status.as_str()
        )
    }

    /// The answer as hyper sends it; the connection ends after it.
    pub(crate) fn into_response(self, id: Option<HeaderValue>) -> Response {
        let mut response = Response::new(self.body().into());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/vnd.api+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        headers.extend(id.map(|id| (X_REQUEST_ID, id)));
        response
    }

    /// The answer as it goes over the wire where hyper has no part in it.
    pub(crate) fn to_bytes(&self, id: Option<&HeaderValue>) -> Vec<u8> {
        let body = self.body();
        let retry = self.retry_after_s.map(|s| format!("retry-after: {s}\r\n")).unwrap_or_default();
        let id = id.and_then(|id| id.to_str().ok());
        let id = id.map(|id| format!("{X_REQUEST_ID}: {id}\r\n")).unwrap_or_default();
        format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/vnd.api+json\r\ncache-control: no-store\r\n\
             vary: Accept\r\nconnection: close\r\n{retry}{id}content-length: {}\r\n\r\n{body}",
            self.status.as_str(),
            self.title,
            body.len()
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_a_json_api_error() {
        for refusal in [
            Refusal::malformed(),
            Refusal::no_proxy(),
            Refusal::host(),
            Refusal::uri_too_long(),
            Refusal::headers_too_large(),
            Refusal::no_room(),
        ] {
            let body: serde_json::Value = serde_json::from_str(&refusal.body()).unwrap();
            assert_eq!(body["errors"][0]["status"], refusal.status.as_str());
            assert_eq!(body["errors"][0]["detail"], refusal.detail);
        }
    }
}
