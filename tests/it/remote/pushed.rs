//! Writes that are acknowledged once the remote has them.

use serde_json::json;

use super::transports::{By, Reached};
use super::{Hub, create, link, unavailable, wait_for_remote_state, wait_for_write};
use crate::support::{TOKEN, document, eventually};

#[tokio::test]
async fn a_write_of_one_instance_is_on_the_remote_when_it_is_answered_and_seen_by_the_other() {
    let hub = Hub::empty();
    let (one, other) = (hub.instance().await, hub.instance().await);
    let revision = create(&one, "posts").await;
    assert_eq!(hub.head(), Some(revision.clone()));
    let read = other.request("GET", "/collections/posts").header("Collectory-Min-Revision", &revision);
    let read = read.send().await.is(200);
    let here = one.read("posts").await.is(200);
    assert_eq!((read.header("etag"), read.data()), (here.header("etag"), here.data()));
    assert_eq!(one.repo().head(), other.repo().head());
    let link = link(&one).await;
    assert_eq!((&link["state"], &link["ack"], &link["ahead"]), (&json!("up"), &json!("pushed"), &json!(0)));
    assert_eq!((&link["url"], &link["lastError"]), (&json!(hub.url()), &json!(null)));
}

#[tokio::test]
async fn an_instance_begins_with_the_whole_history_of_the_remote_and_goes_on_from_its_copy() {
    let hub = Hub::with("small");
    let mut server = hub.instance().await;
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages", "posts"]);
    assert_eq!(Some(server.repo().head()), hub.head());
    assert!(server.repo().is_bare());
    server.stop();
    let head = hub.push_collection("posts", "Foreign");
    server.start_again().await;
    server.wait_for_revision(&head).await;
    hub.make_unreachable();
    server.restart().await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Foreign");
    hub.make_reachable();
}

#[tokio::test]
async fn an_answer_without_a_commit_rests_on_what_the_remote_has_now() {
    let hub = Hub::with("small");
    let server = hub.instance().await;
    hub.push_collection("new", "Foreign");
    server.create(&document("new", json!({}))).await.is(409);
    hub.push_collection("newer", "Foreign");
    server.patch("newer", json!({"name": "Mine"})).await.is(200);
    hub.push_change(|person| person.remove("collections/newer.yaml"));
    server.delete("newer").await.is(404);
    server.patch("pages", json!({"name": "Pages"})).await.is(200);
}

#[tokio::test]
async fn what_a_dry_run_tells_rests_on_what_the_remote_has_now() {
    let hub = Hub::with("small");
    let server = hub.instance().await;
    hub.push_collection("new", "Foreign");
    let dry = |key: &str| {
        server
            .request("POST", "/collections")
            .header("Prefer", "dry-run")
            .document(&document(key, json!({})))
            .send()
    };
    dry("new").await.is(409);
    hub.push_change(|person| person.remove("collections/new.yaml"));
    dry("new").await.is(200);
    hub.make_unreachable();
    dry("new").await.is(503);
    dry("pages").await.is(503);
    hub.make_reachable();
}

#[tokio::test]
async fn a_remote_that_refuses_is_probed_by_one_push_at_a_time() {
    let hub = Hub::with("small");
    let server = hub.polling(100).start().await;
    let pushes = hub.folder.path().join("pushes");
    hub.hook("pre-receive", &format!("echo x >> '{}'; exit 1", pushes.display()));
    unavailable(&server, "posts", "No").await;
    let count = || std::fs::read_to_string(&pushes).unwrap().lines().count();
    let before = count();
    let probed = eventually("the remote is probed", async || {
        server.patch("posts", json!({"name": "No"})).await.is(503);
        Some(count()).filter(|count| *count > before)
    });
    assert_eq!(probed.await, before + 1);
    hub.no_hook("pre-receive");
}

#[tokio::test]
async fn a_request_that_one_instance_carried_out_is_not_done_again_by_another() {
    let hub = Hub::with("small");
    let (one, other) = (hub.instance().await, hub.instance().await);
    let body = document("new", json!({"name": "New"}));
    let ask = |server| {
        let server: &crate::support::TestServer = server;
        server.request("POST", "/collections").header("Idempotency-Key", "once").document(&body).send()
    };
    let first = ask(&one).await.is(201);
    let again = ask(&other).await.is(201);
    assert_eq!(first.header("collectory-revision"), again.header("collectory-revision"));
    assert_eq!(hub.repo.git(&["log", "--format=%s", "-1", "main"]), "Create new");
}

