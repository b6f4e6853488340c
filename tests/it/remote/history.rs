//! Three services, clients that read and write at each, failing connections, kills, and people who push, amend and
//! force-push: every answer is judged against every move of the remote's branch.
//!
//! `COLLECTORY_REMOTE_SECONDS=600` is the long run, `COLLECTORY_REMOTE_SEED` repeats requests and faults.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::evidence::Evidence;
use super::{Hub, link, over_git};
use crate::linearizable::{BranchHistory as Order, Call, Caller, Outcome, Saves, judge};
use crate::support::{
    EventStream, Proxy, ProxyMode, Repo, StreamMessage, TestServer, env_or, eventually, git_command,
    git_daemon,
};

const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

const CLIENTS: usize = 9;

/// How many answers there are between two faults.
const ANSWERS_BETWEEN_FAULTS: usize = 40;

/// The instances, the proxies between them and the remote, and the channels through which clients find them.
struct Instances {
    servers: Vec<TestServer>,
    proxies: Vec<Proxy>,
    tell: Vec<watch::Sender<crate::support::Client>>,
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    /// The logs of killed processes.
    logs: Vec<String>,
}

impl Instances {
    async fn start(hub: &Hub, port: u16, count: usize) -> Self {
        let (mut servers, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let proxy = Proxy::start(port);
            let setup = over_git(proxy.port, 100, 2_000).flag(&["--heartbeat-ms", "200"]);
            let setup = setup.flag(&["--log-level", "info,collectory::store::remote=debug"]);
            servers.push(setup.start().await);
            proxies.push(proxy);
        }
        assert!(hub.head().is_some());
        let tell = servers.iter().map(|server| watch::channel(server.client().clone()).0).collect();
        let addresses = Arc::new(Mutex::new(servers.iter().map(TestServer::address).collect()));
        Self { servers, proxies, tell, addresses, logs: vec![String::new(); count] }
    }

    /// Causes or ends one fault; returns a description of it.
    async fn break_something(&mut self, dice: &mut fastrand::Rng, hub: &Hub, step: usize) -> String {
        let at = dice.usize(..self.servers.len());
        match dice.u8(..14) {
            0 | 1 => person(hub, step, Push::OnTop),
            2 => person(hub, step, Push::Amended),
            3 => person(hub, step, Push::Rewound),
            4 => {
                self.kill(at, false).await;
                format!("{at} is killed")
            }
            5 => {
                self.kill(at, true).await;
                format!("{at} is killed with its transfers")
            }
            6 => {
                self.servers[at].kill_transfers();
                format!("the transfers of {at} are killed")
            }
            7..=9 => {
                let lines = [
                    ProxyMode::Refuse,
                    ProxyMode::LoseAnswers,
                    ProxyMode::CutAfter(200),
                    ProxyMode::Delay(Duration::from_millis(5)),
                    ProxyMode::Swallow,
                ];
                let line = lines[dice.usize(..lines.len())];
                self.proxies[at].set(line);
                format!("the line of {at}: {line:?}")
            }
            _ => {
                self.proxies.iter().for_each(|proxy| proxy.set(ProxyMode::Pass));
                "all lines pass".to_owned()
            }
        }
    }

    /// Returns the log of each instance since its first start.
    fn logs(&self) -> Vec<String> {
        self.logs
            .iter()
            .zip(&self.servers)
            .map(|(before, server)| format!("{before}{}", server.log()))
            .collect()
    }

    async fn kill(&mut self, at: usize, with_transfers: bool) {
        if with_transfers {
            self.servers[at].kill_transfers();
        }
        let said = self.servers[at].log();
        self.logs[at].push_str(&said);
        self.servers[at].kill();
        self.servers[at].start_again().await;
        self.addresses.lock().unwrap()[at] = self.servers[at].address();
        self.tell[at].send_replace(self.servers[at].client().clone());
    }
}

/// How a person pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Push {
    /// A commit on top of the head.
    OnTop,
    /// The person's own commit at the head, amended.
    Amended,
    /// The state before the last commit.
    Rewound,
}

