//! `--compress`: the whole list in fewer bytes, for clients that accept it.

use serde_json::json;

use crate::support::{CheckedAnswer, TestServer, add_operation, document};

async fn filled(flags: &[&str]) -> TestServer {
    let server = TestServer::setup("small").flag(flags).start().await;
    let made = |index| add_operation(&document(&format!("c-{index}"), json!({})));
    server.operations((0..100).map(made).collect()).await.is(200);
    server
}

async fn list(server: &TestServer, encoding: &str) -> CheckedAnswer {
    server.request("GET", "/collections").header("Accept-Encoding", encoding).send().await.checked()
}

#[tokio::test]
async fn the_list_is_compressed_for_those_who_take_it_so() {
    let server = filled(&["--compress"]).await;
    let plain = list(&server, "identity").await;
    assert_eq!(plain.header_if_any("content-encoding"), None);
    let compressed = list(&server, "br, gzip;q=0.8").await;
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert_eq!(compressed.json(), plain.json());
    let sent: usize = compressed.header("content-length").parse().unwrap();
    assert!(sent * 2 < plain.bytes().len(), "{sent} of {}", plain.bytes().len());
    for answer in [&plain, &compressed] {
        assert!(answer.header("vary").contains("Accept-Encoding"));
    }
    let head = server.request("HEAD", "/collections").header("Accept-Encoding", "gzip").send().await.is(200);
    assert_eq!(head.header("content-length"), sent.to_string());
    assert_eq!(head.header("etag"), compressed.header("etag"));
}

#[tokio::test]
async fn each_form_has_a_tag_of_its_own_that_changes_with_the_list() {
    let server = filled(&["--compress"]).await;
    let (plain, compressed) = (list(&server, "identity").await, list(&server, "gzip").await);
    let (plain, compressed) = (plain.header("etag"), compressed.header("etag"));
    assert_ne!(plain, compressed);
    let ask = |encoding: &'static str, tag: &str| {
        let request = server.request("GET", "/collections").header("Accept-Encoding", encoding);
        request.header("If-None-Match", tag).send()
    };
    assert_eq!(ask("gzip", &compressed).await.is(304).header("etag"), compressed);
    assert_eq!(ask("identity", &plain).await.is(304).header("etag"), plain);
    ask("gzip", &plain).await.is(200);
    ask("identity", &compressed).await.is(200);
    server.patch("posts", json!({"name": "Changed"})).await.is(200);
    let changed = ask("gzip", &compressed).await.is(200);
    assert_ne!(changed.header("etag"), compressed);
    assert!(changed.json().to_string().contains("Changed"));
}

#[tokio::test]
async fn a_small_list_a_part_of_it_and_a_service_without_the_flag_send_it_plain() {
    let small = TestServer::setup("small").flag(&["--compress"]).start().await;
    assert_eq!(list(&small, "gzip").await.header_if_any("content-encoding"), None);
    let large = filled(&["--compress"]).await;
    let page = large.request("GET", "/collections?page[size]=100").header("Accept-Encoding", "gzip");
    assert_eq!(page.send().await.is(200).header_if_any("content-encoding"), None);
    let off = filled(&[]).await;
    let answer = list(&off, "gzip").await;
    assert_eq!(answer.header_if_any("content-encoding"), None);
    assert_eq!(answer.header("vary"), "Accept");
}
