//! The built-in authorizer: bearer tokens from a policy file.

use serde_json::json;

use crate::support::{
    Auth, Client, EventStream, Signal, TestServer, add_operation, collectory_command, document, eventually,
    eventually_status, policy_of, remove_operation, restore_document, run_to_end, token_hash,
    update_operation,
};

/// Mara may read and write everything, a reader only read, a blogger write keys that begin with `blog-`.
fn policy() -> String {
    policy_of(&[
        ("Mara", "read, write", "*"),
        ("Reader", "read", "*"),
        ("Blogger", "read, write", "blog-*"),
        ("Writer", "write", "*"),
    ])
}

async fn guarded() -> TestServer {
    TestServer::setup("small").auth(Auth::Policy(policy())).start().await
}

async fn statuses(client: &Client) -> [u16; 5] {
    let answers = [
        client.list().await,
        client.read("posts").await,
        client.create(&document("new", json!({}))).await,
        client.patch("posts", json!({"name": "x"})).await,
        client.delete("posts").await,
    ];
    answers.map(|answer| answer.checked().status())
}

#[tokio::test]
async fn no_or_an_unknown_token_is_401_everywhere() {
    let server = guarded().await;
    let head = server.repo().head();
    for client in [server.client().clone(), server.with_token("wrong"), server.with_token("")] {
        assert_eq!(statuses(&client).await, [401; 5]);
        for path in ["/collections/nothing", "/problems", "/openapi.json", "/openapi.yaml"] {
            let refused = client.get(path).await.is(401);
            assert!(refused.header("www-authenticate").starts_with("Bearer"));
            assert_eq!(refused.error().0, "unauthenticated");
        }
        client.operations(json!([remove_operation("posts")])).await.is(401);
    }
    assert_eq!(server.repo().head(), head);
}

#[tokio::test]
async fn other_schemes_are_no_tokens() {
    let server = guarded().await;
    for value in ["Basic bWFyYTptYXJh", "mara", "Bearer", "Bearer  ", "Token mara", "Bearer mara mara"] {
        let refused = server.request("GET", "/collections").header("Authorization", value).send().await;
        refused.is(401);
    }
    server.request("GET", "/collections").header("Authorization", "bearer mara").send().await.is(200);
}

#[tokio::test]
async fn each_token_may_do_what_it_was_granted() {
    let server = guarded().await;
    assert_eq!(statuses(&server.with_token("reader")).await, [200, 200, 403, 403, 403]);
    assert_eq!(statuses(&server.with_token("mara")).await, [200, 200, 201, 200, 204]);
}

#[tokio::test]
async fn a_token_without_read_sees_nothing() {
    let server = guarded().await;
    let writer = server.with_token("writer");
    writer.list().await.is(403);
    writer.read("posts").await.is(403);
    writer.get("/openapi.json").await.is(403);
    writer.create(&document("new", json!({}))).await.is(201);
}

#[tokio::test]
async fn the_actor_is_the_author() {
    let server = guarded().await;
    server.with_token("mara").patch("posts", json!({"name": "x"})).await.is(200);
    assert_eq!(server.repo().field("HEAD", "%an <%ae>"), "Mara <mara@example.org>");
    assert_eq!(server.repo().field("HEAD", "%cn <%ce>"), "Collectory <collectory@localhost>");
}

#[tokio::test]
async fn key_patterns_limit_reading_writing_and_the_list() {
    let server = guarded().await;
    let mara = server.with_token("mara");
    let blogger = server.with_token("blogger");
    mara.create(&document("blog-a", json!({}))).await.is(201);
    blogger.create(&document("blog-b", json!({}))).await.is(201);
    assert_eq!(blogger.list().await.is(200).ids(), ["blog-a", "blog-b"]);
    blogger.read("blog-a").await.is(200);
    blogger.read("posts").await.is(403);
    blogger.read("nothing").await.is(403);
    blogger.create(&document("other", json!({}))).await.is(403);
    blogger.patch("posts", json!({"name": "x"})).await.is(403);
    blogger.delete("posts").await.is(403);
    blogger.delete("blog-a").await.is(204);
    assert_eq!(mara.list().await.is(200).ids(), ["blog-b", "images", "pages", "posts"]);
}

