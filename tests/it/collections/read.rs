//! `GET /collections/:key`

use serde_json::json;

use crate::support::{RawRequest, TestServer, document};

#[tokio::test]
async fn a_collection_is_answered_exactly_as_the_contract_shows() {
    let server = TestServer::start("small").await;
    let answer = server.read("posts").await.is(200);
    assert_eq!(
        answer.json(),
        json!({
            "jsonapi": {"version": "1.1"},
            "data": {
                "type": "document-collection",
                "id": "posts",
                "attributes": {"type": "document", "name": "Posts", "directory": "content/posts", "recursive": true},
                "links": {"self": "/collections/posts"},
            },
            "links": {"self": "/collections/posts"},
        })
    );
}

#[tokio::test]
async fn the_tag_is_the_id_of_the_file_s_content() {
    let server = TestServer::start("small").await;
    let blob = server.repo().git(&["rev-parse", "HEAD:collections/posts.yaml"]);
    let answer = server.read("posts").await.is(200);
    assert_eq!(answer.header("etag"), format!("\"{blob}\""));
    assert_eq!(answer.header("collectory-revision"), server.repo().head());
}

#[tokio::test]
async fn a_missing_collection_is_named_in_the_answer() {
    let server = TestServer::start("small").await;
    let answer = server.read("nothing").await.is(404);
    assert_eq!(answer.json()["errors"].as_array().map(Vec::len), Some(1));
    let error = &answer.json()["errors"][0];
    assert_eq!(error["status"], "404");
    assert_eq!(error["code"], "not_found");
    assert_eq!(error["title"], "Not Found");
    assert_eq!(error["detail"], "Collection 'nothing' not found.");
}

#[tokio::test]
async fn head_says_what_get_would_without_the_body() {
    let server = TestServer::start("small").await;
    for path in ["/collections", "/collections/posts", "/problems", "/livez", "/collections/nothing"] {
        let got = server.get(path).await.checked();
        let head = RawRequest::new("HEAD", path).send(server.address()).is(got.status());
        for name in ["content-type", "etag", "cache-control", "vary", "collectory-revision"] {
            assert_eq!(head.header_if_any(name), got.header_if_any(name), "{name} of {path}");
        }
        assert_eq!(head.header("content-length"), got.bytes().len().to_string(), "{path}");
    }
}

#[tokio::test]
async fn options_names_the_methods() {
    let server = TestServer::start("small").await;
    for (path, methods) in [
        ("/collections", vec!["GET", "HEAD", "OPTIONS", "POST"]),
        ("/collections/posts", vec!["DELETE", "GET", "HEAD", "OPTIONS", "PATCH"]),
    ] {
        let answer = server.request("OPTIONS", path).send().await.is(204);
        let allow = answer.header("allow");
        let mut found: Vec<_> = allow.split(',').map(str::trim).collect();
        found.sort_unstable();
        assert_eq!(found, methods, "{path}");
    }
    let of_all = RawRequest::new("OPTIONS", "*").send(server.address()).is(204);
    assert_eq!(of_all.header("allow"), "GET, HEAD, POST, PATCH, DELETE, OPTIONS");
    RawRequest::new("GET", "*").send(server.address()).is(404);
}

#[tokio::test]
async fn a_percent_encoded_key_is_the_same_key() {
    let server = TestServer::start("small").await;
    let plain = server.read("posts").await.is(200).json();
    let encoded = RawRequest::new("GET", "/collections/p%6Fst%73").send(server.address()).is(200);
    assert_eq!(encoded.json()["data"], plain["data"]);
}

#[tokio::test]
async fn a_percent_encoded_key_is_decoded_once_only() {
    let server = TestServer::start("small").await;
    RawRequest::new("GET", "/collections/p%256Fsts").send(server.address()).is(404);
}

#[tokio::test]
async fn keys_that_other_languages_stumble_over_are_ordinary() {
    let server = TestServer::start("empty").await;
    for key in ["toString", "constructor", "__proto__", "hasOwnProperty", "null", "true", "0", "1e3"] {
        server.read(key).await.is(404);
        server.create(&document(key, json!({"name": key}))).await.is(201);
        assert_eq!(server.read(key).await.is(200).attributes()["name"], key);
        server.delete(key).await.is(204);
        server.read(key).await.is(404);
    }
}
