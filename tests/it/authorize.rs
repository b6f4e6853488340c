//! The two variants: without authentication, and with a hook (here one that allows everything).

use serde_json::json;

use crate::support::{Auth, JSON_API, RawRequest, TestServer, document};

#[tokio::test]
async fn without_authentication_there_are_no_openapi_routes() {
    let server = TestServer::start("small").await;
    for path in ["/openapi.json", "/openapi.yaml"] {
        server.get(path).await.is(404);
    }
    server.list().await.is(200);
}

#[tokio::test]
async fn the_open_hook_variant_serves_the_same_and_the_openapi_documents() {
    let server = TestServer::setup("small").auth(Auth::AllowAll).start().await;
    server.list().await.is(200);
    server.create(&document("new", json!({}))).await.is(201);
    server.patch("new", json!({"name": "New"})).await.is(200);
    server.delete("new").await.is(204);
    for path in ["/openapi.json", "/openapi.yaml"] {
        server.get(path).await.is(200);
    }
}

#[tokio::test]
async fn in_an_open_service_everybody_may_do_everything_and_a_token_means_nothing() {
    for auth in [Auth::None, Auth::AllowAll] {
        let server = TestServer::setup("small").auth(auth).start().await;
        let capabilities = server.get("/capabilities").await.is(200).attributes();
        assert_eq!(capabilities["actor"]["name"], "anonymous");
        assert_eq!(
            capabilities["grants"],
            json!([{"may": ["read", "write", "audit", "operate"], "keys": ["*"]}])
        );
        assert!(server.get("/readyz").await.is(200).json()["meta"]["revision"].is_string());
        server.with_token("whatever").list().await.is(200);
        server.with_token("whatever").delete("posts").await.is(204);
        assert_eq!(server.repo().field("HEAD", "%an"), "anonymous");
    }
}

#[tokio::test]
async fn an_open_service_on_this_machine_answers_to_its_names_only() {
    let setup = TestServer::setup("small").auth(Auth::AllowAll);
    let server = setup.flag(&["--allow-host", "settings.test"]).start().await;
    for (host, path, status) in [
        ("evil.example", "/collections", 421),
        ("evil.example:8080", "/readyz", 421),
        ("evil.example", "/livez", 200),
        ("localhost:1", "/collections", 200),
        ("[::1]", "/collections", 200),
        ("settings.test:8080", "/collections", 200),
    ] {
        let answer = server.request("GET", path).header("Host", host).send().await.is(status);
        if status == 421 {
            assert_eq!(answer.error().0, "misdirected_request");
        }
    }
    let elsewhere = RawRequest::new("GET", "http://evil.example/collections").send(server.address()).is(421);
    assert_eq!(elsewhere.error().0, "misdirected_request", "the address counts more than the field");
    RawRequest::new("GET", "http://localhost:1/collections").send(server.address()).is(200);
    let server = TestServer::setup("small").auth(Auth::Policy("tokens: []\n".into())).start().await;
    server.request("GET", "/collections").header("Host", "settings.example").send().await.is(401);
}

#[tokio::test]
async fn pages_of_other_sites_write_nothing_to_an_open_service() {
    let cms = ["--cors-origin", "https://cms.example.org"];
    let server = TestServer::setup("small").auth(Auth::AllowAll).flag(&cms).start().await;
    let own = format!("http://{}", server.address());
    for (origin, site, status) in [
        (Some("https://evil.example"), Some("cross-site"), 403),
        (Some("https://evil.example"), None, 403),
        (Some("null"), None, 403),
        (None, Some("cross-site"), 403),
        (Some("https://cms.example.org"), Some("cross-site"), 200),
        (Some(&*own), Some("same-origin"), 200),
        (None, Some("none"), 200),
        (None, None, 200),
    ] {
        let mut request = server.request("PATCH", "/collections/posts");
        for (name, value) in [("Origin", origin), ("Sec-Fetch-Site", site)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let body = document("posts", json!({"name": format!("{origin:?} {site:?}")}));
        let answer = request.body(JSON_API, &body).send().await.is(status);
        if status == 403 {
            assert_eq!(answer.error().0, "forbidden");
        }
    }
    server.request("GET", "/collections").header("Origin", "https://evil.example").send().await.is(200);
}

#[tokio::test]
async fn health_is_outside_the_authorization() {
    let server = TestServer::setup("small").auth(Auth::Policy("tokens: []\n".into())).start().await;
    for path in ["/livez", "/readyz"] {
        RawRequest::new("GET", path).send(server.address()).is(200);
    }
    server.list().await.is(401);
}
