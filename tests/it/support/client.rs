//! An ordinary HTTP client whose every answer is checked.

use std::io::Read as _;
use std::net::SocketAddr;

use reqwest::Method;
use serde_json::{Value, json};

use super::answer::{Answer, SentRequest};
use super::documents::document;

pub(crate) const JSON_API: &str = "application/vnd.api+json";

/// The media type of atomic operations.
pub(crate) const ATOMIC: &str = "application/vnd.api+json;ext=\"https://jsonapi.org/ext/atomic\"";

/// A client of one service.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    address: SocketAddr,
    base: String,
    token: Option<String>,
}

/// A request that was not sent yet.
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub(crate) struct Request {
    http: reqwest::RequestBuilder,
    asked: SentRequest,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, base: &str) -> Self {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(super::patience::DEADLINE)
            .build()
            .expect("a client can be made");
        Self { http, address, base: base.trim_end_matches('/').to_owned(), token: None }
    }

    /// Returns the same client with a bearer token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// Returns the path of a collection, or of anything else below the base path.
    pub(crate) fn path(&self, below: &str) -> String {
        format!("{}{below}", self.base)
    }

    /// Begins a request; `target` is below the base path.
    pub(crate) fn request(&self, method: &str, target: &str) -> Request {
        let target = self.path(target);
        let url = format!("http://{}{target}", self.address);
        let verb = Method::from_bytes(method.as_bytes()).expect("a method is a token");
        let mut http = self.http.request(verb, url);
        if let Some(token) = &self.token {
            http = http.header("Authorization", format!("Bearer {token}"));
        }
        Request { http, asked: SentRequest { method: method.to_owned(), target, document: None } }
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.request("GET", target).send().await
    }

    /// Begins a request with a body, if there is one, in the media type of its path.
    pub(crate) fn request_with(&self, method: &str, target: &str, body: Option<&Value>) -> Request {
        let request = self.request(method, target);
        match body {
            Some(body) if target == "/operations" => request.body(ATOMIC, body),
            Some(body) => request.document(body),
            None => request,
        }
    }

    /// Lists all collections.
    pub(crate) async fn list(&self) -> Answer {
        self.get("/collections").await
    }

    /// Reads one collection.
    pub(crate) async fn read(&self, key: &str) -> Answer {
        self.get(&format!("/collections/{key}")).await
    }

    /// Creates a collection from a whole request document.
    pub(crate) async fn create(&self, body: &Value) -> Answer {
        self.request("POST", "/collections").document(body).send().await
    }

    /// Changes attributes of a document collection.
    pub(crate) async fn patch(&self, key: &str, attributes: Value) -> Answer {
        self.update(key, &document(key, attributes)).await
    }

    /// Renames a document collection; returns the revision.
    pub(crate) async fn rename(&self, key: &str, name: &str) -> String {
        self.patch(key, json!({"name": name})).await.is(200).header("collectory-revision")
    }

    /// Updates a collection with a whole request document.
    pub(crate) async fn update(&self, key: &str, body: &Value) -> Answer {
        self.request("PATCH", &format!("/collections/{key}")).document(body).send().await
    }

    pub(crate) async fn delete(&self, key: &str) -> Answer {
        self.request("DELETE", &format!("/collections/{key}")).send().await
    }

    /// Returns the id of the newest event of a collection.
    pub(crate) async fn newest_event(&self, key: &str) -> String {
        self.get(&format!("/collections/{key}/events?page[size]=1")).await.is(200).ids().remove(0)
    }

    pub(crate) async fn undo(&self, event: &str) -> Answer {
        self.request("POST", &format!("/events/{event}/undo")).send().await
    }

    /// Returns the token for what is served now.
    pub(crate) async fn sync_token(&self) -> String {
        let token = self.get("/sync-token").await.is(200).attributes()["syncToken"].clone();
        token.as_str().expect("a token is a string").to_owned()
    }

    /// Sends atomic operations.
    pub(crate) async fn operations(&self, operations: Value) -> Answer {
        let body = json!({ "atomic:operations": operations });
        self.request("POST", "/operations").body(ATOMIC, &body).send().await
    }
}

impl Request {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.http = self.http.header(name, value);
        self
    }

    /// Sets a JSON:API document as the body.
    pub(crate) fn document(self, body: &Value) -> Self {
        self.body(JSON_API, body)
    }

    /// Sets a form as the body, as a browser does.
    pub(crate) fn form(mut self, body: String) -> Self {
        self.http = self.http.header("Content-Type", "application/x-www-form-urlencoded").body(body);
        self
    }

    /// Sets JSON of any media type as the body.
    pub(crate) fn body(mut self, media_type: &str, body: &Value) -> Self {
        self.http = self.http.header("Content-Type", media_type).body(body.to_string());
        self.asked.document = Some(body.clone());
        self
    }

    pub(crate) async fn send(self) -> Answer {
        let asked = self.asked;
        match Self::try_send(self.http, asked.clone()).await {
            Ok(answer) => answer,
            Err(error) => panic!("{} {} got no answer: {error:?}", asked.method, asked.target),
        }
    }

    /// Sends the request; returns `None` if the connection breaks before the answer is complete.
    pub(crate) async fn attempt(self) -> Option<Answer> {
        Self::try_send(self.http, self.asked).await.ok()
    }

    async fn try_send(http: reqwest::RequestBuilder, asked: SentRequest) -> Result<Answer, reqwest::Error> {
        let response = http.send().await?;
        let status = response.status().as_u16();
        let text =
            |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers =
            response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let headers: Vec<(String, String)> = headers;
        let mut body = response.bytes().await?.to_vec();
        if headers.iter().any(|(name, value)| name == "content-encoding" && value == "gzip")
            && !body.is_empty()
        {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&*body).read_to_end(&mut plain).expect("the body is gzip");
            body = plain;
        }
        Ok(Answer { request: asked, status, headers, body })
    }
}
