//! Answers, and the checks that every answer must pass.

use serde_json::Value;

use super::schema;

/// Headers that an answer may have; adding another one is a design decision.
const HEADERS: &[&str] = &[
    "accept-ranges",
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-max-age",
    "allow",
    "cache-control",
    "collectory-revision",
    "collectory-ahead",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "etag",
    "location",
    "preference-applied",
    "request-id",
    "retry-after",
    "transfer-encoding",
    "vary",
    "www-authenticate",
    "x-request-id",
];

/// Status, code and title of every error.
const ERRORS: &[(u16, &str, &str)] = &[
    (400, "bad_request", "Bad Request"),
    (400, "invalid_data", "Invalid Data"),
    (401, "unauthenticated", "Authentication Error"),
    (403, "forbidden", "Forbidden"),
    (404, "not_found", "Not Found"),
    (405, "method_not_allowed", "Method Not Allowed"),
    (406, "not_acceptable", "Not Acceptable"),
    (409, "conflict", "Conflict"),
    (412, "precondition_failed", "Precondition Failed"),
    (413, "payload_too_large", "Payload Too Large"),
    (415, "unsupported_media_type", "Unsupported Media Type"),
    (422, "unprocessable", "Unprocessable Content"),
    (428, "precondition_required", "Precondition Required"),
    (500, "internal_error", "Internal Error"),
    (503, "service_unavailable", "Service Unavailable"),
    (503, "remote_refused", "Remote Refused"),
    (503, "remote_unreachable", "Remote Unreachable"),
    (503, "outcome_unknown", "Outcome Unknown"),
];

/// The request, as far as the checks of the answer need it.
#[derive(Debug, Clone)]
pub(crate) struct SentRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) document: Option<Value>,
}

/// An answer that was not checked yet.
#[derive(Debug)]
#[must_use = "say what it has to be, with `is`"]
pub(crate) struct Answer {
    pub(crate) request: SentRequest,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// An answer with the expected status that passed all checks.
#[derive(Debug)]
pub(crate) struct CheckedAnswer(Answer);

impl Answer {
    /// Asserts the status, and checks everything that holds for all answers.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> CheckedAnswer {
        assert_eq!(self.status, status, "{}", self.describe());
        self.checked()
    }

    /// Checks everything that holds for all answers, whatever the status.
    #[track_caller]
    pub(crate) fn checked(self) -> CheckedAnswer {
        self.check_headers();
        self.check_body();
        CheckedAnswer(self)
    }

