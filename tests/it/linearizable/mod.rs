//! Many concurrent clients, kills and restarts; then every answer is judged against the commits that git has.
//!
//! The commits along the branch are one order of all writes, and git knows the state after each. An answer is right
//! if it is true at some place in that order, and if the places agree with the clock: a call that started after
//! another had ended does not come before it. That is linearizability, of each collection and of the list. It needs
//! no search: reads name their place (`Collectory-Revision`), and writes are found by their reason. In a work tree, a
//! person saves and commits files at the same time, see `person`. A follower of the stream must have received every
//! commit once and in order.
//!
//! `COLLECTORY_HISTORY_SECONDS=600` is the long run, `COLLECTORY_HISTORY_SEED` repeats the clients' requests.

mod calls;
mod judge;
mod person;

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{EventStream, Repo, Setup, TestServer, env_or, eventually};

pub(crate) use calls::{Call, Caller, Operation, Outcome};
pub(crate) use judge::{BranchHistory, judge};
pub(crate) use person::{Person, Saves};

const CLIENTS: usize = 12;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// How many answers there are between two kills.
const ANSWERS_BETWEEN_KILLS: usize = 300;

/// A client that follows the stream, and resumes after the last event whenever the service is replaced.
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
                    EventStream::try_open(address, "?filter[since]=2000-01-01T00:00:00Z", last.as_deref())
                else {
                    continue;
                };
                while let Some(said) = stream.next_message() {
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

    /// Waits until the newest commit has arrived, and compares everything received with the commits that git has.
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
        let unique: HashSet<_> = heard.iter().collect();
        assert_eq!(unique.len(), heard.len(), "each event once");
        let mut heard: Vec<&str> = heard.iter().map(|id| id.split('/').next().unwrap_or_default()).collect();
        heard.dedup();
        assert_eq!(heard, line, "each commit once and in order");
    }
}

