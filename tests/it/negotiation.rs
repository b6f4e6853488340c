//! Media types: what is accepted and what is returned (jsonapi.md section 3). Refusals are in the table of bad
//! inputs.

use serde_json::json;

use crate::support::{Auth, TestServer, document};

#[tokio::test]
async fn any_accept_that_can_be_met_is_met() {
    let server = TestServer::start("small").await;
    for accept in [
        "*/*",
        "application/*",
        "application/json",
        "text/html",
        "text/html, application/xhtml+xml, */*;q=0.8",
        "application/vnd.api+json",
        "APPLICATION/VND.API+JSON",
        "application/vnd.api+json;q=0.1",
        "application/vnd.api+json; charset=utf-8, application/vnd.api+json",
        "application/vnd.api+json;ext=\"https://example.org/x\", application/vnd.api+json;q=0.01",
        "application/vnd.api+json; profile=\"https://example.org/unknown\"",
        "application/vnd.api+json; PROFILE=\"https://example.org/a,b;c https://example.org/d\"",
    ] {
        let answer = server.request("GET", "/collections").header("Accept", accept).send().await.is(200);
        assert_eq!(answer.header("content-type"), "application/vnd.api+json", "{accept}");
    }
}

#[tokio::test]
async fn unknown_profiles_are_ignored_in_requests() {
    let server = TestServer::start("small").await;
    for (key, media_type) in [
        ("a", "application/vnd.api+json"),
        ("b", "application/vnd.api+json; profile=\"https://example.org/p\""),
        ("c", "Application/Vnd.Api+Json;Profile=\"https://example.org/p https://example.org/q\""),
        ("d", "application/vnd.api+json;"),
    ] {
        let request = server.request("POST", "/collections").body(media_type, &document(key, json!({})));
        request.send().await.is(201);
    }
}

#[tokio::test]
async fn a_content_type_without_a_body_is_fine() {
    let server = TestServer::start("small").await;
    for (method, path, status) in [
        ("GET", "/collections", 200),
        ("GET", "/collections/posts", 200),
        ("DELETE", "/collections/posts", 204),
    ] {
        let request = server.request(method, path).header("Content-Type", "application/vnd.api+json");
        request.send().await.is(status);
    }
}

#[tokio::test]
async fn the_openapi_documents_have_media_types_of_their_own() {
    let server = TestServer::setup("small").auth(Auth::AllowAll).start().await;
    for accept in ["*/*", "application/json", "text/html", "application/vnd.api+json; charset=x"] {
        for (path, media_type) in
            [("/openapi.json", "application/json"), ("/openapi.yaml", "application/yaml")]
        {
            let answer = server.request("GET", path).header("Accept", accept).send().await.is(200);
            assert_eq!(answer.header("content-type"), media_type);
        }
    }
}

#[tokio::test]
async fn the_cursor_profile_is_claimed_exactly_when_it_is_applied() {
    let server = TestServer::start("small").await;
    let profile = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination";
    let accept = format!("application/vnd.api+json; profile=\"{profile}\"");
    let ask = |query: &str| {
        server.request("GET", &format!("/collections?{query}")).header("Accept", &accept).send()
    };
    let page = ask("page[size]=1").await.is(200);
    assert!(page.header("content-type").contains(profile));
    let whole = ask("").await.is(200);
    assert!(!whole.header("content-type").contains(profile));
    let error = ask("page[size]=101").await.is(400).json()["errors"][0].clone();
    assert_eq!(error["source"], json!({"parameter": "page[size]"}));
    assert_eq!(error["meta"]["page"]["maxSize"], 100);
    assert_eq!(error["links"]["type"], format!("{profile}/max-size-exceeded"));
}
