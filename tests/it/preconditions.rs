//! Conditional requests (RFC 9110 section 13, jsonapi.md section 10).

use serde_json::json;

use crate::support::{Answer, Auth, TestServer, document, policy_of};

async fn conditional(server: &TestServer, method: &str, path: &str, header: (&str, &str)) -> Answer {
    let request = server.request(method, path).header(header.0, header.1);
    let request = match method {
        "PATCH" => request.document(&document("posts", json!({"name": format!("after {}", header.1)}))),
        "POST" => request.document(&document("posts", json!({}))),
        _ => request,
    };
    request.send().await
}

#[tokio::test]
async fn an_unchanged_answer_is_not_sent_again() {
    let server = TestServer::start("small").await;
    for path in ["/collections", "/collections/posts"] {
        let whole = server.get(path).await.is(200);
        let tag = whole.header("etag");
        let matching = [
            tag.clone(),
            format!("W/{tag}"),
            "*".into(),
            format!("\"other\", {tag}"),
            format!("{tag}, \"x\""),
        ];
        for value in &matching {
            for method in ["GET", "HEAD"] {
                let same = conditional(&server, method, path, ("If-None-Match", value)).await.is(304);
                assert_eq!(same.header("etag"), tag);
            }
        }
        for none in ["\"other\"", ""] {
            let other = conditional(&server, "GET", path, ("If-None-Match", none)).await.is(200);
            assert_eq!(other.json(), whole.json(), "{none:?}");
        }
    }
}

#[tokio::test]
async fn a_matching_tag_lets_a_write_pass() {
    let server = TestServer::start("small").await;
    let tag = server.read("posts").await.is(200).header("etag");
    let updated = conditional(&server, "PATCH", "/collections/posts", ("If-Match", &tag)).await.is(200);
    let list = format!("\"other\", {}", updated.header("etag"));
    conditional(&server, "PATCH", "/collections/posts", ("If-Match", &list)).await.is(200);
    conditional(&server, "PATCH", "/collections/posts", ("If-Match", "*")).await.is(200);
    conditional(&server, "DELETE", "/collections/posts", ("If-Match", "*")).await.is(204);
}

#[tokio::test]
async fn an_old_or_weak_tag_or_none_stops_a_write() {
    let server = TestServer::start("small").await;
    let old = server.read("posts").await.is(200).header("etag");
    let new = server.patch("posts", json!({"name": "New"})).await.is(200).header("etag");
    let head = server.repo().head();
    for tag in [&old, &format!("W/{new}"), &"\"\"".to_owned(), &String::new()] {
        for method in ["PATCH", "DELETE"] {
            let refused = conditional(&server, method, "/collections/posts", ("If-Match", tag)).await.is(412);
            assert_eq!(refused.error(), ("precondition_failed".into(), json!({"header": "If-Match"})));
        }
    }
    assert_eq!(server.repo().head(), head);
}

#[tokio::test]
async fn a_missing_collection_is_missing_whatever_the_condition() {
    let server = TestServer::start("small").await;
    let request = server.request("PATCH", "/collections/nothing").document(&document("nothing", json!({})));
    request.header("If-Match", "\"x\"").send().await.is(404);
    conditional(&server, "DELETE", "/collections/nothing", ("If-Match", "*")).await.is(404);
}

#[tokio::test]
async fn a_condition_comes_before_the_values() {
    let server = TestServer::start("small").await;
    let bad = document("posts", json!({"name": 7}));
    let request = server.request("PATCH", "/collections/posts").document(&bad);
    request.header("If-Match", "\"old\"").send().await.is(412);
}

#[tokio::test]
async fn if_none_match_creates_only_what_is_not_there() {
    let server = TestServer::start("small").await;
    conditional(&server, "POST", "/collections", ("If-None-Match", "*")).await.is(412);
    let request = server.request("POST", "/collections").document(&document("new", json!({})));
    request.header("If-None-Match", "*").send().await.is(201);
}

