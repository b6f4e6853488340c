//! Bad input: each case gets its own clear answer and changes nothing.
//!
//! The cases are tables, one file for each kind of error. All of them go to one running service as raw bytes, so that
//! no client corrects them on the way.

mod attributes;
mod bodies;
mod documents;
mod framing;
mod headers;
mod keys;
mod urls;

use serde_json::{Value, json};

use crate::support::{JSON_API, RawRequest, TestServer};

/// A request that must be refused.
pub(crate) struct Case {
    request: RawRequest,
    typed: bool,
    status: u16,
    code: Option<&'static str>,
    source: Option<Value>,
}

/// Starts a case.
pub(crate) fn case(method: &str, target: &str) -> Case {
    Case { request: RawRequest::new(method, target), typed: false, status: 400, code: None, source: None }
}

/// A request that creates a collection with this body, sent as JSON:API.
pub(crate) fn post(body: impl Into<Vec<u8>>) -> Case {
    case("POST", "/collections").text(body)
}

/// A request that updates `posts` with this body.
pub(crate) fn patch(body: impl Into<Vec<u8>>) -> Case {
    case("PATCH", "/collections/posts").text(body)
}

impl Case {
    /// Sets a body with the media type of JSON:API.
    pub(crate) fn text(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.request = self.request.body(body);
        self.typed = true;
        self
    }

    /// Sets a body without a media type.
    pub(crate) fn untyped(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.request = self.request.body(body);
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    /// Sets the expected status and code.
    pub(crate) fn is(mut self, status: u16, code: &'static str) -> Self {
        self.status = status;
        self.code = Some(code);
        self
    }

    /// Sets the expected status.
    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn pointer(self, pointer: &str) -> Self {
        self.source("pointer", pointer)
    }

    pub(crate) fn parameter(self, name: &str) -> Self {
        self.source("parameter", name)
    }

    pub(crate) fn source_header(self, name: &str) -> Self {
        self.source("header", name)
    }

    fn source(mut self, kind: &str, value: &str) -> Self {
        self.source = Some(json!({ kind: value }));
        self
    }

    fn shown(&self) -> String {
        let body = String::from_utf8_lossy(&self.request.body);
        let short: String = body.chars().take(200).collect();
        format!("{} {} {:?} {short}", self.request.method, self.request.target, self.request.headers)
    }

    /// Sends the request; returns what is wrong with the answer.
    fn fault(&self, server: &TestServer) -> Option<String> {
        let mut request = self.request.clone();
        if self.typed {
            request = request.header("Content-Type", JSON_API);
        }
        let answer = request.send(server.address());
        let status = answer.status();
        if self.status != status {
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            return Some(format!("expected {}, found {status}: {body}", self.status));
        }
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer.checked()));
        let Ok(answer) = checked else { return Some("the answer breaks a rule (see above)".into()) };
        if self.request.method == "HEAD" {
            return None;
        }
        let (code, source) = answer.error();
        if self.code.is_some_and(|expected| expected != code) {
            return Some(format!("expected {:?}, found {code}: {}", self.code, answer.detail()));
        }
        match &self.source {
            Some(expected) if *expected != source => {
                Some(format!("expected source {expected}, found {source}: {}", answer.detail()))
            }
            _ => None,
        }
    }
}

#[tokio::test]
async fn every_bad_input_has_its_own_answer_and_changes_nothing() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    let before = server.list().await.is(200).json();
    let tables = [
        bodies::cases(),
        documents::cases(),
        keys::cases(),
        attributes::cases(),
        urls::cases(),
        headers::cases(),
    ];
    let cases: Vec<_> = tables.into_iter().flatten().collect();
    assert!(cases.len() >= 150, "only {} cases", cases.len());
    let mut faults = Vec::new();
    for case in &cases {
        faults.extend(case.fault(&server).map(|fault| format!("{}\n    {fault}", case.shown())));
        if server.repo().head() != head {
            faults.push(format!("{}\n    moved the branch", case.shown()));
            break;
        }
    }
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), cases.len(), faults.join("\n"));
    assert_eq!(server.list().await.is(200).json(), before);
}
