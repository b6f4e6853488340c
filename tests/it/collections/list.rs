//! `GET /collections`

use serde_json::json;

use crate::support::{TestServer, add_operation, document, fixture};

#[tokio::test]
async fn every_collection_is_listed_in_the_order_of_the_keys() {
    let server = TestServer::start("small").await;
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages", "posts"]);
    server.create(&document("A", json!({}))).await.is(201);
    server.create(&document("zoo", json!({}))).await.is(201);
    server.create(&document("_x", json!({}))).await.is(201);
    assert_eq!(server.list().await.is(200).ids(), ["A", "_x", "images", "pages", "posts", "zoo"]);
}

#[tokio::test]
async fn a_list_holds_exactly_what_the_contract_shows() {
    let server = TestServer::start("small").await;
    let found = server.list().await.is(200).json();
    let item = |kind: &str, id: &str, attributes: serde_json::Value| json!({"type": kind, "id": id, "attributes": attributes, "links": {"self": format!("/collections/{id}")}});
    let expected = json!({
        "jsonapi": {"version": "1.1"},
        "data": [
            item("media-collection", "images", json!({"type": "media", "name": "Images",
                "directory": "media/images", "accept": ["image/png", "image/*", ".pdf"]})),
            item("document-collection", "pages", json!({"type": "document", "name": "Pages",
                "directory": "content/pages"})),
            item("document-collection", "posts", json!({"type": "document", "name": "Posts",
                "directory": "content/posts", "recursive": true})),
        ],
        "links": {"self": "/collections"},
    });
    assert_eq!(found, expected);
}

#[tokio::test]
async fn no_collections_are_an_empty_list() {
    for setup in [TestServer::setup("empty"), TestServer::setup("empty").unborn()] {
        let server = setup.start().await;
        assert_eq!(server.list().await.is(200).data(), json!([]));
    }
}

#[tokio::test]
async fn the_revision_is_named_once_there_is_a_commit() {
    let server = TestServer::setup("empty").unborn().start().await;
    assert_eq!(server.list().await.is(200).header_if_any("collectory-revision"), None);
    let created = server.create(&document("posts", json!({}))).await.is(201);
    assert_eq!(created.header("collectory-revision"), server.repo().head());
    assert_eq!(server.list().await.is(200).header("collectory-revision"), server.repo().head());
}

#[tokio::test]
async fn a_thousand_collections_come_in_one_answer() {
    let server = TestServer::setup("empty").bare().start().await;
    let operations: Vec<_> = (0..1000)
        .map(|n| add_operation(&document(&format!("k{n:04}"), json!({"name": n.to_string()}))))
        .collect();
    for part in operations.chunks(100) {
        server.operations(json!(part)).await.is(200);
    }
    let ids = server.list().await.is(200).ids();
    assert_eq!(ids.len(), 1000);
    assert!(ids.is_sorted());
}

#[tokio::test]
async fn files_that_are_no_collections_are_not_looked_at() {
    assert!(fixture("mixed").join("collections/posts.yaml~").exists());
    let server = TestServer::start("mixed").await;
    assert_eq!(server.list().await.is(200).ids(), ["posts"]);
    assert_eq!(server.get("/problems").await.is(200).ids(), [""; 0]);
}

#[tokio::test]
async fn the_tag_of_the_list_changes_when_the_list_does() {
    let server = TestServer::start("small").await;
    let before = server.list().await.is(200).header("etag");
    assert_eq!(server.list().await.is(200).header("etag"), before);
    server.patch("posts", json!({"name": "All posts"})).await.is(200);
    let after = server.list().await.is(200).header("etag");
    assert_ne!(after, before);
    server.patch("posts", json!({"name": "Posts"})).await.is(200);
    assert_eq!(server.list().await.is(200).header("etag"), before, "the same list has the same tag");
}

#[tokio::test]
async fn links_and_locations_stand_below_the_base_path() {
    for base in ["/settings", "/settings/v1"] {
        let server = TestServer::setup("small").base_path(base).start().await;
        let list = server.list().await.is(200).json();
        assert_eq!(list["links"]["self"], format!("{base}/collections"));
        assert_eq!(list["data"][0]["links"]["self"], format!("{base}/collections/images"));
        let created = server.create(&document("new", json!({}))).await.is(201);
        assert_eq!(created.header("location"), format!("{base}/collections/new"));
        let outside = crate::support::RawRequest::new("GET", "/collections");
        outside.send(server.address()).is(404);
    }
}
