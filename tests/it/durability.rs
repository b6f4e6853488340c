//! Kills at any instant: acknowledged writes survive; others exist completely or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{Client, Setup, TestServer, document, env_or, eventually};

/// How often the process is killed; `COLLECTORY_CRASH_ROUNDS` sets the long run.
const ROUNDS_USUAL: u64 = 10;

/// Writes until the connection breaks; returns the names of the acknowledged commits.
async fn write_until_cut(
    client: Client,
    writer: usize,
    round: u64,
    acknowledged: Arc<AtomicUsize>,
) -> Vec<String> {
    let mut subjects = Vec::new();
    for number in 0.. {
        let key = format!("r{round}-w{writer}-n{number}");
        let body = document(&key, json!({"name": key}));
        let request = client.request("POST", "/collections").document(&body);
        let Some(answer) = request.attempt().await else { break };
        if answer.status() == 503 {
            continue;
        }
        answer.is(201);
        acknowledged.fetch_add(1, Ordering::Relaxed);
        subjects.push(format!("Create {key}"));
        let request = client.request("PATCH", "/collections/shared");
        let request = request.document(&document("shared", json!({"name": key})));
        let Some(answer) = request.header("Commit-Message", &key).attempt().await else { break };
        if answer.status() == 200 {
            answer.is(200);
            subjects.push(format!("because {key}"));
        }
    }
    subjects
}

/// The repository is replaced after this many kills, because each check reads its whole history.
const KILLS_OF_A_REPOSITORY: usize = 20;

async fn crash_loop(setup: impl Fn() -> Setup) {
    let rounds: Vec<u64> = (0..env_or("COLLECTORY_CRASH_ROUNDS", ROUNDS_USUAL)).collect();
    for rounds in rounds.chunks(KILLS_OF_A_REPOSITORY) {
        crash_rounds(setup().start().await, rounds).await;
    }
}

async fn crash_rounds(mut server: TestServer, rounds: &[u64]) {
    server.create(&document("shared", json!({}))).await.is(201);
    let mut expected = Vec::new();
    for &round in rounds {
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let mut writers = JoinSet::new();
        for writer in 0..4 {
            writers.spawn(write_until_cut(server.client().clone(), writer, round, Arc::clone(&acknowledged)));
        }
        // The kill comes after a number of writes that varies by round, at whatever instant the other writers have
        // reached.
        let enough = 1 + (round as usize * 7) % 23;
        eventually("writes are acknowledged", async || {
            (acknowledged.load(Ordering::Relaxed) >= enough).then_some(())
        })
        .await;
        // Alternates between killing the process alone and its whole process group.
        if round % 2 == 0 {
            server.kill();
        } else {
            server.kill_group();
        }
        for subjects in writers.join_all().await {
            expected.extend(subjects);
        }
        server.start_again().await;
        check(&server, &expected).await;
    }
}

/// Checks that every acknowledged write is in the log exactly once, and that the repository is sound.
async fn check(server: &TestServer, expected: &[String]) {
    let log = server.repo().git(&["log", "--format=%s%x00%b%x01"]);
    let mut found = std::collections::BTreeMap::new();
    for entry in log.split('\u{1}') {
        let (subject, body) = entry.trim_start().split_once('\0').unwrap_or((entry, ""));
        let reason = body
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with('r') && line.contains("-w") && line.contains("-n"));
        let name = match reason {
            Some(reason) if subject.starts_with("Update shared") => format!("because {reason}"),
            _ => subject.to_owned(),
        };
        *found.entry(name).or_insert(0) += 1;
    }
    for subject in expected {
        assert_eq!(found.get(subject), Some(&1), "{subject} was acknowledged; the log has\n{log}");
    }
    assert!(found.iter().all(|(name, count)| *count == 1 || name.is_empty()), "a commit twice: {found:?}");
    server.repo().fsck();
    if !server.repo().is_bare() {
        assert_eq!(server.repo().status(), "");
    }
    assert_eq!(server.repo().leftover_files(), Vec::<std::path::PathBuf>::new());
    assert_eq!(server.get("/problems").await.is(200).ids(), [""; 0]);
    let tree = server.repo().git(&["ls-tree", "--name-only", "HEAD", "collections/"]);
    let mut keys: Vec<_> = tree
        .lines()
        .map(|path| path.trim_start_matches("collections/").trim_end_matches(".yaml").to_owned())
        .collect();
    keys.sort();
    assert_eq!(server.list().await.is(200).ids(), keys);
    let created = found.keys().filter(|name| name.starts_with("Create ")).count();
    assert_eq!(created, keys.len(), "each creation in the log is a collection");
}

#[tokio::test]
async fn a_killed_service_with_a_work_tree_loses_nothing_that_it_acknowledged() {
    crash_loop(|| TestServer::setup("empty")).await;
}

#[tokio::test]
async fn a_killed_service_on_a_bare_repository_loses_nothing_that_it_acknowledged() {
    crash_loop(|| TestServer::setup("empty").bare()).await;
}

#[tokio::test]
async fn a_hand_edit_survives_a_kill_and_is_still_served() {
    let mut server = TestServer::start("small").await;
    let edited = "# mine\ntype: document\nname: By hand\n";
    server.repo().write_by_rename("collections/posts.yaml", edited);
    server.wait_for_attribute("posts", "name", "By hand").await;
    server.patch("pages", json!({"name": "By API"})).await.is(200);
    server.kill();
    server.start_again().await;
    server.wait_for_attribute("posts", "name", "By hand").await;
    assert_eq!(server.repo().read("collections/posts.yaml"), edited);
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn a_stop_under_load_answers_what_it_has_begun() {
    let mut server = TestServer::start("empty").await;
    server.create(&document("shared", json!({}))).await.is(201);
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        writers.spawn(write_until_cut(server.client().clone(), writer, 0, Arc::clone(&acknowledged)));
    }
    eventually("writes are acknowledged", async || (acknowledged.load(Ordering::Relaxed) >= 5).then_some(()))
        .await;
    let stopping = tokio::task::spawn_blocking(move || {
        server.stop();
        server
    });
    let expected: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    server = stopping.await.unwrap();
    server.start_again().await;
    check(&server, &expected).await;
}