#[expect(clippy::print_stdout, reason = "how to run it again, and how much was tried")]
async fn run(setup: Setup, has_person: bool) {
    let seed = env_or("COLLECTORY_HISTORY_SEED", 1);
    println!("COLLECTORY_HISTORY_SEED={seed}");
    let until = Instant::now() + Duration::from_secs(env_or("COLLECTORY_HISTORY_SECONDS", 4));
    let mut server = setup.start().await;
    let follower = Follower::begin();
    follower.follow(server.address());
    let (tell, service) = watch::channel(server.client().clone());
    let answers = Arc::new(AtomicUsize::new(0));
    let person = has_person.then(|| {
        let (repo, answers) = (Repo::at(server.repo().path()), Arc::clone(&answers));
        thread::spawn(move || Person { repo, seed, until, keys: &KEYS, answers }.run())
    });
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (services, answers) = (vec![service.clone()], Arc::clone(&answers));
        clients.spawn(Caller { number, seed, until, keys: &KEYS, services, answers }.run());
    }
    let mut restarts = Vec::new();
    for round in 0.. {
        let enough = answers.load(Ordering::Relaxed) + ANSWERS_BETWEEN_KILLS;
        eventually("calls are answered", async || {
            (answers.load(Ordering::Relaxed) >= enough || Instant::now() >= until).then_some(())
        })
        .await;
        if Instant::now() >= until {
            break;
        }
        let killed = Instant::now();
        match round % 3 {
            0 => server.kill(),
            1 => server.kill_group(),
            _ => drop(server.stop()),
        }
        server.start_again().await;
        restarts.push((killed, Instant::now()));
        follower.follow(server.address());
        tell.send_replace(server.client().clone());
    }
    // Clients that wait for another service stop waiting.
    drop((tell, service));
    let calls: Vec<Call> = clients.join_all().await.into_iter().flatten().collect();
    let saved = person.map(|person| person.join().expect("files can be saved")).unwrap_or_default();
    let line = BranchHistory::of(server.repo());
    let kills = restarts.len();
    let saves = Saves::of(&saved, &line, server.repo(), restarts);
    judge(&calls, &line, &saves);
    let lost = calls.iter().filter(|call| matches!(call.answered, Outcome::Lost)).count();
    println!(
        "{} calls, {} commits, {kills} ends, {lost} without an answer; {} saved by hand, {} of them committed",
        calls.len(),
        line.by_id.len(),
        saved.len(),
        saves.committed
    );
    assert!(line.by_id.len() > CLIENTS, "hardly anything was written");
    if has_person {
        let left = server.repo().status();
        server.expect_git_status(&left);
    }
    follower.judge(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_of_a_work_tree_is_true_at_one_place_in_the_order_of_the_commits() {
    run(TestServer::setup("empty"), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_of_a_bare_repository_is_true_at_one_place_in_the_order_of_the_commits() {
    run(TestServer::setup("empty").bare(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_of_a_shared_branch_is_true_at_one_place_in_the_order_of_the_commits() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Repo::seeded(folder.path().join("seed"), "empty").bare_clone(folder.path().join("hub.git"));
    let url = hub.path().to_string_lossy().into_owned();
    run(TestServer::setup("").without_repository().flag(&["--remote", &url]), false).await;
}

/// A judge that accepts every answer proves nothing.
#[test]
fn false_answers_are_found() {
    let state = |names: &[(&str, &str)]| -> BTreeMap<String, String> {
        names.iter().map(|(key, name)| ((*key).to_owned(), (*name).to_owned())).collect()
    };
    let line = || BranchHistory {
        places: [("r1", 1), ("r2", 2)].map(|(revision, place)| (revision.to_owned(), vec![place])).into(),
        states: vec![state(&[]), state(&[("a", "c0n0")]), state(&[("a", "c0n1")])],
        by_id: [("c0n0", 1), ("c0n1", 2)].map(|(id, place)| (id.to_owned(), vec![place])).into(),
        taken_back: Vec::new(),
    };
    let start = Instant::now();
    let call = |id: &str, from: u64, to: u64, asked: Operation, answered: Outcome| Call {
        id: id.to_owned(),
        began: start + Duration::from_millis(from),
        ended: start + Duration::from_millis(to),
        asked,
        answered,
        is_latest: true,
        connection: (0, 0),
    };
    let done = |revision: &str| Outcome::Done(revision.to_owned());
    let writes = [
        call("c0n0", 0, 10, Operation::Create("a"), done("r1")),
        call("c0n1", 20, 30, Operation::Update("a", None), done("r2")),
    ];
    let seen = |revision: &str, name: &str| Outcome::Seen(revision.to_owned(), state(&[("a", name)]));
    let with = |other: Call| {
        let calls = [writes.as_slice(), &[other]].concat();
        std::panic::catch_unwind(|| judge(&calls, &line(), &Saves::default())).is_ok()
    };
    assert!(with(call("c1n0", 15, 25, Operation::Read("a"), seen("r1", "c0n0"))));
    assert!(with(call("c1n0", 22, 40, Operation::Read("a"), seen("r2", "c0n1"))));
    assert!(with(call("c1n0", 0, 5, Operation::Read("a"), Outcome::Refused)));
    assert!(with(call("c1n0", 22, 25, Operation::Update("a", Some("c0n0".into())), Outcome::Refused)));
    assert!(!with(call("c1n0", 40, 50, Operation::Read("a"), seen("r1", "c0n0"))), "a stale read");
    assert!(!with(call("c1n0", 15, 18, Operation::Read("a"), seen("r2", "c0n1"))), "a read of the future");
    assert!(!with(call("c1n0", 22, 40, Operation::List, seen("r2", "c0n0"))), "a list of nowhere");
    assert!(!with(call("c1n0", 40, 50, Operation::Read("a"), Outcome::Refused)), "it was there");
    assert!(!with(call("c1n0", 40, 50, Operation::Update("a", Some("c0n1".into())), Outcome::Refused)));
    assert!(!with(call("c1n0", 40, 50, Operation::Merge("a", "c0n1".into()), Outcome::Refused)));
    assert!(!with(call("c1n0", 40, 50, Operation::Delete("a"), done("r2"))), "a write that is lost");
    let with_saves = |others: [Call; 2]| {
        // Saved after 12 ms and never committed, because the second commit's file replaced it.
        let saves = Saves::from_iter([("h0", "a", start + Duration::from_millis(12), (2, 0))]);
        let calls = [writes.as_slice(), &others].concat();
        std::panic::catch_unwind(|| judge(&calls, &line(), &saves)).is_ok()
    };
    let read =
        |from: u64, to: u64, name: &str| call("c1n0", from, to, Operation::Read("a"), seen("r1", name));
    assert!(with_saves([read(13, 14, "c0n0"), read(15, 16, "h0")]));
    assert!(!with_saves([read(15, 16, "h0"), read(17, 18, "c0n0")]), "a saved file that is forgotten");
    assert!(!with_saves([read(10, 11, "h0"), read(15, 16, "h0")]), "a file that is not saved yet");
    assert!(!with_saves([read(13, 14, "c0n0"), read(15, 16, "h1")]), "a file that nobody saved");
    assert!(with_saves([read(15, 16, "h0"), call("c1n1", 17, 18, Operation::Create("a"), Outcome::Refused)]));
}
