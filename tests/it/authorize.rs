//! The two variants: without authentication, and with the hook (here opened on purpose).

use serde_json::json;

use crate::support::{Auth, RawRequest, TestServer, document};

#[tokio::test]
async fn without_authentication_there_are_no_openapi_routes() {
    let server = TestServer::on("small").await;
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
async fn a_token_means_nothing_to_an_open_service() {
    for auth in [Auth::None, Auth::AllowAll] {
        let server = TestServer::setup("small").auth(auth).start().await;
        server.with_token("whatever").list().await.is(200);
        server.with_token("whatever").delete("posts").await.is(204);
        assert_eq!(server.repo().field("HEAD", "%an"), "anonymous");
    }
}

#[tokio::test]
async fn health_is_outside_the_authorization() {
    let server = TestServer::setup("small").auth(Auth::Policy("tokens: []\n".into())).start().await;
    for path in ["/livez", "/readyz"] {
        RawRequest::new("GET", path).send(server.address()).is(200);
    }
    server.list().await.is(401);
}