/// Pushes once as a person, without a retry after a lost race. Returns a description of the result.
fn person(hub: &Hub, step: usize, how: Push) -> String {
    let person = hub.person();
    person.git(&["fetch", "--quiet"]);
    person.git(&["reset", "--quiet", "--hard", "origin/main"]);
    let key = KEYS[step % KEYS.len()];
    let content = format!("type: document\nname: person {step}\n");
    let is_own = person.field("HEAD", "%s") == "By a person";
    let has_parent = person.try_git(&["rev-parse", "--verify", "--quiet", "HEAD~2"]).status.success();
    match how {
        Push::OnTop => {
            person.write(&format!("collections/{key}.yaml"), &content);
            person.commit("By a person");
        }
        Push::Amended if is_own => {
            person.write(&format!("collections/{key}.yaml"), &content);
            person.git(&["commit", "--quiet", "--all", "--amend", "--no-edit"]);
        }
        Push::Rewound if has_parent => drop(person.git(&["reset", "--quiet", "--hard", "HEAD~1"])),
        Push::Amended | Push::Rewound => return format!("{how:?}: there was nothing"),
    }
    let mut push = git_command(person.path());
    push.args(["push", "--quiet", "--force-with-lease", "origin", "HEAD:main"]);
    let is_pushed = push.output().unwrap().status.success();
    format!("{how:?}: {} is pushed: {is_pushed}", person.head())
}

/// Follows the events, at one instance after another, until the last one arrives.
fn follow(
    addresses: &Mutex<Vec<SocketAddr>>,
    seed: u64,
    last: &Mutex<Option<String>>,
    is_over: &AtomicBool,
) -> Vec<StreamMessage> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let (mut all, mut id) = (Vec::<StreamMessage>::new(), None::<String>);
    loop {
        let address = {
            let addresses = addresses.lock().unwrap();
            addresses[dice.usize(..addresses.len())]
        };
        let Some(mut stream) = EventStream::try_open(address, "", id.as_deref()) else { continue };
        for _ in 0..dice.usize(1..20) {
            let Some(heard) = stream.next_message() else { break };
            if heard.id.is_some() {
                id.clone_from(&heard.id);
            }
            all.push(heard);
            let is_last = id.is_some() && *last.lock().unwrap() == id;
            if is_last || is_over.load(Ordering::Relaxed) {
                return all;
            }
        }
    }
}

/// Returns the state that results from applying the events in order.
fn folded(heard: &[StreamMessage], order: &Order) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut state = BTreeMap::new();
    for StreamMessage { event, data, .. } in heard {
        match event.as_str() {
            "head" => {}
            "reset" => state = order.states[order.places[data["revision"].as_str().unwrap()][0]].clone(),
            action => {
                let attributes = &data["attributes"];
                let key = text(&attributes["collection"]);
                let changes = attributes["changes"].as_array().unwrap();
                let name = changes.iter().find(|change| change["attribute"] == "name");
                match name.filter(|_| action != "deleted") {
                    Some(change) => drop(state.insert(key, text(&change["to"]))),
                    None if action == "deleted" => drop(state.remove(&key)),
                    None => {}
                }
            }
        }
    }
    state
}

/// Returns the ids of the calls whose commits the remote has, or an instance keeps after a rewrite.
fn known_ids(repos: &[&Repo]) -> HashSet<String> {
    let bodies = repos
        .iter()
        .map(|repo| repo.git(&["log", "--format=%B", "--branches", "--glob=refs/collectory/kept"]));
    bodies.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "how to run it again, and how much was tried")]
