//! Undo and restore.

use serde_json::json;

use super::{first_parents, with_history};
use crate::support::{JSON_API, RawRequest, TestServer, restore_document, update_operation};

const POSTS: &str = "collections/posts.yaml";

#[tokio::test]
async fn a_change_followed_by_its_undo_gives_the_identical_file() {
    let server = TestServer::start("small").await;
    server.repo().write(POSTS, "# Mine\ntype: document\nname:   'Posts' # why\n");
    server.commit_by_hand("With comments").await;
    let before = server.repo().read_at_head(POSTS);
    server.patch("posts", json!({"name": "Other", "recursive": true})).await.is(200);
    let id = server.newest_event("posts").await;
    let undo = server.request("POST", &format!("/events/{id}/undo")).header("Commit-Message", "A mistake");
    let answer = undo.send().await.is(201);
    assert_eq!(answer.attributes()["name"], "Posts");
    assert_eq!(server.repo().read_at_head(POSTS), before);
    assert!(server.repo().field("HEAD", "%B").contains("A mistake"));
    assert!(server.repo().field("HEAD", "%B").contains(&id), "the commit names what it undoes");
}

#[tokio::test]
async fn an_attribute_that_was_null_is_null_again() {
    let server = TestServer::start("small").await;
    server.repo().write(POSTS, "type: document\nname: Posts\nx-a: null\n");
    server.commit_by_hand("With null").await;
    server.patch("posts", json!({"x-a": 1})).await.is(200);
    let undo = format!("/events/{}/undo", server.newest_event("posts").await);
    // Since something else has changed, the file as it was is no help.
    server.patch("posts", json!({"name": "Other"})).await.is(200);
    let answer = server.request("POST", &undo).send().await.is(201);
    assert_eq!(answer.attributes(), json!({"type": "document", "name": "Other", "x-a": null}));
}

#[tokio::test]
async fn a_later_change_of_the_same_attribute_stands_in_the_way() {
    let server = TestServer::start("small").await;
    server.patch("posts", json!({"name": "One"})).await.is(200);
    let id = server.newest_event("posts").await;
    server.patch("posts", json!({"recursive": false})).await.is(200);
    server.patch("pages", json!({"name": "Other"})).await.is(200);
    let undo = format!("/events/{id}/undo");
    server.request("POST", &undo).send().await.is(201);
    server.patch("posts", json!({"name": "One"})).await.is(200);
    let head = server.repo().head();
    let detail = server.request("POST", &undo).send().await.is(409).detail();
    assert!(detail.contains("`name`") && detail.matches("\"One\"").count() == 2, "{detail}");
    assert_eq!(server.repo().head(), head, "nothing has changed");
}

