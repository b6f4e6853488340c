//! Test helpers: entries without a repository, a writer without a disk, and a client that checks every answer.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chrono::DateTime;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value as Json;
use warp::http::{HeaderMap, HeaderName, Request};

use crate::config::{BasePath, Limits};
use crate::domain::{Actor, Collection, Event, Key, Kind, Revision, decide};
use crate::engine::{
    Entry, Handle, Outcome, Problem, Projection, Serving, Snapshot, Submission, SubmitAnswer, SubmitError,
};
use crate::http::browser::cors::Cors;
use crate::http::{
    AccessRules, Action, AllowAll, Allowed, AnswerOptions, Authorizer, Authorizing, Clock, Context, Denied,
    Guard, Hosts, ReceiverStatuses, RequestHead, Routes, ServedFrom, Telemetry,
};
use crate::shutdown::Shutdown;

pub(crate) fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// An entry with text attributes.
pub(crate) fn entry(id: &str, kind: Kind, attributes: &[(&str, &str)]) -> Arc<Entry> {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
    Arc::new(Entry::committed(Arc::new(Collection::new(key(id), kind, attributes).unwrap())))
}

/// A problem of a file for which nothing is served.
pub(crate) fn problem(path: &str, stem: Option<&str>) -> Arc<Problem> {
    Arc::new(Problem {
        path: path.into(),
        faults: vec![crate::engine::Fault { line: 1, column: 2, message: "is wrong".into() }],
        collection: stem.map(key),
        serving: Serving::Nothing,
        since: DateTime::UNIX_EPOCH,
        committed: Some((Revision::new([7; 20]), Actor::new("Mara", "mara@example.org"))),
    })
}

pub(crate) fn snapshot(entries: impl IntoIterator<Item = Arc<Entry>>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.revision = Some(Revision::new([0xab; 20]));
    entries.into_iter().for_each(|entry| snapshot.insert(entry));
    snapshot
}

/// A writer that makes the same decisions as the real one but stores nothing on disk.
pub(crate) fn writer(projection: &Projection, log: Arc<Mutex<Vec<Submission>>>) -> Handle {
    let projection = projection.clone();
    Handle::answered_by(move |submission| {
        log.lock().unwrap().push(submission.clone());
        let mut next = projection.snapshot().ok_or(SubmitError::Loading)?.next();
        let mut outcomes = Vec::new();
        for (index, change) in submission.changes.iter().enumerate() {
            let current = next.get(change.command.key().as_str()).cloned();
            if !change.condition.holds(current.as_deref()) {
                return Err(SubmitError::ConditionFailed { index, current });
            }
            let event = decide(next.catalog(), &change.command)
                .map_err(|refusal| SubmitError::Refused { index, refusal })?;
            outcomes.push(match event {
                None => Outcome::Unchanged(current.unwrap()),
                Some(Event::Deleted(before)) => {
                    next.remove(before.key().as_str());
                    Outcome::Deleted
                }
                Some(Event::Created(after)) => Outcome::Created(inserted(&mut next, after)),
                Some(Event::Updated { after, .. }) => Outcome::Updated(inserted(&mut next, after)),
            });
        }
        next.revision = Some(Revision::new([0xcd; 20]));
        let snapshot = Arc::new(next);
        projection.publish(Arc::clone(&snapshot));
        let revision = snapshot.revision;
        Ok(SubmitAnswer { revision, outcomes, preview: None })
    })
}

fn inserted(snapshot: &mut Snapshot, collection: Arc<Collection>) -> Arc<Entry> {
    let entry = Arc::new(Entry::committed(collection));
    snapshot.insert(Arc::clone(&entry));
    entry
}

/// A context in which no repository was read yet and every caller may do everything.
pub(crate) fn context() -> Context {
    let projection = Projection::default();
    open(writer(&projection, Arc::default()), projection)
}

/// A context with all defaults that allows everything to every caller.
fn open(handle: Handle, projection: Projection) -> Context {
    Context {
        handle,
        projection,
        history: None,
        webhooks: ReceiverStatuses::default(),
        remote: None,
        shutdown: Shutdown::default(),
        clock: Clock::system(),
        access: AccessRules {
            guard: Guard::with(AllowAll),
            cors: Cors::default(),
            hosts: Hosts::default(),
            speaks_tls: false,
        },
        settings: AnswerOptions {
            limits: Limits::default(),
            base_path: BasePath::default(),
            require_if_match: false,
            compress: false,
            ui: true,
            served_from: ServedFrom::default(),
        },
        telemetry: Telemetry::default(),
    }
}

