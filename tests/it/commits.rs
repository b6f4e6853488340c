//! The history: one write is one commit, whose message describes it for people and for programs.

use serde_json::json;

use crate::support::{
    ATOMIC, Auth, TestServer, document, media, raw_exchange, restore_document, update_operation,
};

#[tokio::test]
async fn every_write_is_one_commit_with_a_subject_in_words() {
    let server = TestServer::start("small").await;
    server.create(&document("blog", json!({"name": "Blog"}))).await.is(201);
    server.patch("blog", json!({"name": "Weblog", "recursive": true})).await.is(200);
    server.patch("blog", json!({"recursive": null})).await.is(200);
    server.delete("blog").await.is(204);
    assert_eq!(
        server.repo().subjects(),
        ["Delete blog", "Update blog: recursive", "Update blog: name, recursive", "Create blog", "Seed"]
    );
}

#[tokio::test]
async fn an_update_lists_old_and_new_values() {
    let server = TestServer::start("small").await;
    server.patch("posts", json!({"name": "All posts", "recursive": false})).await.is(200);
    let message = server.repo().field("HEAD", "%B");
    let (text, trailers) = message.rsplit_once("\n\n").unwrap();
    assert_eq!(
        text,
        "Update posts: name, recursive\n\nname: \"Posts\" -> \"All posts\"\nrecursive: true -> false"
    );
    assert!(
        trailers.starts_with("Collectory-Action: collection.updated\nCollectory-Key: posts\n"),
        "{trailers}"
    );
}

#[tokio::test]
async fn trailers_name_action_key_and_an_event_of_its_own() {
    let server = TestServer::start("small").await;
    server.create(&document("blog", json!({}))).await.is(201);
    server.patch("blog", json!({"name": "Blog"})).await.is(200);
    server.delete("blog").await.is(204);
    let mut events = std::collections::BTreeSet::new();
    for (revision, action) in
        [("HEAD~2", "collection.created"), ("HEAD~1", "collection.updated"), ("HEAD", "collection.deleted")]
    {
        assert_eq!(server.repo().trailer(revision, "Collectory-Action"), [action]);
        assert_eq!(server.repo().trailer(revision, "Collectory-Key"), ["blog"]);
        let event = server.repo().trailer(revision, "Collectory-Event");
        assert_eq!(event.len(), 1);
        let id = uuid::Uuid::parse_str(&event[0]).unwrap();
        assert_eq!(id.get_version_num(), 7, "{id}");
        assert!(events.insert(id), "{id} twice");
        assert_eq!(server.repo().trailer(revision, "Collectory-Origin"), [""; 0]);
    }
}

#[tokio::test]
async fn without_a_named_actor_the_author_is_anonymous_and_the_committer_the_service() {
    let server = TestServer::start("small").await;
    server.patch("posts", json!({"name": "x"})).await.is(200);
    assert_eq!(server.repo().field("HEAD", "%an <%ae>"), "anonymous <anonymous@localhost>");
    assert_eq!(server.repo().field("HEAD", "%cn <%ce>"), "Collectory <collectory@localhost>");
}

#[tokio::test]
async fn times_are_utc_and_now() {
    let server = TestServer::start("small").await;
    let before = chrono_now(&server);
    server.patch("posts", json!({"name": "x"})).await.is(200);
    let raw = server.repo().git(&["cat-file", "commit", "HEAD"]);
    let stamps: Vec<_> =
        raw.lines().filter(|line| line.starts_with("author ") || line.starts_with("committer ")).collect();
    assert_eq!(stamps.len(), 2);
    for stamp in stamps {
        assert!(stamp.ends_with(" +0000"), "{stamp}");
        let seconds: i64 = stamp.rsplit(' ').nth(1).unwrap().parse().unwrap();
        assert!((before..before + 60).contains(&seconds), "{stamp}");
    }
}

