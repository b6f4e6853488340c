//! `Prefer: dry-run`: everything except the commit.

use serde_json::{Value, json};

use crate::support::{CheckedAnswer, TestServer, document, remove_operation, restore_document};

async fn rehearse(
    server: &TestServer,
    method: &str,
    path: &str,
    body: Option<&Value>,
    status: u16,
) -> CheckedAnswer {
    let request = server.request_with(method, path, body).header("Prefer", "dry-run");
    let answer = request.send().await.is(status);
    if status == 200 {
        assert_eq!(answer.header("preference-applied"), "dry-run");
        assert_eq!(answer.header_if_any("etag"), None, "nothing has this tag");
        assert_eq!(answer.header_if_any("location"), None, "nothing is there");
    }
    answer
}

fn commits(answer: &CheckedAnswer) -> Vec<Value> {
    answer.json()["meta"]["commits"].as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Removes the ids, which differ between two messages of the same commit.
fn without_ids(message: &str) -> String {
    let lines = message.lines();
    lines.filter(|line| !line.starts_with("Collectory-Event") && !line.starts_with("Request-Id")).collect()
}

#[tokio::test]
async fn every_write_is_told_as_it_would_be_and_nothing_changes() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    let all = server.list().await.is(200).json();
    let operations = json!({"atomic:operations": [
        {"op": "add", "data": {"type": "document-collection", "id": "new", "attributes": {"name": "New"}}},
        remove_operation("posts")
    ]});
    let new = document("new", json!({"name": "New"}));
    let changed = document("posts", json!({"name": "Articles"}));
    for (method, path, body, subject) in [
        ("POST", "/collections", Some(&new), "Create new"),
        ("PATCH", "/collections/posts", Some(&changed), "Update posts: name"),
        ("DELETE", "/collections/posts", None, "Delete posts"),
        ("POST", "/operations", Some(&operations), "Change 2 collections: new, posts"),
    ] {
        let preview = rehearse(&server, method, path, body, 200).await;
        let commits = commits(&preview);
        assert_eq!(commits.len(), 1, "{method} {path}");
        assert_eq!(text(&commits[0]["message"]).lines().next(), Some(subject));
        assert_eq!(server.repo().head(), head);
        assert_eq!(server.repo().status(), "");
        assert_eq!(server.list().await.is(200).json(), all);
    }
}

#[tokio::test]
async fn a_rehearsal_and_its_write_agree() {
    let server = TestServer::start("commented").await;
    let key = server.list().await.is(200).ids()[0].clone();
    let kind = server.read(&key).await.is(200).data()["type"].clone();
    let change = json!({"data": {"type": kind, "id": key, "attributes": {"name": "Quite another name"}}});
    let path = format!("/collections/{key}");
    let preview = rehearse(&server, "PATCH", &path, Some(&change), 200).await;
    let before = server.repo().head();
    let done = server.request("PATCH", &path).document(&change).send().await.is(200);
    assert_eq!(preview.data(), done.data());
    let [commit] = &commits(&preview)[..] else { panic!("one commit") };
    let made = server.repo().field("HEAD", "%B");
    assert_eq!(without_ids(text(&commit["message"])), without_ids(&made));
    let patch = server.folder().join("preview.patch");
    std::fs::write(&patch, text(&commit["files"][0]["difference"])).unwrap();
    let clone = server.repo().bare_clone(server.folder().join("clone"));
    clone.git(&["read-tree", &before]);
    clone.git(&["apply", "--cached", &patch.display().to_string()]);
    let previewed_tree = clone.git(&["write-tree"]);
    assert_eq!(previewed_tree, server.repo().git(&["rev-parse", "HEAD^{tree}"]));
}