/// An authorizer made from a function.
pub(crate) struct Hook(pub(crate) fn(&RequestHead<'_>, Action<'_>) -> Result<Allowed, Denied>);

impl Authorizer for Hook {
    fn authorize<'a>(&'a self, head: &'a RequestHead<'a>, action: Action<'a>) -> Authorizing<'a> {
        Box::pin(std::future::ready((self.0)(head, action)))
    }
}

/// The service as a client sees it.
pub(crate) struct TestService {
    routes: Routes,
    pub(crate) projection: Projection,
    pub(crate) submissions: Arc<Mutex<Vec<Submission>>>,
}

impl TestService {
    /// Serves three collections to everyone.
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// Serves three collections with a context that `change` adjusts.
    pub(crate) fn with(change: impl FnOnce(&mut Context)) -> Self {
        let served = Self::loading(change);
        let posts = entry("posts", Kind::Document, &[("name", "Posts"), ("directory", "content/posts")]);
        let notes = entry("notes", Kind::Document, &[("name", "Notes")]);
        let photos = entry("photos", Kind::Media, &[("directory", "media")]);
        served.projection.publish(Arc::new(snapshot([posts, notes, photos])));
        served
    }

    /// Serves three collections behind an authorizer.
    pub(crate) fn behind(hook: fn(&RequestHead<'_>, Action<'_>) -> Result<Allowed, Denied>) -> Self {
        Self::with(|context| context.access.guard = Guard::with(Hook(hook)))
    }

    /// A service that has not read the repository yet.
    pub(crate) fn loading(change: impl FnOnce(&mut Context)) -> Self {
        let projection = Projection::default();
        let submissions = Arc::default();
        let handle = writer(&projection, Arc::clone(&submissions));
        let mut context = open(handle, projection.clone());
        change(&mut context);
        Self { routes: Routes::new(context), projection, submissions }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    /// Sends a body as JSON:API.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask(method, path, &[("content-type", "application/vnd.api+json")], body).await
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, value.as_bytes());
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_ref()))).unwrap();
        let response = self.routes.respond(request, Arc::default()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let answer = Answer { status: parts.status.as_u16(), headers: parts.headers, body };
        answer.keeps_every_promise(&format!("{method} {path}"));
        answer
    }

    /// Returns the list of all collections, to detect whether anything changed.
    pub(crate) async fn everything(&self) -> Json {
        self.get("/collections").await.is(200).json()
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let name: HeaderName = name.parse().unwrap();
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The keys of a list, in order and separated by blanks.
    pub(crate) fn keys(&self) -> String {
        let ids: Vec<String> = self.json()["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_str().unwrap().into())
            .collect();
        ids.join(" ")
    }

    /// The code and the source of each error.
    pub(crate) fn errors(&self) -> String {
        let errors = self.json()["errors"].as_array().cloned().unwrap_or_default();
        let shown: Vec<String> = errors
            .iter()
            .map(|error| {
                let source = error["source"].as_object().and_then(|source| source.values().next());
                let source = source.and_then(Json::as_str).map(|source| format!(" {source}"));
                format!("{}{}", error["code"].as_str().unwrap(), source.unwrap_or_default())
            })
            .collect();
        shown.join(", ")
    }

    fn keeps_every_promise(&self, what: &str) {
        assert_eq!(self.header("cache-control"), "no-store", "{what}");
        assert!(self.header("vary").starts_with("Accept"), "{what}");
        assert!(!self.header("x-request-id").is_empty(), "{what}");
        let media_type = self.header("content-type");
        if self.body.is_empty() {
            assert!(matches!(self.status, 204 | 304) == media_type.is_empty(), "{what}: {media_type}");
            return;
        }
        if !matches!(media_type, "application/json" | "application/yaml") {
            assert!(media_type.starts_with("application/vnd.api+json"), "{what}: {media_type}");
            assert_eq!(self.json()["jsonapi"], serde_json::json!({"version": "1.1"}), "{what}");
        }
        if self.status >= 400 {
            for error in self.json()["errors"].as_array().unwrap() {
                for member in ["status", "code", "title", "detail"] {
                    assert!(error[member].is_string(), "{what}: {member}");
                }
                assert!(error["detail"].as_str().unwrap().ends_with(['.', '?']), "{what}: {error}");
            }
            let first = &self.json()["errors"][0]["status"];
            assert_eq!(*first, self.status.to_string(), "{what}");
        }
    }
}
