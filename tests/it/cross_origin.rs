//! What web pages of other origins may do: nothing, unless a flag allows it.

use crate::support::{Auth, CheckedAnswer, JSON_API, TestServer};

const CMS: &str = "https://cms.example.org";

async fn preflight(server: &TestServer, origin: &str) -> CheckedAnswer {
    let request = server.request("OPTIONS", "/collections/posts").header("Origin", origin);
    let request = request.header("Access-Control-Request-Method", "PATCH");
    request.header("Access-Control-Request-Headers", "if-match, content-type").send().await.is(204)
}

fn granted(answer: &CheckedAnswer) -> Option<String> {
    answer.header_if_any("access-control-allow-origin")
}

#[tokio::test]
async fn without_the_flag_no_page_of_another_origin_is_told_anything() {
    let server = TestServer::start("small").await;
    assert_eq!(granted(&preflight(&server, CMS).await), None);
    let read = server.request("GET", "/collections").header("Origin", CMS).send().await.is(200);
    assert_eq!(granted(&read), None);
    assert_eq!(read.header("vary"), "Accept");
}

#[tokio::test]
async fn the_pages_of_listed_origins_may_use_the_service_with_their_credentials() {
    let listed = ["--cors-origin", "https://cms.example.org,http://localhost:3000"];
    let server = TestServer::setup("small").flag(&listed).start().await;
    for origin in [CMS, "http://localhost:3000"] {
        let asked = preflight(&server, origin).await;
        assert_eq!(granted(&asked).as_deref(), Some(origin));
        assert_eq!(asked.header("access-control-allow-credentials"), "true");
        assert_eq!(asked.header("access-control-allow-methods"), "GET, HEAD, PATCH, DELETE, OPTIONS");
        let headers = asked.header("access-control-allow-headers").to_lowercase();
        for name in [
            "if-match",
            "content-type",
            "authorization",
            "idempotency-key",
            "prefer",
            "traceparent",
            "collectory-min-revision",
        ] {
            assert!(headers.contains(name), "{name}: {headers}");
        }
        assert!(asked.header("vary").contains("Origin"));
    }
    let failed = server.request("GET", "/nothing").header("Origin", CMS).send().await.is(404);
    assert_eq!(granted(&failed).as_deref(), Some(CMS), "a page may read why it failed");
    assert!(failed.header("access-control-expose-headers").contains("ETag"));
    let long = format!("/collections?{}", "a".repeat(20_000));
    let long = server.request("GET", &long).header("Origin", CMS).send().await.is(414);
    assert_eq!(granted(&long).as_deref(), Some(CMS));
    assert_eq!(long.header("vary"), "Accept, Origin");
    for origin in ["https://evil.example.org", "https://cms.example.org.evil.org", "null"] {
        let asked = preflight(&server, origin).await;
        assert_eq!(granted(&asked), None);
        assert_eq!(asked.header_if_any("access-control-allow-methods"), None);
        assert!(asked.header("vary").contains("Origin"), "a cache must not share the answer");
    }
}

#[tokio::test]
async fn where_every_page_is_welcome_none_brings_credentials() {
    let flags = ["--cors-origin", "*", "--cors-origin", CMS];
    let server = TestServer::setup("small").auth(Auth::AllowAll).flag(&flags).start().await;
    let asked = preflight(&server, CMS).await;
    assert_eq!(granted(&asked).as_deref(), Some("*"));
    assert_eq!(asked.header_if_any("access-control-allow-credentials"), None);
    let body = serde_json::json!({"data": {"type": "document-collection", "id": "new"}});
    let request = server.request("POST", "/collections").header("Origin", CMS);
    assert_eq!(granted(&request.body(JSON_API, &body).send().await.is(201)).as_deref(), Some("*"));
}

#[test]
fn what_is_no_origin_is_wrong_usage() {
    for text in ["cms.example.org", "https://cms.example.org/", "https://*.example.org"] {
        let refused = TestServer::setup("small").flag(&["--cors-origin", text]).expect_start_failure();
        assert!(refused.assert_exit_code(2).stderr.contains("is no origin"), "{text}");
    }
}
