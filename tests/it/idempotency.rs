//! `Idempotency-Key`: a repeated request gets the same answer and is not carried out again.

use serde_json::{Value, json};

use crate::support::{Answer, CheckedAnswer, TestServer, document, restore_document};

async fn ask(server: &TestServer, key: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
    server.request_with(method, path, body).header("Idempotency-Key", key).send().await
}

/// Returns everything that must be the same in the repeated answer.
fn comparable(answer: &CheckedAnswer) -> (u16, Vec<u8>, Vec<Option<String>>) {
    let headers = ["etag", "location", "content-type", "collectory-revision"];
    let headers = headers.iter().map(|name| answer.header_if_any(name)).collect();
    (answer.status(), answer.bytes().to_vec(), headers)
}

struct Write {
    key: &'static str,
    method: &'static str,
    path: &'static str,
    body: Option<Value>,
    status: u16,
}

fn writes() -> Vec<Write> {
    let operations = json!({"atomic:operations": [
        {"op": "add", "data": {"type": "media-collection", "id": "zoo", "attributes": {"directory": "zoo"}}},
        {"op": "update", "data": {"type": "media-collection", "id": "zoo", "attributes": {"name": "Zoo"}}},
        {"op": "add", "data": {"type": "document-collection", "id": "ape"}},
        {"op": "update", "data": {"type": "document-collection", "id": "new", "attributes": {}}},
        {"op": "remove", "ref": {"type": "document-collection", "id": "ape"}}
    ]});
    let new = document("new", json!({"name": "New"}));
    let renamed = document("new", json!({"name": "Renamed"}));
    let write = |key, method, path, body, status| Write { key, method, path, body, status };
    vec![
        write("create", "POST", "/collections", Some(new), 201),
        write("update", "PATCH", "/collections/new", Some(renamed), 200),
        write("batch", "POST", "/operations", Some(operations), 200),
        write("delete", "DELETE", "/collections/new", None, 204),
    ]
}

#[tokio::test]
async fn a_write_that_is_sent_again_is_answered_as_the_first_time_also_after_a_restart() {
    let mut server = TestServer::start("small").await;
    let mut first = Vec::new();
    for Write { key, method, path, body, status } in &writes() {
        first.push(comparable(&ask(&server, key, method, path, body.as_ref()).await.is(*status)));
    }
    let head = server.repo().head();
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
        }
        for (Write { key, method, path, body, status }, first) in writes().iter().zip(&first) {
            let quoted = format!("\"{key}\"");
            for key in [*key, &quoted] {
                let again = ask(&server, key, method, path, body.as_ref()).await.is(*status);
                assert_eq!(comparable(&again), *first, "{method} {path}, restarted: {restarted}");
            }
        }
        assert_eq!(server.repo().head(), head);
    }
    assert_eq!(server.repo().trailer("HEAD", "Idempotency-Key"), ["delete"]);
    assert!(server.repo().trailer("HEAD", "Collectory-Fingerprint")[0].starts_with("sha256:"));
}

/// Returns the path that undoes the newest event, and the body that restores the state before it.
async fn taking_back(server: &TestServer, key: &str) -> (String, Value) {
    let events = server.get(&format!("/collections/{key}/events?page[size]=1")).await.is(200);
    let event = events.json()["data"][0].clone();
    let revision =
        server.repo().git(&["rev-parse", &format!("{}^", event["attributes"]["revision"].as_str().unwrap())]);
    let body = restore_document(&revision);
    (format!("/events/{}/undo", event["id"].as_str().unwrap()), body)
}

#[tokio::test]
async fn what_was_taken_back_is_not_taken_back_again_also_after_a_restart() {
    let mut server = TestServer::start("small").await;
    server.patch("posts", json!({"name": "Two"})).await.is(200);
    let (undo, to_the_first) = taking_back(&server, "posts").await;
    server.create(&document("new", json!({}))).await.is(201);
    let (undo_creation, _) = taking_back(&server, "new").await;
    server.delete("pages").await.is(204);
    let (undo_deletion, to_the_last) = taking_back(&server, "pages").await;
    let restore = "/collections/posts/restore";
    let asked = [
        ("undo", undo.as_str(), None, 201),
        ("gone", &undo_creation, None, 204),
        ("back", &undo_deletion, None, 201),
        ("other", "/collections/pages", None, 204),
        ("again", "/collections/pages/restore", Some(&to_the_last), 201),
        ("same", restore, Some(&to_the_first), 200),
    ];
    let method = |path: &str| if path.ends_with("pages") { "DELETE" } else { "POST" };
    let mut first = Vec::new();
    for (key, path, body, status) in asked {
        first.push(comparable(&ask(&server, key, method(path), path, body).await.is(status)));
    }
    server.patch("posts", json!({"name": "Three"})).await.is(200);
    ask(&server, "to", "POST", restore, Some(&to_the_first)).await.is(200);
    server.patch("posts", json!({"name": "Four"})).await.is(200);
    let head = server.repo().head();
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
        }
        for ((key, path, body, status), first) in asked.iter().zip(&first) {
            // The answer to a request that changed nothing does not survive a restart.
            if *key != "same" {
                let again = ask(&server, key, method(path), path, *body).await.is(*status);
                assert_eq!(comparable(&again), *first, "{path}, restarted: {restarted}");
            }
        }
        let again = ask(&server, "to", "POST", restore, Some(&to_the_first)).await.is(200);
        assert_eq!(again.attributes()["name"], "Posts");
        for (key, path) in [("back", undo.as_str()), ("undo", "/events/nothing/undo")] {
            let status = if key == "undo" { 404 } else { 422 };
            ask(&server, key, "POST", path, None).await.is(status);
        }
        assert_eq!(server.repo().head(), head, "restarted: {restarted}");
    }
}