    /// Returns the status, for tests that allow several.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    fn describe(&self) -> String {
        format!(
            "{} {}\n{:?}\n-> {} {:?}\n{}",
            self.request.method,
            self.request.target,
            self.request.document.as_ref().map(Value::to_string),
            self.status,
            self.headers,
            String::from_utf8_lossy(&self.body)
        )
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    #[track_caller]
    fn check_headers(&self) {
        for (name, _) in &self.headers {
            assert!(
                HEADERS.contains(&name.as_str()),
                "nobody decided on the header {name}: {}",
                self.describe()
            );
        }
        assert_eq!(self.header("cache-control"), Some("no-store"), "{}", self.describe());
        let vary = self.header("vary").unwrap_or_default().to_ascii_lowercase();
        assert!(
            vary.split(',').any(|name| name.trim() == "accept"),
            "Vary lacks Accept: {}",
            self.describe()
        );
        if let Some(tag) = self.header("etag") {
            assert!(tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"'), "not a strong tag: {tag}");
        }
        if self.status == 405 {
            assert!(self.header("allow").is_some(), "405 needs Allow: {}", self.describe());
        }
        if self.status == 503 {
            assert!(self.header("retry-after").is_some(), "503 needs Retry-After: {}", self.describe());
        }
    }

    #[track_caller]
    fn check_body(&self) {
        if self.request.method == "HEAD" || matches!(self.status, 204 | 304) {
            assert!(self.body.is_empty(), "there must be no body: {}", self.describe());
            if matches!(self.status, 204 | 304) {
                assert_eq!(self.header("content-type"), None, "{}", self.describe());
            }
            return;
        }
        let path = self.request.target.split('?').next().unwrap_or_default();
        let own = [("/openapi.json", "application/json"), ("/openapi.yaml", "application/yaml")];
        if let Some((_, media_type)) = own.iter().find(|(end, _)| path.ends_with(end) && self.status == 200) {
            assert_eq!(self.header("content-type"), Some(*media_type), "{}", self.describe());
            return;
        }
        self.check_media_type();
        let document: Value = serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.describe()));
        self.check_document(&document);
        if let Err(fault) = schema::check(&self.request, self.status, &document) {
            panic!("{fault}\n{}", self.describe());
        }
    }

    #[track_caller]
    fn check_media_type(&self) {
        let found = self.header("content-type").unwrap_or_default();
        let mut parts = found.split(';').map(str::trim);
        assert_eq!(parts.next(), Some("application/vnd.api+json"), "{}", self.describe());
        for parameter in parts {
            let name = parameter.split('=').next().unwrap_or_default();
            assert!(matches!(name, "ext" | "profile"), "{}", self.describe());
        }
    }

    /// Checks the rules of JSON:API 1.1 for a whole document.
    #[track_caller]
    fn check_document(&self, document: &Value) {
        let members = document.as_object().unwrap_or_else(|| panic!("not an object: {}", self.describe()));
        let allowed = ["data", "errors", "meta", "jsonapi", "links", "atomic:results"];
        for name in members.keys() {
            assert!(allowed.contains(&name.as_str()), "the member {name}: {}", self.describe());
        }
        let content = ["data", "errors", "meta", "atomic:results"];
        assert!(content.iter().any(|name| members.contains_key(*name)), "empty: {}", self.describe());
        if let Some(errors) = document.get("errors") {
            assert!(self.status >= 400 && !members.contains_key("data"), "{}", self.describe());
            self.check_errors(errors);
        } else {
            let health = self.request.target.ends_with("z");
            assert!(self.status < 400 || health, "errors are missing: {}", self.describe());
        }
        if self.status < 400 && members.contains_key("data") {
            assert_eq!(document["jsonapi"]["version"], "1.1", "{}", self.describe());
        }
        let resources = match &document["data"] {
            Value::Array(items) => items.iter().collect(),
            Value::Null => Vec::new(),
            one => vec![one],
        };
        let mut names = std::collections::BTreeSet::new();
        for resource in resources {
            self.check_resource(resource);
            let unique = names.insert((resource["type"].to_string(), resource["id"].to_string()));
            assert!(unique, "twice in one document: {resource}");
        }
    }

    #[track_caller]
    fn check_resource(&self, resource: &Value) {
        for name in resource.as_object().expect("a resource is an object").keys() {
            let allowed = ["id", "type", "attributes", "links", "meta"];
            assert!(allowed.contains(&name.as_str()), "the member {name}: {}", self.describe());
        }
        assert!(resource["id"].is_string() && resource["type"].is_string(), "{}", self.describe());
        let Some(kind) = resource["type"].as_str().and_then(|name| name.strip_suffix("-collection")) else {
            return;
        };
        let sparse = self.request.target.contains("fields");
        assert!(sparse || resource["attributes"]["type"] == kind, "{}", self.describe());
        let link = resource["links"]["self"].as_str().unwrap_or_default();
        let id = resource["id"].as_str().unwrap_or_default();
        let (path, query) = link.split_once('?').unwrap_or((link, ""));
        assert!(
            path.starts_with('/') && path.ends_with(&format!("/collections/{id}")),
            "{}",
            self.describe()
        );
        assert_eq!(query.starts_with("asOf="), self.request.target.contains("asOf="), "{}", self.describe());
    }

    #[track_caller]
    fn check_errors(&self, errors: &Value) {
        let errors = errors.as_array().unwrap_or_else(|| panic!("not a list: {}", self.describe()));
        assert!(!errors.is_empty(), "{}", self.describe());
        for error in errors {
            self.check_error(error);
        }
    }

    #[track_caller]
    fn check_error(&self, error: &Value) {
        for (name, value) in error.as_object().expect("an error is an object") {
            match name.as_str() {
                "status" | "code" | "title" | "detail" | "id" => {
                    assert!(
                        value.as_str().is_some_and(|text| !text.is_empty()),
                        "{name}: {}",
                        self.describe()
                    );
                }
                "source" | "links" | "meta" => assert!(value.is_object(), "{name}: {}", self.describe()),
                _ => panic!("the member {name}: {}", self.describe()),
            }
        }
        for name in ["status", "code", "title", "detail"] {
            assert!(error.get(name).is_some(), "{name} is missing: {}", self.describe());
        }
        assert_eq!(error["status"], self.status.to_string(), "{}", self.describe());
        let (code, title) = (error["code"].as_str(), error["title"].as_str());
        let known: Vec<_> = ERRORS.iter().filter(|(status, ..)| *status == self.status).collect();
        let agrees = known.iter().any(|(_, a, b)| code == Some(*a) && title == Some(*b));
        assert!(known.is_empty() || agrees, "code and title: {}", self.describe());
        if let Some(source) = error.get("source") {
            self.check_source(source);
        }
    }

    /// Checks that an error has one source, and that a pointer refers to something in the request (jsonapi.md, D8).
    #[track_caller]
    fn check_source(&self, source: &Value) {
        let source = source.as_object().expect("a source is an object");
        assert_eq!(source.len(), 1, "{}", self.describe());
        let (name, value) = source.iter().next().expect("it has one member");
        assert!(matches!(name.as_str(), "pointer" | "parameter" | "header"), "{}", self.describe());
        let value = value.as_str().unwrap_or_else(|| panic!("not a string: {}", self.describe()));
        if let (Some(document), "pointer") = (&self.request.document, name.as_str()) {
            assert!(document.pointer(value).is_some(), "{value} is not in the request: {}", self.describe());
        }
    }
}