#[tokio::test]
async fn an_update_is_merged_by_attribute_by_an_instance_that_has_not_seen_the_collection() {
    let hub = Hub::with("small");
    let (one, other) = (hub.instance().await, hub.instance().await);
    let old = one.create(&document("new", json!({"name": "New"}))).await.is(201).header("etag");
    one.patch("new", json!({"directory": "content/new"})).await.is(200);
    let request =
        other.request("PATCH", "/collections/new").document(&document("new", json!({"name": "Newer"})));
    let merged = request.header("If-Match", &old).header("Prefer", "merge=attributes").send().await.is(200);
    assert_eq!(merged.header("preference-applied"), "merge=attributes");
    let attributes = merged.attributes();
    assert_eq!((&attributes["name"], &attributes["directory"]), (&json!("Newer"), &json!("content/new")));
}

#[tokio::test]
async fn a_write_that_failed_is_no_trouble_any_more_when_the_remote_is_up_again() {
    let hub = Hub::with("small");
    let server = hub.polling(50).start().await;
    hub.make_unreachable();
    unavailable(&server, "posts", "Lost").await;
    wait_for_remote_state(&server, "down").await;
    hub.make_reachable();
    wait_for_remote_state(&server, "up").await;
    let ready = server.get("/readyz").await.is(200).json();
    assert_eq!(ready["meta"].get("writes"), None, "{ready}");
}

#[tokio::test]
async fn a_secret_that_the_remote_repeats_is_told_nobody() {
    let reached = Reached::by(By::Http, Hub::with("small")).await.unwrap();
    let said = format!("no {TOKEN}, use https://mara:hidden@git.example.org/x");
    reached.hub.hook("pre-receive", &format!("echo '{said}'; exit 1"));
    let mut server = reached.setup().start().await;
    let (code, error) = unavailable(&server, "posts", "Lost").await;
    assert_eq!(code, "remote_refused");
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.contains("no ***, use https://***@git.example.org/x"), "{detail}");
    let shown = link(&server).await.to_string() + &server.stop();
    assert!(!shown.contains(TOKEN) && !shown.contains("hidden"), "{shown}");
}

#[tokio::test]
async fn what_the_remote_refuses_is_told_in_its_words_and_tried_no_more_for_a_while() {
    let hub = Hub::with("small");
    let runs = hub.repo.path().join("runs");
    let script = format!("echo run >> {}; echo \"no writes \u{1b}[31mtoday\"; exit 1", runs.display());
    hub.hook("pre-receive", &script);
    let server = hub.polling(1000).start().await;
    let head = server.repo().head();
    let (code, error) = unavailable(&server, "posts", "Lost").await;
    assert_eq!(code, "remote_refused");
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.contains("no writes \u{fffd}[31mtoday") && !detail.contains('\u{1b}'), "{detail}");
    assert_eq!(unavailable(&server, "posts", "Lost").await.0, "remote_refused");
    assert!(std::fs::read_to_string(&runs).unwrap().lines().count() <= 4, "no storm");
    wait_for_remote_state(&server, "refused").await;
    assert_eq!((server.repo().head(), hub.head()), (head.clone(), Some(head)));
    hub.no_hook("pre-receive");
    wait_for_write(&server).await;
    wait_for_remote_state(&server, "up").await;
}

#[tokio::test]
async fn writes_that_change_nothing_are_no_probes_of_a_remote_that_refuses() {
    let hub = Hub::with("small");
    hub.hook("pre-receive", "exit 1");
    let server = hub.polling(500).start().await;
    assert_eq!(unavailable(&server, "posts", "Lost").await.0, "remote_refused");
    hub.no_hook("pre-receive");
    let name = server.read("pages").await.is(200).attributes()["name"].clone();
    eventually("writes go on", async || {
        server.patch("pages", json!({"name": name})).await.is(200);
        (server.patch("posts", json!({"name": "After"})).await.status() == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_was_pushed_by_a_service_that_was_killed_is_found_by_the_next() {
    let hub = Hub::with("small");
    let mut server = hub.instance().await;
    // The hook runs after the remote's branch has moved; the service is killed before it learns of that.
    let mark = hub.repo.path().join("mark");
    hub.hook("post-receive", &format!("touch {}; sleep 60", mark.display()));
    let asked =
        server.request("PATCH", "/collections/posts").document(&document("posts", json!({"name": "Mine"})));
    let killed = async {
        eventually("the remote has it", async || mark.exists().then_some(())).await;
        server.kill();
    };
    let (answer, ()) = tokio::join!(asked.attempt(), killed);
    assert!(answer.is_none(), "nobody was answered");
    hub.no_hook("post-receive");
    server.start_again().await;
    server.wait_for_attribute("posts", "name", "Mine").await;
    assert_eq!(Some(server.repo().head()), hub.head());
}