#[tokio::test]
async fn of_two_editors_with_the_same_tag_exactly_one_wins() {
    let server = TestServer::start("small").await;
    for round in 0..10 {
        let tag = server.read("posts").await.is(200).header("etag");
        let attempt = |who: &str| {
            let body = document("posts", json!({"name": format!("{who} {round}")}));
            server.request("PATCH", "/collections/posts").document(&body).header("If-Match", &tag).send()
        };
        let (one, two) = tokio::join!(attempt("one"), attempt("two"));
        let mut statuses = [one.status(), two.status()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412]);
        one.checked();
        two.checked();
    }
    assert_eq!(server.repo().commit_count(), 11);
}

#[tokio::test]
async fn a_hand_edit_changes_the_tag() {
    let mut server = TestServer::start("small").await;
    let old = server.read("posts").await.is(200).header("etag");
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: By hand\n");
    let edited = server.wait_for_attribute("posts", "name", "By hand").await.header("etag");
    assert_ne!(edited, old);
    conditional(&server, "PATCH", "/collections/posts", ("If-Match", &old)).await.is(412);
    server.commit_by_hand("By hand").await;
    let committed = server.read("posts").await.is(200);
    assert_eq!(committed.json()["data"].get("meta"), None);
    assert_ne!(committed.header("etag"), edited, "the body says something else now");
    server.expect_git_status("");
}

#[tokio::test]
async fn who_is_refused_is_told_the_present_tag() {
    let server = TestServer::setup("small").flag(&["--require-if-match"]).start().await;
    let tag = server.read("posts").await.is(200).header("etag");
    let none = server.patch("posts", json!({"name": "A"})).await.is(428);
    assert_eq!(none.header("etag"), tag);
    for method in ["GET", "PATCH", "DELETE"] {
        let old = conditional(&server, method, "/collections/posts", ("If-Match", "\"old\"")).await.is(412);
        assert_eq!(old.header("etag"), tag);
    }
    let list = server.list().await.is(200).header("etag");
    let old = conditional(&server, "GET", "/collections", ("If-Match", "\"old\"")).await.is(412);
    assert_eq!(old.header("etag"), list);
    let body = document("posts", json!({"name": "B"}));
    let gone = server.request("POST", "/collections").document(&body).header("If-None-Match", "*");
    assert_eq!(gone.send().await.is(412).header("etag"), tag);
}

#[tokio::test]
async fn a_tag_holds_as_long_as_the_content_is_the_same() {
    let server = TestServer::start("small").await;
    let committed = server.read("posts").await.is(200).header("etag");
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: By hand\n");
    let saved = server.wait_for_attribute("posts", "name", "By hand").await.header("etag");
    assert!(saved.ends_with("-uncommitted\""), "{saved}");
    server.commit_by_hand("What was saved").await;
    conditional(&server, "PATCH", "/collections/posts", ("If-Match", &committed)).await.is(412);
    conditional(&server, "PATCH", "/collections/posts", ("If-Match", &saved)).await.is(200);
    conditional(&server, "PATCH", "/collections/posts", ("If-Match", &saved)).await.is(412);
}

#[tokio::test]
async fn a_refusal_names_the_revision_that_it_rests_on_to_whoever_was_let_in() {
    let policy = policy_of(&[("Mara", "read, write", "*")]);
    let server = TestServer::setup("small").auth(Auth::Policy(policy)).start().await;
    let (mara, head) = (server.with_token("mara"), server.repo().head());
    let unmatched = mara.request("DELETE", "/collections/posts").header("If-Match", "\"other\"");
    for (answer, status) in [
        (mara.read("missing").await, 404),
        (mara.patch("missing", json!({})).await, 404),
        (mara.create(&document("posts", json!({}))).await, 409),
        (unmatched.send().await, 412),
    ] {
        assert_eq!(answer.is(status).header("collectory-revision"), head);
    }
    for (answer, status) in [
        (mara.get("/collections?sort=nothing").await, 400),
        (mara.get("/nowhere").await, 404),
        (server.read("missing").await, 401),
    ] {
        assert_eq!(answer.is(status).header_if_any("collectory-revision"), None);
    }
}
