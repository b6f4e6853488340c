//! The served collections, streamed and polled: no change is missed, and no caller learns of what it may not read.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Auth, EventStream, StreamMessage, TestServer, add_operation, document, policy_of};

fn follow(server: &TestServer, path: &str, headers: &str) -> EventStream {
    let stream = EventStream::open_path(server.address(), path, headers);
    assert!(stream.head.starts_with("http/1.1 200"), "{}", stream.head);
    stream
}

fn resumed(server: &TestServer, id: &str) -> EventStream {
    follow(server, "/collections", &format!("Last-Event-ID: {id}\r\n"))
}

/// Formats an event as `collection posts`, `removed posts`, `ready` or `reset`.
fn line(heard: &StreamMessage) -> String {
    match heard.data["id"].as_str() {
        Some(key) => format!("{} {key}", heard.event),
        None => heard.event.clone(),
    }
}

/// Returns the events up to the next one with an id, and that id.
#[track_caller]
fn read_batch(stream: &mut EventStream) -> (Vec<String>, String) {
    let mut lines = Vec::new();
    loop {
        let heard = stream.next_message().expect("the stream goes on");
        lines.push(line(&heard));
        if let Some(id) = heard.id {
            return (lines, id);
        }
    }
}

/// Returns the changes since a token, as `KEY` or `-KEY`, and the next token.
async fn changes(server: &TestServer, since: &str) -> (Vec<String>, String) {
    let answer = server.get(&format!("/changes?filter[since]={since}")).await.is(200).json();
    let shown = |change: &Value| {
        let sign = if change["attributes"]["deleted"] == true { "-" } else { "" };
        assert_eq!(change["attributes"]["deleted"], change["attributes"]["version"].is_null());
        format!("{sign}{}", change["id"].as_str().unwrap())
    };
    let keys = answer["data"].as_array().unwrap().iter().map(shown).collect();
    (keys, answer["meta"]["syncToken"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn everything_is_listed_and_then_whatever_changes() {
    let mut server = TestServer::start("small").await;
    let mut stream = follow(&server, "/collections", "");
    for header in ["content-type: text/event-stream", "x-accel-buffering: no", "cache-control: no-store"] {
        assert!(stream.head.contains(header), "{}", stream.head);
    }
    assert_eq!(stream.next_block().unwrap(), ":\nretry: 2000");
    let list = server.list().await.is(200).data();
    for resource in list.as_array().unwrap() {
        let expected = StreamMessage { id: None, event: "collection".into(), data: resource.clone() };
        assert_eq!(stream.next_message().unwrap(), expected);
    }
    let ready = stream.next_message().unwrap();
    let sync = server.sync_token().await;
    assert_eq!((ready.event.as_str(), &ready.data), ("ready", &json!({"syncToken": sync})));
    assert_eq!(ready.id, Some(sync));

    server.patch("posts", json!({"name": "By API"})).await.is(200);
    let heard = stream.next_message().unwrap();
    assert_eq!(heard.data, server.read("posts").await.is(200).data(), "committed");
    assert_eq!(heard.id, Some(server.sync_token().await));

    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: By hand\n");
    let heard = stream.next_message().unwrap();
    assert_eq!(heard.data["meta"], json!({"uncommitted": true}), "saved");
    assert_eq!(heard.data["attributes"]["name"], "By hand");

    server.repo().write_by_rename("collections/posts.yaml", "name: [\n");
    let heard = stream.next_message().unwrap();
    assert_eq!(heard.data["meta"]["problem"]["line"], 1, "broken: {}", heard.data);
    assert_eq!(heard.data, server.read("posts").await.is(200).data());

    server.repo().git(&["checkout", "--", "collections/posts.yaml"]);
    assert_eq!(stream.next_message().unwrap().data["attributes"]["name"], "By API", "taken back");

    server.repo().remove("collections/pages.yaml");
    let heard = stream.next_message().unwrap();
    assert_eq!(
        (heard.event.as_str(), heard.data),
        ("removed", json!({"type": "document-collection", "id": "pages"}))
    );
    server.expect_git_status(" D collections/pages.yaml");
}

#[tokio::test]
async fn of_the_events_of_one_commit_only_the_last_has_an_id() {
    let server = TestServer::start("small").await;
    let mut stream = follow(&server, "/collections", "");
    read_batch(&mut stream);
    let made = ["a", "b", "c"].map(|key| add_operation(&document(key, json!({}))));
    server.operations(json!(made)).await.is(200);
    let head = server.repo().head();
    let (lines, id) = read_batch(&mut stream);
    assert_eq!(lines, ["collection a", "collection b", "collection c"]);
    assert!(id.starts_with(&head), "{id}");
}

#[tokio::test]
async fn who_comes_back_hears_what_differs_over_restarts_and_hand_edits() {
    let mut server = TestServer::start("small").await;
    let (lines, clean) = read_batch(&mut follow(&server, "/collections", ""));
    assert_eq!(lines, ["collection images", "collection pages", "collection posts", "ready"]);
    server.repo().write_by_rename("collections/new.yaml", "type: media\n");
    server.wait_for_attribute("new", "type", "media").await;
    server.repo().remove("collections/pages.yaml");
    server.wait_until_not_found("pages").await;
    let (lines, edited) = read_batch(&mut resumed(&server, &clean));
    assert_eq!(lines, ["collection new", "removed pages"]);
    server.kill();
    server.repo().write_by_rename("collections/images.yaml", "type: media\nname: While away\n");
    server.start_again().await;
    let mut stream = resumed(&server, &edited);
    let (lines, id) = read_batch(&mut stream);
    assert_eq!(lines, ["collection images"], "what was edited before and is as it was is not told again");
    server.repo().commit("What was saved");
    let (lines, committed) = read_batch(&mut stream);
    assert_eq!(lines, ["collection images", "collection new"], "they are uncommitted no more");
    for (id, lines) in [
        (&clean, vec!["collection images", "collection new", "removed pages"]),
        (&edited, vec!["collection images", "collection new"]),
        (&id, vec!["collection images", "collection new"]),
    ] {
        assert_eq!(read_batch(&mut resumed(&server, id)).0, lines);
    }
    let mut stream = resumed(&server, &committed);
    server.delete("new").await.is(204);
    assert_eq!(read_batch(&mut stream).0, ["removed new"], "nothing before differs");
}

#[tokio::test]
async fn an_id_that_nobody_knows_begins_anew() {
    let server = TestServer::start("small").await;
    let known = server.sync_token().await;
    server.patch("posts", json!({"name": "Gone soon"})).await.is(200);
    let gone = server.sync_token().await;
    server.repo().git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    server.wait_for_revision(&server.repo().head()).await;
    let forged = format!("{}~{}", &known[..40], "0".repeat(32));
    for id in ["nonsense", &gone, &forged, "0123456789012345678901234567890123456789~"] {
        let mut stream = resumed(&server, id);
        let reset = stream.next_message().unwrap();
        assert_eq!(reset, StreamMessage { id: None, event: "reset".into(), data: json!({}) }, "{id}");
        assert_eq!(
            read_batch(&mut stream).0,
            ["collection images", "collection pages", "collection posts", "ready"]
        );
    }
}

#[tokio::test]
async fn one_collection_is_followed_before_it_is_made_and_after_it_is_gone() {
    let server = TestServer::start("small").await;
    let mut stream = follow(&server, "/collections/new", "");
    let (lines, before) = read_batch(&mut stream);
    assert_eq!(lines, ["ready"]);
    server.patch("posts", json!({"name": "Nobody asked"})).await.is(200);
    server.create(&document("new", json!({"name": "New"}))).await.is(201);
    assert_eq!(read_batch(&mut stream).0, ["collection new"]);
    let headers = format!("Last-Event-ID: {before}\r\n");
    assert_eq!(read_batch(&mut follow(&server, "/collections/new", &headers)).0, ["collection new"]);
    server.delete("new").await.is(204);
    assert_eq!(read_batch(&mut stream).0, ["removed new"]);
}

#[tokio::test]
async fn the_filter_of_the_type_holds_and_what_is_not_understood_is_refused() {
    let server = TestServer::start("small").await;
    let mut stream = follow(&server, "/collections?filter[type]=media&fields[media-collection]=type", "");
    let (lines, id) = read_batch(&mut stream);
    assert_eq!(lines, ["collection images", "ready"]);
    server.patch("posts", json!({"name": "A document"})).await.is(200);
    server.repo().write_by_rename("collections/posts.yaml", "type: media\nname: x\n");
    let heard = stream.next_message().unwrap();
    assert_eq!(heard.data["attributes"], json!({"type": "media"}));
    let headers = format!("Last-Event-ID: {id}\r\n");
    let mut documents = follow(&server, "/collections?filter[type]=document", &headers);
    assert_eq!(read_batch(&mut documents).0, ["removed posts"]);
    let mut all = resumed(&server, &id);
    let messages = [all.next_message().unwrap(), all.next_message().unwrap()];
    assert_eq!(
        messages.each_ref().map(line),
        ["removed posts", "collection posts"],
        "of its old kind, of its new one"
    );
    server.repo().git(&["checkout", "--", "collections/posts.yaml"]);
    assert_eq!(line(&stream.next_message().unwrap()), "removed posts");
    for query in ["?page[size]=1", "?asOf=main", "?sort=name", "?include=x"] {
        let refused = EventStream::open_path(server.address(), &format!("/collections{query}"), "");
        assert!(refused.head.starts_with("http/1.1 400"), "{}", refused.head);
    }
    let refused = EventStream::open_path(server.address(), "/collections/posts?filter[type]=media", "");
    assert!(refused.head.starts_with("http/1.1 400"), "{}", refused.head);
}

#[tokio::test]
async fn a_stream_that_has_nothing_to_tell_sends_comments() {
    let server = TestServer::setup("small").flag(&["--heartbeat-ms", "50"]).start().await;
    let mut stream = follow(&server, "/collections/posts", "");
    read_batch(&mut stream);
    for _ in 0..2 {
        assert_eq!(stream.next_block().unwrap(), ":");
    }
}

fn policy(keys: &str) -> String {
    policy_of(&[("Reader", "read", keys)])
}

fn set_policy(server: &TestServer, policy: &str) {
    std::fs::write(server.folder().join("policy.yaml"), policy).unwrap();
}

#[tokio::test]
async fn a_reader_hears_of_the_keys_that_it_may_read_as_long_as_it_may() {
    const EDITED: &str = " M collections/images.yaml\n M collections/pages.yaml";
    let setup = TestServer::setup("small").auth(Auth::Policy(policy("p*"))).flag(&["--heartbeat-ms", "50"]);
    let mut server = setup.start().await;
    server.expect_git_status(EDITED);
    let reader = "Authorization: Bearer reader\r\n";
    let mut stream = follow(&server, "/collections", reader);
    let (lines, id) = read_batch(&mut stream);
    assert_eq!(lines, ["collection pages", "collection posts", "ready"]);
    let refused = EventStream::open_path(server.address(), "/collections/images", reader);
    assert!(refused.head.starts_with("http/1.1 403"), "{}", refused.head);
    let polled = server.with_token("reader");
    assert_eq!(polled.sync_token().await, id);
    server.repo().write_by_rename("collections/images.yaml", "type: media\nname: Not told\n");
    server.repo().write_by_rename("collections/pages.yaml", "type: document\nname: Told\n");
    assert_eq!(read_batch(&mut stream).0, ["collection pages"]);
    let since = format!("/changes?filter[since]={id}");
    assert_eq!(polled.get(&since).await.is(200).ids(), ["pages"]);

    set_policy(&server, &policy("posts, images"));
    let (mut lines, _) = read_batch(&mut stream);
    if lines.len() == 1 {
        lines.extend(read_batch(&mut stream).0);
    }
    assert_eq!(lines, ["collection images", "removed pages"], "other keys may be read now");
    assert_eq!(polled.get(&since).await.is(410).error().0, "gone", "the token is of other keys");
    let mut resumed = follow(&server, "/collections", &format!("{reader}Last-Event-ID: {id}\r\n"));
    assert_eq!(read_batch(&mut resumed).0, ["reset", "collection images", "collection posts", "ready"]);

    set_policy(&server, "tokens: []\n");
    assert_eq!(stream.next_message(), None, "nothing may be read any more");
}

#[tokio::test]
async fn a_poll_tells_of_hand_edits_and_problems_over_a_restart() {
    let mut server = TestServer::start("small").await;
    let clean = server.sync_token().await;
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: By hand\n");
    server.wait_for_attribute("posts", "name", "By hand").await;
    let (keys, edited) = changes(&server, &clean).await;
    assert_eq!(keys, ["posts"]);
    assert_ne!(edited, clean);
    assert_eq!(edited, server.sync_token().await);
    let shown = server.get(&format!("/changes?filter[since]={clean}")).await.is(200);
    let tag = server.read("posts").await.is(200).header("etag");
    assert_eq!(shown.data()[0]["attributes"]["version"], tag.trim_matches('"'));
    assert_eq!(changes(&server, &edited).await.0, [""; 0]);

    server.repo().write_by_rename("collections/pages.yaml", "name: [\n");
    server.wait_for_problem("collections/pages.yaml").await;
    server.repo().write_by_rename("collections/new.yaml", "type: media\n");
    server.wait_for_attribute("new", "type", "media").await;
    server.kill();
    server.start_again().await;
    let (keys, broken) = changes(&server, &edited).await;
    assert_eq!(keys, ["new", "pages"]);
    server.repo().remove("collections/new.yaml");
    server.wait_until_not_found("new").await;
    server.repo().git(&["checkout", "--", "collections"]);
    server.wait_for_attribute("posts", "name", "Posts").await;
    server.wait_for_no_problem().await;
    assert_eq!(changes(&server, &broken).await.0, ["-new", "pages", "posts"]);
    assert_eq!(changes(&server, &clean).await.0, [""; 0], "everything is again as it was");
}

#[tokio::test]
async fn there_is_a_token_before_the_first_commit() {
    let mut server = TestServer::setup("small").unborn().start().await;
    let nothing = server.sync_token().await;
    assert_eq!(changes(&server, &nothing).await.0, [""; 0]);
    let mut stream = follow(&server, "/collections", "");
    assert_eq!(read_batch(&mut stream), (vec!["ready".to_owned()], nothing.clone()));
    server.repo().write("collections/a.yaml", "type: media\n");
    assert_eq!(read_batch(&mut stream).0, ["collection a"]);
    let (keys, saved) = changes(&server, &nothing).await;
    assert_eq!(keys, ["a"]);
    server.create(&document("b", json!({}))).await.is(201);
    assert_eq!(changes(&server, &saved).await.0, ["b"]);
    assert_eq!(changes(&server, &nothing).await.0, ["a", "b"]);
    server.expect_git_status("?? collections/a.yaml");
}

#[tokio::test]
async fn many_who_follow_are_told_in_groups_and_each_of_the_last_state() {
    const FOLLOWERS: usize = 100;
    let server = TestServer::start("small").await;
    let mut streams: Vec<_> = (0..FOLLOWERS).map(|_| follow(&server, "/collections/posts", "")).collect();
    for stream in &mut streams {
        assert_eq!(read_batch(stream).0, ["collection posts", "ready"]);
    }
    let began = Instant::now();
    for n in 1..=100 {
        server.patch("posts", json!({"name": format!("Name {n}")})).await.is(200);
    }
    let mut messages = 0;
    for stream in &mut streams {
        let mut last = Value::Null;
        while last != "Name 100" {
            last = stream.next_message().expect("the stream goes on").data["attributes"]["name"].clone();
            messages += 1;
        }
    }
    // Each follower pauses for 200 microseconds times the number of followers.
    let most = FOLLOWERS * (began.elapsed().as_millis() as usize / 20 + 2);
    assert!(messages <= most, "{messages} messages where {most} are enough");
}
