//! Random histories of API writes, hand commits, merges, rewrites, broken files, kills and restarts, on the real
//! program with the real `git`, compared with git's own output.
//!
//! * Folding the events from the first one gives what is served at every revision.
//! * A stream that is cut and resumed sends each event of `git log --first-parent` exactly once.
//! * `asOf` any revision and key gives the intended meaning of the file, or its last good version.
//! * A change followed by its undo gives the identical file.
//!
//! `COLLECTORY_STORIES` sets the number of histories, `COLLECTORY_STORY_SEED` replays one.

mod follower;
mod oracle;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use self::follower::Follower;
use self::oracle::{Attributes, ExpectedEvent, Oracle, differences};
use super::in_order;
use crate::support::{Repo, TestServer, story_seeds};

const STORIES_DEFAULT: u64 = 3;
const STEPS: usize = 24;
const KEYS: [&str; 4] = ["alpha", "bravo", "charlie", "delta"];

/// How many pairs of revision and key are compared for each history.
const PAIRS: usize = 40;

/// The sync token before the first commit.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

#[tokio::test]
async fn what_is_told_of_any_history_is_what_git_says() {
    for seed in story_seeds(STORIES_DEFAULT) {
        Proof::new(seed).await.run().await;
    }
}

struct Proof {
    server: TestServer,
    oracle: Oracle,
    follower: Follower,
    rng: fastrand::Rng,
    seed: u64,
    story: String,
    counter: u64,
    /// A sync token, and the position in the stream at which it was issued.
    token: (String, String),
    /// The collections that had a problem at that time.
    troubled: BTreeSet<String>,
}

impl Proof {
    async fn new(seed: u64) -> Self {
        let server = TestServer::setup("small").flag(&["--heartbeat-ms", "20"]).start().await;
        server.repo().git(&["config", "gc.auto", "0"]);
        let head = server.repo().head();
        let mut oracle = Oracle::default();
        for (key, meaning) in [
            (
                "posts",
                json!({"type": "document", "name": "Posts", "directory": "content/posts", "recursive": true}),
            ),
            ("pages", json!({"type": "document", "name": "Pages", "directory": "content/pages"})),
            (
                "images",
                json!({"type": "media", "name": "Images", "directory": "media/images", "accept": ["image/png", "image/*", ".pdf"]}),
            ),
        ] {
            let meaning = serde_json::from_value(meaning).unwrap();
            oracle.means(server.repo().read(&format!("collections/{key}.yaml")).as_bytes(), Some(meaning));
        }
        Self {
            server,
            oracle,
            follower: Follower::default(),
            rng: fastrand::Rng::with_seed(seed),
            seed,
            story: String::new(),
            counter: 0,
            token: (NO_COMMIT.to_owned(), head),
            troubled: BTreeSet::new(),
        }
    }

    async fn run(mut self) {
        for _ in 0..STEPS {
            self.step().await;
            let head = self.repo().head();
            self.server.wait_for_revision(&head).await;
            self.listen().await;
        }
        self.follow(usize::MAX);
        self.check_events().await;
        self.check_filters().await;
        self.check_pairs().await;
        self.check_differences().await;
        self.check_blame().await;
        // No event repeats: the next event is the next change.
        let name = self.fresh();
        self.create("last", json!({"name": name})).await;
        self.follow(usize::MAX);
    }

    fn note(&mut self, what: &str) {
        writeln!(self.story, "  {what}").expect("a string takes everything");
    }

    fn story(&self) -> String {
        format!("COLLECTORY_STORY_SEED={}\n{}", self.seed, self.story)
    }

    fn repo(&self) -> &Repo {
        self.server.repo()
    }

