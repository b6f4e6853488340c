//! Atomic batches.

use serde_json::{Value, json};

use crate::http::testing::{Answer, TestService};
use crate::http::{Action, Allowed, Denied};

const ATOMIC: &str = "application/vnd.api+json;ext=\"https://jsonapi.org/ext/atomic\"";

async fn operate(served: &TestService, operations: &Value) -> Answer {
    let body = json!({"atomic:operations": operations}).to_string();
    served.ask("POST", "/operations", &[("content-type", ATOMIC)], body).await
}

fn data(id: &str, attributes: &Value) -> Value {
    json!({"type": "document-collection", "id": id, "attributes": attributes})
}

fn add(id: &str) -> Value {
    json!({"op": "add", "data": data(id, &json!({"name": id}))})
}

#[tokio::test]
async fn a_batch_is_carried_out_in_order_and_as_one_submission() {
    let served = TestService::new();
    let answer = operate(
        &served,
        &json!([
            {"op": "add", "href": "/collections", "data": {"type": "media-collection", "id": "a", "lid": "x"}},
            {"op": "update", "data": data("posts", &json!({"name": "All"}))},
            {"op": "update", "ref": {"type": "document-collection", "id": "posts"}, "data": data("posts", &json!({"directory": null}))},
            {"op": "update", "href": "/collections/notes", "data": data("notes", &json!({}))},
            {"op": "remove", "ref": {"type": "media-collection", "id": "photos"}},
            {"op": "remove", "href": "/collections/notes"},
            {"op": "remove", "ref": {"type": "media-collection", "lid": "x"}},
        ]),
    )
    .await
    .is(200);
    assert_eq!(answer.header("content-type"), ATOMIC);
    let results = answer.json()["atomic:results"].clone();
    let ids: Vec<_> = results.as_array().unwrap().iter().map(|it| it["data"]["id"].as_str()).collect();
    assert_eq!(ids, [Some("a"), Some("posts"), Some("posts"), Some("notes"), None, None, None]);
    assert_eq!(results[2]["data"]["attributes"], json!({"type": "document", "name": "All"}));
    assert_eq!(results[4], json!({}));
    assert_eq!(served.get("/collections").await.keys(), "posts");
    assert_eq!(served.submissions.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_batch_that_fails_anywhere_changes_nothing() {
    let served = TestService::new();
    let before = served.everything().await;
    for (last, status, errors) in [
        (
            json!({"op": "add", "data": data("posts", &json!({}))}),
            409,
            "conflict /atomic:operations/1/data/id",
        ),
        (add("new"), 409, "conflict /atomic:operations/1/data/id"),
        (
            json!({"op": "remove", "ref": {"type": "media-collection", "id": "none"}}),
            404,
            "not_found /atomic:operations/1",
        ),
        (json!({"op": "update", "data": data("none", &json!({}))}), 404, "not_found /atomic:operations/1"),
        (
            json!({"op": "update", "data": data("photos", &json!({}))}),
            409,
            "conflict /atomic:operations/1/data/type",
        ),
        (
            json!({"op": "update", "data": data("posts", &json!({"name": 7}))}),
            400,
            "invalid_data /atomic:operations/1/data/attributes/name",
        ),
    ] {
        let answer = operate(&served, &json!([add("new"), last])).await.is(status);
        assert_eq!(answer.errors(), errors);
        assert_eq!(served.everything().await, before, "{errors}");
    }
}

#[tokio::test]
async fn everything_wrong_with_a_batch_is_told_at_once() {
    let served = TestService::new();
    for (operation, errors) in [
        (json!(7), "invalid_data /atomic:operations/0"),
        (json!({}), "invalid_data /atomic:operations/0"),
        (json!({"op": "replace"}), "invalid_data /atomic:operations/0/op"),
        (json!({"op": 7}), "invalid_data /atomic:operations/0/op"),
        (json!({"op": "add"}), "invalid_data /atomic:operations/0"),
        (json!({"op": "add", "data": []}), "invalid_data /atomic:operations/0/data"),
        (
            json!({"op": "add", "data": {"type": "media-collection", "lid": "x"}}),
            "invalid_data /atomic:operations/0/data",
        ),
        (
            json!({"op": "add", "ref": {}, "data": data("a", &json!({}))}),
            "invalid_data /atomic:operations/0/ref",
        ),
        (
            json!({"op": "add", "href": "/problems", "data": data("a", &json!({}))}),
            "invalid_data /atomic:operations/0/href",
        ),
        (
            json!({"op": "add", "href": "http://x/collections", "data": data("a", &json!({}))}),
            "invalid_data /atomic:operations/0/href",
        ),
        (
            json!({"op": "add", "data": data("../a", &json!({"nmae": 1}))}),
            "invalid_data /atomic:operations/0/data/id, invalid_data /atomic:operations/0/data/attributes/nmae",
        ),
        (json!({"op": "update"}), "invalid_data /atomic:operations/0"),
        (
            json!({"op": "update", "data": {"type": "media-collection"}}),
            "invalid_data /atomic:operations/0/data",
        ),
        (
            json!({"op": "update", "href": "/collections/a", "data": data("b", &json!({}))}),
            "invalid_data /atomic:operations/0/data/id",
        ),
        (
            json!({"op": "update", "data": data("a b", &json!({}))}),
            "invalid_data /atomic:operations/0/data/id",
        ),
        (json!({"op": "remove"}), "invalid_data /atomic:operations/0"),
        (json!({"op": "remove", "ref": 7}), "invalid_data /atomic:operations/0/ref"),
        (json!({"op": "remove", "ref": {"id": "a"}}), "invalid_data /atomic:operations/0/ref"),
        (
            json!({"op": "remove", "ref": {"type": "x", "id": "a"}}),
            "invalid_data /atomic:operations/0/ref/type",
        ),
        (
            json!({"op": "remove", "ref": {"type": "media-collection"}}),
            "invalid_data /atomic:operations/0/ref",
        ),
        (
            json!({"op": "remove", "ref": {"type": "media-collection", "id": 7}}),
            "invalid_data /atomic:operations/0/ref/id",
        ),
        (
            json!({"op": "remove", "ref": {"type": "media-collection", "id": "a/b"}}),
            "invalid_data /atomic:operations/0/ref/id",
        ),
        (
            json!({"op": "remove", "ref": {"type": "media-collection", "id": "a", "lid": "a"}}),
            "invalid_data /atomic:operations/0/ref/lid",
        ),
        (
            json!({"op": "remove", "ref": {"type": "media-collection", "lid": "a"}}),
            "invalid_data /atomic:operations/0/ref/lid",
        ),
        (
            json!({"op": "remove", "ref": {"type": "media-collection", "id": "a", "relationship": "b"}}),
            "invalid_data /atomic:operations/0/ref/relationship",
        ),
        (json!({"op": "remove", "href": "/collections"}), "invalid_data /atomic:operations/0/href"),
        (
            json!({"op": "remove", "href": "/collections/a", "ref": {}}),
            "invalid_data /atomic:operations/0/href",
        ),
        (json!({"op": "remove", "href": 7}), "invalid_data /atomic:operations/0/href"),
    ] {
        let answer = operate(&served, &json!([operation, add("new"), {"op": "nope"}])).await.is(400);
        assert_eq!(answer.errors(), format!("{errors}, invalid_data /atomic:operations/2/op"), "{operation}");
    }
    assert!(served.submissions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_body_without_operations_is_refused() {
    let served = TestService::new();
    for (body, errors) in [
        ("", "bad_request"),
        ("[]", "bad_request"),
        ("{}", "bad_request"),
        (r#"{"data":{}}"#, "bad_request"),
        (r#"{"operations":[]}"#, "bad_request"),
        (r#"{"atomic:operations":[]}"#, "bad_request /atomic:operations"),
        (r#"{"atomic:operations":{}}"#, "bad_request /atomic:operations"),
        (r#"{"atomic:operations":null}"#, "bad_request /atomic:operations"),
    ] {
        let answer = served.ask("POST", "/operations", &[("content-type", ATOMIC)], body).await.is(400);
        assert_eq!(answer.errors(), errors, "{body}");
    }
}

#[tokio::test]
async fn a_batch_has_no_parameters_no_preconditions_and_an_end() {
    let served = TestService::with(|context| {
        context.settings.limits.writes.operations_max = 2;
        context.settings.require_if_match = true;
    });
    let body = json!({"atomic:operations": [add("a")]}).to_string();
    let headers = [("content-type", ATOMIC), ("if-match", "*")];
    let answer = served.ask("POST", "/operations?include=x", &headers, &body).await.is(400);
    assert_eq!(answer.errors(), "bad_request include, bad_request If-Match");
    let answer = operate(&served, &json!([add("a"), add("b"), add("c")])).await.is(400);
    assert_eq!(answer.errors(), "invalid_data /atomic:operations");
    operate(&served, &json!([add("a"), add("b")])).await.is(200);
}

#[tokio::test]
async fn a_precondition_is_demanded_for_what_was_there_before_the_batch() {
    let served = TestService::with(|context| context.settings.require_if_match = true);
    let remove = |key: &str| json!({"op": "remove", "href": format!("/collections/{key}")});
    let answer = operate(&served, &json!([add("a"), remove("posts")])).await.is(428);
    assert_eq!(answer.errors(), "precondition_required /atomic:operations/1");
    assert!(!answer.header("etag").is_empty());
    let answer = operate(&served, &json!([remove("nope")])).await.is(404);
    assert_eq!(answer.errors(), "not_found /atomic:operations/0");
    let rename = json!({"op": "update", "data": data("a", &json!({"name": "A"}))});
    operate(&served, &json!([add("a"), rename])).await.is(200);
}

#[tokio::test]
async fn every_operation_needs_its_own_permission() {
    let served = TestService::behind(|_, action| match action {
        Action::Create { key: Some(key), .. } if key.as_str() == "mine" => Ok(Allowed::anonymous()),
        _ => Err(Denied::forbidden()),
    });
    operate(&served, &json!([add("mine")])).await.is(200);
    let answer = operate(&served, &json!([add("mine"), add("theirs"), {"op": "nope"}])).await.is(403);
    assert_eq!(answer.errors(), "forbidden /atomic:operations/1");
    operate(&served, &json!([{"op": "nope"}])).await.is(403);
    served.ask("POST", "/operations", &[("content-type", ATOMIC)], "nonsense").await.is(403);
}

#[tokio::test]
async fn whoever_can_read_json_api_can_read_results() {
    let served = TestService::new();
    let body =
        json!({"atomic:operations": [{"op": "update", "data": data("posts", &json!({}))}]}).to_string();
    for (accept, status) in [
        ("*/*", 200),
        ("application/vnd.api+json", 200),
        (ATOMIC, 200),
        ("application/vnd.api+json;ext=\"x\"", 406),
    ] {
        let headers = [("content-type", ATOMIC), ("accept", accept)];
        served.ask("POST", "/operations", &headers, &body).await.is(status);
    }
}
