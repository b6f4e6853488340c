//! Methods, media types and other headers.

use super::{Case, case};

const BODY: &str = r#"{"data": {"type": "document-collection", "id": "new"}}"#;
const UPDATE: &str =
    r#"{"data": {"type": "document-collection", "id": "posts", "attributes": {"name": "x"}}}"#;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = methods();
    cases.extend(content_types());
    cases.extend(accepts());
    cases.extend(conditions());
    cases.extend(reasons());
    cases
}

fn methods() -> Vec<Case> {
    let pairs = [
        ("PUT", "/collections"),
        ("PATCH", "/collections"),
        ("DELETE", "/collections"),
        ("PUT", "/collections/posts"),
        ("POST", "/collections/posts"),
        ("TRACE", "/collections"),
        ("TRACE", "/collections/posts"),
        ("POST", "/problems"),
        ("DELETE", "/problems"),
        ("GET", "/operations"),
        ("PUT", "/operations"),
        ("DELETE", "/operations"),
    ];
    let mut cases: Vec<_> =
        pairs.iter().map(|(method, path)| case(method, path).is(405, "method_not_allowed")).collect();
    cases.push(case("BREW", "/collections").is(405, "method_not_allowed"));
    cases.push(case("get", "/collections").is(405, "method_not_allowed"));
    cases
}

fn content_types() -> Vec<Case> {
    let types = [
        "text/plain",
        "text/plain; charset=utf-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/yaml",
        "application/octet-stream",
        "application/jsonapi",
        "application/vnd.api+xml",
        "json",
        "*/*",
        "",
        "application/vnd.api+json; charset=utf-8",
        "application/vnd.api+json; version=1",
        "application/vnd.api+json;foo",
        "application/vnd.api+json; ext=\"https://example.org/ext\"",
        "application/vnd.api+json; ext=\"https://jsonapi.org/ext/atomic https://example.org/ext\"",
        "application/vnd.api+json; ext=\"https://jsonapi.org/ext/atomic\"",
        "application/vnd.api+json; profile=\"https://example.org/p\"; charset=utf-8",
        "APPLICATION/VND.API+JSON; CHARSET=utf-8",
    ];
    let mut cases = Vec::new();
    for value in types {
        let refused = |case: Case| {
            case.header("Content-Type", value).is(415, "unsupported_media_type").source_header("Content-Type")
        };
        cases.push(refused(case("POST", "/collections").untyped(BODY)));
        cases.push(refused(case("PATCH", "/collections/posts").untyped(UPDATE)));
    }
    cases.push(case("POST", "/collections").untyped(BODY).is(415, "unsupported_media_type"));
    cases.push(case("PATCH", "/collections/posts").untyped(UPDATE).is(415, "unsupported_media_type"));
    for (method, path) in
        [("GET", "/collections"), ("GET", "/collections/posts"), ("DELETE", "/collections/posts")]
    {
        let with = case(method, path).header("Content-Type", "application/vnd.api+json; charset=utf-8");
        cases.push(with.is(415, "unsupported_media_type").source_header("Content-Type"));
    }
    for value in ["application/json", "application/vnd.api+json", "text/plain"] {
        let with = case("POST", "/operations").header("Content-Type", value).untyped("{}");
        cases.push(with.is(415, "unsupported_media_type"));
    }
    cases
}

fn accepts() -> Vec<Case> {
    let types = [
        "application/vnd.api+json; charset=utf-8",
        "application/vnd.api+json; version=1, application/vnd.api+json; foo=bar",
        "application/vnd.api+json; ext=\"https://example.org/ext\"",
        "application/vnd.api+json;ext=\"https://example.org/a\", application/vnd.api+json;ext=\"https://example.org/b\"",
    ];
    let mut cases = Vec::new();
    for value in types {
        let refused =
            |case: Case| case.header("Accept", value).is(406, "not_acceptable").source_header("Accept");
        cases.push(refused(case("GET", "/collections")));
        cases.push(refused(case("GET", "/collections/posts")));
        cases.push(refused(case("POST", "/collections").text(BODY)));
        cases.push(refused(case("PATCH", "/collections/posts").text(UPDATE)));
        cases.push(refused(case("DELETE", "/collections/posts")));
    }
    cases
}

fn conditions() -> Vec<Case> {
    let tags = ["\"nothing\"", "W/\"nothing\"", "\"a\", \"b\""];
    let mut cases = Vec::new();
    for tag in tags {
        for refused in [
            case("PATCH", "/collections/posts").text(UPDATE).header("If-Match", tag),
            case("DELETE", "/collections/posts").header("If-Match", tag),
        ] {
            cases.push(refused.is(412, "precondition_failed").source_header("If-Match"));
        }
    }
    for refused in [
        case("PATCH", "/collections/posts").text(UPDATE).header("If-None-Match", "*"),
        case("DELETE", "/collections/posts").header("If-None-Match", "*"),
    ] {
        cases.push(refused.is(412, "precondition_failed").source_header("If-None-Match"));
    }
    cases
}

fn reasons() -> Vec<Case> {
    let long = "r".repeat(1025);
    vec![
        case("POST", "/collections")
            .text(BODY)
            .header("Commit-Message", &long)
            .is(400, "invalid_data")
            .source_header("Commit-Message"),
        case("PATCH", "/collections/posts")
            .text(UPDATE)
            .header("Commit-Message", &long)
            .is(400, "invalid_data")
            .source_header("Commit-Message"),
        case("DELETE", "/collections/posts")
            .header("Commit-Message", &long)
            .is(400, "invalid_data")
            .source_header("Commit-Message"),
    ]
}