    fn fresh(&mut self) -> String {
        self.counter += 1;
        format!("Version {}", self.counter)
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.rng.usize(..KEYS.len())]
    }

    /// Randomly disconnects, follows the stream partly or to the end, or polls.
    async fn listen(&mut self) {
        match self.rng.u32(..6) {
            0 => self.follower.hang_up(),
            1..=3 => {
                let events_max = self.rng.usize(..4);
                self.follow(events_max);
            }
            4 => self.follow(usize::MAX),
            _ => self.poll().await,
        }
    }

    fn follow(&mut self, events_max: usize) {
        let address = self.server.address();
        let Self { follower, oracle, server, .. } = self;
        if let Err(wrong) = follower.listen(address, server.repo(), oracle, events_max) {
            panic!("{wrong}\n{}", self.story());
        }
    }

    async fn troubles(&self) -> BTreeSet<String> {
        let problems = self.server.get("/problems").await.is(200).data();
        let collection = |problem: &Value| problem["attributes"]["collection"].as_str().map(str::to_owned);
        problems.as_array().unwrap().iter().filter_map(collection).collect()
    }

    /// Checks that `/changes` names what the commits since the last poll touched, and at most the collections that
    /// gained or lost a problem besides.
    async fn poll(&mut self) {
        let head = self.repo().head();
        let troubles = self.troubles().await;
        let (token, place) = self.token.clone();
        let Self { oracle, server, .. } = self;
        let expected = oracle.events_after(server.repo(), &head, (token != NO_COMMIT).then_some(&place));
        let asked = self.server.get(&format!("/changes?filter[since]={token}")).await;
        match expected {
            Some(expected) => {
                let answer = asked.is(200);
                let touched: BTreeSet<String> = expected.into_iter().map(|it| it.key).collect();
                let ids = BTreeSet::from_iter(answer.ids());
                assert!(touched.is_subset(&ids), "{touched:?} {ids:?} {}", self.story());
                let may_be = &(&touched | &troubles) | &self.troubled;
                assert!(ids.is_subset(&may_be), "{ids:?} {may_be:?} {}", self.story());
                let state = self.oracle.state_at(self.server.repo(), &head);
                for change in answer.data().as_array().unwrap() {
                    let version = state.served.get(change["id"].as_str().unwrap()).map(|(blob, _)| blob);
                    // The entity tag of a collection with a problem has a suffix after the blob id.
                    let tag = change["attributes"]["version"].as_str();
                    let blob = tag.map(|tag| tag.split_once('-').map_or(tag, |(blob, _)| blob));
                    assert_eq!(json!(blob), json!(version), "{}", self.story());
                }
            }
            // Commits that a merge moved off the first-parent line are still reachable.
            None if self.reaches(&head, &place) => drop(asked.is(200)),
            None => assert_eq!(asked.is(410).error().0, "gone"),
        }
        let token = self.server.get("/sync-token").await.is(200).attributes()["syncToken"].clone();
        (self.token, self.troubled) = ((token.as_str().unwrap().to_owned(), head), troubles);
    }

    fn reaches(&self, head: &str, revision: &str) -> bool {
        self.repo().try_git(&["merge-base", "--is-ancestor", revision, head]).status.success()
    }

    /// Returns every event from the API, oldest first.
    async fn events(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        let mut link = json!(format!("/events?page[size]={}", self.rng.usize(1..30)));
        while let Some(path) = link.as_str() {
            let page = self.server.get(path).await.is(200).json();
            events.extend(page["data"].as_array().unwrap().iter().cloned());
            link = page["links"]["next"].clone();
        }
        in_order(&events)
    }

    /// Checks that the events are those that git knows, and that folding them gives what is served at each commit.
    async fn check_events(&mut self) {
        let events = self.events().await;
        let head = self.repo().head();
        let expected = self.oracle.expected(self.server.repo(), &head);
        let shown: Vec<ExpectedEvent> = events
            .iter()
            .zip(&expected)
            .map(|(event, expected)| as_expected_event(event, expected))
            .collect();
        assert_eq!((shown, events.len()), (expected.clone(), expected.len()), "{}", self.story());
        let ids: BTreeSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), events.len(), "no two events share an id\n{}", self.story());
        let mut folded: BTreeMap<String, Attributes> = BTreeMap::new();
        let mut events = events.iter().peekable();
        for revision in self.oracle.line(self.server.repo(), &head) {
            while let Some(event) = events.next_if(|it| it["attributes"]["revision"] == revision) {
                fold(&mut folded, &event["attributes"]);
            }
            let state = self.oracle.state_at(self.server.repo(), &revision);
            let served = state.served.iter().map(|(key, (_, it))| (key.clone(), it.clone())).collect();
            assert_eq!(folded, served, "folded up to {revision}\n{}", self.story());
        }
    }

    /// Checks random filters, together and alone.
    async fn check_filters(&mut self) {
        let head = self.repo().head();
        let expected = self.oracle.expected(self.server.repo(), &head);
        let line = self.oracle.line(self.server.repo(), &head);
        for _ in 0..PAIRS / 2 {
            let (mut query, mut wanted) = (String::new(), expected.clone());
            let some = expected[self.rng.usize(..expected.len())].clone();
            let at = |revision: &String| line.iter().position(|it| it == revision).unwrap();
            for (name, value) in [
                ("collection", some.key.clone()),
                ("action", some.action.to_owned()),
                ("actor", some.actor.clone()),
                ("since", line[self.rng.usize(..line.len())].clone()),
                ("until", line[self.rng.usize(..line.len())][..16].to_owned()),
            ] {
                if self.rng.bool() {
                    continue;
                }
                write!(query, "&filter[{name}]={}", value.replace(' ', "+")).unwrap();
                wanted.retain(|it| match name {
                    "collection" => it.key == value,
                    "action" => it.action == value,
                    "actor" => it.actor == value,
                    "since" => at(&it.revision) > at(&value),
                    _ => at(&it.revision) <= line.iter().position(|it| it.starts_with(&value)).unwrap(),
                });
            }
            let answer = self.server.get(&format!("/events?page[size]=100{query}")).await.is(200).json();
            assert_eq!(answer["meta"]["page"]["total"], wanted.len(), "{query}\n{}", self.story());
            let text = |it: &Value, name: &str| it["attributes"][name].as_str().unwrap().to_owned();
            let shown = answer["data"].as_array().unwrap().iter();
            let shown: BTreeSet<_> = shown.map(|it| (text(it, "revision"), text(it, "collection"))).collect();
            let wanted: BTreeSet<_> = wanted.into_iter().map(|it| (it.revision, it.key)).collect();
            assert!(wanted.len() > 100 || shown == wanted, "{query}\n{}", self.story());
        }
    }

    /// Checks random revisions and keys, and the whole list at some of them.
    async fn check_pairs(&mut self) {
        let head = self.repo().head();
        let all = self.oracle.reached(self.server.repo(), &head);
        for turn in 0..PAIRS {
            let revision = all[self.rng.usize(..all.len())].clone();
            let state = self.oracle.state_at(self.server.repo(), &revision);
            let key = self.key();
            let broken = self.oracle.is_broken(self.server.repo(), &revision, key);
            let wanted = state.served.get(key);
            let asked = self.server.get(&format!("/collections/{key}?asOf={revision}")).await;
            let answer = asked.is(if wanted.is_some() { 200 } else { 404 });
            if let Some((_, attributes)) = wanted {
                assert_eq!(answer.attributes(), json!(attributes), "{key} at {revision}\n{}", self.story());
                assert_eq!(answer.header("collectory-revision"), revision);
                let problem = !answer.data()["meta"]["problem"].is_null();
                assert_eq!(problem, broken || state.twins.contains(key), "{key} at {revision}");
            }
            if turn % 8 == 0 {
                let list = self.server.get(&format!("/collections?asOf={revision}")).await.is(200);
                let keys: Vec<_> = state.served.keys().cloned().collect();
                assert_eq!(list.ids(), keys, "{revision}\n{}", self.story());
            }
        }
    }

    /// Checks the difference between random pairs of revisions.
    async fn check_differences(&mut self) {
        let head = self.repo().head();
        let all = self.oracle.reached(self.server.repo(), &head);
        for _ in 0..PAIRS / 4 {
            let [from, to] = [(); 2].map(|()| all[self.rng.usize(..all.len())].clone());
            let [old, new] = [&from, &to].map(|it| self.oracle.state_at(self.server.repo(), it));
            let keys: BTreeSet<&String> = old.served.keys().chain(new.served.keys()).collect();
            let touched = keys.into_iter().filter(|key| {
                old.served.get(*key).map(|(blob, _)| blob) != new.served.get(*key).map(|(blob, _)| blob)
            });
            let attributes =
                |it: Option<&(String, Attributes)>| it.map(|it| it.1.clone()).unwrap_or_default();
            let wanted: BTreeMap<&String, _> = touched
                .map(|key| {
                    (key, differences(&attributes(old.served.get(key)), &attributes(new.served.get(key))))
                })
                .collect();
            let answer = self.server.get(&format!("/diff?filter[from]={from}&filter[to]={to}")).await.is(200);
            let answer = answer.data();
            let found = answer.as_array().unwrap().iter();
            let found: BTreeMap<_, _> = found
                .map(|it| (it["id"].as_str().unwrap().to_owned(), changes(&it["attributes"]["changes"])))
                .collect();
            assert_eq!(
                found.iter().collect::<BTreeMap<_, _>>(),
                wanted.iter().map(|(k, v)| (*k, v)).collect()
            );
        }
    }

    /// Checks that blame names the last event since the creation that changed the attribute.
    async fn check_blame(&mut self) {
        let head = self.repo().head();
        let expected = self.oracle.expected(self.server.repo(), &head);
        let state = self.oracle.state_at(self.server.repo(), &head);
        for (key, (_, attributes)) in &state.served {
            let answer = self.server.get(&format!("/collections/{key}/blame")).await.is(200).data();
            let mut found = BTreeMap::new();
            for blame in answer.as_array().unwrap() {
                let attribute = blame["attributes"]["attribute"].as_str().unwrap();
                assert_eq!(blame["attributes"]["value"], attributes[attribute]);
                let event = &blame["attributes"]["event"]["attributes"];
                found.insert(attribute.to_owned(), event["revision"].as_str().unwrap().to_owned());
            }
            let by = |name: &String| {
                let gave = |it: &&ExpectedEvent| {
                    it.key == *key && it.changes.as_ref().is_some_and(|it| it.contains_key(name))
                };
                expected.iter().rfind(gave).expect("somebody gave it its value").revision.clone()
            };
            let wanted = attributes.keys().map(|name| (name.clone(), by(name))).collect();
            assert_eq!(found, wanted, "{key}\n{}", self.story());
        }
    }
}

