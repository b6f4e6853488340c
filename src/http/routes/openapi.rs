//! `/openapi.json` and `/openapi.yaml`: the contract, written by hand in `openapi.yaml`.
//!
//! `servers` contains the absolute address that the request used, so that a page which shows the document can try
//! it out: scheme and host as a proxy forwarded them (`X-Forwarded-Proto`, `X-Forwarded-Host`), else the service's
//! own scheme and the host that the request is for. These come from the caller and are returned only to the caller
//! (`no-store`), so they need not be trusted. Without any host only the base path is given, which OpenAPI reads as
//! relative.

use std::sync::LazyLock;

use bytes::Bytes;
use warp::http::header::HeaderName;
use warp::http::{HeaderMap, StatusCode};

use crate::config::BasePath;
use crate::http::authorize::Action;
use crate::http::header::{X_FORWARDED_HOST, is_host};
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::{negotiate, query};
use crate::http::reply::Reply;
use crate::http::request::call::Call;

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The document as it was written by hand.
const DOCUMENT: &str = include_str!("../openapi.yaml");

/// The block `servers` of the handwritten document.
const SERVERS: &str = "servers:\n  - url: http://127.0.0.1:8080\n    description: This service\n";

const PLACEHOLDER: &str = "collectory-address-of-the-request";

/// `GET /openapi.json`
pub(crate) async fn json(call: &Call<'_>) -> Result<Reply, ApiError> {
    read(call, "application/json", &JSON).await
}

/// `GET /openapi.yaml`
pub(crate) async fn yaml(call: &Call<'_>) -> Result<Reply, ApiError> {
    read(call, "application/yaml", &YAML).await
}

async fn read(
    call: &Call<'_>,
    media_type: &'static str,
    document: &LazyLock<Template>,
) -> Result<Reply, ApiError> {
    negotiate::content_type_without_body(call.headers())?;
    call.authorize(Action::ReadOpenApi).await?;
    query::none(&call.query()?)?;
    let (speaks_tls, base) = (call.context.access.speaks_tls, &call.context.settings.base_path);
    let address = address(call.headers(), call.head.host(), speaks_tls, base);
    Ok(Reply::typed(StatusCode::OK, media_type, document.at(&address)))
}

/// Returns the absolute address that the request used, without a trailing `/`. `host` is the one that it is for.
fn address(headers: &HeaderMap, host: Option<&[u8]>, is_secured: bool, base: &BasePath) -> String {
    let text = |name: &HeaderName| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.and_then(|value| value.split(',').next()).map(str::trim)
    };
    let asked = host.and_then(|host| std::str::from_utf8(host).ok());
    let own_scheme = if is_secured { "https" } else { "http" };
    let scheme =
        text(&X_FORWARDED_PROTO).filter(|scheme| matches!(*scheme, "http" | "https")).unwrap_or(own_scheme);
    let is_named = |host: &&str| is_host(host);
    match text(&X_FORWARDED_HOST).filter(is_named).or(asked.filter(is_named)) {
        Some(host) => format!("{scheme}://{host}{}", base.as_str()),
        None if base.as_str().is_empty() => "/".to_owned(),
        None => base.as_str().to_owned(),
    }
}

/// A document that is complete except for the address in its middle.
struct Template {
    head: String,
    tail: String,
}

impl Template {
    fn new(text: &str) -> Self {
        let (head, tail) =
            text.split_once(PLACEHOLDER).expect("BUG: openapi.yaml has another block `servers`");
        Self { head: head.to_owned(), tail: tail.to_owned() }
    }

    /// Inserts the address, which needs no escaping: it consists of a host and a base path.
    fn at(&self, address: &str) -> Bytes {
        [&self.head, address, &self.tail].concat().into()
    }
}

static YAML: LazyLock<Template> = LazyLock::new(|| Template::new(&with_placeholder()));

static JSON: LazyLock<Template> = LazyLock::new(|| {
    let document: serde_json::Value = serde_yaml::from_str(&with_placeholder())
        .expect("BUG: openapi.yaml is not YAML that can be written as JSON");
    Template::new(&serde_json::to_string_pretty(&document).expect("a value can be written as JSON"))
});

#[cfg(test)]
pub(crate) fn document() -> serde_json::Value {
    serde_json::from_slice(&JSON.at("/")).expect("the document is JSON")
}

/// The document with its block `servers` replaced; everything else keeps its bytes.
fn with_placeholder() -> String {
    DOCUMENT.replacen(SERVERS, &format!("servers:\n  - url: \"{PLACEHOLDER}\"\n"), 1)
}

#[cfg(test)]
mod tests {
    use warp::http::HeaderValue;

    use super::*;

    #[test]
    fn the_address_is_the_one_that_the_request_used() {
        for (host, sent, address_shown) in [
            ("localhost:8080", &[][..], "http://localhost:8080/api"),
            ("a", &[("x-forwarded-proto", "https")], "https://a/api"),
            (
                "a",
                &[("x-forwarded-host", "b.org, c"), ("x-forwarded-proto", "https, http")],
                "https://b.org/api",
            ),
            ("a", &[("x-forwarded-proto", "javascript")], "http://a/api"),
            ("[::1]:80", &[], "http://[::1]:80/api"),
            ("a\"b", &[], "/api"),
            ("user@a", &[], "/api"),
            ("", &[], "/api"),
        ] {
            let headers = sent
                .iter()
                .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value)));
            let base = "/api".parse::<BasePath>().unwrap();
            let shown = address(&headers.collect(), Some(host.as_bytes()), false, &base);
            assert_eq!(shown, address_shown, "{host} {sent:?}");
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        let json: serde_json::Value = serde_json::from_slice(&JSON.at("http://a/b")).unwrap();
        let yaml: serde_json::Value = serde_yaml::from_slice(&YAML.at("http://a/b")).unwrap();
        assert_eq!(json, yaml);
        assert_eq!(json["servers"], serde_json::json!([{"url": "http://a/b"}]));
        assert_eq!(json["info"]["version"], "1.0.0");
        assert_eq!(json["openapi"], "3.1.0");
    }
}
