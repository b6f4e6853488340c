//! Reading what was written, at whatever instance.

use serde_json::json;

use super::Hub;
use crate::support::TestServer;

#[tokio::test]
async fn a_read_waits_for_the_revision_that_it_wants_and_no_longer() {
    let hub = Hub::with("small");
    let server = hub.instance().await;
    let head = hub.somebody_writes("posts", "Foreign");
    let read = |revision: &str| {
        server.request("GET", "/collections/posts").header("Collectory-Min-Revision", revision).send()
    };
    let answer = read(&head).await.is(200);
    assert_eq!(answer.attributes()["name"], "Foreign");
    assert_eq!(answer.header("collectory-revision"), head);
    let head = hub.somebody_writes("posts", "Later");
    assert_eq!(read("latest").await.is(200).header("collectory-revision"), head);
    read(&"1".repeat(40)).await.is(404);
    read("abc").await.is(400);
    hub.goes_away();
    assert_eq!(read(&head).await.is(200).attributes()["name"], "Later", "it is here already");
    read("latest").await.is(503);
    read(&"1".repeat(40)).await.is(503);
    hub.comes_back();
}

#[tokio::test]
async fn without_a_remote_what_is_here_is_the_latest() {
    let server = TestServer::on("small").await;
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
