//! All faults that a body can have, and how they are reported.

use crate::http::jsonapi::error::ErrorSource;
use crate::http::jsonapi::request::*;

/// All faults of a body, one `pointer: detail` per line.
fn shown(faults: &[ErrorObject]) -> String {
    let lines: Vec<String> = faults
        .iter()
        .map(|fault| match &fault.source {
            Some(ErrorSource::Pointer(pointer)) => format!("{pointer}: {}", fault.detail),
            other => format!("{other:?}: {}", fault.detail),
        })
        .collect();
    lines.join("\n")
}

fn resource(body: &str) -> Resource {
    let data = parse(body.as_bytes(), 32).and_then(data_of);
    data.map_or_else(Resource::unreadable, Resource::read)
}

/// Bodies with faults that do not depend on the request, and those faults.
const WRONG: &[(&str, &str)] = &[
    (
        "",
        "None: The body can't be read as JSON: line 1, column 1: expected a value, found the end of the text.",
    ),
    (
        "{",
        "None: The body can't be read as JSON: line 1, column 2: expected the name of a member in quotes, found the end of the text.",
    ),
    ("null", "None: A JSON:API document is an object, the body is null."),
    ("[]", "None: A JSON:API document is an object, the body is an array."),
    ("\"x\"", "None: A JSON:API document is an object, the body is a string."),
    ("7", "None: A JSON:API document is an object, the body is a number."),
    ("{}", "None: The document has no `data`."),
    (r#"{"meta":{}}"#, "None: The document has no `data`."),
    (r#"{"errors":[]}"#, "None: The document has no `data`."),
    (r#"{"data":null}"#, "/data: `data` is a single resource object here, found null."),
    (r#"{"data":[]}"#, "/data: `data` is a single resource object here, found an array."),
    (r#"{"data":"x"}"#, "/data: `data` is a single resource object here, found a string."),
    (r#"{"data":true}"#, "/data: `data` is a single resource object here, found a boolean."),
    (
        r#"{"data":{}}"#,
        "/data: `type` is missing; it is `document-collection` or `media-collection`.\n/data: `id` is missing; it is the key, chosen by the client.",
    ),
    (
        r#"{"data":{"type":"media-collection","lid":"x"}}"#,
        "/data: `id` is missing; it is the key, chosen by the client.",
    ),
    (r#"{"data":{"type":7,"id":"a"}}"#, "/data/type: Expected a string, found a number."),
    (r#"{"data":{"type":null,"id":"a"}}"#, "/data/type: Expected a string, found null."),
    (
        r#"{"data":{"type":"media","id":"a"}}"#,
        "/data/type: There is no type \"media\"; write `document-collection` or `media-collection`.",
    ),
    (
        r#"{"data":{"type":"","id":"a"}}"#,
        "/data/type: There is no type \"\"; write `document-collection` or `media-collection`.",
    ),
    (r#"{"data":{"type":"media-collection","id":7}}"#, "/data/id: Expected a string, found a number."),
    (r#"{"data":{"type":"media-collection","id":null}}"#, "/data/id: Expected a string, found null."),
    (r#"{"data":{"type":"media-collection","id":["a"]}}"#, "/data/id: Expected a string, found an array."),
    (
        r#"{"data":{"type":"media-collection","id":"a","attributes":null}}"#,
        "/data/attributes: Expected an object, found null.",
    ),
    (
        r#"{"data":{"type":"media-collection","id":"a","attributes":[]}}"#,
        "/data/attributes: Expected an object, found an array.",
    ),
    (
        r#"{"data":{"type":"media-collection","id":"a","attributes":{"type":"document"}}}"#,
        "/data/attributes/type: Expected \"media\" as `data.type` is \"media-collection\", found \"document\".",
    ),
    (
        r#"{"data":{"type":"media-collection","id":"a","attributes":{"type":null}}}"#,
        "/data/attributes/type: Expected \"media\" as `data.type` is \"media-collection\", found null.",
    ),
    (
        r#"{"data":{"type":7,"id":7,"attributes":7}}"#,
        "/data/type: Expected a string, found a number.\n/data/id: Expected a string, found a number.\n/data/attributes: Expected an object, found a number.",
    ),
];

/// Attributes of the media collection `a` with faults, whether it is created or updated, and those faults.
const WRONG_ATTRIBUTES: &[(&str, &str)] = &[
    (
        r#"{"id":"b"}"#,
        "/data/attributes/id: There is no such attribute; names that begin with `x-` are free.",
    ),
    (r#"{"nmae":"b"}"#, "/data/attributes/nmae: There is no such attribute; did you mean `name`?."),
    (
        r#"{"a/b~c":1}"#,
        "/data/attributes/a~1b~0c: There is no such attribute; names that begin with `x-` are free.",
    ),
    (
        r#"{"name":2024}"#,
        "/data/attributes/name: Expected a string, found a number (2024); write \"2024\" in quotes.",
    ),
    (
        r#"{"recursive":"yes","directory":"../x"}"#,
        "/data/attributes/recursive: Expected `true` or `false`, found the string \"yes\"; write true without quotes.\n/data/attributes/directory: \"../x\" has the part `..`; write the path without it.",
    ),
    (
        r#"{"accept":["image/*",1]}"#,
        "/data/attributes/accept/1: Expected a string, found a number (1); write \"1\" in quotes.",
    ),
    (
        r#"{"format":"md"}"#,
        "/data/attributes/format: Only document collections have `format`, this is a media collection.",
    ),
];

#[test]
fn everything_wrong_with_a_body_is_told_at_once() {
    for (body, faults) in WRONG {
        assert_eq!(shown(&resource(body).into_new().faults), *faults, "create: {body}");
        assert_eq!(shown(&resource(body).into_change().faults), *faults, "update: {body}");
    }
}

#[test]
fn wrong_attributes_are_told_the_same_way_for_new_and_for_stored_collections() {
    let stored = Collection::new(Key::parse("a").unwrap(), Kind::Media, []).unwrap();
    for (attributes, faults) in WRONG_ATTRIBUTES {
        let body = format!(r#"{{"data":{{"type":"media-collection","id":"a","attributes":{attributes}}}}}"#);
        let faults = faults.replace("?.", "?");
        assert_eq!(shown(&resource(&body).into_new().faults), faults, "create: {body}");
        let error = resource(&body).into_change().check(&stored, &[]).unwrap_err();
        assert_eq!(shown(&error.errors), faults, "update: {body}");
    }
}

#[test]
fn a_broken_key_is_told_together_with_the_rest() {
    let body = r#"{"data":{"type":"media-collection","id":"../etc","attributes":{"name":7}}}"#;
    let new = resource(body).into_new();
    assert_eq!((new.key, new.collection), (None, None));
    assert_eq!(
        shown(&new.faults),
        "/data/id: A key can't hold '/'.\n/data/attributes/name: Expected a string, found a number (7); write \"7\" in quotes."
            .replace("A key can't hold '/'", "A key is made of `A-Z a-z 0-9 . _ -`, it can't hold '/'")
    );
}

#[test]
fn members_without_a_meaning_are_ignored() {
    let body = r#"{"@context":1,"jsonapi":{"version":"9"},"links":7,"meta":7,"included":7,"foo":7,
        "data":{"@id":1,"type":"media-collection","id":"a","lid":7,"relationships":{},"links":{"self":7},
        "meta":{"uncommitted":true},"foo":7,"attributes":{"@type":"x","type":"media","name":"A"}}}"#;
    let collection = resource(body).into_new().collection.unwrap();
    assert_eq!(collection.attributes().len(), 1);
}

#[test]
fn names_inside_a_value_are_data() {
    let body = r#"{"data":{"type":"document-collection","id":"a","attributes":
        {"unpublishedStatuses":{"@a":{"directory":"d","name":"D"}},"x-free":{"@id":1}}}}"#;
    let collection = resource(body).into_new().collection.unwrap();
    let told: Vec<String> = collection.attributes().iter().map(|(_, value)| value.to_string()).collect();
    assert_eq!(told, [r#"{"@a": {"directory": "d", "name": "D"}}"#, r#"{"@id": 1}"#]);
    let body = r#"{"data":{"type":"document-collection","id":"a","attributes":
        {"unpublishedStatuses":{"draft":{"directory":"d","name":"D","@b":{}}}}}}"#;
    assert_eq!(
        shown(&resource(body).into_new().faults),
        "/data/attributes/unpublishedStatuses/draft/@b: A status has only `directory` and `name`."
    );
}

#[test]
fn a_patch_of_another_collection_or_kind_is_a_conflict() {
    let stored = Collection::new(Key::parse("a").unwrap(), Kind::Media, []).unwrap();
    let check = |data: &str| {
        let error = resource(&format!("{{\"data\":{data}}}")).into_change().check(&stored, &[]).unwrap_err();
        (error.status().as_u16(), shown(&error.errors))
    };
    assert_eq!(
        check(r#"{"type":"document-collection","id":"b"}"#),
        (409, "/data/id: Body data.id ('b') does not match URL key ('a'). Use the URL key as the resource identifier.".into())
    );
    assert_eq!(
        check(r#"{"type":"document-collection","id":"a"}"#),
        (409, "/data/type: `a` is a media collection and can't become a document collection; delete and create it instead.".into())
    );
    assert_eq!(check(r#"{"type":"document-collection","id":"b","attributes":{"name":7}}"#).0, 400);
    let of_its_own = r#"{"type":"document-collection","id":"a","attributes":{"format":"md"}}"#;
    assert_eq!(check(of_its_own).0, 409, "the attributes are those of the type that is named");
}
