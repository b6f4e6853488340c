//! Which web pages of other origins may use the service: none, unless told so.

use warp::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
};
use warp::http::{HeaderMap, HeaderValue};

/// What a page may read of an answer beyond the headers that every page may read.
const EXPOSED: &str = "ETag, Location, Retry-After, Collectory-Revision, X-Request-Id";

/// What a page may send.
const SENDABLE: &str = "Accept, Authorization, Commit-Message, Content-Type, If-Match, If-None-Match, Last-Event-ID, X-Request-Id";

/// How long a browser may remember the answer to a preflight.
const PREFLIGHT_SECONDS_MAX: &str = "600";

/// The origins whose pages may use the service; by default none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cors {
    any: bool,
    origins: Vec<HeaderValue>,
}

impl Cors {
    /// Parses origins such as `https://cms.example.org`; `*` stands for all.
    ///
    /// # Errors
    ///
    /// Names the first text that is no origin.
    pub fn parse<T: AsRef<str>>(origins: impl IntoIterator<Item = T>) -> Result<Self, String> {
        let mut cors = Self::default();
        for origin in origins {
            let text = origin.as_ref();
            if text == "*" {
                cors.any = true;
            } else {
                cors.origins.push(parsed(text)?);
            }
        }
        Ok(cors)
    }

    pub(super) fn is_off(&self) -> bool {
        !self.any && self.origins.is_empty()
    }

    /// What to allow to the page that asks, if it is one and known.
    fn allowed(&self, request: &HeaderMap) -> Option<HeaderValue> {
        let origin = request.get(ORIGIN)?;
        if self.any {
            return Some(HeaderValue::from_static("*"));
        }
        self.origins.contains(origin).then(|| origin.clone())
    }

    /// Adds what the browser needs to know to the headers of an answer.
    pub(super) fn decorate(&self, request: &HeaderMap, answer: &mut HeaderMap) {
        let Some(origin) = self.allowed(request) else { return };
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }

    /// The same for an answer to `OPTIONS`, which may be a preflight; `allow` lists the methods.
    pub(super) fn decorate_preflight(
        &self,
        request: &HeaderMap,
        allow: &'static str,
        answer: &mut HeaderMap,
    ) {
        if self.allowed(request).is_some() && request.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(allow));
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(SENDABLE));
            answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS_MAX));
        }
    }
}

/// An origin has a scheme and a host and, unless it is the scheme's own, a port: what browsers
/// send, compared byte by byte.
fn parsed(text: &str) -> Result<HeaderValue, String> {
    let wrong = || format!("{text:?} is no origin; write `https://cms.example.org` or `*`");
    let (scheme, host) = text.split_once("://").ok_or_else(wrong)?;
    if scheme.is_empty() || host.is_empty() || host.contains(['/', '?', '#', '@', ' ', '*']) {
        return Err(wrong());
    }
    HeaderValue::from_str(text).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_are_taken() {
        for text in ["https://cms.example.org", "http://localhost:3000", "*", "tauri://localhost"] {
            assert!(Cors::parse([text]).is_ok(), "{text}");
        }
        for text in ["", "cms.example.org", "https://", "https://a/b", "https://*.a.org", "://a"] {
            assert!(Cors::parse([text]).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_page_is_told_nothing() {
        let cors = Cors::parse(["https://cms.example.org"]).unwrap();
        let seen_by = |origin: &'static str| {
            let mut request = HeaderMap::new();
            request.insert(ORIGIN, HeaderValue::from_static(origin));
            let mut answer = HeaderMap::new();
            cors.decorate(&request, &mut answer);
            answer.get(ACCESS_CONTROL_ALLOW_ORIGIN).cloned()
        };
        assert_eq!(seen_by("https://cms.example.org").unwrap(), "https://cms.example.org");
        assert_eq!(seen_by("https://evil.example.org"), None);
    }
}
