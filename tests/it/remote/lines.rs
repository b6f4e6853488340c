//! Connections to the remote that refuse, swallow, cut off and lose data.

use serde_json::{Value, json};

use super::{Hub, over_git, wait_for_remote_state, wait_for_write};
use crate::support::{Answer, Daemon, Proxy, ProxyMode, TestServer, document, git_daemon};

/// Starts git's daemon for a remote, a proxy to it, and a service that uses the proxy.
async fn behind(hub: &Hub, poll_ms: u64, timeout_ms: u64) -> (Daemon, Proxy, TestServer) {
    let daemon = git_daemon(hub.folder.path());
    let proxy = Proxy::start(daemon.1);
    let server = over_git(proxy.port, poll_ms, timeout_ms).start().await;
    (daemon, proxy, server)
}

#[tokio::test]
async fn a_push_whose_answer_was_lost_is_known_by_its_commits() {
    let hub = Hub::with("small");
    let (_daemon, proxy, server) = behind(&hub, 100, 15_000).await;
    proxy.set(ProxyMode::LoseAnswers);
    let answer = server.patch("posts", json!({"name": "Mine"})).await.is(200);
    assert_eq!(hub.head(), Some(answer.header("collectory-revision")));
    proxy.set(ProxyMode::Pass);
}

/// Requests a change with an idempotency key.
async fn ask(server: &TestServer) -> Answer {
    let asked = server.request("PATCH", "/collections/posts").header("Idempotency-Key", "once");
    asked.document(&document("posts", json!({"name": "Mine"}))).send().await
}

fn events(answer: &Value) -> Value {
    answer["errors"][0]["meta"]["events"].clone()
}

#[tokio::test]
async fn whoever_asks_again_for_what_nobody_knows_is_told_so_until_it_is_known() {
    let hub = Hub::with("small");
    let (_daemon, proxy, server) = behind(&hub, 0, 3_000).await;
    proxy.set(ProxyMode::LoseEverything);
    let first = ask(&server).await.is(503);
    assert_eq!(first.error().0, "outcome_unknown");
    let again = ask(&server).await.is(503);
    assert_eq!(again.error().0, "outcome_unknown");
    assert_eq!(events(&first.json()), events(&again.json()));
    assert_eq!(server.patch("pages", json!({"name": "Later"})).await.is(503).error().0, "remote_unreachable");
    proxy.set(ProxyMode::Pass);
    wait_for_write(&server).await;
    let known = ask(&server).await.is(200);
    assert_eq!(known.attributes()["name"], "Mine");
    let id = events(&first.json())[0].as_str().unwrap().to_owned();
    let event = server.get(&format!("/events/{id}")).await.is(200).data();
    assert_eq!(event["attributes"]["revision"], known.header("collectory-revision"));
    let subjects = hub.repo.git(&["log", "--format=%s", "main"]);
    assert_eq!(subjects.lines().filter(|subject| *subject == "Update posts: name").count(), 1, "{subjects}");
}

#[tokio::test]
async fn a_line_that_ends_anywhere_or_says_nothing_leaves_nothing_half_done() {
    let hub = Hub::with("small");
    let (_daemon, proxy, server) = behind(&hub, 100, 1_500).await;
    for (round, line) in [
        ProxyMode::Refuse,
        ProxyMode::Swallow,
        ProxyMode::CutAfter(10),
        ProxyMode::CutAfter(120),
        ProxyMode::CutAfter(400),
    ]
    .into_iter()
    .enumerate()
    {
        proxy.set(line);
        let answer = server.patch("posts", json!({"name": format!("{round}")})).await.is(503);
        assert!(["remote_unreachable", "outcome_unknown"].contains(&answer.error().0.as_str()), "{line:?}");
        server.read("posts").await.is(200);
        proxy.set(ProxyMode::Pass);
        wait_for_write(&server).await;
        wait_for_remote_state(&server, "up").await;
    }
    proxy.set(ProxyMode::Delay(std::time::Duration::from_millis(20)));
    server.patch("posts", json!({"name": "Slow"})).await.is(200);
    proxy.set(ProxyMode::Pass);
}