impl CheckedAnswer {
    /// Returns the body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.0.body).expect("the body was checked to be JSON")
    }

    /// Returns the member `data`.
    #[track_caller]
    pub(crate) fn data(&self) -> Value {
        self.json()["data"].clone()
    }

    /// Returns the attributes of the single resource.
    #[track_caller]
    pub(crate) fn attributes(&self) -> Value {
        self.json()["data"]["attributes"].clone()
    }

    /// Returns the ids of the resources in their order.
    #[track_caller]
    pub(crate) fn ids(&self) -> Vec<String> {
        let json = self.json();
        let items = json["data"].as_array().expect("the answer is a list");
        items.iter().map(|item| item["id"].as_str().expect("an id is a string").to_owned()).collect()
    }

    /// Returns a header that must be present.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> String {
        self.0.header(name).unwrap_or_else(|| panic!("{name} is missing: {}", self.0.describe())).to_owned()
    }

    /// Returns a header that may be absent.
    pub(crate) fn header_if_any(&self, name: &str) -> Option<String> {
        self.0.header(name).map(str::to_owned)
    }

    /// Returns the code and the source of the first error.
    #[track_caller]
    pub(crate) fn error(&self) -> (String, Value) {
        let error = &self.json()["errors"][0];
        (error["code"].as_str().unwrap_or_default().to_owned(), error["source"].clone())
    }

    /// Returns the detail of the first error.
    #[track_caller]
    pub(crate) fn detail(&self) -> String {
        self.json()["errors"][0]["detail"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the body as it arrived.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0.body
    }

    pub(crate) fn status(&self) -> u16 {
        self.0.status
    }
}
