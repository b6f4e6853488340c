//! JSON that is not a JSON:API document, or a document about something else.

use super::{Case, patch, post};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = not_documents();
    cases.extend(resources());
    cases.extend(ids());
    cases.extend(patches());
    cases
}

fn not_documents() -> Vec<Case> {
    let plain = ["null", "true", "1", "\"data\"", "[]", "[{}]"];
    let mut cases: Vec<_> = plain.iter().map(|text| post(*text).status(400)).collect();
    for text in [r#"{}"#, r#"{"meta": {}}"#, r#"{"errors": []}"#, r#"{"Data": {}}"#, r#"{"@data": {}}"#] {
        cases.push(post(text).status(400));
    }
    let data = ["null", "[]", "7", "\"x\"", "true", r#"[{"type": "document-collection", "id": "a"}]"#];
    for value in data {
        cases.push(post(format!(r#"{{"data": {value}}}"#)).status(400).pointer("/data"));
        cases.push(patch(format!(r#"{{"data": {value}}}"#)).status(400).pointer("/data"));
    }
    cases
}

fn resources() -> Vec<Case> {
    let mut cases = vec![
        post(r#"{"data": {}}"#).is(400, "invalid_data").pointer("/data"),
        post(r#"{"data": {"id": "a"}}"#).is(400, "invalid_data").pointer("/data"),
        post(r#"{"data": {"type": "document-collection"}}"#).is(400, "invalid_data").pointer("/data"),
        post(r#"{"data": {"type": "document-collection", "lid": "a"}}"#)
            .is(400, "invalid_data")
            .pointer("/data"),
    ];
    let types = [
        "null",
        "1",
        "true",
        "[]",
        "{}",
        r#""""#,
        r#""document""#,
        r#""media""#,
        r#""collections""#,
        r#""Document-Collection""#,
        r#""document-collections""#,
        r#""document-collection ""#,
        r#""problem""#,
    ];
    for value in types {
        let text = format!(r#"{{"data": {{"type": {value}, "id": "a"}}}}"#);
        cases.push(post(text).is(400, "invalid_data").pointer("/data/type"));
    }
    for value in ["null", "[]", "1", "\"x\"", "true"] {
        let text =
            format!(r#"{{"data": {{"type": "document-collection", "id": "a", "attributes": {value}}}}}"#);
        cases.push(post(text).is(400, "invalid_data").pointer("/data/attributes"));
    }
    cases
}

fn ids() -> Vec<Case> {
    let values = ["null", "7", "1.5", "true", "[]", "[\"a\"]", "{}"];
    let text = |value| format!(r#"{{"data": {{"type": "document-collection", "id": {value}}}}}"#);
    values.iter().map(|value| post(text(value)).is(400, "invalid_data").pointer("/data/id")).collect()
}

fn patches() -> Vec<Case> {
    vec![
        patch(r#"{}"#).status(400),
        patch(r#"{"data": {}}"#).is(400, "invalid_data").pointer("/data"),
        patch(r#"{"data": {"type": "document-collection"}}"#).is(400, "invalid_data").pointer("/data"),
        patch(r#"{"data": {"id": "posts"}}"#).is(400, "invalid_data").pointer("/data"),
        patch(r#"{"data": {"type": "document-collection", "id": 7}}"#)
            .is(400, "invalid_data")
            .pointer("/data/id"),
        patch(r#"{"data": {"type": "document-collection", "id": "pages"}}"#)
            .is(409, "conflict")
            .pointer("/data/id"),
        patch(r#"{"data": {"type": "document-collection", "id": "Posts"}}"#)
            .is(409, "conflict")
            .pointer("/data/id"),
        patch(r#"{"data": {"type": "document-collection", "id": "posts "}}"#).status(409).pointer("/data/id"),
        patch(r#"{"data": {"type": "media-collection", "id": "posts"}}"#)
            .is(409, "conflict")
            .pointer("/data/type"),
        patch(r#"{"data": {"type": "nonsense", "id": "posts"}}"#).status(400).pointer("/data/type"),
        patch(r#"{"data": {"type": 1, "id": "posts"}}"#).is(400, "invalid_data").pointer("/data/type"),
        patch(r#"{"data": {"type": "document-collection", "id": "posts", "attributes": []}}"#)
            .is(400, "invalid_data")
            .pointer("/data/attributes"),
        patch(r#"{"data": {"type": "document-collection", "id": "posts", "attributes": {"type": "media"}}}"#)
            .status(400)
            .pointer("/data/attributes/type"),
    ]
}
