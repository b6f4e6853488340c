//! Reading what was written, at any instance.

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Hub, create};
use crate::support::{EventStream, StreamMessage, TestServer, restore_document};

#[tokio::test]
async fn a_read_waits_for_the_revision_that_it_wants_and_no_longer() {
    let hub = Hub::with("small");
    let server = hub.instance().await;
    let head = hub.push_collection("posts", "Foreign");
    let read = |revision: &str| {
        server.request("GET", "/collections/posts").header("Collectory-Min-Revision", revision).send()
    };
    let answer = read(&head).await.is(200);
    assert_eq!(answer.attributes()["name"], "Foreign");
    assert_eq!(answer.header("collectory-revision"), head);
    let head = hub.push_collection("posts", "Later");
    assert_eq!(read("latest").await.is(200).header("collectory-revision"), head);
    read(&"1".repeat(40)).await.is(404);
    read("abc").await.is(400);
    hub.make_unreachable();
    assert_eq!(read(&head).await.is(200).attributes()["name"], "Later", "it is here already");
    read("latest").await.is(503);
    read(&"1".repeat(40)).await.is(503);
    hub.make_reachable();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_is_read_while_writes_are_pushed_from_here() {
    let hub = Hub::with("small");
    let server = hub.instance().await;
    let (over, is_over) = watch::channel(false);
    let mut readers = JoinSet::new();
    for _ in 0..3 {
        let (client, is_over) = (server.client().clone(), is_over.clone());
        readers.spawn(async move {
            while !*is_over.borrow() {
                let read = client.request("GET", "/collections/posts");
                read.header("Collectory-Min-Revision", "latest").send().await.is(200);
            }
        });
    }
    for number in 0..20 {
        server.patch("posts", json!({"name": format!("{number}")})).await.is(200);
    }
    over.send_replace(true);
    readers.join_all().await;
}

#[tokio::test]
async fn without_a_remote_what_is_here_is_the_latest() {
    let server = TestServer::start("small").await;
    let old = server.repo().head();
    server.patch("posts", json!({"name": "New"})).await.is(200);
    let read = |revision: &str| {
        server.request("GET", "/collections/posts").header("Collectory-Min-Revision", revision).send()
    };
    for revision in [&old, &server.repo().head(), "latest"] {
        assert_eq!(read(revision).await.is(200).attributes()["name"], "New");
    }
    read(&"1".repeat(40)).await.is(404);
}

#[tokio::test]
async fn a_place_in_the_stream_that_another_instance_gave_is_asked_for() {
    let hub = Hub::with("small");
    let (one, other) = (hub.instance().await, hub.deaf().start().await);
    let place = create(&one, "new").await;
    let mut stream = EventStream::open(other.address(), "", Some(&place));
    let next = create(&one, "newer").await;
    other.request("POST", "/remote/notices").send().await.is(202);
    let heard = stream.next_event();
    assert_eq!((heard.event.as_str(), heard.id), ("created", Some(next)), "and no reset");
}

#[tokio::test]
async fn whoever_watches_over_the_process_waits_for_no_remote() {
    let hub = Hub::with("small");
    let server = hub.setup().flag(&["--min-revision-wait-ms", "60000"]).start().await;
    hub.make_unreachable();
    let live = server.request("GET", "/livez").header("Collectory-Min-Revision", "latest");
    live.send().await.is(200);
    let wrong =
        server.request("PUT", "/collections/posts").header("Collectory-Min-Revision", &"ab".repeat(20));
    wrong.send().await.is(405);
    hub.make_reachable();
}

/// Starts an instance that learns nothing by itself, and one for writes.
async fn lagging(hub: &Hub) -> (TestServer, TestServer) {
    (hub.deaf().start().await, hub.instance().await)
}

/// Returns the id of an instance's newest event.
async fn newest(server: &TestServer) -> String {
    server.get("/events?page[size]=1").await.is(200).ids().remove(0)
}

#[tokio::test]
async fn an_instance_that_lags_behind_asks_before_it_refuses_to_take_back() {
    let hub = Hub::with("small");
    let (lagging, other) = lagging(&hub).await;
    create(&other, "first").await;
    let undo = async || {
        let event = newest(&other).await;
        lagging.undo(&event).await
    };
    undo().await.is(204);
    let revision = create(&other, "second").await;
    let body = restore_document(&revision);
    lagging.request("POST", "/collections/second/restore").document(&body).send().await.is(200);
    let revision = other.rename("posts", "Later").await;
    let body = restore_document(&revision);
    lagging.request("POST", "/collections/posts/restore").document(&body).send().await.is(200);
    lagging.request("POST", "/collections/nobody/restore").document(&body).send().await.is(404);
    create(&other, "third").await;
    hub.make_unreachable();
    assert_eq!(undo().await.is(503).error().0, "remote_unreachable");
    hub.make_reachable();
}

#[tokio::test]
async fn whatever_place_another_instance_gave_is_asked_for_before_it_is_refused() {
    let hub = Hub::with("small");
    let (lagging, other) = lagging(&hub).await;
    create(&other, "first").await;
    let changes = lagging.get(&format!("/changes?filter[since]={}", other.sync_token().await)).await.is(200);
    assert!(changes.ids().is_empty());

    create(&other, "second").await;
    let mut stream = EventStream::open_path(
        lagging.address(),
        "/collections",
        &format!("Last-Event-ID: {}\r\n", other.sync_token().await),
    );
    create(&lagging, "third").await;
    let heard = stream
        .next_message()
        .map(|StreamMessage { event, data, .. }| (event, data.to_string().contains("third")));
    assert_eq!(heard, Some(("collection".to_owned(), true)), "and no reset");

    let since = create(&other, "fourth").await;
    assert!(lagging.get(&format!("/events?filter[since]={since}")).await.is(200).ids().is_empty());

    create(&other, "fifth").await;
    create(&other, "sixth").await;
    let next = other.get("/events?page[size]=1").await.is(200).json()["links"]["next"].clone();
    let page = lagging.get(next.as_str().unwrap()).await.is(200).json();
    assert_eq!(page["data"][0]["attributes"]["collection"], "fifth");
}
