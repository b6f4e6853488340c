//! HTTP header fields by name.

use warp::http::header::CONTENT_LENGTH;
use warp::http::uri::Authority;
use warp::http::{HeaderMap, HeaderName, HeaderValue};

/// The request id, in requests and in answers.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The host that a proxy was asked for.
pub(crate) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Returns the values of all fields with this name, in order. Requests have few fields, so comparing names costs less
/// than a lookup, which has to hash the name.
pub(crate) fn fields<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h HeaderValue> {
    headers.iter().filter(move |(field, _)| *field == name).map(|(_, value)| value)
}

/// Returns the value of the first field with this name.
pub(crate) fn field<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    fields(headers, name).next()
}

/// Whether a field may name this host: a name or an address, and an optional port (RFC 9110 section 7.2).
pub(crate) fn is_host(text: &str) -> bool {
    // A fast path for common hosts, because this runs for each request.
    let (name, port) = text.split_once(':').unwrap_or((text, ""));
    if !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-')) {
        return port.bytes().all(|c| c.is_ascii_digit());
    }
    let Ok(authority) = text.parse::<Authority>() else { return false };
    let port = &text[authority.host().len().min(text.len())..];
    !text.contains('@') && port.trim_start_matches(':').bytes().all(|c| c.is_ascii_digit())
}

/// Returns the declared length of the body.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_a_port() {
        for host in
            ["localhost", "localhost:8080", "a.example:", "127.0.0.1:1", "[::1]", "[::1]:80", "a_b", "xn--a"]
        {
            assert!(is_host(host), "{host}");
        }
        for none in ["", "a b", "me@host", "host:http", "ex<ample", "a/b", "[::1", "host:1:2", "a,b c"] {
            assert!(!is_host(none), "{none}");
        }
    }
}
