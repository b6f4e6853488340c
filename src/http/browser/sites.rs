//! Protection of an open service, which no token guards, against web pages of other sites.
//!
//! A browser lets any page send requests to this machine's own addresses. Two rules keep out those of other sites.
//! The service answers only to host names that lead here whatever a name server says, because a page could
//! otherwise point its own name here (DNS rebinding). And it refuses writes that the browser attributes to another
//! site, because browsers send some writes without a preflight.

use std::net::IpAddr;

use warp::http::header::{HOST, ORIGIN};
use warp::http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::http::browser::cors::Cors;
use crate::http::header::X_FORWARDED_HOST;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};

pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The host names by which a service may be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Hosts {
    /// Any name.
    #[default]
    Any,
    /// The names of the loopback interface, and these, which are in lower case, with or without a port.
    Loopback(Vec<String>),
}

impl Hosts {
    /// Refuses a request that is meant for another host.
    ///
    /// # Errors
    ///
    /// 421.
    pub(crate) fn check(&self, host: &[u8]) -> Result<(), ApiError> {
        if self.contain(host) {
            return Ok(());
        }
        let detail = "This service is open to this machine alone and does not know that host; it can be started with --allow-host.";
        Err(ErrorObject::new(Code::MISDIRECTED_REQUEST, detail).at_header("Host").into())
    }

    /// Reports whether a request with this `Host`, which may have a port, is meant for this service.
    fn contain(&self, host: &[u8]) -> bool {
        let Self::Loopback(known) = self else { return true };
        // Most programs use the address itself, which is the first entry.
        if known.first().is_some_and(|address| host == address.as_bytes()) {
            return true;
        }
        let Ok(host) = str::from_utf8(host) else { return false };
        let is_known = |host: &str| known.iter().any(|known| known.eq_ignore_ascii_case(host));
        let name = without_port(host);
        is_known(host) || is_known(name) || is_loopback(name)
    }
}

fn without_port(host: &str) -> &str {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && (!name.contains(':') || name.ends_with(']')) => name,
        _ => host,
    }
}

/// Reports whether the name is `localhost`, a name below it, or a loopback address. The names always resolve to
/// loopback addresses (RFC 6761 section 6.3).
fn is_loopback(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_localhost = name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"));
    is_localhost || address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Refuses a write that comes from a web page of another site.
///
/// # Errors
///
/// 403.
pub(crate) fn check_site(cors: &Cors, method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if is_read || cors.allows_origin_of(headers) {
        return Ok(());
    }
    let cross_site = headers.get(SEC_FETCH_SITE).is_some_and(|site| site.as_bytes() == b"cross-site");
    let foreign = is_foreign(headers);
    if !cross_site && !foreign {
        return Ok(());
    }
    let (detail, header) = if foreign {
        ("Web pages of this origin may not write; the service can be started with --cors-origin.", "Origin")
    } else {
        ("Web pages of other sites may not write.", "Sec-Fetch-Site")
    };
    Err(ErrorObject::new(Code::FORBIDDEN, detail).at_header(header).into())
}

/// Reports whether the request's `Origin` is another origin.
pub(crate) fn is_foreign(headers: &HeaderMap) -> bool {
    let is_here = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| is_own(origin, headers));
    headers.get(ORIGIN).is_some_and(|origin| !is_here(origin))
}

/// Reports whether an origin is the one that the request was sent to, also behind a proxy.
fn is_own(origin: &str, headers: &HeaderMap) -> bool {
    let Some((scheme, host)) = origin.split_once("://") else { return false };
    let own_port = if scheme == "https" { ":443" } else { ":80" };
    let plain = |host: &str| {
        let host = host.trim().to_ascii_lowercase();
        host.strip_suffix(own_port).map_or_else(|| host.clone(), str::to_owned)
    };
    [HOST, X_FORWARDED_HOST]
        .iter()
        .filter_map(|name| headers.get(name)?.to_str().ok())
        .any(|own| plain(own) == plain(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_lead_here_whatever_happens_are_of_the_loopback() {
        let hosts = Hosts::Loopback(vec!["settings.test".to_owned(), "cms.test:81".to_owned()]);
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "a.localhost",
            "127.0.0.1:80",
            "127.9.9.9",
            "[::1]:8080",
            "[::1]",
            "localhost.",
            "settings.test",
            "Settings.test:8080",
            "cms.test:81",
        ] {
            assert!(hosts.contain(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "[::2]",
            "cms.test",
            "cms.test:82",
            "0.0.0.0",
            "notlocalhost",
            "localhost@evil.example",
            "evil.example@localhost",
        ] {
            assert!(!hosts.contain(host.as_bytes()), "{host}");
        }
        assert!(Hosts::Any.contain(b"evil.example"));
    }

    #[test]
    fn an_origin_is_the_request_s_own_by_its_host_and_port() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "Localhost:8080".parse().unwrap());
        assert!(is_own("http://localhost:8080", &headers));
        for origin in ["http://localhost", "http://localhost:8081", "null", "https://evil.example"] {
            assert!(!is_own(origin, &headers), "{origin}");
        }
        headers.insert(X_FORWARDED_HOST, "cms.example.org".parse().unwrap());
        assert!(
            is_own("https://cms.example.org", &headers) && is_own("https://cms.example.org:443", &headers)
        );
    }
}
