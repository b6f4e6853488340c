//! Keeps a copy of the collections up to date and prints each change:
//!
//! ```sh
//! cargo run --example follow -- http://127.0.0.1:8080 [TOKEN]
//! ```
//!
//! The served state, uncommitted hand edits included, arrives as a stream of events. Each event's `id` is a sync
//! token for everything sent so far. Sent back as `Last-Event-ID`, it yields only the differences, even after either
//! side has restarted. Where a proxy blocks streams, the example polls `/changes` with the same token. The copy stays
//! readable while the service is down.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response};
use serde_json::Value;

/// How long to wait before retrying when the service is down, and between two polls.
const WAIT: Duration = Duration::from_secs(1);

/// How long a stream may be silent before it counts as lost: three heartbeats of the service.
const SILENCE_MAX: Duration = Duration::from_secs(45);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name the service: follow http://HOST:PORT [TOKEN]")?;
    let mut copy = LocalCopy {
        http: Client::builder().read_timeout(SILENCE_MAX).build()?,
        url: url.trim_end_matches('/').to_owned(),
        bearer: arguments.next(),
        collections: BTreeMap::new(),
        listing: None,
        token: None,
    };
    loop {
        if let Err(error) = copy.follow().await {
            println!("away: {error}; {} collections are known", copy.collections.len());
        }
        tokio::time::sleep(WAIT).await;
    }
}

/// The local copy of the served collections.
struct LocalCopy {
    http: Client,
    url: String,
    bearer: Option<String>,
    collections: BTreeMap<String, Value>,
    /// A new listing that is not complete yet.
    listing: Option<BTreeMap<String, Value>>,
    /// The sync token for everything received so far.
    token: Option<String>,
}

impl LocalCopy {
    /// Follows the stream until it ends. Without a stream, polls once for changes.
    async fn follow(&mut self) -> Result<(), Box<dyn Error>> {
        let request = self.get("/collections").header("Accept", "text/event-stream");
        let request = match &self.token {
            Some(token) => request.header("Last-Event-ID", token),
            None => request,
        };
        let mut stream = request.send().await?.error_for_status()?;
        if !is_stream(&stream) {
            return self.catch_up().await;
        }
        let mut text = Vec::new();
        while let Some(bytes) = stream.chunk().await? {
            text.extend_from_slice(&bytes);
            while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = text.drain(..end + 2).collect();
                self.apply_event(&String::from_utf8_lossy(&event))?;
            }
        }
        Ok(())
    }

    /// Applies one event.
    fn apply_event(&mut self, event: &str) -> Result<(), Box<dyn Error>> {
        let field = |name: &str| {
            event.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim_start()))
        };
        let data = || serde_json::from_str::<Value>(field("data").unwrap_or_default());
        match field("event") {
            Some("reset") => self.listing = Some(BTreeMap::new()),
            Some("collection") => self.put(data()?),
            Some("removed") => self.remove(data()?["id"].as_str().unwrap_or_default()),
            Some("ready") => {
                self.collections = self.listing.take().unwrap_or(std::mem::take(&mut self.collections));
                println!("ready: {} collections", self.collections.len());
            }
            Some(_) | None => {}
        }
        if let Some(id) = field("id") {
            self.token = Some(id.to_owned());
        }
        Ok(())
    }

    /// Fetches what changed since the last poll, or everything the first time and after the history was rewritten.
    async fn catch_up(&mut self) -> Result<(), Box<dyn Error>> {
        let Some(since) = &self.token else { return self.read_all().await };
        let since: String = form_urlencoded::byte_serialize(since.as_bytes()).collect();
        let answer = self.get(&format!("/changes?filter[since]={since}")).send().await?;
        if answer.status() == reqwest::StatusCode::GONE {
            return self.read_all().await;
        }
        let changes: Value = answer.error_for_status()?.json().await?;
        for change in changes["data"].as_array().into_iter().flatten() {
            let key = change["id"].as_str().unwrap_or_default().to_owned();
            match change["attributes"]["deleted"].as_bool() {
                Some(true) => self.remove(&key),
                Some(false) | None => {
                    let one: Value = self.get_json(&format!("/collections/{key}")).await?;
                    self.put(one["data"].clone());
                }
            }
        }
        self.token = changes["meta"]["syncToken"].as_str().map(str::to_owned);
        Ok(())
    }

    /// Reads everything. The token is read first, so that no change in between is missed.
    async fn read_all(&mut self) -> Result<(), Box<dyn Error>> {
        let token = self.get_json("/sync-token").await?;
        let list = self.get_json("/collections").await?;
        self.collections.clear();
        list["data"].as_array().into_iter().flatten().for_each(|it| self.put(it.clone()));
        self.token = token["data"]["attributes"]["syncToken"].as_str().map(str::to_owned);
        Ok(())
    }

    fn put(&mut self, resource: Value) {
        let key = resource["id"].as_str().unwrap_or_default().to_owned();
        println!("{key}: {}", resource["attributes"]);
        self.listing.as_mut().unwrap_or(&mut self.collections).insert(key, resource);
    }

    fn remove(&mut self, key: &str) {
        println!("{key}: gone");
        self.listing.as_mut().unwrap_or(&mut self.collections).remove(key);
    }

    async fn get_json(&self, path: &str) -> Result<Value, reqwest::Error> {
        self.get(path).send().await?.error_for_status()?.json().await
    }

    fn get(&self, path: &str) -> RequestBuilder {
        let request = self.http.get(format!("{}{path}", self.url));
        match &self.bearer {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

fn is_stream(response: &Response) -> bool {
    let media_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
    media_type.is_some_and(|media_type| media_type.starts_with("text/event-stream"))
}
