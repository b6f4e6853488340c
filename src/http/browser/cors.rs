//! Cross-origin requests (CORS): which other origins' pages may use the service. By default none may.

use warp::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
};
use warp::http::{HeaderMap, HeaderName, HeaderValue};

use crate::config::Origin;

/// Response headers that a page may read beyond those that every page may read.
const EXPOSED: &str =
    "ETag, Location, Preference-Applied, Retry-After, Collectory-Revision, Collectory-Ahead, X-Request-Id";

/// Request headers that a page may send.
const SENDABLE: &str = "Accept, Authorization, Collectory-Min-Revision, Commit-Message, Commit-Message-Encoded, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Prefer, Traceparent, X-Request-Id";

/// How long a browser may cache the answer to a preflight.
const PREFLIGHT_SECONDS_MAX: &str = "600";

/// The origins whose pages may use the service. By default there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cors {
    any: bool,
    origins: Vec<HeaderValue>,
}

impl FromIterator<Origin> for Cors {
    fn from_iter<T: IntoIterator<Item = Origin>>(origins: T) -> Self {
        let mut cors = Self::default();
        for origin in origins {
            match origin {
                Origin::Any => cors.any = true,
                Origin::One(text) => {
                    cors.origins.push(HeaderValue::try_from(text).expect("an origin is visible ASCII"));
                }
            }
        }
        cors
    }
}

impl Cors {
    pub(crate) fn is_off(&self) -> bool {
        !self.any && self.origins.is_empty()
    }

    /// Reports whether the request comes from a page of an allowed origin.
    pub(crate) fn allows_origin_of(&self, request: &HeaderMap) -> bool {
        self.allowed(request).is_some()
    }

    /// Returns the value of `Access-Control-Allow-Origin`, if the request comes from a page of an allowed origin.
    fn allowed(&self, request: &HeaderMap) -> Option<HeaderValue> {
        let origin = request.get(ORIGIN)?;
        if self.any {
            return Some(HeaderValue::from_static("*"));
        }
        self.origins.contains(origin).then(|| origin.clone())
    }

    /// Adds the CORS headers to an answer.
    pub(crate) fn add_headers(&self, request: &HeaderMap, answer: &mut Vec<(HeaderName, HeaderValue)>) {
        let Some(origin) = self.allowed(request) else { return };
        if !self.any {
            answer.push((ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true")));
        }
        answer.extend([
            (ACCESS_CONTROL_ALLOW_ORIGIN, origin),
            (ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED)),
        ]);
    }

    /// Adds the CORS headers to an answer to `OPTIONS`, which may be a preflight. `allow` lists the methods.
    pub(crate) fn decorate_preflight(
        &self,
        request: &HeaderMap,
        allow: HeaderValue,
        answer: &mut Vec<(HeaderName, HeaderValue)>,
    ) {
        if self.allowed(request).is_some() && request.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            answer.extend([
                (ACCESS_CONTROL_ALLOW_METHODS, allow),
                (ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(SENDABLE)),
                (ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS_MAX)),
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen_by(cors: &Cors, origin: &'static str) -> HeaderMap {
        let mut request = HeaderMap::new();
        request.insert(ORIGIN, HeaderValue::from_static(origin));
        let mut answer = Vec::new();
        cors.add_headers(&request, &mut answer);
        answer.into_iter().collect()
    }

    fn one(text: &str) -> Origin {
        text.parse().unwrap()
    }

    #[test]
    fn an_unknown_page_is_told_nothing() {
        let cors = Cors::from_iter([one("https://cms.example.org")]);
        let known = seen_by(&cors, "https://cms.example.org");
        assert_eq!(known[ACCESS_CONTROL_ALLOW_ORIGIN], "https://cms.example.org");
        assert_eq!(known[ACCESS_CONTROL_ALLOW_CREDENTIALS], "true");
        assert!(seen_by(&cors, "https://evil.example.org").is_empty());
    }

    #[test]
    fn where_every_page_is_known_none_sends_credentials() {
        let cors = Cors::from_iter([one("https://cms.example.org"), Origin::Any]);
        let seen = seen_by(&cors, "https://cms.example.org");
        assert_eq!(seen[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert!(!seen.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS));
    }
}
