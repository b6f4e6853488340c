//! Bodies that are not JSON, or ambiguous JSON.

use super::{Case, patch, post};

/// Texts that are not a JSON value.
const NOT_JSON: &[&[u8]] = &[
    b"",
    b" ",
    b"{",
    b"}",
    b"[",
    b"{\"data\":",
    b"{\"data\": {}",
    b"{data: {}}",
    b"{'data': {}}",
    b"{\"data\": {},}",
    b"{\"data\" {}}",
    b"not json",
    b"data: {}",
    b"<xml/>",
    b"undefined",
    b"{\"data\": undefined}",
    b"{\"data\": nul}",
    b"{\"data\": {}} {}",
    b"{\"data\": {}} trailing",
    b"{\"data\": {}}\0",
    b"// comment\n{\"data\": {}}",
    b"{\"data\": {} /* comment */}",
    b"\xef\xbb\xbf{\"data\": {\"type\": \"document-collection\", \"id\": \"bom\"}}",
    b"{\"data\": \"\xff\"}",
    b"{\"data\": \"\xc3\x28\"}",
    b"{\"data\": \"\xed\xa0\x80\"}",
    b"{\"data\": \"\\ud800\"}",
    b"{\"data\": \"\\udc00\\ud800\"}",
    b"{\"data\": \"\\x41\"}",
    b"{\"data\": \"line\nbreak\"}",
    b"{\"data\": \"tab\t\"}",
    b"{\"data\": 01}",
    b"{\"data\": +1}",
    b"{\"data\": .5}",
    b"{\"data\": 1.}",
    b"{\"data\": 0x10}",
    b"{\"data\": NaN}",
    b"{\"data\": Infinity}",
    b"{\"data\": -Infinity}",
    b"\xff\xfe{\x00}\x00",
];

/// Bodies with duplicate members; which one counts would depend on the parser.
const TWICE: &[&str] = &[
    r#"{"data": {"type": "document-collection", "id": "a"}, "data": {"type": "document-collection", "id": "b"}}"#,
    r#"{"data": {"type": "document-collection", "id": "a", "id": "b"}}"#,
    r#"{"data": {"type": "document-collection", "type": "media-collection", "id": "a"}}"#,
    r#"{"data": {"type": "document-collection", "id": "a", "attributes": {"name": "x", "name": "y"}}}"#,
    r#"{"data": {"type": "document-collection", "id": "a", "attributes": {"name": "x", "n\u0061me": "y"}}}"#,
    r#"{"data": {"type": "document-collection", "id": "a", "attributes": {"x-a": {"b": 1, "b": 2}}}}"#,
    r#"{"data": {"type": "document-collection", "id": "a", "attributes": {"x-a": [{"b": 1, "b": 2}]}}}"#,
    r#"{"data": {"type": "document-collection", "id": "a"}, "meta": {"a": 1, "a": 2}}"#,
];

/// Numbers that no file and no client could represent.
const NUMBERS: &[&str] = &["1e999", "-1e999", "1e400", "1e-400", "-0.00001e-400"];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for text in NOT_JSON {
        cases.push(post(*text).is(400, "bad_request"));
    }
    for text in [&b"{"[..], b"", b"\xff", b"{} {}"] {
        cases.push(patch(text).is(400, "bad_request"));
    }
    for text in TWICE {
        cases.push(post(*text).status(400));
    }
    for number in NUMBERS {
        let text = format!(
            r#"{{"data": {{"type": "document-collection", "id": "a", "attributes": {{"x-n": {number}}}}}}}"#
        );
        cases.push(post(text).status(400));
    }
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [100, 10_000, 100_000] {
            let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let text = format!(
                r#"{{"data": {{"type": "document-collection", "id": "a", "attributes": {{"x-deep": {deep}}}}}}}"#
            );
            cases.push(post(text).status(400));
        }
    }
    cases.push(post("[".repeat(50_000)).status(400));
    cases.extend(too_large());
    cases
}

fn too_large() -> Vec<Case> {
    let huge = "x".repeat(17 * 1024 * 1024);
    let file = format!(
        r#"{{"data": {{"type": "document-collection", "id": "a", "attributes": {{"x-large": "{}"}}}}}}"#,
        "x".repeat(70 * 1024)
    );
    vec![
        post(huge.clone()).is(413, "payload_too_large"),
        patch(huge).is(413, "payload_too_large"),
        post(file).status(400),
    ]
}