#[tokio::test]
async fn a_hand_edit_that_would_be_committed_first_stays_a_hand_edit() {
    let mut server = TestServer::start("small").await;
    let saved = "type: document\nname: By hand\ndirectory: content/posts\n";
    server.repo().write_by_rename("collections/posts.yaml", saved);
    server.wait_for_attribute("posts", "name", "By hand").await;
    let head = server.repo().head();
    let change = document("posts", json!({"directory": "content/articles"}));
    let preview = rehearse(&server, "PATCH", "/collections/posts", Some(&change), 200).await;
    let commits = commits(&preview);
    assert_eq!(commits.len(), 2);
    assert_eq!(text(&commits[0]["message"]).lines().next(), Some("Edit posts by hand"));
    assert!(text(&commits[0]["files"][0]["difference"]).contains("+name: By hand"));
    let second = text(&commits[1]["files"][0]["difference"]);
    assert!(second.contains("-directory: content/posts") && !second.contains("+name"), "{second}");
    assert_eq!(server.repo().head(), head);
    assert_eq!(server.repo().read("collections/posts.yaml"), saved);
    assert_eq!(server.read("posts").await.is(200).data()["meta"]["uncommitted"], true);
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn taking_back_is_told_as_it_would_be_and_nothing_changes() {
    let server = TestServer::start("small").await;
    let first = server.repo().head();
    server.patch("posts", json!({"name": "Articles"})).await.is(200);
    server.create(&document("new", json!({}))).await.is(201);
    server.delete("pages").await.is(204);
    let events = server.get("/events").await.is(200).json();
    let undo = |index: usize| format!("/events/{}/undo", text(&events["data"][index]["id"]));
    let back = restore_document(&first);
    let head = server.repo().head();
    let restored = format!("Restore posts to {}", &first[..7]);
    for (path, body, subject, name) in [
        (undo(0), None, "Create pages", json!("Pages")),
        (undo(1), None, "Delete new", json!(null)),
        (undo(2), None, "Update posts: name", json!("Posts")),
        ("/collections/posts/restore".into(), Some(&back), restored.as_str(), json!("Posts")),
    ] {
        let preview = rehearse(&server, "POST", &path, body, 200).await;
        let [commit] = &commits(&preview)[..] else { panic!("one commit: {path}") };
        assert_eq!(text(&commit["message"]).lines().next(), Some(subject));
        assert_ne!(text(&commit["files"][0]["difference"]), "");
        assert_eq!(preview.json()["data"]["attributes"]["name"], name, "{path}");
        assert_eq!((server.repo().head(), server.repo().status()), (head.clone(), String::new()));
    }
    // The write then does what the dry run announced.
    let preview = rehearse(&server, "POST", &undo(2), None, 200).await;
    let done = server.request("POST", &undo(2)).send().await.is(201);
    assert_eq!(preview.data(), done.data());
    let made = server.repo().field("HEAD", "%B");
    assert_eq!(without_ids(text(&commits(&preview)[0]["message"])), without_ids(&made));
    // What can't be done is refused in a dry run too; what changes nothing makes no commit.
    rehearse(&server, "POST", &undo(2), None, 409).await;
    let preview = rehearse(&server, "POST", "/collections/posts/restore", Some(&back), 200).await;
    assert_eq!(preview.json()["meta"], json!({"commits": []}));
    let request = server.request("POST", &undo(0)).header("Prefer", "dry-run, merge=attributes");
    request.header("If-Match", "\"old\"").send().await.is(412);
}

#[tokio::test]
async fn what_would_be_refused_is_refused() {
    let server = TestServer::start("small").await;
    rehearse(&server, "POST", "/collections", Some(&document("posts", json!({}))), 409).await;
    rehearse(&server, "PATCH", "/collections/posts", Some(&document("posts", json!({"name": 7}))), 400).await;
    rehearse(&server, "DELETE", "/collections/nothing", None, 404).await;
    let request = server.request("DELETE", "/collections/posts").header("Prefer", "dry-run");
    request.header("If-Match", "\"old\"").send().await.is(412);
    let request = server.request("DELETE", "/collections/posts").header("Prefer", "dry-run=yes");
    let refused = request.send().await.is(400);
    assert_eq!(refused.error(), ("bad_request".into(), json!({"header": "Prefer"})));
}

#[tokio::test]
async fn a_write_that_would_change_nothing_would_commit_nothing() {
    let server = TestServer::start("small").await;
    let preview =
        rehearse(&server, "PATCH", "/collections/posts", Some(&document("posts", json!({}))), 200).await;
    assert_eq!(preview.json()["meta"], json!({"commits": []}));
}