/// Returns the changes of an event by attribute.
fn changes(list: &Value) -> BTreeMap<String, Value> {
    let list = list.as_array().expect("changes are a list").iter();
    list.map(|it| (it["attribute"].as_str().unwrap().to_owned(), it.clone())).collect()
}

/// Converts an event to the oracle's form. The position, which an event lacks, is copied from `expected`.
fn as_expected_event(event: &Value, expected: &ExpectedEvent) -> ExpectedEvent {
    let it = &event["attributes"];
    let text = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
    let action = ["created", "updated", "deleted"].into_iter().find(|action| it["action"] == *action);
    let at = chrono::DateTime::parse_from_rfc3339(&text("at")).expect("a time").timestamp();
    assert_eq!(it["problem"].is_null(), !it["changes"].is_null(), "one of both: {event}");
    ExpectedEvent {
        position: expected.position.clone(),
        revision: text("revision"),
        key: text("collection"),
        action: action.expect("one of three"),
        actor: it["actor"]["name"].as_str().unwrap_or_default().to_owned(),
        at,
        changes: it["changes"].is_array().then(|| changes(&it["changes"])),
    }
}

/// Applies an event's changes, using only the event.
fn fold(folded: &mut BTreeMap<String, Attributes>, event: &Value) {
    if !event["changes"].is_array() {
        return;
    }
    let key = event["collection"].as_str().unwrap();
    let mut attributes = folded.remove(key).unwrap_or_default();
    for (name, change) in changes(&event["changes"]) {
        assert_eq!(attributes.remove(&name).as_ref(), change.get("from"), "{event}");
        attributes.extend(change.get("to").map(|value| (name, value.clone())));
    }
    if event["action"] == "deleted" {
        assert!(attributes.is_empty(), "a deletion lists everything: {event}");
    } else {
        folded.insert(key.to_owned(), attributes);
    }
}
