//! Calls with their requests and answers, and the clients that make them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{ATOMIC, Answer, Client, document};

/// What a call requests.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Read(&'static str),
    List,
    Create(&'static str),
    /// With the name that the collection is expected to have, if any.
    Update(&'static str, Option<String>),
    /// An update that is merged with others' changes of other attributes since the collection had this name.
    Merge(&'static str, String),
    /// A change of an attribute other than the name.
    Label(&'static str),
    Delete(&'static str),
    /// An update of both at once.
    Both([&'static str; 2]),
}

/// The outcome of a call.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// The names at a revision.
    Seen(String, BTreeMap<String, String>),
    /// Done, as of a revision.
    Done(String),
    /// Refused, because the collection does not exist, already exists, or has another version.
    Refused,
    /// Refused for now, with status 503.
    NotNow,
    /// The outcome is unknown.
    Lost,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Identifies the call: it is the reason of its commit and the name that it sets.
    pub(crate) id: String,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) asked: Operation,
    pub(crate) answered: Outcome,
    /// Whether a read must show the newest revision of all instances.
    pub(crate) is_latest: bool,
    /// The client and its connection.
    pub(crate) connection: (usize, usize),
}

/// A client that makes calls.
pub(crate) struct Caller {
    pub(crate) number: usize,
    pub(crate) seed: u64,
    pub(crate) until: Instant,
    pub(crate) keys: &'static [&'static str],
    /// The instances. With several, some reads ask for the newest revision, and writes have an idempotency key, so
    /// that they can be repeated at another instance.
    pub(crate) services: Vec<watch::Receiver<Client>>,
    pub(crate) answers: Arc<AtomicUsize>,
}

/// A request as it is sent.
struct Question<'a> {
    id: &'a str,
    asked: &'a Operation,
    tag: Option<&'a str>,
    is_shared: bool,
    is_latest: bool,
}

impl Question<'_> {
    async fn ask(&self, client: &Client) -> Option<Answer> {
        let (id, asked) = (self.id, self.asked);
        let target = |key: &str| format!("/collections/{key}");
        let named = |key: &str| document(key, json!({"name": id}));
        let request = match asked {
            Operation::Read(key) => client.request("GET", &target(key)),
            Operation::List => client.request("GET", "/collections"),
            Operation::Create(key) => client.request("POST", "/collections").document(&named(key)),
            Operation::Update(key, _) => {
                let request = client.request("PATCH", &target(key)).document(&named(key));
                self.tag.iter().fold(request, |request, tag| request.header("If-Match", tag))
            }
            Operation::Merge(key, _) => {
                let request = client.request("PATCH", &target(key)).document(&named(key));
                let request = request.header("Prefer", "merge=attributes");
                self.tag.iter().fold(request, |request, tag| request.header("If-Match", tag))
            }
            Operation::Label(key) => {
                client.request("PATCH", &target(key)).document(&document(key, json!({"x-label": id})))
            }
            Operation::Delete(key) => client.request("DELETE", &target(key)),
            Operation::Both(keys) => {
                let update = |key: &&str| json!({"op": "update", "data": named(key)["data"]});
                let operations: Vec<Value> = keys.iter().map(update).collect();
                client.request("POST", "/operations").body(ATOMIC, &json!({"atomic:operations": operations}))
            }
        };
        let is_read = matches!(asked, Operation::Read(_) | Operation::List);
        let request = match is_read {
            true if self.is_shared && self.is_latest => request.header("Collectory-Min-Revision", "latest"),
            true => request,
            false if self.is_shared => request.header("Commit-Message", id).header("Idempotency-Key", id),
            false => request.header("Commit-Message", id),
        };
        request.attempt().await
    }

    fn answered(&self, answer: Option<&Answer>) -> Outcome {
        let Some(answer) = answer else { return Outcome::Lost };
        let revision = || answer.header("collectory-revision").unwrap_or_default().to_owned();
        let document = || -> Value { serde_json::from_slice(&answer.body).expect("JSON") };
        match (answer.status(), self.asked) {
            (200, Operation::Read(_) | Operation::List) => {
                Outcome::Seen(revision(), names(&document()["data"]))
            }
            (200 | 201 | 204, _) => Outcome::Done(revision()),
            (404 | 409 | 412, _) => Outcome::Refused,
            (503, _) if document()["errors"][0]["code"] == "outcome_unknown" => Outcome::Lost,
            (503, _) => Outcome::NotNow,
            other => panic!("{other:?}: {answer:?}"),
        }
    }
}

/// Returns the names in a list or a single resource, by key.
fn names(data: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let one = |it: &Value| (text(&it["id"]), text(&it["attributes"]["name"]));
    data.as_array().map_or_else(|| [one(data)].into(), |all| all.iter().map(one).collect())
}

impl Caller {
    /// Makes calls until the time is over; the seed alone determines what they request.
    pub(crate) async fn run(mut self) -> Vec<Call> {
        let mut random = fastrand::Rng::with_seed(self.seed ^ self.number as u64);
        let is_shared = self.services.len() > 1;
        let (mut calls, mut at, mut connection) = (Vec::new(), self.number % self.services.len(), 0);
        // The last version of each collection that the client has seen.
        let mut seen: HashMap<&str, (String, String)> = HashMap::new();
        while Instant::now() < self.until {
            let key = self.keys[random.usize(..self.keys.len())];
            let known = seen.get(key).cloned();
            // Where others change more than the name, an entity tag may be refused although the name is the same.
            let is_labelled = is_shared && key.as_bytes()[0].is_multiple_of(2);
            let asked = match random.u8(..100) {
                0..35 => Operation::Read(key),
                35..50 => Operation::List,
                50..58 if is_labelled => Operation::Label(key),
                50..65 => Operation::Update(key, None),
                65..80 if is_labelled => match &known {
                    Some((name, _)) => Operation::Merge(key, name.clone()),
                    None => Operation::Label(key),
                },
                65..80 => Operation::Update(key, known.as_ref().map(|(name, _)| name.clone())),
                80..85 => Operation::Both([key, self.keys[random.usize(..self.keys.len())]]),
                85..95 => Operation::Create(key),
                _ => Operation::Delete(key),
            };
            if matches!(asked, Operation::Both([one, other]) if one == other) {
                continue;
            }
            let tag = match &asked {
                Operation::Update(_, Some(_)) | Operation::Merge(..) => known.map(|(_, tag)| tag),
                _ => None,
            };
            let is_latest = !is_shared || random.u8(..3) > 0;
            let id = format!("c{}n{}", self.number, calls.len());
            let question = Question { id: &id, asked: &asked, tag: tag.as_deref(), is_shared, is_latest };
            let began = Instant::now();
            let first = {
                let service = self.services[at].borrow_and_update().clone();
                question.ask(&service).await
            };
            let (is_lost, mut answered) = (first.is_none(), question.answered(first.as_ref()));
            let used = connection;
            if is_lost && is_shared {
                (at, connection) = ((at + 1) % self.services.len(), connection + 1);
            }
            let is_write = !matches!(asked, Operation::Read(_) | Operation::List);
            if is_shared && is_write && matches!(answered, Outcome::Lost) {
                // The idempotency key makes it safe to repeat. A refused repeat does not prove that the first attempt
                // failed.
                let service = self.services[at].borrow_and_update().clone();
                let again = question.ask(&service).await;
                if let done @ Outcome::Done(_) = question.answered(again.as_ref()) {
                    answered = done;
                }
            }
            let ended = Instant::now();
            let tag = first.as_ref().and_then(|answer| answer.header("etag")).unwrap_or_default();
            if let (Operation::Read(key), Outcome::Seen(_, names)) = (&asked, &answered) {
                seen.insert(key, (names[*key].clone(), tag.to_owned()));
            }
            self.answers.fetch_add(usize::from(!is_lost), Ordering::Relaxed);
            let connection = (self.number, used);
            calls.push(Call { id, began, ended, asked, answered, is_latest, connection });
            if is_lost && !is_shared && self.services[at].changed().await.is_err() {
                break;
            }
        }
        calls
    }
}