async fn every_answer_of_three_instances_is_true_at_one_place_in_what_the_remote_has_had() {
    let (seed, seconds) = (env_or("COLLECTORY_REMOTE_SEED", 1), env_or("COLLECTORY_REMOTE_SECONDS", 10));
    println!("COLLECTORY_REMOTE_SEED={seed}");
    let hub = Hub::noting_moves("empty");
    let start = hub.repo.head();
    person(&hub, 0, Push::OnTop);
    let daemon = git_daemon(hub.folder.path());
    let mut instances = Instances::start(&hub, daemon.1, 3).await;
    let mut evidence = Evidence::begin(seed);
    let until = Instant::now() + Duration::from_secs(seconds);
    let answers = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let services = instances.tell.iter().map(watch::Sender::subscribe).collect();
        let answers = Arc::clone(&answers);
        clients.spawn(Caller { number, seed, until, keys: &KEYS, services, answers }.run());
    }
    let (last, is_over) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
    let follower = {
        let (addresses, last, is_over) =
            (Arc::clone(&instances.addresses), Arc::clone(&last), Arc::clone(&is_over));
        thread::spawn(move || follow(&addresses, seed, &last, &is_over))
    };
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut step = 0;
    while Instant::now() < until {
        let enough = answers.load(Ordering::Relaxed) + ANSWERS_BETWEEN_FAULTS;
        eventually("calls are answered", async || {
            (answers.load(Ordering::Relaxed) >= enough || Instant::now() >= until).then_some(())
        })
        .await;
        step += 1;
        let what = instances.break_something(&mut dice, &hub, step).await;
        evidence.note(what);
    }
    instances.proxies.iter().for_each(|proxy| proxy.set(ProxyMode::Pass));
    let calls: Vec<Call> = clients.join_all().await.into_iter().flatten().collect();
    evidence.note(person(&hub, step + 1, Push::OnTop));
    let repos: Vec<&Repo> = instances.servers.iter().map(TestServer::repo).chain([&hub.repo]).collect();
    let logs = || instances.logs();
    let _kept_if_it_fails = evidence.of(&calls, &logs, &repos);
    eventually("all are at the same commit", async || {
        let mut is_same = true;
        for server in &instances.servers {
            let state = link(server).await["state"].clone();
            is_same &= state == "up" && Some(server.repo().head()) == hub.head();
        }
        is_same.then_some(())
    })
    .await;
    let order = Order::of_moves(&hub.repo, &start);
    judge(&calls, &order, &Saves::default());
    let (known, done): (_, Vec<&Call>) =
        (known_ids(&repos), calls.iter().filter(|call| matches!(call.answered, Outcome::Done(_))).collect());
    let gone: Vec<_> =
        done.iter().filter(|call| order.by_id.contains_key(&call.id) && !known.contains(&call.id)).collect();
    assert!(gone.is_empty(), "acknowledged, and neither on the remote nor kept: {gone:?}");
    let history = hub.repo.git(&["log", "--first-parent", "--format=%B", "main"]);
    let ids: Vec<&str> = history.lines().filter(|line| order.by_id.contains_key(*line)).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "something was done twice");
    *last.lock().unwrap() = hub.head();
    eventually("the stream has come to the end", async || follower.is_finished().then_some(())).await;
    is_over.store(true, Ordering::Relaxed);
    let heard = follower.join().unwrap();
    // Without a reset, the follower lacks the state from before it began to follow.
    let from_reset = heard.iter().rposition(|heard| heard.event == "reset");
    if let Some(from) = from_reset {
        assert_eq!(folded(&heard[from..], &order), *order.states.last().unwrap());
    }
    println!("{} calls, {} moves, {} heard", calls.len(), order.states.len(), heard.len());
    assert!(order.by_id.len() > CLIENTS, "hardly anything was written");
}

#[test]
fn what_people_have_taken_back_is_known_after_the_remote_was_tidied() {
    let hub = Hub::noting_moves("empty");
    let start = hub.repo.head();
    person(&hub, 0, Push::OnTop);
    let taken_back = hub.repo.head();
    person(&hub, KEYS.len(), Push::Amended);
    assert_ne!(hub.repo.head(), taken_back);
    hub.repo.git(&["gc", "--quiet"]);
    assert!(Order::of_moves(&hub.repo, &start).places.contains_key(&taken_back));
    hub.repo.git(&["reflog", "expire", "--expire=all", "--all"]);
    let judged = std::panic::catch_unwind(|| Order::of_moves(&hub.repo, &start).states.len());
    assert!(judged.is_err(), "a log that lacks moves proves nothing");
}
