//! `DELETE /collections/:key`

use serde_json::json;

use crate::support::{RawRequest, TestServer, document};

#[tokio::test]
async fn a_deleted_collection_is_gone_from_the_api_and_the_folder() {
    let server = TestServer::start("small").await;
    let answer = server.delete("posts").await.is(204);
    assert_eq!(answer.header("collectory-revision"), server.repo().head());
    server.read("posts").await.is(404);
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages"]);
    assert!(!server.repo().has("collections/posts.yaml"));
    let again = server.delete("posts").await.is(404).detail();
    assert!(again.starts_with("Collection 'posts' not found. It was deleted by anonymous at "), "{again}");
}

#[tokio::test]
async fn the_last_collection_can_be_deleted_and_created_again() {
    let mut server = TestServer::start("empty").await;
    server.create(&document("posts", json!({"name": "One"}))).await.is(201);
    server.delete("posts").await.is(204);
    assert_eq!(server.list().await.is(200).data(), json!([]));
    server.restart().await;
    server.create(&document("posts", json!({"name": "Two"}))).await.is(201);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Two");
    assert_eq!(server.repo().subjects(), ["Create posts", "Delete posts", "Create posts", "Seed"]);
}

#[tokio::test]
async fn a_body_with_a_delete_is_ignored() {
    let server = TestServer::start("small").await;
    server
        .request("DELETE", "/collections/posts")
        .document(&document("posts", json!({})))
        .send()
        .await
        .is(204);
    let request = RawRequest::new("DELETE", "/collections/pages")
        .header("Content-Type", "application/vnd.api+json")
        .body("{not json");
    request.send(server.address()).is(204);
}

#[tokio::test]
async fn a_broken_file_can_be_deleted() {
    let server = TestServer::start("broken").await;
    let before = server.get("/problems").await.is(200).ids();
    assert_eq!(before, ["collections/broken.yaml", "collections/typo.yaml"]);
    server.delete("broken").await.is(204);
    assert_eq!(server.get("/problems").await.is(200).ids(), ["collections/typo.yaml"]);
    assert!(!server.repo().has("collections/broken.yaml"));
}
