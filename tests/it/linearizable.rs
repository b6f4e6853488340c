//! Many clients at once, kills and restarts; then every answer is judged against the commits that git has.
//!
//! The commits along the branch are one order of all writes, and git tells what stood after each. So an answer is
//! right if there is a place in that order where it is true, and if the places keep to the clock: what began after
//! something had ended does not come before it. That is linearizability, of each collection and of the list, and
//! needs no search: reads name their place (`Collectory-Revision`), writes are found by their reason. Somebody follows
//! the stream meanwhile, and must have heard of every commit once and in order.
//!
//! `COLLECTORY_HISTORY_SECONDS=600` is the long run, `COLLECTORY_HISTORY_SEED` has the clients ask the same again.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{Answer, Client, Repo, Setup, Stream, TestServer, document, eventually};

const CLIENTS: usize = 12;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// How many answers there are between two kills.
const ANSWERS_BETWEEN_KILLS: usize = 300;

fn said(name: &str, usual: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.parse().expect("a number"))
}

/// What was asked.
#[derive(Debug, Clone)]
enum Asked {
    Read(&'static str),
    List,
    Create(&'static str),
    /// The name that the collection is expected to have, if one is.
    Update(&'static str, Option<String>),
    Delete(&'static str),
}

/// What came of it.
#[derive(Debug, Clone)]
enum Answered {
    /// What stood at a revision.
    Seen(String, BTreeMap<String, String>),
    /// It is done, as of a revision.
    Done(String),
    /// It is refused, since of what was asked there is none, one already, or another version.
    Refused,
    /// Not now.
    NotNow,
    /// Nobody knows.
    Lost,
}

/// One call.
#[derive(Debug, Clone)]
struct Call {
    /// Tells it from all others: the reason of its commit, and the name that it gives.
    id: String,
    began: Instant,
    ended: Instant,
    asked: Asked,
    answered: Answered,
}

/// Asks once.
async fn ask(client: &Client, id: String, asked: Asked, tag: Option<String>) -> (Call, Option<String>) {
    let target = |key: &str| format!("/collections/{key}");
    let request = match &asked {
        Asked::Read(key) => client.request("GET", &target(key)),
        Asked::List => client.request("GET", "/collections"),
        Asked::Create(key) => {
            client.request("POST", "/collections").document(&document(key, json!({"name": id})))
        }
        Asked::Update(key, _) => {
            let request = client.request("PATCH", &target(key)).document(&document(key, json!({"name": id})));
            tag.iter().fold(request, |request, tag| request.header("If-Match", tag))
        }
        Asked::Delete(key) => client.request("DELETE", &target(key)),
    };
    let request = match &asked {
        Asked::Read(_) | Asked::List => request,
        _ => request.header("Commit-Message", &id),
    };
    let began = Instant::now();
    let answer = request.attempt().await;
    let ended = Instant::now();
    let mut tag = None;
    let header = |answer: &Answer, name: &str| answer.header(name).unwrap_or_default().to_owned();
    let answered = match answer {
        None => Answered::Lost,
        Some(answer) => match (answer.status(), &asked) {
            (200, Asked::Read(_) | Asked::List) => {
                tag = Some(header(&answer, "etag"));
                let document: Value = serde_json::from_slice(&answer.body).expect("JSON");
                Answered::Seen(header(&answer, "collectory-revision"), names(&document["data"]))
            }
            (200 | 201 | 204, _) => Answered::Done(header(&answer, "collectory-revision")),
            (404 | 409 | 412, _) => Answered::Refused,
            (503, _) => Answered::NotNow,
            other => panic!("{other:?}: {answer:?}"),
        },
    };
    (Call { id, began, ended, asked, answered }, tag)
}

/// The names in a list or a single resource, by key.
fn names(data: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let one = |it: &Value| (text(&it["id"]), text(&it["attributes"]["name"]));
    data.as_array().map_or_else(|| [one(data)].into(), |all| all.iter().map(one).collect())
}

/// Asks until the time is over; what a client asks depends on the seed alone.
async fn client(
    number: usize,
    seed: u64,
    until: Instant,
    mut service: watch::Receiver<Client>,
    answers: Arc<AtomicUsize>,
) -> Vec<Call> {
    let mut random = fastrand::Rng::with_seed(seed ^ number as u64);
    let mut calls = Vec::new();
    // The version that it saw last of each collection.
    let mut seen: HashMap<&str, (String, String)> = HashMap::new();
    while Instant::now() < until {
        let key = KEYS[random.usize(..KEYS.len())];
        let known = seen.get(key).cloned();
        let asked = match random.u8(..100) {
            0..35 => Asked::Read(key),
            35..50 => Asked::List,
            50..70 => Asked::Update(key, None),
            70..85 => Asked::Update(key, known.as_ref().map(|(name, _)| name.clone())),
            85..95 => Asked::Create(key),
            _ => Asked::Delete(key),
        };
        let tag = match &asked {
            Asked::Update(_, Some(_)) => known.map(|(_, tag)| tag),
            _ => None,
        };
        let at = service.borrow_and_update().clone();
        let (call, tag) = ask(&at, format!("c{number}n{}", calls.len()), asked, tag).await;
        if let (Asked::Read(key), Answered::Seen(_, names), Some(tag)) = (&call.asked, &call.answered, tag) {
            seen.insert(*key, (names[*key].clone(), tag));
        }
        let is_lost = matches!(call.answered, Answered::Lost);
        answers.fetch_add(usize::from(!is_lost), Ordering::Relaxed);
        calls.push(call);
        if is_lost && service.changed().await.is_err() {
            break;
        }
    }
    calls
}

/// What the branch has: what stood after each commit, and which call made it.
struct Line {
    places: HashMap<String, usize>,
    states: Vec<BTreeMap<String, String>>,
    by_id: HashMap<String, usize>,
}

impl Line {
    fn of(repo: &Repo) -> Self {
        let log = repo.git(&[
            "log",
            "--reverse",
            "--first-parent",
            "-p",
            "-U0",
            "--no-renames",
            "--format=%x01%H%n%B%x02",
        ]);
        let mut line = Self { places: HashMap::new(), states: vec![BTreeMap::new()], by_id: HashMap::new() };
        for commit in log.split('\u{1}').skip(1) {
            let (message, changes) = commit.split_once('\u{2}').expect("each has both");
            let (revision, body) = message.split_once('\n').expect("the id stands alone");
            let place = line.states.len();
            line.places.insert(revision.to_owned(), place);
            if let Some(id) = body
                .lines()
                .find(|text| text.starts_with('c') && text[1..].contains('n') && !text.contains(' '))
            {
                assert_eq!(line.by_id.insert(id.to_owned(), place), None, "{id} was done twice");
            }
            let mut state = line.states[place - 1].clone();
            for change in changes.split("diff --git a/collections/").skip(1) {
                let key = change.split(".yaml").next().expect("a file").to_owned();
                match change.lines().find_map(|text| text.strip_prefix("+name: ")) {
                    Some(name) => drop(state.insert(key, name.to_owned())),
                    None if change.contains("\ndeleted file mode") => drop(state.remove(&key)),
                    None => {}
                }
            }
            line.states.push(state);
        }
        line
    }

    /// Where a call stands for sure: a read at its revision, a write at its commit.
    fn place(&self, call: &Call) -> Option<usize> {
        match (&call.answered, &call.asked) {
            (Answered::Seen(revision, _), _) => Some(self.at(revision)),
            (Answered::Done(_), _) => {
                Some(*self.by_id.get(&call.id).unwrap_or_else(|| panic!("acknowledged and lost: {call:?}")))
            }
            (Answered::Refused | Answered::NotNow | Answered::Lost, _) => None,
        }
    }

    fn at(&self, revision: &str) -> usize {
        if revision.is_empty() { 0 } else { self.places[revision] }
    }

    /// Whether a refusal would be right at a place.
    fn refuses(&self, asked: &Asked, place: usize) -> bool {
        let name = |key: &str| self.states[place].get(key);
        match asked {
            Asked::List => false,
            Asked::Create(key) => name(key).is_some(),
            Asked::Read(key) | Asked::Delete(key) | Asked::Update(key, None) => name(key).is_none(),
            Asked::Update(key, Some(expected)) => name(key) != Some(expected),
        }
    }
}

/// The places that calls are known to stand at, to tell which are possible for another one.
struct Clock {
    /// By the end of a call, the last place until then.
    ended: Vec<(Instant, usize)>,
    /// By the beginning of a call, the first place from then on.
    began: Vec<(Instant, usize)>,
}

impl Clock {
    fn of(calls: &[Call], line: &Line) -> Self {
        let placed = || calls.iter().filter_map(|call| Some((call, line.place(call)?)));
        let mut ended: Vec<_> = placed().map(|(call, place)| (call.ended, place)).collect();
        ended.sort_unstable();
        let mut last = 0;
        ended.iter_mut().for_each(|(_, place)| {
            last = last.max(*place);
            *place = last;
        });
        let mut began: Vec<_> = placed().map(|(call, place)| (call.began, place)).collect();
        began.sort_unstable();
        let mut first = usize::MAX;
        began.iter_mut().rev().for_each(|(_, place)| {
            first = first.min(*place);
            *place = first;
        });
        Self { ended, began }
    }

    fn not_before(&self, call: &Call) -> usize {
        let before = self.ended.partition_point(|(ended, _)| *ended < call.began);
        before.checked_sub(1).map_or(0, |at| self.ended[at].1)
    }

    fn not_after(&self, call: &Call) -> usize {
        let after = self.began.partition_point(|(began, _)| *began <= call.ended);
        self.began.get(after).map_or(usize::MAX, |(_, place)| *place)
    }
}

/// Judges every call.
fn judge(calls: &[Call], line: &Line) {
    let clock = Clock::of(calls, line);
    for call in calls {
        let (low, high) = (clock.not_before(call), clock.not_after(call).min(line.states.len() - 1));
        match (&call.answered, line.place(call)) {
            (Answered::Seen(_, names), Some(place)) => {
                assert!((low..=high).contains(&place), "stale: {low}..={high} and not {place}: {call:?}");
                let mut state = line.states[place].clone();
                if let Asked::Read(key) = call.asked {
                    state.retain(|its, _| its == key);
                }
                assert_eq!(*names, state, "not what stood there: {call:?}");
            }
            (Answered::Done(revision), Some(place)) => {
                assert!(
                    low < place && place <= high,
                    "out of order: {low}..={high} and not {place}: {call:?}"
                );
                assert!(place <= line.at(revision), "answered from before it was done: {call:?}");
                assert!(!line.refuses(&call.asked, place - 1), "it had to be refused: {call:?}");
                let (key, name) = match call.asked {
                    Asked::Create(key) | Asked::Update(key, _) => (key, Some(&call.id)),
                    Asked::Delete(key) => (key, None),
                    Asked::Read(_) | Asked::List => unreachable!("these are seen"),
                };
                assert_eq!(line.states[place].get(key), name, "{call:?}");
            }
            (Answered::Refused, _) => {
                let is_right = (low..=high).any(|place| line.refuses(&call.asked, place));
                assert!(is_right, "refused without a reason: {call:?}");
            }
            (Answered::NotNow, _) => {
                assert!(!line.by_id.contains_key(&call.id), "refused and done: {call:?}");
            }
            (Answered::Lost, _) => {
                let place = line.by_id.get(&call.id);
                assert!(place.is_none_or(|place| low < *place), "done before it was asked: {call:?}");
            }
            (answered, None) => unreachable!("{answered:?} has a place"),
        }
    }
    let asked: std::collections::HashSet<_> = calls.iter().map(|call| &call.id).collect();
    assert!(line.by_id.keys().all(|id| asked.contains(id)), "a commit that nobody asked for");
}

/// Somebody who follows the stream, and goes on behind what was heard last whenever there is another service.
struct Follower {
    services: mpsc::Sender<SocketAddr>,
    heard: Arc<Mutex<Vec<String>>>,
    thread: thread::JoinHandle<()>,
}

impl Follower {
    fn begin() -> Self {
        let (services, addresses) = mpsc::channel();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ids = Arc::clone(&heard);
        let thread = thread::spawn(move || {
            for address in addresses {
                let last: Option<String> = ids.lock().unwrap().last().cloned();
                let Some(mut stream) =
                    Stream::try_open(address, "?filter[since]=2000-01-01T00:00:00Z", last.as_deref())
                else {
                    continue;
                };
                while let Some(said) = stream.next() {
                    assert_ne!(said.event, "reset", "nobody has rewritten the branch");
                    if said.event != "head" {
                        ids.lock().unwrap().push(said.id.expect("an event has a place"));
                    }
                }
            }
        });
        Self { services, heard, thread }
    }

    fn follow(&self, address: SocketAddr) {
        self.services.send(address).expect("it listens until the end");
    }

    /// Waits until the newest commit was heard of, and compares all that was with what git has.
    async fn judge(self, mut server: TestServer) {
        let line =
            server.repo().git(&["log", "--reverse", "--first-parent", "--format=%H", "--", "collections"]);
        let line: Vec<&str> = line.lines().collect();
        let newest = *line.last().expect("something was written");
        eventually("the newest commit was heard of", async || {
            let heard = self.heard.lock().unwrap();
            heard.last().is_some_and(|id| id.starts_with(newest)).then_some(())
        })
        .await;
        server.stop();
        drop(self.services);
        self.thread.join().expect("what was heard is in order");
        let heard = self.heard.lock().unwrap();
        let heard: Vec<&str> = heard.iter().map(|id| id.split('/').next().unwrap_or_default()).collect();
        assert_eq!(heard, line, "each commit once and in order");
    }
}

#[expect(clippy::print_stdout, reason = "how to run it again, and how much was tried")]
async fn run(setup: Setup) {
    let seed = said("COLLECTORY_HISTORY_SEED", 1);
    println!("COLLECTORY_HISTORY_SEED={seed}");
    let until = Instant::now() + Duration::from_secs(said("COLLECTORY_HISTORY_SECONDS", 7));
    let mut server = setup.start().await;
    let follower = Follower::begin();
    follower.follow(server.address());
    let (tell, service) = watch::channel(server.client().clone());
    let answers = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(number, seed, until, service.clone(), Arc::clone(&answers)));
    }
    for round in 0.. {
        let enough = answers.load(Ordering::Relaxed) + ANSWERS_BETWEEN_KILLS;
        eventually("calls are answered", async || {
            (answers.load(Ordering::Relaxed) >= enough || Instant::now() >= until).then_some(())
        })
        .await;
        if Instant::now() >= until {
            break;
        }
        match round % 3 {
            0 => server.kill(),
            1 => server.kill_group(),
            _ => drop(server.stop()),
        }
        server.start_again().await;
        follower.follow(server.address());
        tell.send_replace(server.client().clone());
    }
    // Who waits for another service gets none.
    drop((tell, service));
    let calls: Vec<Call> = clients.join_all().await.into_iter().flatten().collect();
    let line = Line::of(server.repo());
    judge(&calls, &line);
    let lost = calls.iter().filter(|call| matches!(call.answered, Answered::Lost)).count();
    println!("{} calls, {} commits, {lost} without an answer", calls.len(), line.by_id.len());
    assert!(line.by_id.len() > CLIENTS, "hardly anything was written");
    follower.judge(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_of_a_work_tree_is_true_at_one_place_in_the_order_of_the_commits() {
    run(TestServer::setup("empty")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_of_a_bare_repository_is_true_at_one_place_in_the_order_of_the_commits() {
    run(TestServer::setup("empty").bare()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_of_a_shared_branch_is_true_at_one_place_in_the_order_of_the_commits() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Repo::seeded(folder.path().join("seed"), "empty").bare_clone(folder.path().join("hub.git"));
    let url = hub.path().to_string_lossy().into_owned();
    run(TestServer::setup("").absent().flag(&["--remote", &url])).await;
}

/// A judge that acquits everybody proves nothing.
#[test]
fn false_answers_are_found() {
    let state = |names: &[(&str, &str)]| -> BTreeMap<String, String> {
        names.iter().map(|(key, name)| ((*key).to_owned(), (*name).to_owned())).collect()
    };
    let line = || Line {
        places: [("r1", 1), ("r2", 2)].map(|(revision, place)| (revision.to_owned(), place)).into(),
        states: vec![state(&[]), state(&[("a", "c0n0")]), state(&[("a", "c0n1")])],
        by_id: [("c0n0", 1), ("c0n1", 2)].map(|(id, place)| (id.to_owned(), place)).into(),
    };
    let start = Instant::now();
    let call = |id: &str, from: u64, to: u64, asked: Asked, answered: Answered| Call {
        id: id.to_owned(),
        began: start + Duration::from_millis(from),
        ended: start + Duration::from_millis(to),
        asked,
        answered,
    };
    let done = |revision: &str| Answered::Done(revision.to_owned());
    let writes = [
        call("c0n0", 0, 10, Asked::Create("a"), done("r1")),
        call("c0n1", 20, 30, Asked::Update("a", None), done("r2")),
    ];
    let seen = |revision: &str, name: &str| Answered::Seen(revision.to_owned(), state(&[("a", name)]));
    let with = |other: Call| {
        let calls = [writes.as_slice(), &[other]].concat();
        std::panic::catch_unwind(|| judge(&calls, &line())).is_ok()
    };
    assert!(with(call("c1n0", 15, 25, Asked::Read("a"), seen("r1", "c0n0"))));
    assert!(with(call("c1n0", 22, 40, Asked::Read("a"), seen("r2", "c0n1"))));
    assert!(with(call("c1n0", 0, 5, Asked::Read("a"), Answered::Refused)));
    assert!(with(call("c1n0", 22, 25, Asked::Update("a", Some("c0n0".into())), Answered::Refused)));
    assert!(!with(call("c1n0", 40, 50, Asked::Read("a"), seen("r1", "c0n0"))), "a stale read");
    assert!(!with(call("c1n0", 15, 18, Asked::Read("a"), seen("r2", "c0n1"))), "a read of the future");
    assert!(!with(call("c1n0", 22, 40, Asked::List, seen("r2", "c0n0"))), "a list of nowhere");
    assert!(!with(call("c1n0", 40, 50, Asked::Read("a"), Answered::Refused)), "it was there");
    assert!(!with(call("c1n0", 40, 50, Asked::Update("a", Some("c0n1".into())), Answered::Refused)));
    assert!(!with(call("c1n0", 40, 50, Asked::Delete("a"), done("r2"))), "a write that is lost");
}
