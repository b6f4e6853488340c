//! Invalid input gets a clear answer and changes nothing.

use crate::http::testing::TestService;
use crate::telemetry::{Limit, LimitCounters};

const JSON_API: &str = "application/vnd.api+json";
const MEDIA: &str = r#"{"data":{"type":"media-collection","id":"new"}}"#;

#[tokio::test]
async fn paths_that_lead_nowhere_are_not_found() {
    let served = TestService::new();
    for path in [
        "/",
        "//",
        "/nowhere",
        "/collections/",
        "/collections//",
        "//collections",
        "/Collections",
        "/collections/posts/",
        "/collections/posts/x",
        "/collections/none",
        "/collections/..",
        "/collections/.",
        "/collections/../collections",
        "/collections/%2e%2e",
        "/collections/%2e%2e%2fposts",
        "/collections/posts%2f",
        "/collections/%2fposts",
        "/collections/posts%00",
        "/collections/%00",
        "/collections/%ff",
        "/collections/%c3%28",
        "/collections/%ed%a0%80",
        "/collections/po%2",
        "/collections/%zz",
        "/collections/%",
        "/collections/%2570osts",
        "/collections/po+sts",
        "/collections/posts.yaml",
        "/collections/con",
        "/collections/posts%5cx",
        "/collections/toString",
        "/collections/posts;x=1",
        "/problems/",
        "/problems/x",
        "/operations/",
        "/openapi",
        "/openapi.xml",
        "/livez/",
        "/readyz/x",
        "/favicon.ico",
    ] {
        let answer = served.get(path).await.is(404);
        assert_eq!(answer.errors(), "not_found", "{path}");
        for method in ["PATCH", "DELETE"] {
            served.send(method, path, MEDIA).await.is(404);
        }
    }
    let answer = served.get("/collections/a%20b").await.is(404).json();
    assert_eq!(answer["errors"][0]["detail"], "Collection 'a b' not found.");
    assert_eq!(answer["errors"][0]["title"], "Not Found");
    served.get("/collections/%70osts").await.is(200);
    served.get("/%63ollections/posts").await.is(200);
}

