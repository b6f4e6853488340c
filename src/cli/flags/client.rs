//! The HTTP client of the commands that work through a running service.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// The timeout of a request: a write waits for the disk and for locks of other programs.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

/// The characters to encode in a path and in a header: all but the unreserved ones (RFC 3986 section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const JSON_API: &str = "application/vnd.api+json";

/// The media type of JSON:API with the atomic operations extension.
const JSON_API_ATOMIC: &str = "application/vnd.api+json;ext=\"https://jsonapi.org/ext/atomic\"";

/// The maximum size of a document.
const DOCUMENT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The service to use, and its token.
#[derive(Debug, clap::Args)]
pub(crate) struct Client {
    /// Let the service at this address do it, instead of opening the repository.
    #[arg(long = "to", env = "COLLECTORY_TO", value_name = "URL")]
    url: Option<Url>,

    /// The file with the bearer token for the service.
    #[arg(long, env = "COLLECTORY_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The address of a service, with its base path.
#[derive(Debug, Clone)]
pub(crate) struct Url(String);

impl std::str::FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.starts_with("http://") && !text.starts_with("https://") {
            return Err(
                "write http://HOST:PORT/ or https://HOST/, and the base path if there is one".to_owned()
            );
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

impl Url {
    /// Returns the URL of a path below this one.
    pub(crate) fn join(&self, parts: &[&str]) -> String {
        let parts = parts.iter().map(|part| format!("/{}", utf8_percent_encode(part, RESERVED)));
        std::iter::once(self.0.clone()).chain(parts).collect()
    }
}

/// The result of a request to change something.
pub(crate) struct ChangeReport {
    pub(crate) what: &'static str,
    pub(crate) revision: Option<String>,
}

impl Client {
    /// Returns the address of the service, if one was given.
    pub(crate) const fn url(&self) -> Option<&Url> {
        self.url.as_ref()
    }

    /// Asks the service to change something. A service that requires the entity tag of what is changed returns it,
    /// and the request is repeated with it.
    ///
    /// # Errors
    ///
    /// Says why the service was not reached, or returns its error.
    pub(crate) fn post(
        &self,
        url: &str,
        body: Option<&Value>,
        reason: Option<&str>,
    ) -> anyhow::Result<ChangeReport> {
        let send =
            |tag: Option<&str>| self.send(url, body.map(|body| (JSON_API, body.to_string())), reason, tag);
        let report = send(None);
        match report.as_ref().err().and_then(wanted_tag) {
            Some(tag) => send(Some(tag)),
            None => report,
        }
    }

    /// Asks the service to carry out a batch.
    ///
    /// # Errors
    ///
    /// Says why the service was not reached, or returns its error.
    pub(crate) fn operate(
        &self,
        url: &str,
        body: String,
        reason: Option<&str>,
    ) -> anyhow::Result<ChangeReport> {
        self.send(url, Some((JSON_API_ATOMIC, body)), reason, None)
    }

    /// Reads a document of the service; returns its bytes and its entity tag.
    ///
    /// # Errors
    ///
    /// Says why the service was not reached, or returns its error.
    pub(crate) fn get(&self, url: &str) -> anyhow::Result<(Vec<u8>, Option<String>)> {
        let mut request = self.agent().get(url).header("Accept", JSON_API);
        if let Some(token) = self.token()? {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = succeeded(url, request.call())?;
        let tag = header(&response, "ETag");
        let body = response.body_mut().with_config().limit(DOCUMENT_BYTES_MAX).read_to_vec();
        Ok((body.with_context(|| format!("cannot read what {url} answers"))?, tag))
    }

    fn send(
        &self,
        url: &str,
        body: Option<(&str, String)>,
        reason: Option<&str>,
        if_match: Option<&str>,
    ) -> anyhow::Result<ChangeReport> {
        let mut request = self.agent().post(url).header("Accept", "*/*");
        if let Some(token) = self.token()? {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(reason) = reason {
            let encoded = utf8_percent_encode(reason, RESERVED).to_string();
            request = request.header("Commit-Message-Encoded", encoded);
        }
        if let Some(tag) = if_match {
            request = request.header("If-Match", tag);
        }
        let sent = match body {
            Some((media_type, body)) => request.content_type(media_type).send(body),
            None => request.send_empty(),
        };
        let response = succeeded(url, sent)?;
        let what = if response.status().as_u16() == 204 { "deleted" } else { "done" };
        Ok(ChangeReport { what, revision: header(&response, "Collectory-Revision") })
    }

    fn token(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the token file {}", path.display()))?;
        let token = text.trim();
        if token.is_empty() || token.contains(char::is_whitespace) {
            return Err(anyhow!("the token file {} holds one token and nothing else", path.display()));
        }
        Ok(Some(token.to_owned()))
    }

    fn agent(&self) -> Agent {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(REQUEST_TIME_MAX))
            // A redirect could send the token to another host.
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("collectory/", env!("CARGO_PKG_VERSION")))
            .build();
        config.into()
    }
}

/// An error answer of a service.
#[derive(Debug, thiserror::Error)]
#[error("{url} answers {status}: {detail}")]
struct ErrorAnswer {
    url: String,
    status: u16,
    detail: String,
    /// The entity tag of the resource to be changed.
    tag: Option<String>,
}

/// Returns the entity tag that the service requires for the change.
fn wanted_tag(error: &anyhow::Error) -> Option<&str> {
    let refused = error.downcast_ref::<ErrorAnswer>().filter(|refused| refused.status == 428)?;
    refused.tag.as_deref()
}

/// Whether the service refused the change, so that nothing was done.
pub(crate) fn is_refused(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ErrorAnswer>().is_some_and(|refused| (400..500).contains(&refused.status))
}

/// Returns a successful answer, or else the error.
fn succeeded(url: &str, answer: Result<Response<Body>, ureq::Error>) -> anyhow::Result<Response<Body>> {
    let mut response = answer.with_context(|| format!("cannot reach {url}"))?;
    let status = response.status().as_u16();
    if !(200..300).contains(&status) {
        let tag = header(&response, "ETag");
        let answered = response.body_mut().read_to_string().unwrap_or_default();
        return Err(ErrorAnswer { url: url.to_owned(), status, detail: detail(&answered), tag }.into());
    }
    Ok(response)
}

fn header(response: &Response<Body>, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Returns the details of the JSON:API errors, or the first line of any other answer.
fn detail(answered: &str) -> String {
    let parsed: Value = serde_json::from_str(answered).unwrap_or_default();
    let errors = parsed["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let details: Vec<&str> = errors.iter().filter_map(|error| error["detail"].as_str()).collect();
    if details.is_empty() {
        answered.lines().next().unwrap_or_default().to_owned()
    } else {
        details.join(" ")
    }
}
