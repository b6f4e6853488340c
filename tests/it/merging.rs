//! `Prefer: merge=attributes`: an update of an older version succeeds if nobody else changed the same attributes.

use serde_json::{Value, json};

use crate::support::{Answer, TestServer, document};

async fn merge(server: &TestServer, tag: &str, attributes: Value) -> Answer {
    let request = server.request("PATCH", "/collections/posts").document(&document("posts", attributes));
    request.header("If-Match", tag).header("Prefer", "merge=attributes").send().await
}

async fn tag(server: &TestServer) -> String {
    server.read("posts").await.is(200).header("etag")
}

#[tokio::test]
async fn attributes_that_nobody_else_touched_pass_over_restarts_and_hand_edits_too() {
    let mut server = TestServer::start("small").await;
    let old = tag(&server).await;
    server.patch("posts", json!({"directory": "content/articles"})).await.is(200);
    let merged = merge(&server, &old, json!({"name": "Articles"})).await.is(200);
    assert_eq!(merged.header("preference-applied"), "merge=attributes");
    let expected =
        json!({"type": "document", "name": "Articles", "directory": "content/articles", "recursive": true});
    assert_eq!(merged.attributes(), expected);
    server.restart().await;
    let saved = "type: document\nname: Articles\ndirectory: by-hand\nrecursive: true\n";
    server.repo().write_by_rename("collections/posts.yaml", saved);
    server.repo().commit("Move it");
    server.wait_for_attribute("posts", "directory", "by-hand").await;
    let merged = merge(&server, &old, json!({"format": "md"})).await.is(200);
    assert_eq!(merged.attributes()["format"], "md");
    assert_eq!(merged.attributes()["directory"], "by-hand");
}

#[tokio::test]
async fn a_resource_that_is_sent_back_whole_takes_nothing_of_others_back() {
    let server = TestServer::start("small").await;
    let mut whole = server.read("posts").await.is(200).attributes();
    let old = tag(&server).await;
    server.patch("posts", json!({"directory": "content/articles"})).await.is(200);
    whole["name"] = json!("Articles");
    let merged = merge(&server, &old, whole).await.is(200);
    assert_eq!(merged.attributes()["directory"], "content/articles");
    assert_eq!(merged.attributes()["name"], "Articles");
}

#[tokio::test]
async fn a_clash_shows_all_three_versions_and_changes_nothing() {
    let server = TestServer::start("small").await;
    let old = tag(&server).await;
    server.patch("posts", json!({"name": "Theirs", "recursive": null})).await.is(200);
    let head = server.repo().head();
    let sent = json!({"name": "Yours", "recursive": false, "directory": "mine"});
    let refused = merge(&server, &old, sent).await.is(412);
    assert_eq!(refused.error(), ("precondition_failed".into(), json!({"header": "If-Match"})));
    let meta = refused.json()["errors"][0]["meta"].clone();
    assert_eq!(
        meta["attributes"],
        json!({
            "name": {"base": "Posts", "yours": "Yours", "theirs": "Theirs"},
            "recursive": {"base": true, "yours": false}
        })
    );
    assert_eq!(meta["current"]["attributes"]["name"], "Theirs");
    assert_eq!(server.repo().head(), head);
    merge(&server, &old, json!({"name": "Theirs"})).await.is(200);
    assert_eq!(server.repo().head(), head, "both want the same, and it is so already");
}

#[tokio::test]
async fn a_saved_file_that_somebody_has_committed_since_is_an_older_version_like_any() {
    let server = TestServer::start("small").await;
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: By hand\ndirectory: a\n");
    server.wait_for_attribute("posts", "name", "By hand").await;
    let saved = tag(&server).await;
    assert!(saved.ends_with("-uncommitted\""), "{saved}");
    server.patch("posts", json!({"directory": "b"})).await.is(200);
    let merged = merge(&server, &saved, json!({"format": "md"})).await.is(200).attributes();
    assert_eq!((&merged["format"], &merged["directory"]), (&json!("md"), &json!("b")));
    let refused = merge(&server, &saved, json!({"directory": "c"})).await.is(412).json();
    let clash = json!({"directory": {"base": "a", "yours": "c", "theirs": "b"}});
    assert_eq!(refused["errors"][0]["meta"]["attributes"], clash);
}

#[tokio::test]
async fn a_saved_file_that_nobody_ever_committed_is_no_version() {
    let server = TestServer::start("small").await;
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: By hand\n");
    server.wait_for_attribute("posts", "name", "By hand").await;
    let saved = tag(&server).await;
    server.repo().git(&["checkout", "--", "collections"]);
    server.wait_for_attribute("posts", "name", "Posts").await;
    let refused = merge(&server, &saved, json!({"format": "md"})).await.is(412).json();
    assert_eq!(refused["errors"][0]["meta"].get("attributes"), None);
}

#[tokio::test]
async fn who_read_the_last_good_version_of_a_broken_file_has_read_that_version() {
    let server = TestServer::start("small").await;
    server.repo().write_by_rename("collections/posts.yaml", "type: [\n");
    server.wait_for_problem("collections/posts.yaml").await;
    let read = tag(&server).await;
    server.repo().git(&["checkout", "--", "collections"]);
    server.wait_for_no_problem().await;
    assert_ne!(read, tag(&server).await);
    server.patch("posts", json!({"directory": "b"})).await.is(200);
    let merged = merge(&server, &read, json!({"format": "md"})).await.is(200).attributes();
    assert_eq!((&merged["format"], &merged["directory"]), (&json!("md"), &json!("b")));
}

#[tokio::test]
async fn what_names_no_older_version_of_the_collection_is_an_ordinary_mismatch() {
    let server = TestServer::start("small").await;
    let old = tag(&server).await;
    let foreign = server.create(&document("other", json!({"name": "Other"}))).await.is(201).header("etag");
    server.patch("posts", json!({"directory": "content/articles"})).await.is(200);
    for tag in [&foreign, "\"nonsense\"", &format!("W/{old}"), &format!("\"{}\"", "0".repeat(40))] {
        merge(&server, tag, json!({"name": "x"})).await.is(412);
    }
    let body = document("posts", json!({"name": "x"}));
    let request = server.request("PATCH", "/collections/posts").document(&body).header("If-Match", &old);
    request.send().await.is(412);
    let request = server.request("DELETE", "/collections/posts").header("If-Match", &old);
    request.header("Prefer", "merge=attributes").send().await.is(412);
    merge(&server, &format!("\"nonsense\", {old}"), json!({"name": 7})).await.is(400);
    merge(&server, &format!("\"nonsense\", {old}"), json!({"name": "x"})).await.is(200);
}

#[tokio::test]
async fn of_many_who_change_attributes_of_their_own_at_once_all_succeed() {
    let server = TestServer::start("small").await;
    let tag = tag(&server).await;
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..12 {
        let (client, tag) = (server.client().clone(), tag.clone());
        tasks.spawn(async move {
            let body = document("posts", json!({ (format!("x-{index}")): index }));
            let request = client.request("PATCH", "/collections/posts").document(&body);
            request.header("If-Match", &tag).header("Prefer", "merge=attributes").send().await.is(200);
        });
    }
    tasks.join_all().await;
    let attributes = server.read("posts").await.is(200).attributes();
    assert!((0..12).all(|index| attributes[format!("x-{index}")] == index), "{attributes}");
}