/// Returns the current time of the file system, in seconds.
fn chrono_now(server: &TestServer) -> i64 {
    let file = server.folder().join("now");
    std::fs::write(&file, "now").unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    i64::try_from(modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

#[tokio::test]
async fn a_commit_changes_exactly_one_file_and_has_one_parent() {
    let server = TestServer::start("mixed").await;
    let before = server.repo().head();
    server.create(&media("pics", json!({}))).await.is(201);
    assert_eq!(server.repo().git(&["rev-parse", "HEAD^@"]), before);
    let changed = server.repo().git(&["diff-tree", "-r", "--name-status", "HEAD^", "HEAD"]);
    assert_eq!(changed, "A\tcollections/pics.yaml");
    assert_eq!(
        server.repo().git(&["ls-tree", "HEAD", "collections/pics.yaml"]).split(' ').next(),
        Some("100644")
    );
}

#[tokio::test]
async fn a_reason_stands_in_the_body() {
    let server = TestServer::start("small").await;
    for (reason, kept) in [
        ("Spring clean-up", "Spring clean-up"),
        ("Frühjahrsputz 🧹", "Frühjahrsputz 🧹"),
        (&*"r".repeat(1024), &*"r".repeat(1024)),
    ] {
        let body = document("posts", json!({"name": format!("{} bytes", reason.len())}));
        let request = server.request("PATCH", "/collections/posts").document(&body);
        request.header("Commit-Message", reason).send().await.is(200);
        let message = server.repo().field("HEAD", "%B");
        let unwrapped = message.replace('\n', "");
        assert!(unwrapped.contains(kept), "{message}");
        assert_eq!(message.lines().next(), Some("Update posts: name"));
        assert_eq!(server.repo().trailer("HEAD", "Collectory-Key"), ["posts"]);
    }
}

#[tokio::test]
async fn every_write_takes_a_reason_from_any_client() {
    const WHY: &str = "Größe – 日本語";
    const ENCODED: &str = "Gr%C3%B6%C3%9Fe%20%E2%80%93%20%E6%97%A5%E6%9C%AC%E8%AA%9E";
    let server = TestServer::start("small").await;
    let said = |why: &str| {
        let message = server.repo().field("HEAD", "%B");
        assert!(message.contains(why), "{message}");
    };
    let meta = |mut body: serde_json::Value| {
        body["meta"] = json!({"reason": WHY, "other": 1});
        body
    };
    server.create(&meta(document("new", json!({})))).await.is(201);
    said(WHY);
    server.update("new", &meta(document("new", json!({"name": "A"})))).await.is(200);
    said(WHY);
    let event = server.get("/events?page[size]=1").await.is(200).ids().remove(0);
    let undo = format!("/events/{event}/undo");
    server.request("POST", &undo).document(&meta(json!({}))).send().await.is(201);
    said(WHY);
    let revision = server.repo().git(&["rev-parse", "HEAD~1"]);
    let restore = meta(restore_document(&revision));
    server.request("POST", "/collections/new/restore").document(&restore).send().await.is(200);
    said(WHY);
    let operation = update_operation("new", json!({"name": "B"}));
    let batch = meta(json!({"atomic:operations": [operation]}));
    server.request("POST", "/operations").body(ATOMIC, &batch).send().await.is(200);
    said(WHY);
    server.request("DELETE", "/collections/new").document(&meta(json!({}))).send().await.is(204);
    said(WHY);
    let encoded = server.request("DELETE", "/collections/pages").header("Commit-Message-Encoded", ENCODED);
    encoded.send().await.is(204);
    said(WHY);
    let latin1 = b"DELETE /collections/images HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCommit-Message: Gr\xf6\xdfe\r\n\r\n";
    assert!(raw_exchange(server.address(), latin1).starts_with(b"HTTP/1.1 204"));
    said("Größe");
}

#[tokio::test]
async fn reasons_that_differ_or_are_none_are_refused() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    let with = |reason: serde_json::Value| json!({"meta": {"reason": reason}});
    let request = || server.request("DELETE", "/collections/posts").header("Commit-Message", "One");
    let same = request().header("Commit-Message-Encoded", "Another").send().await.is(400);
    assert_eq!(same.error(), ("invalid_data".into(), json!({"header": "Commit-Message-Encoded"})));
    for (reason, written) in [
        (json!("Another"), "gives another reason"),
        (json!(7), "Expected a string"),
        (json!("r".repeat(1025)), "A reason has at most 1024"),
    ] {
        let refused = request().document(&with(reason)).send().await.is(400);
        assert_eq!(refused.error(), ("invalid_data".into(), json!({"pointer": "/meta/reason"})));
        assert!(refused.detail().contains(written), "{}", refused.detail());
    }
    assert_eq!(server.repo().head(), head);
    request().document(&with(json!("One"))).send().await.is(204);
}

#[tokio::test]
async fn no_text_from_a_caller_can_forge_a_trailer_or_a_line() {
    let server = TestServer::start("small").await;
    let separators = [
        "\n", "\r", "\r\n", "\n\n", "\u{b}", "\u{c}", "\u{1c}", "\u{1d}", "\u{1e}", "\u{85}", "\u{2028}",
        "\u{2029}", "\0",
    ];
    for (index, separator) in separators.iter().enumerate() {
        let forged = format!("x{separator}Collectory-Key: forged{separator}Collectory-Action: forged{index}");
        let attributes = json!({"name": forged, "x-note": {"a": [forged]}});
        server.patch("posts", attributes).await.is(200);
        assert_honest(&server, "Update posts: name, x-note");
    }
}

#[tokio::test]
async fn headers_can_not_forge_a_trailer_either() {
    let server = TestServer::start("small").await;
    let texts = [
        "Collectory-Key: forged",
        "x\tCollectory-Key: forged",
        "Because\u{2028}Collectory-Key: forged",
        "Because\u{85}\u{85}Collectory-Key: forged",
        "---",
        "# comment",
        "Signed-off-by: Nobody <nobody@example.org>",
        "(cherry picked from commit 0000000000000000000000000000000000000000)",
    ];
    for (index, text) in texts.iter().enumerate() {
        let body = document("posts", json!({"name": index.to_string()}));
        let request = server.request("PATCH", "/collections/posts").document(&body);
        let request = request.header("Commit-Message", text).header("Request-Id", text);
        request.send().await.checked();
        if server.repo().field("HEAD", "%s") != "Seed" {
            assert_honest(&server, "Update posts: name");
        }
    }
    assert!(server.repo().commit_count() > 1, "a strange reason alone is no reason to refuse them all");
}

/// Asserts that both git and a line-by-line reader find only the trailers of one update of `posts`.
#[track_caller]
fn assert_honest(server: &TestServer, subject: &str) {
    assert_eq!(server.repo().field("HEAD", "%s"), subject);
    let message = server.repo().field("HEAD", "%B");
    let trailers = server.repo().trailers("HEAD");
    let trailers: Vec<_> = trailers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let [("Collectory-Action", "collection.updated"), ("Collectory-Key", "posts"), rest @ ..] = &trailers[..]
    else {
        panic!("{message}")
    };
    let is_own = |name: &str| ["Collectory-Event", "Request-Id"].contains(&name);
    assert!(rest.iter().all(|(name, _)| is_own(name)), "{message}");
    let forged = |line: &str| line.starts_with("Collectory-") && line.contains("forged");
    assert!(!message.split(is_line_end).any(forged), "{message:?}");
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[tokio::test]
async fn the_request_id_of_the_caller_is_a_trailer() {
    let server = TestServer::start("small").await;
    let body = document("posts", json!({"name": "x"}));
    let request = server.request("PATCH", "/collections/posts").document(&body);
    request.header("Request-Id", "order-66").header("X-Request-Id", "order-66").send().await.is(200);
    assert_eq!(server.repo().trailer("HEAD", "Request-Id"), ["order-66"]);
}

#[tokio::test]
async fn the_committer_can_be_set() {
    let setup = TestServer::setup("small").flag(&[
        "--committer-name",
        "Settings Bot",
        "--committer-email",
        "bot@example.org",
    ]);
    let server = setup.start().await;
    server.delete("posts").await.is(204);
    assert_eq!(server.repo().field("HEAD", "%cn <%ce>"), "Settings Bot <bot@example.org>");
}

#[tokio::test]
async fn the_branch_has_a_reflog_of_the_writes() {
    let server = TestServer::setup("small").auth(Auth::AllowAll).start().await;
    server.patch("posts", json!({"name": "x"})).await.is(200);
    server.delete("posts").await.is(204);
    let log = server.repo().git(&["reflog", "show", "--format=%H", "main"]);
    let revisions: Vec<_> = log.lines().map(str::to_owned).collect();
    let expected = server.repo().git(&["rev-list", "HEAD"]);
    assert_eq!(revisions, expected.lines().collect::<Vec<_>>());
}

#[tokio::test]
async fn hooks_and_filters_of_the_repository_never_run() {
    let server = TestServer::start("small").await;
    let proof = server.folder().join("ran");
    let script = format!("#!/bin/sh\necho ran >> '{}'\nexit 1\n", proof.display());
    let git_folder = server.repo().git_folder();
    for name in [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "post-checkout",
    ] {
        let hook = git_folder.join("hooks").join(name);
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, &script).unwrap();
        std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let command = format!("sh -c 'echo ran >> {}'", proof.display());
    server.repo().git(&["config", "filter.evil.clean", &command]);
    server.repo().git(&["config", "filter.evil.smudge", &command]);
    server.repo().git(&["config", "core.fsmonitor", &command]);
    std::fs::write(git_folder.join("info/attributes"), "*.yaml filter=evil\n").unwrap();
    server.patch("posts", json!({"name": "x"})).await.is(200);
    server.create(&document("new", json!({}))).await.is(201);
    assert!(!proof.exists(), "something that the repository names was run");
    std::fs::remove_dir_all(git_folder.join("hooks")).unwrap();
    std::fs::remove_file(git_folder.join("info/attributes")).unwrap();
    server.repo().git(&["config", "--unset", "core.fsmonitor"]);
}