#[tokio::test]
async fn tags_and_pages_of_a_limited_list_tell_nothing_about_the_rest() {
    let server = guarded().await;
    let mara = server.with_token("mara");
    let blogger = server.with_token("blogger");
    mara.create(&document("blog-a", json!({}))).await.is(201);
    let page = blogger.get("/collections?page[limit]=5").await.is(200).json();
    assert_eq!(page["meta"]["page"]["total"], 1);
    assert_eq!(blogger.get("/collections?filter[name]=Posts").await.is(200).data(), json!([]));
}

#[tokio::test]
async fn every_operation_of_a_batch_is_asked_for() {
    let server = guarded().await;
    let head = server.repo().head();
    let batch = json!([
        add_operation(&document("blog-x", json!({}))),
        update_operation("posts", json!({"name": "x"})),
    ]);
    server.with_token("blogger").operations(batch.clone()).await.is(403);
    server.with_token("reader").operations(batch.clone()).await.is(403);
    assert_eq!(server.repo().head(), head);
    server.with_token("mara").operations(batch).await.is(200);
}

#[tokio::test]
async fn permission_comes_before_existence_and_content() {
    let server = guarded().await;
    let reader = server.with_token("reader");
    reader.delete("nothing").await.is(403);
    reader.patch("nothing", json!({"nmae": 7})).await.is(403);
    reader.create(&document("posts", json!({"name": 7}))).await.is(403);
    server.create(&document("..", json!({}))).await.is(401);
}

#[tokio::test]
async fn a_changed_policy_holds_at_once_and_a_broken_one_not_at_all() {
    let server = guarded().await;
    let file = server.folder().join("policy.yaml");
    let mara = server.with_token("mara");
    mara.list().await.is(200);
    std::fs::write(&file, "tokens: [broken").unwrap();
    mara.list().await.is(200);
    std::fs::write(&file, policy_of(&[("Mara", "read", "*"), ("New", "read", "*")])).unwrap();
    let new = server.with_token("new");
    eventually_status("the new token is known", 200, async || new.list().await).await;
    std::fs::write(&file, "tokens: []\n").unwrap();
    eventually_status("the old tokens are gone", 401, async || mara.list().await).await;
    std::fs::remove_file(&file).unwrap();
    mara.list().await.is(401);
}