#[tokio::test]
async fn of_many_undos_at_once_one_is_carried_out_and_all_are_answered() {
    let server = TestServer::start("small").await;
    let tag = server.patch("posts", json!({"name": "Two"})).await.is(200).header("etag");
    let (undo, _) = taking_back(&server, "posts").await;
    let before = server.repo().commit_count();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (client, undo, tag) = (server.client().clone(), undo.clone(), tag.clone());
        tasks.spawn(async move {
            let request = client.request("POST", &undo).header("Idempotency-Key", "k");
            comparable(&request.header("If-Match", &tag).send().await.is(201))
        });
    }
    let answers = tasks.join_all().await;
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(server.repo().commit_count(), before + 1);
}

#[tokio::test]
async fn an_update_with_a_precondition_may_be_sent_again_though_the_tag_is_old_by_then() {
    let server = TestServer::start("small").await;
    let tag = server.read("posts").await.is(200).header("etag");
    let body = document("posts", json!({"name": "Once"}));
    let send = || {
        let request = server.request("PATCH", "/collections/posts").document(&body);
        request.header("If-Match", &tag).header("Idempotency-Key", "u-1").send()
    };
    let first = send().await.is(200);
    server.patch("posts", json!({"name": "Twice"})).await.is(200);
    assert_eq!(comparable(&send().await.is(200)), comparable(&first));
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Twice");
}

#[tokio::test]
async fn a_key_stands_for_one_request() {
    let server = TestServer::start("small").await;
    let new = document("new", json!({}));
    ask(&server, "k", "POST", "/collections", Some(&new)).await.is(201);
    let head = server.repo().head();
    let other = document("other", json!({}));
    for (method, path, body) in [
        ("POST", "/collections", Some(&other)),
        ("PATCH", "/collections/posts", Some(&document("posts", json!({"name": "x"})))),
        ("DELETE", "/collections/posts", None),
        ("DELETE", "/collections/nothing", None),
    ] {
        let refused = ask(&server, "k", method, path, body).await.is(422);
        assert_eq!(refused.error(), ("unprocessable".into(), json!({"header": "Idempotency-Key"})));
    }
    assert_eq!(server.repo().head(), head);
}

#[tokio::test]
async fn what_was_refused_is_judged_again_and_a_dry_run_uses_no_key_up() {
    let server = TestServer::start("small").await;
    let body = document("new", json!({}));
    ask(&server, "k", "PATCH", "/collections/new", Some(&body)).await.is(404);
    let request = server.request("POST", "/collections").header("Prefer", "dry-run").document(&body);
    request.header("Idempotency-Key", "k").send().await.is(200);
    ask(&server, "k", "POST", "/collections", Some(&body)).await.is(201);
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_remembered_while_the_service_runs() {
    let server = TestServer::start("small").await;
    let same = document("posts", json!({}));
    let first = ask(&server, "k", "PATCH", "/collections/posts", Some(&same)).await.is(200);
    server.patch("posts", json!({"name": "Another"})).await.is(200);
    let again = ask(&server, "k", "PATCH", "/collections/posts", Some(&same)).await.is(200);
    assert_eq!(again.json(), first.json());
    for field in ["etag", "collectory-revision"] {
        assert_eq!(again.header(field), first.header(field), "{field}");
    }
    ask(&server, "k", "DELETE", "/collections/posts", None).await.is(422);
}

#[tokio::test]
async fn of_many_at_once_one_is_carried_out_and_all_are_answered() {
    let server = TestServer::start("small").await;
    let before = server.repo().commit_count();
    let body = document("new", json!({"name": "New"}));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (client, body) = (server.client().clone(), body.clone());
        tasks.spawn(async move {
            let request = client.request("POST", "/collections").header("Idempotency-Key", "k");
            comparable(&request.document(&body).send().await.is(201))
        });
    }
    let answers = tasks.join_all().await;
    assert!(answers.iter().all(|answer| answer.1 == answers[0].1));
    assert_eq!(server.repo().commit_count(), before + 1);
}

#[tokio::test]
async fn beyond_the_retention_and_the_count_a_key_is_new() {
    for flags in [["--idempotency-retention-s", "0"], ["--idempotency-len-max", "0"]] {
        let server = TestServer::setup("small").flag(&flags).start().await;
        let body = document("new", json!({}));
        ask(&server, "k", "POST", "/collections", Some(&body)).await.is(201);
        ask(&server, "k", "POST", "/collections", Some(&body)).await.is(409);
    }
}

#[tokio::test]
async fn a_commit_that_was_taken_back_from_the_branch_is_not_remembered() {
    let server = TestServer::start("small").await;
    let body = document("new", json!({}));
    ask(&server, "k", "POST", "/collections", Some(&body)).await.is(201);
    server.repo().git(&["reset", "--hard", "-q", "HEAD^"]);
    server.wait_until_not_found("new").await;
    ask(&server, "k", "POST", "/collections", Some(&body)).await.is(201);
    server.read("new").await.is(200);
}

#[tokio::test]
async fn what_is_no_key_is_refused_before_anything_happens() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    for key in ["", "\"\"", "a b", "\"a", &"x".repeat(256)] {
        let body = document("new", json!({}));
        let refused = ask(&server, key, "POST", "/collections", Some(&body)).await.is(400);
        assert_eq!(refused.error(), ("invalid_data".into(), json!({"header": "Idempotency-Key"})));
        ask(&server, key, "DELETE", "/collections/posts", None).await.is(400);
    }
    assert_eq!(server.repo().head(), head);
}
