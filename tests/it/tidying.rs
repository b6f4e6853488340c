//! Every git command that maintains a repository, run repeatedly during writes: no write is refused, nothing is lost,
//! and the service then starts on a clean repository.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Interval, interval};

use crate::support::{Client, Repo, TestServer, document, env_or};

/// Commands that a person, a timer or another tool may run at any time.
const COMMANDS: [&[&str]; 9] = [
    &["gc", "--quiet"],
    &["multi-pack-index", "write"],
    &["multi-pack-index", "repack"],
    &["multi-pack-index", "expire"],
    &["repack", "-adfq"],
    &["gc", "--quiet", "--prune=now"],
    &["prune", "--expire=now"],
    &["maintenance", "run", "--quiet"],
    &["gc", "--quiet", "--aggressive", "--prune=now"],
];

/// How many clients write concurrently.
const WRITERS_LEN: usize = 16;

/// The state that all writers of a round share.
struct Round {
    number: u64,
    is_over: AtomicBool,
    /// Each write waits for a tick, because more commits in a round would only make git slower.
    pace: Mutex<Interval>,
}

impl Round {
    fn begin(number: u64) -> Arc<Self> {
        let writes_per_second = env_or("COLLECTORY_TIDY_WRITES", 700);
        let pace = Mutex::new(interval(Duration::from_secs(1).div_f64(writes_per_second as f64)));
        Arc::new(Self { number, is_over: AtomicBool::new(false), pace })
    }
}

/// Writes until the round is over; returns the reasons of the acknowledged commits.
async fn write(client: Client, writer: usize, round: Arc<Round>) -> Vec<String> {
    let (key, mut reasons) = (format!("w{writer}"), Vec::new());
    while !round.is_over.load(Ordering::Relaxed) {
        round.pace.lock().await.tick().await;
        let reason = format!("r{}-w{writer}-n{}", round.number, reasons.len());
        let request = client.request("PATCH", &format!("/collections/{key}"));
        let request = request.document(&document(&key, json!({"name": reason})));
        request.header("Commit-Message", &reason).send().await.is(200);
        reasons.push(reason);
    }
    reasons
}

/// Runs the commands until the time is up; returns how many. They may break each other: that does not concern the
/// service.
fn tidy(repo: &Repo, until: Instant) -> usize {
    let mut done = 0;
    for command in COMMANDS.iter().cycle() {
        if Instant::now() >= until {
            break;
        }
        drop(repo.try_git(command));
        done += 1;
    }
    done
}

/// Prints the progress of a long run, for `--nocapture`.
#[expect(clippy::print_stdout, reason = "a run of minutes says how it goes")]
fn tell(line: &str) {
    println!("{line}");
}

async fn tidy_beside_writes(mut server: TestServer) {
    for writer in 0..WRITERS_LEN {
        server.create(&document(&format!("w{writer}"), json!({"name": "new"}))).await.is(201);
    }
    let seconds = env_or("COLLECTORY_TIDY_SECONDS", 2);
    let mut expected = Vec::new();
    for number in 0..env_or("COLLECTORY_TIDY_ROUNDS", 1) {
        let (round, repo) = (Round::begin(number), server.repo().clone());
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS_LEN {
            writers.spawn(write(server.client().clone(), writer, Arc::clone(&round)));
        }
        let began = Instant::now();
        let until = began + Duration::from_secs(seconds);
        let commands = tokio::task::spawn_blocking(move || tidy(&repo, until)).await.unwrap();
        round.is_over.store(true, Ordering::Relaxed);
        let reasons: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
        let rate = reasons.len() as f64 / began.elapsed().as_secs_f64();
        tell(&format!(
            "round {number}: {commands} commands beside {} writes, {rate:.0} a second",
            reasons.len()
        ));
        expected.extend(reasons);
        let log = server.stop();
        log.lines().filter(|line| line.contains("WARN")).for_each(tell);
        server.repo().fsck();
        server.start_again().await;
        check(&server, &expected).await;
    }
}

/// Asserts that every acknowledged write is in the log once, and that everything is served.
async fn check(server: &TestServer, expected: &[String]) {
    let log = server.repo().git(&["log", "--format=%b"]);
    let mut found: HashMap<&str, usize> = HashMap::new();
    for line in log.lines() {
        *found.entry(line).or_default() += 1;
    }
    let lost: Vec<_> = expected.iter().filter(|reason| found.get(reason.as_str()) != Some(&1)).collect();
    assert!(lost.is_empty(), "acknowledged, and not once in the log: {lost:?}");
    assert_eq!(server.list().await.is(200).ids().len(), WRITERS_LEN);
    assert_eq!(server.get("/problems").await.is(200).ids(), [""; 0]);
    if !server.repo().is_bare() {
        assert_eq!(server.repo().status(), "");
    }
    assert_eq!(server.repo().leftover_files(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn git_tidying_beside_writes_harms_nothing_on_a_bare_repository() {
    tidy_beside_writes(TestServer::setup("empty").bare().start().await).await;
}

#[tokio::test]
async fn git_tidying_beside_writes_harms_nothing_with_a_work_tree() {
    tidy_beside_writes(TestServer::start("empty").await).await;
}