async fn policy_problem(server: &TestServer) -> String {
    server.get("/readyz").await.is(200).json()["meta"]["policy"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_file_that_is_being_written_in_place_is_not_taken_over_and_a_renamed_one_is() {
    let setup = TestServer::setup("small").auth(Auth::Policy(policy()));
    let server = setup.flag(&["--policy-quiet-ms", "600000"]).start().await;
    let without_limit = policy().replace("blog-*", "*");
    std::fs::write(server.folder().join("policy.yaml"), &without_limit).unwrap();
    let blogger = server.with_token("blogger");
    for _ in 0..5 {
        blogger.read("posts").await.is(403);
    }
    server.replace_policy(&without_limit);
    eventually_status("the renamed file holds", 200, async || blogger.read("posts").await).await;
}

#[tokio::test]
async fn what_is_wrong_with_the_policy_shows_in_readyz_and_nothing_else_does() {
    let server = guarded().await;
    let ready = server.get("/readyz").await.is(200);
    assert_eq!(ready.json()["meta"], json!({"status": "ready"}));
    assert_eq!(ready.header_if_any("collectory-revision"), None);
    server.replace_policy("tokens: [");
    eventually("a file that can't be used is told", async || {
        policy_problem(&server).await.contains("can't be used").then_some(())
    })
    .await;
    server.with_token("mara").list().await.is(200);
    server.replace_policy(&policy().replace("    keys: [\"*\"]\n", ""));
    eventually("rights without keys are told", async || {
        policy_problem(&server).await.contains("without `keys`").then_some(())
    })
    .await;
    server.with_token("mara").list().await.is(403);
    server.with_token("blogger").list().await.is(200);
}

#[tokio::test]
async fn a_token_may_have_rights_for_keys_of_their_own_and_is_told_which() {
    let grants = "    grants:\n      - {may: [write], keys: [\"p*\"]}\n";
    let policy = audited(&format!("may: [read, audit]\n    keys: [\"*\"]\n{grants}"));
    let server = TestServer::setup("small").auth(Auth::Policy(policy)).start().await;
    let auditor = server.with_token("auditor");
    auditor.patch("posts", json!({"name": "x"})).await.is(200);
    auditor.patch("images", json!({"name": "x"})).await.is(403);
    let capabilities = auditor.get("/capabilities").await.is(200).attributes();
    assert_eq!(capabilities["actor"], json!({"name": "Auditor", "email": "a@example.org"}));
    let expected = json!([{"may": ["read", "audit"], "keys": ["*"]}, {"may": ["write"], "keys": ["p*"]}]);
    assert_eq!(capabilities["grants"], expected);
}

/// A time can name any revision, so the right to restore would reveal the whole past.
#[tokio::test]
async fn what_was_is_for_those_who_may_audit() {
    let policy = audited("may: [write, audit]\n    keys: [\"*\"]");
    let server = TestServer::setup("small").auth(Auth::Policy(policy)).start().await;
    let head = server.repo().head();
    let body = restore_document(&head);
    for (token, status) in [("writer", 403), ("reader", 403), ("auditor", 200)] {
        let client = server.with_token(token);
        let request = client.request("POST", "/collections/posts/restore").header("Prefer", "dry-run");
        request.body(crate::support::JSON_API, &body).send().await.is(status);
    }
}

/// Sends only the head of a request that announces a body.
fn head_alone(server: &TestServer, token: &str, path: &str) -> String {
    let media_type = if path == "/operations" { crate::support::ATOMIC } else { crate::support::JSON_API };
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: {media_type}\r\n\
         Content-Length: 1000\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    String::from_utf8_lossy(&crate::support::raw_exchange(server.address(), head.as_bytes())).into_owned()
}

/// A reason may mention every key of its commit.
#[tokio::test]
async fn a_sheet_gives_no_reason_of_a_commit_that_is_about_hidden_keys_too() {
    let policy = audited("may: [read, audit]\n    keys: [\"posts\"]");
    let server = TestServer::setup("small").auth(Auth::Policy(policy)).start().await;
    let operations =
        [update_operation("posts", json!({"name": "A"})), update_operation("pages", json!({"name": "B"}))];
    let body = json!({"atomic:operations": operations, "meta": {"reason": "posts and pages"}});
    let mara = server.with_token("mara");
    mara.request("POST", "/operations").body(crate::support::ATOMIC, &body).send().await.is(200);
    let body =
        json!({"data": document("posts", json!({"name": "C"}))["data"], "meta": {"reason": "posts alone"}});
    mara.request("PATCH", "/collections/posts").document(&body).send().await.is(200);
    for path in ["/events", "/collections/posts/events"] {
        let request = crate::support::RawRequest::new("GET", path).header("Accept", "text/csv");
        let answer = request.header("Authorization", "Bearer auditor").send(server.address());
        let table = String::from_utf8(answer.body).unwrap();
        assert!(table.contains("posts alone") && table.contains(",A,"), "{table}");
        assert!(!table.contains("posts and pages"), "{table}");
    }
}

#[tokio::test]
async fn a_stranger_is_refused_before_the_body() {
    let server = guarded().await;
    for path in ["/collections", "/operations", "/collections/posts/restore", "/remote/notices"] {
        let answer = head_alone(&server, "wrong", path);
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
}

#[tokio::test]
async fn whoever_may_write_nothing_is_refused_before_the_body() {
    let server = guarded().await;
    for path in ["/collections", "/operations", "/collections/posts/restore"] {
        let answer = head_alone(&server, "reader", path);
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("This token may not write"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_hangup_reads_the_policy_again_and_ends_nothing() {
    let setup = TestServer::setup("small").auth(Auth::Policy(policy()));
    let server = setup.flag(&["--policy-quiet-ms", "600000"]).start().await;
    std::fs::write(server.folder().join("policy.yaml"), policy().replace("blog-*", "*")).unwrap();
    server.signal(Signal::HUP);
    eventually_status("the changed file holds", 200, async || {
        server.with_token("blogger").read("posts").await
    })
    .await;
}

#[tokio::test]
async fn a_token_is_replaced_without_a_gap() {
    let server = guarded().await;
    let file = server.folder().join("policy.yaml");
    let token = |arguments: &[&str]| {
        let mut command = collectory_command(server.folder());
        let output = command.arg("token").args(arguments).arg("--policy").arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for name in ["list", "revoke"] {
        let named = run_to_end(
            collectory_command(server.folder()).arg("token").arg("--policy").arg(&file).args(["--", name]),
        );
        assert!(named.assert_exit_code(2).stderr.contains("are no names of tokens"), "{name}");
    }
    let secret = token(&["Reader", "--may", "read", "--expires", "90d", "--grant", "write:p*"]);
    let new = server.with_token(secret.trim());
    eventually_status("the new token is known", 200, async || new.list().await).await;
    server.with_token("reader").list().await.is(200);
    let list = token(&["list"]);
    let readers: Vec<_> = list.lines().filter(|line| line.starts_with("Reader ")).collect();
    assert_eq!(readers.len(), 2, "{list}");
    assert!(
        readers[0].contains(&token_hash("reader")[..8]) && !list.contains(&token_hash("reader")[..9]),
        "{list}"
    );
    assert!(readers[1].contains("read:*; write:p*"), "{list}");
    token(&["revoke", "Reader", "--hash", &token_hash("reader")[..8]]);
    let old = server.with_token("reader");
    eventually_status("the old token is gone", 401, async || old.list().await).await;
    new.list().await.is(200);
}

#[tokio::test]
async fn a_token_whose_time_is_over_is_401() {
    let text = policy().replace("    may: [read]\n", "    may: [read]\n    expires: 2001-01-01\n");
    let server = TestServer::setup("small").auth(Auth::Policy(text)).start().await;
    server.with_token("reader").list().await.is(401);
    server.with_token("mara").list().await.is(200);
}

#[tokio::test]
async fn guessing_is_slowed_down() {
    let setup = TestServer::setup("small").auth(Auth::Policy(policy()));
    let server = setup.flag(&["--wrong-tokens-per-s-max", "1"]).start().await;
    let wrong = server.with_token("wrong");
    let slowed = eventually_status("a wrong token is one too many", 429, async || wrong.list().await).await;
    assert_eq!(slowed.error().0, "too_many_requests");
    assert_eq!(slowed.header("retry-after"), "1");
    server.with_token("mara").list().await.is(200);
}

#[tokio::test]
async fn a_policy_that_makes_no_sense_stops_the_start() {
    let bad = [
        "tokens: [broken",
        "tokens: 7\n",
        "tokens:\n  - name: A\n",
        "tokens:\n  - {name: A, email: a@b, hash: 'sha256:xyz', may: [read]}\n",
        "tokens:\n  - {name: A, email: a@b, hash: 'md5:d41d8cd98f00b204e9800998ecf8427e', may: [read]}\n",
        "tokkens: []\n",
    ];
    for text in bad {
        let setup = TestServer::setup("small").auth(Auth::Policy(text.into()));
        let refused = setup.expect_start_failure().assert_exit_code(1);
        assert!(refused.stderr.contains("policy.yaml"), "{text}: {}", refused.stderr);
        assert_eq!(refused.stdout, "");
    }
}

#[tokio::test]
async fn a_token_made_on_the_command_line_works() {
    let mut server = guarded().await;
    let file = server.folder().join("policy.yaml");
    std::fs::write(&file, format!("# Ask Mara before changing this.\n{}", policy())).unwrap();
    let mut command = collectory_command(server.folder());
    command.args([
        "token",
        "Ben Ox",
        "--email",
        "ben@example.org",
        "--may",
        "read,write",
        "--keys",
        "p*",
        "--policy",
    ]);
    let output = command.arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let secret = String::from_utf8(output.stdout).unwrap();
    assert_eq!(secret.lines().count(), 1, "{secret:?}");
    let secret = secret.trim();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# Ask Mara before changing this.\n"), "{text}");
    assert!(!text.contains(secret), "the secret itself is nowhere");
    assert!(text.contains(&token_hash(secret)), "{text}");
    let ben = server.with_token(secret);
    eventually_status("the token is known", 200, async || {
        ben.patch("posts", json!({"name": "By Ben"})).await
    })
    .await;
    assert_eq!(server.repo().field("HEAD", "%an <%ae>"), "Ben Ox <ben@example.org>");
    ben.read("images").await.is(403);
    server.with_token("mara").list().await.is(200);
    assert!(!server.stop().contains(secret), "a secret is never logged");
}

#[tokio::test]
async fn an_idempotency_key_is_its_caller_s_own() {
    let server = guarded().await;
    for (token, collection) in [("mara", "one"), ("writer", "two")] {
        let client = server.client().with_token(token);
        let request = client.request("POST", "/collections").header("Idempotency-Key", "k");
        request.document(&document(collection, json!({}))).send().await.is(201);
    }
    let client = server.client().with_token("reader");
    let request = client.request("POST", "/collections").header("Idempotency-Key", "k");
    request.document(&document("one", json!({}))).send().await.is(403);
}

/// Returns a policy in which Mara may write, and an auditor has the rights in `auditor`, if any.
fn audited(auditor: &str) -> String {
    let entry =
        format!("  - name: Auditor\n    email: a@example.org\n    hash: sha256:{}\n", token_hash("auditor"));
    let auditor = if auditor.is_empty() { String::new() } else { format!("{entry}    {auditor}\n") };
    format!("{}{auditor}", policy())
}

/// Replaces the policy and waits until it applies to the auditor's requests.
async fn audit_becomes(server: &TestServer, auditor: &str, path: &str, status: u16) {
    std::fs::write(server.folder().join("policy.yaml"), audited(auditor)).unwrap();
    let client = server.with_token("auditor");
    eventually_status("the changed policy holds", status, async || client.get(path).await).await;
}

const MAY_AUDIT: &str = "may: [audit]\n    keys: [\"*\"]";

#[tokio::test]
async fn a_stream_ends_when_its_token_may_not_follow_it_any_more() {
    for (auditor, status) in
        [("", 401), ("may: [read]\n    keys: [\"*\"]", 403), ("may: [audit]\n    keys: [\"blog-*\"]", 403)]
    {
        let setup = TestServer::setup("small").auth(Auth::Policy(audited(MAY_AUDIT)));
        let server = setup.flag(&["--heartbeat-ms", "600000"]).start().await;
        let query = "?filter[collection]=posts";
        let mut stream = EventStream::open_with_token(server.address(), query, "auditor");
        server.with_token("mara").patch("posts", json!({"name": "Seen"})).await.is(200);
        assert_eq!(stream.next_event().event, "updated");
        audit_becomes(&server, auditor, "/events?filter[collection]=posts", status).await;
        server.with_token("mara").patch("posts", json!({"name": "Secret"})).await.is(200);
        assert_eq!(stream.next_message(), None, "{auditor}");
        let refused = EventStream::open_with_token(server.address(), query, "auditor");
        assert!(refused.head.starts_with(&format!("http/1.1 {status}")), "{}", refused.head);
    }
}

#[tokio::test]
async fn a_stream_without_news_ends_at_the_next_heartbeat_after_its_token_is_taken_back() {
    let setup = TestServer::setup("small").auth(Auth::Policy(audited(MAY_AUDIT)));
    let server = setup.flag(&["--heartbeat-ms", "20"]).start().await;
    let mut stream = EventStream::open_with_token(server.address(), "", "auditor");
    assert_eq!(stream.next_message().unwrap().event, "head");
    audit_becomes(&server, "", "/events", 401).await;
    while let Some(heard) = stream.next_message() {
        assert_eq!(heard.event, "head", "what was on its way");
    }
}

#[tokio::test]
async fn a_stream_shows_the_keys_that_its_token_has_now() {
    let setup = TestServer::setup("small").auth(Auth::Policy(audited(MAY_AUDIT)));
    let server = setup.flag(&["--heartbeat-ms", "600000"]).start().await;
    let mara = server.with_token("mara");
    let mut stream = EventStream::open_with_token(server.address(), "", "auditor");
    audit_becomes(&server, "may: [audit]\n    keys: [\"blog-*\"]", "/collections/posts/events", 403).await;
    mara.patch("posts", json!({"name": "Secret"})).await.is(200);
    mara.create(&document("blog-a", json!({}))).await.is(201);
    assert_eq!(stream.next_event().data["attributes"]["collection"], "blog-a");
}

#[tokio::test]
async fn a_refusal_names_no_key_that_the_token_may_not_read() {
    let policy = audited("may: [read, write, audit]\n    keys: [\"Blog-*\"]");
    let server = TestServer::setup("small").auth(Auth::Policy(policy)).start().await;
    server.with_token("mara").create(&document("blog-x", json!({}))).await.is(201);
    let refused = server.with_token("auditor").create(&document("Blog-X", json!({}))).await.is(409);
    assert!(!refused.json().to_string().contains("blog-x"), "{}", refused.json());
    let refused = server.with_token("mara").create(&document("Blog-X", json!({}))).await.is(409);
    assert!(refused.json().to_string().contains("blog-x"));
}

#[tokio::test]
async fn a_merge_that_fails_shows_the_past_to_those_only_who_may_audit() {
    let server = TestServer::setup("small")
        .auth(Auth::Policy(audited("may: [read, write, audit]\n    keys: [\"*\"]")))
        .start()
        .await;
    let before = server.with_token("mara").read("posts").await.is(200).header("etag");
    server.with_token("mara").patch("posts", json!({"name": "Theirs"})).await.is(200);
    for (token, is_shown) in [("auditor", true), ("mara", false)] {
        let client = server.with_token(token);
        let request = client.request("PATCH", "/collections/posts").header("If-Match", &before);
        let body = document("posts", json!({"name": "Yours"}));
        let request = request.header("Prefer", "merge=attributes").body(crate::support::JSON_API, &body);
        let clash = request.send().await.is(412).json()["errors"][0]["meta"]["attributes"]["name"].clone();
        assert_eq!((&clash["theirs"], clash.get("base").is_some()), (&json!("Theirs"), is_shown), "{clash}");
    }
}

#[tokio::test]
async fn a_rehearsal_shows_what_a_hand_edit_has_replaced_to_those_only_who_may_audit() {
    let mut server = TestServer::setup("small")
        .auth(Auth::Policy(audited("may: [read, write, audit]\n    keys: [\"*\"]")))
        .start()
        .await;
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: By hand\n");
    let mara = server.with_token("mara");
    eventually("the hand edit is served", async || {
        (mara.read("posts").await.is(200).data()["attributes"]["name"] == "By hand").then_some(())
    })
    .await;
    for (token, is_shown) in [("auditor", true), ("mara", false)] {
        let client = server.with_token(token);
        let request = client.request("PATCH", "/collections/posts").header("Prefer", "dry-run");
        let body = document("posts", json!({"recursive": false}));
        let answer = request.body(crate::support::JSON_API, &body).send().await.is(200).json();
        let commits = answer["meta"]["commits"].as_array().unwrap();
        assert!(commits[0]["message"].as_str().unwrap().starts_with("Edit posts by hand"), "{answer}");
        assert_eq!(commits[0].to_string().contains("content/posts"), is_shown, "{answer}");
        assert!(commits[1].to_string().contains("+recursive: false"), "{answer}");
    }
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn the_message_of_a_batch_is_for_those_who_may_see_all_of_it() {
    let setup =
        TestServer::setup("small").auth(Auth::Policy(audited("may: [audit]\n    keys: [\"blog-*\"]")));
    let server = setup.start().await;
    let batch = |keys: &[&str]| -> serde_json::Value {
        keys.iter().map(|key| add_operation(&document(key, json!({})))).collect()
    };
    let mara = server.with_token("mara");
    mara.operations(batch(&["blog-a", "secret"])).await.is(200);
    mara.operations(batch(&["blog-b", "blog-c"])).await.is(200);
    let events = server.with_token("auditor").get("/events").await.is(200);
    let listed: Vec<_> =
        events.data().as_array().unwrap().iter().map(|it| it["attributes"]["subject"].clone()).collect();
    assert_eq!(listed.len(), 3, "{listed:?}");
    assert!(listed[0].is_string() && listed[1].is_string() && listed[2].is_null(), "{listed:?}");
}

#[tokio::test]
async fn a_policy_file_that_others_may_write_is_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;

    let server = guarded().await;
    let new = server.folder().join("policy.new");
    std::fs::write(&new, policy().replace("blog-*", "*")).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o666)).unwrap();
    std::fs::rename(&new, server.folder().join("policy.yaml")).unwrap();
    eventually_status("the renamed file holds", 200, async || {
        server.with_token("blogger").read("posts").await
    })
    .await;
    server.wait_for_log("chmod go-w").await;
}
