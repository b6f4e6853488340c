//! Documents, byte for byte.

use std::sync::Arc;

use chrono::DateTime;

use crate::domain::Kind;
use crate::engine::{Problem, Serving, Snapshot};
use crate::http::jsonapi::document::*;
use crate::http::jsonapi::error::ApiError;
use crate::http::testing::{entry, key};

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn problem() -> Problem {
    Problem {
        path: "collections/posts.yaml".into(),
        faults: vec![crate::engine::Fault {
            line: 3,
            column: 7,
            message: "there is no such attribute".into(),
        }],
        collection: Some(key("posts")),
        serving: Serving::LastGood,
        since: DateTime::UNIX_EPOCH,
        committed: None,
    }
}

#[test]
fn one_collection_is_shown_exactly_so() {
    let entry = entry("posts", Kind::Document, &[("name", "Posts \"1\""), ("directory", "content/posts")]);
    let ready = TaggedDocument::one(&entry, &BasePath::default());
    assert_eq!(
        text(&ready.body()),
        r#"{"jsonapi":{"version":"1.1"},"data":{"type":"document-collection","id":"posts","attributes":{"type":"document","name":"Posts \"1\"","directory":"content/posts"},"links":{"self":"/collections/posts"}},"links":{"self":"/collections/posts"}}"#
    );
    assert_eq!(ready.etag(), format!("\"{}\"", entry.tag()).as_str());
    assert_eq!(ready.tag(), format!("\"{}\"", entry.tag()));
}

#[test]
fn meta_appears_only_when_something_needs_saying() {
    let mut entry = Arc::into_inner(entry("posts", Kind::Media, &[])).unwrap();
    entry.uncommitted = true;
    entry.problem = Some(Arc::new(problem()));
    let body = TaggedDocument::one(&entry, &"/api".parse::<BasePath>().unwrap()).body();
    assert_eq!(
        text(&body),
        r#"{"jsonapi":{"version":"1.1"},"data":{"type":"media-collection","id":"posts","attributes":{"type":"media"},"links":{"self":"/api/collections/posts"},"meta":{"problem":{"column":7,"line":3,"message":"there is no such attribute","path":"collections/posts.yaml"},"uncommitted":true}},"links":{"self":"/api/collections/posts"}}"#
    );
}

#[test]
fn a_list_is_made_of_the_same_resources() {
    let mut snapshot = Snapshot::default();
    let base = "/api".parse::<BasePath>().unwrap();
    let list = |snapshot: &Snapshot| text(&whole_list(snapshot, &base).body()).to_owned();
    assert_eq!(
        list(&snapshot),
        r#"{"jsonapi":{"version":"1.1"},"data":[],"links":{"self":"/api/collections"}}"#
    );
    snapshot = snapshot.next();
    snapshot.insert(entry("b", Kind::Media, &[]));
    snapshot.insert(entry("a", Kind::Document, &[]));
    snapshot.hand_edits.served = 2;
    assert_eq!(
        list(&snapshot),
        r#"{"jsonapi":{"version":"1.1"},"data":[{"type":"document-collection","id":"a","attributes":{"type":"document"},"links":{"self":"/api/collections/a"}},{"type":"media-collection","id":"b","attributes":{"type":"media"},"links":{"self":"/api/collections/b"}}],"links":{"self":"/api/collections"},"meta":{"uncommitted":2}}"#
    );
}

#[test]
fn an_error_that_meets_a_collection_shows_it() {
    let error = ApiError::precondition("If-Match", Some(entry("posts", Kind::Media, &[])));
    assert_eq!(
        text(&errors(&error, &BasePath::default())),
        r#"{"jsonapi":{"version":"1.1"},"errors":[{"code":"precondition_failed","detail":"The collection is not in the state that the precondition asks for.","source":{"header":"If-Match"},"status":"412","title":"Precondition Failed","meta":{"current":{"type":"media-collection","id":"posts","attributes":{"type":"media"},"links":{"self":"/collections/posts"}}}}]}"#
    );
}

#[test]
fn a_problem_is_a_resource() {
    let shown = problems([&problem()], &[], [], &Fields::default(), "/problems");
    let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
    assert_eq!(
        shown["data"][0],
        json!({"type": "problem", "id": "collections/posts.yaml", "attributes": {
            "kind": "file", "path": "collections/posts.yaml", "line": 3, "column": 7, "message": "there is no such attribute",
            "collection": "posts", "serving": "last-good", "since": "1970-01-01T00:00:00Z"}})
    );
}
