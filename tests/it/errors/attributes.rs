//! Values that violate the rule of their attribute.

use serde_json::{Value, json};

use super::{Case, patch, post};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, value, pointer) in documents() {
        cases.push(bad("document-collection", name, &value, pointer));
        cases.push(bad_patch(name, value, pointer));
    }
    for (name, value, pointer) in media() {
        cases.push(bad("media-collection", name, &value, pointer));
    }
    let nothing = ["name", "directory", "recursive", "unpublishedStatuses", "draftDirectory", "type"];
    for name in nothing {
        cases.push(bad("document-collection", name, &json!(null), ""));
    }
    for name in ["accept", "url", "pathFormat"] {
        cases.push(bad("media-collection", name, &json!(null), ""));
        cases.push(bad("document-collection", name, &json!("x"), ""));
    }
    for name in ["format", "documentTitleKey", "unpublishedStatuses", "revisionDirectory", "draftDirectory"] {
        cases.push(bad("media-collection", name, &json!("x"), ""));
    }
    let free =
        |count: usize| (0..count).map(|n| (format!("x-{n}"), json!(n))).collect::<serde_json::Map<_, _>>();
    let many = |kind: &str, key: &str| {
        json!({"data": {"type": kind, "id": key, "attributes": free(257)}}).to_string()
    };
    for case in [post(many("media-collection", "new")), patch(many("document-collection", "posts"))] {
        cases.push(case.is(400, "invalid_data").pointer("/data/attributes"));
    }
    cases
}

fn pointer_to(name: &str, below: &str) -> String {
    format!("/data/attributes/{}{below}", name.replace('~', "~0").replace('/', "~1"))
}

fn bad(kind: &str, name: &str, value: &Value, below: &str) -> Case {
    let body = json!({"data": {"type": kind, "id": "new", "attributes": {name: value}}}).to_string();
    post(body).is(400, "invalid_data").pointer(&pointer_to(name, below))
}

fn bad_patch(name: &str, value: Value, below: &str) -> Case {
    let attributes = json!({name: value});
    let body = json!({"data": {"type": "document-collection", "id": "posts", "attributes": attributes}});
    patch(body.to_string()).is(400, "invalid_data").pointer(&pointer_to(name, below))
}

type Bad = (&'static str, Value, &'static str);

fn documents() -> Vec<Bad> {
    let mut bad: Vec<Bad> = vec![
        ("name", json!(2024), ""),
        ("name", json!(true), ""),
        ("name", json!([]), ""),
        ("name", json!({}), ""),
        ("name", json!("n".repeat(1001)), ""),
        ("recursive", json!("yes"), ""),
        ("recursive", json!("true"), ""),
        ("recursive", json!(1), ""),
        ("recursive", json!([true]), ""),
        ("format", json!(1), ""),
        ("documentTitleKey", json!({}), ""),
        ("documentDescriptionKey", json!(false), ""),
        ("documentStatusKey", json!(["status"]), ""),
        ("revisionDirectory", json!("../revisions"), ""),
        ("draftDirectory", json!("/drafts"), ""),
        ("archiveDirectory", json!(1), ""),
        ("trashDirectory", json!(""), ""),
        ("type", json!("media"), ""),
        ("type", json!("Document"), ""),
        ("type", json!(1), ""),
        ("nmae", json!("x"), ""),
        ("Name", json!("x"), ""),
        ("id", json!("x"), ""),
        ("", json!("x"), ""),
        ("x", json!("x"), ""),
        ("x-", json!("x"), ""),
        ("X-a", json!("x"), ""),
        ("x-a b", json!("x"), ""),
        ("x-a/b", json!("x"), ""),
        ("x-a~b", json!("x"), ""),
        ("__proto__", json!("x"), ""),
        ("unpublishedStatuses", json!("draft"), ""),
        ("unpublishedStatuses", json!([]), ""),
        ("unpublishedStatuses", json!({"draft": "d"}), "/draft"),
        ("unpublishedStatuses", json!({"draft": null}), "/draft"),
        ("unpublishedStatuses", json!({"draft": {}}), "/draft"),
        ("unpublishedStatuses", json!({"draft": {"name": "Draft"}}), "/draft"),
        ("unpublishedStatuses", json!({"draft": {"directory": "d"}}), "/draft"),
        ("unpublishedStatuses", json!({"draft": {"directory": 1}}), "/draft/directory"),
        ("unpublishedStatuses", json!({"draft": {"directory": ".."}}), "/draft/directory"),
        ("unpublishedStatuses", json!({"draft": {"directory": "d", "name": 1}}), "/draft/name"),
        ("unpublishedStatuses", json!({"draft": {"directory": "d", "extra": 1}}), "/draft/extra"),
        ("unpublishedStatuses", json!({"": {"directory": "d"}}), "/"),
        ("unpublishedStatuses", json!({"a/b": {}}), "/a~1b"),
    ];
    bad.extend(directories().into_iter().map(|value| ("directory", value, "")));
    bad
}

fn directories() -> Vec<Value> {
    let bad = [
        "",
        "/",
        "/etc",
        ".",
        "..",
        "../x",
        "x/..",
        "x/../y",
        "x/./y",
        "x//y",
        "x//",
        "./x",
        "a\\b",
        "..\\x",
        "C:",
        "c:/x",
        "C:\\x",
        "a\nb",
        "a\u{0}",
        "a\u{85}b",
        "\u{7f}",
        "//host/share",
        "\\\\host\\share",
    ];
    let mut values: Vec<_> = bad.iter().map(|text| json!(text)).collect();
    values.push(json!("d".repeat(1025)));
    values.extend([json!(1), json!(true), json!([]), json!({"path": "x"})]);
    values
}

fn media() -> Vec<Bad> {
    vec![
        ("accept", json!("image/png"), ""),
        ("accept", json!({}), ""),
        ("accept", json!([1]), "/0"),
        ("accept", json!([null]), "/0"),
        ("accept", json!(["image/png", "png"]), "/1"),
        ("accept", json!([""]), "/0"),
        ("accept", json!(["."]), "/0"),
        ("accept", json!(["image/"]), "/0"),
        ("accept", json!(["/png"]), "/0"),
        ("accept", json!(["*"]), "/0"),
        ("accept", json!(["*/png"]), "/0"),
        ("accept", json!(["image/png; q=1"]), "/0"),
        ("accept", json!(["image/a/b"]), "/0"),
        ("accept", json!(["im age/png"]), "/0"),
        ("accept", json!(["..pdf"]), "/0"),
        ("url", json!(1), ""),
        ("pathFormat", json!([]), ""),
        ("nmae", json!("x"), ""),
        ("directory", json!("../media"), ""),
    ]
}
