//! Writes that are answered when the remote has them.

use serde_json::json;

use super::transports::{By, Reached};
use super::{Hub, create, is_in_state, link, touch, unavailable};
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
    let head = hub.somebody_writes("posts", "Foreign");
    server.start_again().await;
    server.serves(&head).await;
    hub.goes_away();
    server.restart().await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Foreign");
    hub.comes_back();
}

#[tokio::test]
async fn two_first_writers_of_an_empty_remote_both_get_their_commit() {
    let hub = Hub::empty();
    let (one, other) = (hub.instance().await, hub.instance().await);
    let (posts, pages) = tokio::join!(create(&one, "posts"), create(&other, "pages"));
    let head = hub.head().unwrap();
    assert!(head == posts || head == pages);
    assert_eq!(hub.repo.git(&["rev-list", "--count", "main"]), "2");
}

#[tokio::test]
async fn writes_to_different_keys_never_refuse_each_other() {
    let hub = Hub::with("small");
    let (one, other) = (hub.instance().await, hub.instance().await);
    for round in 0..5 {
        let (name, there) = (json!({"name": format!("{round}")}), json!({"name": format!("there {round}")}));
        let (one, other) = tokio::join!(one.patch("posts", name), other.patch("pages", there));
        one.is(200);
        other.is(200);
    }
    let read = |server, key| async move {
        let server: &crate::support::TestServer = server;
        let answer = server.request("GET", key).header("Collectory-Min-Revision", "latest").send().await;
        answer.is(200).attributes()["name"].clone()
    };
    assert_eq!(read(&one, "/collections/pages").await, "there 4");
    assert_eq!(read(&other, "/collections/posts").await, "4");
}

#[tokio::test]
async fn a_lost_race_is_decided_again_preconditions_included() {
    let hub = Hub::with("small");
    let server = hub.instance().await;
    let tag = server.read("posts").await.is(200).header("etag");
    hub.somebody_writes("posts", "Foreign");
    let body = document("posts", json!({"name": "Mine"}));
    let stale = server.request("PATCH", "/collections/posts").header("If-Match", &tag).document(&body);
    stale.send().await.is(412);
    server.patch("pages", json!({"name": "Mine"})).await.is(200);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Foreign");
    assert_eq!(hub.repo.git(&["rev-list", "--count", "--merges", "main"]), "0");
}

#[tokio::test]
async fn an_answer_without_a_commit_rests_on_what_the_remote_has_now() {
    let hub = Hub::with("small");
    let server = hub.instance().await;
    hub.somebody_writes("new", "Foreign");
    server.create(&document("new", json!({}))).await.is(409);
    hub.somebody_writes("newer", "Foreign");
    server.patch("newer", json!({"name": "Mine"})).await.is(200);
    let person = hub.person();
    person.git(&["pull", "--quiet"]);
    person.remove("collections/newer.yaml");
    person.commit("Remove newer");
    person.git(&["push", "--quiet"]);
    server.delete("newer").await.is(404);
    server.patch("pages", json!({"name": "Pages"})).await.is(200);
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
async fn a_remote_that_is_away_is_told_and_nothing_is_changed() {
    let hub = Hub::with("small");
    let server = hub.setup().flag(&["--remote-timeout-ms", "5000"]).start().await;
    server.patch("posts", json!({"name": "Before"})).await.is(200);
    let head = hub.head();
    hub.goes_away();
    let (code, _) = unavailable(&server, "posts", "Lost").await;
    assert_eq!(code, "remote_unreachable");
    assert_eq!(unavailable(&server, "posts", "Lost").await.0, "remote_unreachable");
    assert_eq!(server.delete("nobody").await.is(503).error().0, "remote_unreachable");
    let told = is_in_state(&server, "down").await;
    assert!(told["lastError"].as_str().unwrap().contains("cannot be reached"), "{told}");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Before", "reads go on");
    hub.comes_back();
    assert_eq!(hub.head(), head);
    eventually("writes go on", async || {
        (server.patch("posts", json!({"name": "After"})).await.status() == 200).then_some(())
    })
    .await;
    is_in_state(&server, "up").await;
}

#[tokio::test]
async fn a_write_that_failed_is_no_trouble_any_more_when_the_remote_is_up_again() {
    let hub = Hub::with("small");
    let server = hub.polling(50).start().await;
    hub.goes_away();
    unavailable(&server, "posts", "Lost").await;
    is_in_state(&server, "down").await;
    hub.comes_back();
    is_in_state(&server, "up").await;
    let ready = server.get("/readyz").await.is(200).json();
    assert_eq!(ready["meta"].get("writes"), None, "{ready}");
}

#[tokio::test]
async fn a_secret_that_the_remote_repeats_is_told_nobody() {
    let reached = Reached::by(By::Http, Hub::with("small")).await.unwrap();
    let said = format!("no {TOKEN}, use https://mara:hidden@git.example.org/x");
    reached.hub.hook("pre-receive", &format!("echo '{said}'; exit 1"));
    let server = reached.setup().start().await;
    let (code, error) = unavailable(&server, "posts", "Lost").await;
    assert_eq!(code, "remote_refused");
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.contains("no ***, use https://***@git.example.org/x"), "{detail}");
    let told = link(&server).await.to_string() + &server.log();
    assert!(!told.contains(TOKEN) && !told.contains("hidden"), "{told}");
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
    is_in_state(&server, "refused").await;
    assert_eq!((server.repo().head(), hub.head()), (head.clone(), Some(head)));
    hub.no_hook("pre-receive");
    eventually("writes go on", async || {
        (server.patch("posts", json!({"name": "After"})).await.status() == 200).then_some(())
    })
    .await;
    is_in_state(&server, "up").await;
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
async fn a_write_of_which_nobody_knows_is_told_so_and_found_out_later() {
    let hub = Hub::with("small");
    let gate = hub.repo.path().join("gate");
    // It takes the push after the instance has given up waiting for an answer.
    let script = format!("while [ -e {0} ]; do sleep 0.05; done; exit 0", gate.display());
    let server = hub.setup().flag(&["--remote-timeout-ms", "1500"]).start().await;
    server.patch("posts", json!({"name": "First"})).await.is(200);
    hub.hook("pre-receive", &script);
    touch(&gate);
    let (code, error) = unavailable(&server, "posts", "Perhaps").await;
    assert_eq!(code, "outcome_unknown");
    let events = error["meta"]["events"].as_array().unwrap();
    assert_eq!(events.len(), 1, "{error}");
    is_in_state(&server, "unknown").await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "First", "reads go on");
    assert_eq!(unavailable(&server, "pages", "Later").await.0, "remote_unreachable");
    std::fs::remove_file(&gate).unwrap();
    server.shows("posts", "name", "Perhaps").await;
    let event = server.get(&format!("/events/{}", events[0].as_str().unwrap())).await.is(200).data();
    assert_eq!(event["attributes"]["revision"], hub.head().unwrap());
    server.patch("pages", json!({"name": "Later"})).await.is(200);
    is_in_state(&server, "up").await;
}

#[tokio::test]
async fn what_was_pushed_by_a_service_that_was_killed_is_found_by_the_next() {
    let hub = Hub::with("small");
    let mut server = hub.instance().await;
    // The branch of the remote has moved when the hook runs, and the service is killed before it hears of it.
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
    server.shows("posts", "name", "Mine").await;
    assert_eq!(Some(server.repo().head()), hub.head());
}