#[tokio::test]
async fn a_path_says_which_methods_it_takes() {
    let served = TestService::new();
    let (list, item, read) =
        ("GET, HEAD, POST, OPTIONS", "GET, HEAD, PATCH, DELETE, OPTIONS", "GET, HEAD, OPTIONS");
    for (path, allow, refused) in [
        ("/collections", list, &["PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "BREW", "get"][..]),
        ("/collections/posts", item, &["PUT", "POST", "TRACE", "PROPFIND"]),
        ("/collections/none", item, &["PUT", "POST"]),
        ("/operations", "POST, OPTIONS", &["GET", "HEAD", "PUT", "PATCH", "DELETE"]),
        ("/problems", read, &["POST", "PUT", "DELETE"]),
        ("/openapi.json", read, &["POST", "DELETE"]),
        ("/openapi.yaml", read, &["PATCH"]),
        ("/livez", read, &["POST"]),
        ("/readyz", read, &["DELETE"]),
    ] {
        for method in refused {
            let answer = served.ask(method, path, &[], "").await.is(405);
            assert_eq!(answer.header("allow"), allow, "{method} {path}");
        }
        let answer = served.ask("OPTIONS", path, &[], "").await.is(204);
        assert_eq!(answer.header("allow"), allow, "{path}");
    }
}

#[tokio::test]
async fn media_types_are_settled_before_anything_happens() {
    let served = TestService::new();
    let before = served.everything().await;
    let atomic = "application/vnd.api+json;ext=\"https://jsonapi.org/ext/atomic\"";
    for (method, path, header, value, status) in [
        ("POST", "/collections", "content-type", "text/plain", 415),
        ("POST", "/collections", "content-type", "application/x-www-form-urlencoded", 415),
        ("POST", "/collections", "content-type", "multipart/form-data; boundary=x", 415),
        ("POST", "/collections", "content-type", "application/vnd.api+json; charset=utf-8", 415),
        ("POST", "/collections", "content-type", atomic, 415),
        ("POST", "/collections", "accept", JSON_API, 415),
        ("PATCH", "/collections/posts", "content-type", "application/json; profile=x", 415),
        ("PATCH", "/collections/none", "content-type", "text/html", 415),
        ("GET", "/collections", "content-type", "application/vnd.api+json; version=1", 415),
        ("DELETE", "/collections/posts", "content-type", "application/vnd.api+json; version=1", 415),
        ("GET", "/collections", "accept", "application/vnd.api+json; charset=utf-8", 406),
        ("GET", "/collections/posts", "accept", atomic, 406),
        ("GET", "/collections/none", "accept", "application/vnd.api+json;ext=\"x\"", 406),
        ("DELETE", "/collections/posts", "accept", "application/vnd.api+json;q=0", 406),
        ("GET", "/problems", "accept", "application/vnd.api+json;version=1", 406),
        ("POST", "/operations", "content-type", JSON_API, 415),
        ("POST", "/operations", "content-type", "application/json", 415),
    ] {
        let answer = served.ask(method, path, &[(header, value)], MEDIA).await.is(status);
        let blamed = if status == 415 { "Content-Type" } else { "Accept" };
        assert!(answer.errors().ends_with(blamed), "{method} {path} {header}: {value}: {}", answer.errors());
    }
    assert_eq!(served.everything().await, before);
    assert!(served.submissions.lock().unwrap().is_empty());
}

/// Faults of a body alone (no JSON, no key, a value that breaks its rule) are tested in `tests/it/errors`.
#[tokio::test]
async fn bad_bodies_and_parameters_change_nothing() {
    let served = TestService::new();
    let before = served.everything().await;
    let deep = format!(r#"{{"data":{}{}}}"#, "[".repeat(70), "]".repeat(70));
    let attributes = |attributes: &str| {
        format!(r#"{{"data":{{"type":"document-collection","id":"posts","attributes":{attributes}}}}}"#)
    };
    let rows: Vec<(&str, &str, String, &str)> = vec![
        ("POST", "/collections", "[]".into(), "bad_request"),
        ("POST", "/collections", format!("{MEDIA} x"), "bad_request"),
        ("POST", "/collections", format!("{MEDIA}{MEDIA}"), "bad_request"),
        ("POST", "/collections", deep, "bad_request"),
        ("POST", "/collections", "[".repeat(100_000), "bad_request"),
        ("POST", "/collections", r#"{"data":1e999}"#.into(), "bad_request"),
        ("POST", "/collections", r#"{"data":1,"data":2}"#.into(), "bad_request"),
        ("POST", "/collections", r#"{"data":null}"#.into(), "bad_request /data"),
        ("POST", "/collections", format!(r#"{{"data":[{MEDIA}]}}"#), "bad_request /data"),
        ("POST", "/collections", r#"{"errors":[],"meta":{}}"#.into(), "bad_request"),
        ("POST", "/collections", r#"{"data":{}}"#.into(), "invalid_data /data, invalid_data /data"),
        ("POST", "/collections", r#"{"data":{"type":"media-collection"}}"#.into(), "invalid_data /data"),
        ("POST", "/collections?include=", MEDIA.into(), "bad_request include"),
        ("POST", "/collections?sort=id", MEDIA.into(), "bad_request sort"),
        ("POST", "/collections?page[size]=1", MEDIA.into(), "bad_request page[size]"),
        ("PATCH", "/collections/posts", r#"{"data":null}"#.into(), "bad_request /data"),
        ("PATCH", "/collections/posts?foo=1", attributes("{}"), "bad_request foo"),
        ("PATCH", "/collections/posts?fields[_]=a", attributes("{}"), "bad_request fields[_]"),
        ("PATCH", "/collections/posts", attributes(r#"{"type":null}"#), "invalid_data /data/attributes/type"),
        (
            "PATCH",
            "/collections/posts",
            attributes(r#"{"type":"media"}"#),
            "invalid_data /data/attributes/type",
        ),
        (
            "PATCH",
            "/collections/posts?x=1",
            attributes(r#"{"unpublishedStatuses":{"draft":{"directory":"../x"}},"x-":1}"#),
            "bad_request x, invalid_data /data/attributes/unpublishedStatuses/draft, \
             invalid_data /data/attributes/unpublishedStatuses/draft/directory, invalid_data /data/attributes/x-",
        ),
        ("PATCH", "/collections/notes", attributes("{}"), "conflict /data/id"),
        ("PATCH", "/collections/photos", attributes("{}").replace("posts", "photos"), "conflict /data/type"),
        ("PATCH", "/collections/none", attributes("{}"), "not_found"),
        ("PATCH", "/collections/none", "{".into(), "not_found"),
        ("DELETE", "/collections/posts?include=x", String::new(), "bad_request include"),
        (
            "DELETE",
            "/collections/posts?fields[document-collection]=name",
            String::new(),
            "bad_request fields[document-collection]",
        ),
        ("GET", "/collections/posts?include=x", String::new(), "bad_request include"),
        ("GET", "/collections/posts?sort=id", String::new(), "bad_request sort"),
        ("GET", "/collections/posts?page[size]=1", String::new(), "bad_request page[size]"),
        ("GET", "/collections/posts?fields[problem]=x", String::new(), "bad_request fields[problem]"),
        ("GET", "/collections?%ff", String::new(), "bad_request"),
        ("GET", "/problems?sort=path", String::new(), "bad_request sort"),
        (
            "GET",
            "/problems?fields[media-collection]=x",
            String::new(),
            "bad_request fields[media-collection]",
        ),
    ];
    for (method, path, body, errors) in rows {
        let answer = served.send(method, path, &body).await;
        let sorted = |text: &str| {
            let mut parts: Vec<String> = text.split(", ").map(str::to_owned).collect();
            parts.sort();
            parts
        };
        assert_eq!(
            sorted(&answer.errors()),
            sorted(errors),
            "{method} {path} {}",
            &body[..body.len().min(200)]
        );
    }
    assert_eq!(served.everything().await, before);
    assert!(served.submissions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn bytes_that_are_not_text_are_refused() {
    let served = TestService::new();
    let headers = [("content-type", JSON_API)];
    for bytes in [&b"\xff\xfe{\0}\0"[..], b"{\"data\":\"\xc3\x28\"}", b"\0", b"\x1f\x8b\x08"] {
        let answer = served.ask("POST", "/collections", &headers, bytes).await.is(400);
        assert_eq!(answer.errors(), "bad_request");
    }
}

#[tokio::test]
async fn headers_that_can_not_be_understood_are_refused() {
    let served = TestService::new();
    let media = ("content-type", JSON_API);
    let long = "x".repeat(1025);
    for (name, value, errors) in [
        ("if-match", "abc", "bad_request If-Match"),
        ("if-none-match", "\"a", "bad_request If-None-Match"),
        ("commit-message", long.as_str(), "invalid_data Commit-Message"),
    ] {
        let answer = served.ask("POST", "/collections", &[media, (name, value)], MEDIA).await.is(400);
        assert_eq!(answer.errors(), errors, "{name}");
    }
    served.get("/collections/new").await.is(404);
}

#[tokio::test]
async fn what_is_too_much_is_refused_by_name() {
    let reached = LimitCounters::default();
    let counts = reached.clone();
    let served = TestService::with(|context| {
        context.telemetry.reached = counts;
        let requests = &mut context.settings.limits.requests;
        (requests.body_bytes_max, requests.json_depth_max) = (70_000, 4);
    });
    let large = |bytes: usize| format!("{MEDIA}{}", " ".repeat(bytes - MEDIA.len()));
    let answer = served.send("POST", "/collections", &large(70_001)).await.is(413);
    assert_eq!(answer.errors(), "payload_too_large");
    served.send("PATCH", "/collections/posts", &large(70_001)).await.is(413);
    served.send("PATCH", "/collections/none", &large(70_001)).await.is(404);
    served.send("POST", "/collections", &large(70_000)).await.is(201);
    served.send("DELETE", "/collections/new", &large(70_001)).await.is(413);
    let nested = r#"{"data":{"type":"media-collection","id":"a","attributes":{"x-a":[[1]]}}}"#;
    let answer = served.send("POST", "/collections", nested).await.is(400);
    let text = String::from_utf8_lossy(&answer.body);
    assert!(text.contains("The body nests deeper than 4 levels"), "{text}");
    served.send("POST", "/collections", &nested.replace("[[1]]", "[1]")).await.is(201);
    assert_eq!(reached.of(Limit::BodyBytes), 3);
}
