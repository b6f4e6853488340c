//! `/sync-token` and `/changes`, and who may read the history.

use serde_json::json;

use super::with_history;
use crate::support::{Auth, TestServer, document, eventually, policy_of};

#[tokio::test]
async fn each_poll_tells_what_changed_since_the_last_one() {
    let server = with_history().await;
    let mut since = server.sync_token().await;
    server.patch("posts", json!({"name": "A"})).await.is(200);
    server.delete("pages").await.is(204);
    let changes = server.get(&format!("/changes?filter[since]={since}")).await.is(200);
    assert_eq!(changes.ids(), ["pages", "posts"]);
    assert_eq!(changes.data()[0]["attributes"], json!({"version": null, "deleted": true}));
    let tag = server.read("posts").await.is(200).header("etag");
    assert_eq!(changes.data()[1]["attributes"], json!({"version": tag.trim_matches('"'), "deleted": false}));
    since = changes.json()["meta"]["syncToken"].as_str().unwrap().to_owned();
    assert_eq!(since, server.sync_token().await);
    assert_eq!(server.get(&format!("/changes?filter[since]={since}")).await.is(200).ids().len(), 0);
    let first = format!("/changes?filter[since]={}", "0".repeat(40));
    assert_eq!(server.get(&first).await.is(200).ids(), ["images", "pages", "posts"]);
}

/// A sync token has no room for this many keys, so it names none of them.
#[tokio::test]
async fn a_poll_is_told_that_nothing_has_changed_however_much_is_uncommitted() {
    let mut server = with_history().await;
    for number in 0..150 {
        server.repo().write_by_rename(&format!("collections/k{number}.yaml"), "type: document\n");
    }
    eventually("all are served", async || (server.list().await.is(200).ids().len() == 153).then_some(()))
        .await;
    let since = server.sync_token().await;
    assert!(since.ends_with("~more"), "{since}");
    assert_eq!(server.get(&format!("/changes?filter[since]={since}")).await.is(200).ids(), [""; 0]);
    server.repo().write_by_rename("collections/k0.yaml", "type: media\n");
    server.wait_for_attribute("k0", "type", "media").await;
    assert_eq!(server.get(&format!("/changes?filter[since]={since}")).await.is(410).error().0, "gone");
    server.repo().git(&["clean", "--quiet", "--force", "collections"]);
    server.expect_git_status("");
}

#[tokio::test]
async fn a_token_that_is_none_or_of_another_history_is_refused() {
    let server = with_history().await;
    let since = server.sync_token().await;
    for query in ["", "?filter[since]=", "?filter[since]=nonsense", "?filter[since]=main"] {
        server.get(&format!("/changes{query}")).await.is(400);
    }
    server.repo().git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    server.wait_for_revision(&server.repo().head()).await;
    assert_eq!(server.get(&format!("/changes?filter[since]={since}")).await.is(410).error().0, "gone");
}

#[tokio::test]
async fn a_token_for_some_keys_reads_the_past_of_those_only() {
    let policy = policy_of(&[
        ("Vera", "read, audit, write", "*"),
        ("Blogger", "read, audit", "blog-*"),
        ("Reader", "read", "*"),
    ]);
    let server = TestServer::setup("small").auth(Auth::Policy(policy)).start().await;
    let [vera, blogger, reader] = ["vera", "blogger", "reader"].map(|token| server.with_token(token));
    vera.create(&document("blog-a", json!({"name": "A"}))).await.is(201);
    let all = vera.get("/events").await.is(200);
    assert_eq!(all.ids().len(), 4);
    assert_eq!(blogger.get("/events").await.is(200).ids(), all.ids()[..1]);
    assert_eq!(
        blogger.get(&format!("/changes?filter[since]={}", "0".repeat(40))).await.is(200).ids(),
        ["blog-a"]
    );
    assert_eq!(blogger.get("/collections?asOf=main").await.is(200).ids(), ["blog-a"]);
    let root = server.repo().git(&["rev-list", "--max-parents=0", "HEAD"]);
    assert_eq!(
        blogger.get(&format!("/diff?filter[from]={root}&filter[to]=main")).await.is(200).ids(),
        ["blog-a"]
    );
    for path in [
        "/events?filter[collection]=posts",
        "/collections/posts/events",
        "/collections/posts/blame",
        "/collections/posts?asOf=main",
    ] {
        blogger.get(path).await.is(403);
    }
    let other = blogger.get(&format!("/events/{}", all.ids()[1])).await.is(403);
    let none = blogger.get("/events/00000000-0000-0000-0000-000000000000").await.is(403);
    assert_eq!(other.json(), none.json(), "nobody can probe for events");
    for path in ["/events", "/diff", "/collections?asOf=main", "/collections/posts/blame"] {
        reader.get(path).await.is(403);
        server.get(path).await.is(401);
    }
    for (path, status) in [("/sync-token", 200), ("/changes", 400)] {
        reader.get(path).await.is(status);
        server.get(path).await.is(401);
    }
    reader.request("POST", &format!("/events/{}/undo", all.ids()[0])).send().await.is(403);
}

/// A caller who could distinguish a made-up cursor from a real one could count the events of hidden keys.
#[tokio::test]
async fn a_cursor_tells_nothing_of_the_events_of_other_keys() {
    let policy = policy_of(&[("Vera", "read, audit, write", "*"), ("Blogger", "audit", "blog-*")]);
    let server = TestServer::setup("small").auth(Auth::Policy(policy)).start().await;
    for key in ["blog-a", "blog-b"] {
        server.with_token("vera").create(&document(key, json!({}))).await.is(201);
    }
    let blogger = server.with_token("blogger");
    let next = blogger.get("/events?page[size]=1").await.is(200).json()["links"]["next"].clone();
    let next = next.as_str().unwrap().replace("%5B", "[").replace("%5D", "]");
    assert!(next.contains("-0-"), "{next}");
    for nth in ["0", "1", "2", "ffff"] {
        let page = blogger.get(&next.replace("-0-", &format!("-{nth}-"))).await.is(200);
        assert_eq!(page.ids().len(), 1, "{nth}");
    }
}