#[tokio::test]
async fn a_body_that_is_no_document_undoes_nothing() {
    let server = TestServer::start("small").await;
    server.patch("posts", json!({"name": "One"})).await.is(200);
    let undo = format!("/events/{}/undo", server.newest_event("posts").await);
    let head = server.repo().head();
    let long = [&br#"{"meta": {"reason": "Mine"}}"#[..], &vec![b' '; 1 << 20]].concat();
    for (body, status) in [
        (&br#"{"meta": {"reason": "Cut"#[..], 400),
        (br#"{"meta": {"reason": "One"}, "meta": {"reason": "Two"}}"#, 400),
        (b"{\"meta\": {\"reason\": \"\xff\"}}", 400),
        (b"[1]", 400),
        (&long, 413),
    ] {
        let request = RawRequest::new("POST", &undo).header("Content-Type", JSON_API).body(body);
        request.send(server.address()).is(status);
    }
    assert_eq!(server.repo().head(), head, "nothing has changed");
    let request = RawRequest::new("POST", &undo).header("Content-Type", JSON_API);
    request.body(br#"{"meta": {"reason": "A mistake"}}"#).send(server.address()).is(201);
    assert!(server.repo().field("HEAD", "%B").contains("A mistake"));
}

#[tokio::test]
async fn creations_and_deletions_are_undone() {
    let server = TestServer::start("small").await;
    let before = server.repo().read_at_head("collections/pages.yaml");
    server.delete("pages").await.is(204);
    let deletion = server.newest_event("pages").await;
    let back = server.undo(&deletion).await.is(201);
    assert_eq!(back.header("location"), "/collections/pages");
    assert_eq!(server.repo().read_at_head("collections/pages.yaml"), before);
    let creation = server.newest_event("pages").await;
    server.undo(&creation).await.is(204);
    server.wait_until_not_found("pages").await;
}

#[tokio::test]
async fn preconditions_and_unknown_events_are_kept_to() {
    let server = with_history().await;
    let id = server.newest_event("posts").await;
    let undo = format!("/events/{id}/undo");
    server.request("POST", &undo).header("If-Match", "\"nonsense\"").send().await.is(412);
    let malformed = RawRequest::new("POST", &undo).header("Content-Type", JSON_API).body("{bad");
    malformed.header("If-Match", "\"nonsense\"").send(server.address()).is(412);
    let tag = server.read("posts").await.is(200).header("etag");
    server.request("POST", &undo).header("If-Match", &tag).send().await.is(201);
    server.request("POST", "/events/00000000-0000-0000-0000-000000000000/undo").send().await.is(404);
    server.request("POST", &format!("{undo}?x=1")).send().await.is(400);
    // What a form on a page of another origin could send.
    let form = "application/x-www-form-urlencoded";
    server.request("POST", &undo).header("Content-Type", form).send().await.is(415);
}

#[tokio::test]
async fn a_collection_is_restored_to_a_revision_even_when_it_is_gone() {
    let server = with_history().await;
    let first = first_parents(&server).pop().unwrap();
    let before = server.repo().git(&["show", &format!("{first}:{POSTS}")]);
    let restore = async |revision: &str| {
        server
            .request("POST", "/collections/posts/restore")
            .document(&restore_document(revision))
            .send()
            .await
    };
    restore(&first).await.is(200);
    assert_eq!(server.repo().read_at_head(POSTS).trim_end(), before);
    let head = server.repo().head();
    restore(&first).await.is(200);
    assert_eq!(server.repo().head(), head, "what is so already makes no commit");
    server.delete("posts").await.is(204);
    restore(&first[..8]).await.is(201);
    assert_eq!(server.repo().read_at_head(POSTS).trim_end(), before);
    for (revision, status) in [("0123456789012345678901234567890123456789", 404), ("HEAD@{1}", 400)] {
        let (_, source) = restore(revision).await.is(status).error();
        assert_eq!(source["pointer"], "/data/attributes/revision");
    }
    for document in [
        json!({}),
        json!({"data": {"type": "restore"}}),
        json!({"data": {"type": "other", "attributes": {"revision": first}}}),
        json!({"data": {"type": "restore", "attributes": {"revision": 7}}}),
        json!({"data": {"type": "restore", "attributes": {"revision": first, "more": 1}}}),
    ] {
        server.request("POST", "/collections/posts/restore").document(&document).send().await.is(400);
    }
    let named = json!({"data": {"type": "restore", "id": 7, "attributes": {"revision": first}}});
    let refused = server.request("POST", "/collections/posts/restore").document(&named).send().await.is(400);
    assert_eq!(refused.error(), ("invalid_data".into(), json!({"pointer": "/data/id"})));
    server
        .request("POST", "/collections/never/restore")
        .document(&restore_document(&first))
        .send()
        .await
        .is(404);
}

#[tokio::test]
async fn undoing_what_changed_nothing_is_answered_like_any_undo() {
    let server = with_history().await;
    let text = server.repo().read(POSTS);
    server.repo().write(POSTS, &format!("# Only said\n{text}"));
    server.commit_by_hand("Say something").await;
    let event = server.newest_event("posts").await;
    let undone = server.undo(&event).await.is(201);
    assert_eq!(server.repo().read_at_head(POSTS), text);
    assert_eq!(undone.data()["id"], "posts");
}

/// Adds a comment to a file and commits it by hand. Returns the path that undoes the event.
async fn commented(server: &TestServer, key: &str) -> String {
    let path = format!("collections/{key}.yaml");
    server.repo().write(&path, &format!("# Only said\n{}", server.repo().read(&path)));
    server.commit_by_hand("Say something").await;
    format!("/events/{}/undo", server.newest_event(key).await)
}

#[tokio::test]
async fn a_change_of_comments_alone_brings_back_no_file_that_is_gone() {
    let mut server = with_history().await;
    let by_the_api = commented(&server, "posts").await;
    server.delete("posts").await.is(204);
    let by_hand = commented(&server, "pages").await;
    server.repo().remove("collections/pages.yaml");
    server.wait_until_not_found("pages").await;
    let head = server.repo().head();
    for undo in [by_the_api, by_hand] {
        server.request("POST", &undo).send().await.is(409);
    }
    assert_eq!(server.repo().head(), head, "nothing has changed");
    server.expect_git_status(" D collections/pages.yaml");
}

#[tokio::test]
async fn an_undo_builds_on_no_broken_file() {
    let mut server = with_history().await;
    let update = format!("/events/{}/undo", server.newest_event("posts").await);
    server.repo().write_by_rename(POSTS, "type: document\ndirectory: [\n");
    server.wait_for_problem(POSTS).await;
    server.delete("pages").await.is(204);
    let deletion = format!("/events/{}/undo", server.newest_event("pages").await);
    server.repo().write_by_rename("collections/pages.yaml", "type: document\nname: [\n");
    server.wait_for_problem("collections/pages.yaml").await;
    let head = server.repo().head();
    for (undo, path) in [(&update, POSTS), (&deletion, "collections/pages.yaml")] {
        let detail = server.request("POST", undo).send().await.is(409).detail();
        assert!(detail.contains(path), "{detail}");
    }
    assert_eq!(server.repo().head(), head, "nothing has changed");
    server.repo().remove(POSTS);
    server.wait_until_not_found("posts").await;
    server.commit_by_hand("Broken").await;
    let detail = server.request("POST", &deletion).send().await.is(409).detail();
    assert!(detail.contains("collections/pages.yaml"), "{detail}");
    server.expect_git_status("");
}

#[tokio::test]
async fn the_creation_of_a_file_that_never_was_valid_is_undone_by_its_deletion() {
    let server = TestServer::start("small").await;
    let path = "collections/broken.yaml";
    server.repo().write(path, "name: [\n");
    server.commit_by_hand("Broken").await;
    let id = server.newest_event("broken").await;
    server.undo(&id).await.is(204);
    assert!(!server.repo().has(path));
    let undone = server.get("/collections/broken/events?page[size]=1").await.is(200).data()[0].clone();
    let of = &undone["attributes"];
    assert_eq!((&of["action"], &of["undoes"]), (&json!("deleted"), &json!(id)), "{undone}");
    server.repo().write(path, "name: [\n");
    server.commit_by_hand("Broken again").await;
    let undo = format!("/events/{}/undo", server.newest_event("broken").await);
    server.repo().write(path, "type: document\n");
    server.commit_by_hand("Mended").await;
    server.request("POST", &undo).send().await.is(409);
    assert!(server.repo().has(path));
}

#[tokio::test]
async fn who_may_audit_is_told_what_became_of_a_collection() {
    let server = TestServer::start("small").await;
    server.repo().git(&["rm", "--quiet", "collections/pages.yaml"]);
    let head = server.commit_by_hand("Tidy up").await;
    for gone in [
        server.read("pages").await.is(404),
        server.get("/collections/pages/blame").await.is(404),
        server.patch("pages", json!({"name": "x"})).await.is(404),
        server.delete("pages").await.is(404),
    ] {
        let detail = gone.detail();
        assert!(detail.starts_with("Collection 'pages' not found. It was deleted by "), "{detail}");
        assert!(detail.contains(&head), "{detail}");
    }
    let operation = update_operation("pages", json!({"name": "x"}));
    let gone = server.operations(json!([operation])).await.is(404);
    let (code, source) = gone.error();
    assert_eq!((code.as_str(), &source["pointer"]), ("not_found", &json!("/atomic:operations/0")));
    let detail = gone.detail();
    assert!(detail.starts_with("Collection 'pages' not found. It was deleted by "), "{detail}");
    assert!(detail.contains(&head), "{detail}");
    let revision = "0".repeat(40);
    let no_such_time = server.get(&format!("/collections/pages?asOf={revision}")).await.is(404);
    assert_eq!(no_such_time.detail(), format!("The served branch has no revision `{revision}`."));
    let never = server.read("never").await.is(404);
    assert_eq!(never.detail(), "Collection 'never' not found.");
}
