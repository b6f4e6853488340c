//! The built-in authorizer: bearer tokens from a policy file.

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{Auth, Client, Stream, TestServer, document, eventually, program};

fn hash(secret: &str) -> String {
    let digest = Sha256::digest(secret);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Mara may do everything, a reader only read, a blogger write what begins with `blog-`.
fn policy() -> String {
    format!(
        "tokens:
  - name: Mara
    email: mara@example.org
    hash: sha256:{}
    may: [read, write]
  - name: Reader
    email: reader@example.org
    hash: sha256:{}
    may: [read]
  - name: Blogger
    email: blogger@example.org
    hash: sha256:{}
    may: [read, write]
    keys: [\"blog-*\"]
  - name: Writer
    email: writer@example.org
    hash: sha256:{}
    may: [write]
",
        hash("mara"),
        hash("reader"),
        hash("blogger"),
        hash("writer")
    )
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
        client
            .operations(json!([{"op": "remove", "ref": {"type": "document-collection", "id": "posts"}}]))
            .await
            .is(401);
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
        {"op": "add", "data": document("blog-x", json!({}))["data"]},
        {"op": "update", "data": document("posts", json!({"name": "x"}))["data"]},
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
    let extra = format!(
        "{}  - name: New\n    email: n@example.org\n    hash: sha256:{}\n    may: [read]\n",
        policy(),
        hash("new")
    );
    mara.list().await.is(200);
    std::fs::write(&file, &extra).unwrap();
    let new = server.with_token("new");
    eventually("the new token is known", async || {
        let answer = new.list().await;
        (answer.status() == 200).then(|| answer.is(200))
    })
    .await;
    std::fs::write(&file, "tokens: []\n").unwrap();
    eventually("the old tokens are gone", async || {
        let answer = mara.list().await;
        (answer.status() == 401).then(|| answer.is(401))
    })
    .await;
    std::fs::remove_file(&file).unwrap();
    mara.list().await.is(401);
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
        let refused = TestServer::setup("small").auth(Auth::Policy(text.into())).refused();
        assert_ne!(refused.status.code(), Some(0), "{text}");
        assert!(refused.stderr.contains("policy.yaml"), "{text}: {}", refused.stderr);
        assert_eq!(refused.stdout, "");
    }
}

#[tokio::test]
async fn a_token_made_on_the_command_line_works() {
    let server = guarded().await;
    let file = server.folder().join("policy.yaml");
    std::fs::write(&file, format!("# Ask Mara before changing this.\n{}", policy())).unwrap();
    let mut command = program(server.folder());
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
    assert!(text.contains(&hash(secret)), "{text}");
    let ben = server.with_token(secret);
    eventually("the token is known", async || {
        let answer = ben.patch("posts", json!({"name": "By Ben"})).await;
        (answer.status() == 200).then(|| answer.is(200))
    })
    .await;
    assert_eq!(server.repo().field("HEAD", "%an <%ae>"), "Ben Ox <ben@example.org>");
    ben.read("images").await.is(403);
    server.with_token("mara").list().await.is(200);
    assert!(!server.log().contains(secret), "a secret is never logged");
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

/// Mara may write, an auditor follow what happens, if he has that line at all.
fn audited(auditor: &str) -> String {
    let entry =
        format!("  - name: Auditor\n    email: a@example.org\n    hash: sha256:{}\n", hash("auditor"));
    let auditor = if auditor.is_empty() { String::new() } else { format!("{entry}    {auditor}\n") };
    format!("{}{auditor}", policy())
}

/// Puts another policy in place and waits until the auditor's requests are answered by it.
async fn audit_becomes(server: &TestServer, auditor: &str, path: &str, status: u16) {
    std::fs::write(server.folder().join("policy.yaml"), audited(auditor)).unwrap();
    let client = server.with_token("auditor");
    eventually("the changed policy holds", async || {
        let answer = client.get(path).await;
        (answer.status() == status).then(|| answer.is(status))
    })
    .await;
}

const MAY_AUDIT: &str = "may: [audit]";

#[tokio::test]
async fn a_stream_ends_when_its_token_may_not_follow_it_any_more() {
    for (auditor, status) in [("", 401), ("may: [read]", 403), ("may: [audit]\n    keys: [\"blog-*\"]", 403)]
    {
        let setup = TestServer::setup("small").auth(Auth::Policy(audited(MAY_AUDIT)));
        let server = setup.flag(&["--heartbeat-ms", "600000"]).start().await;
        let query = "?filter[collection]=posts";
        let mut stream = Stream::open_with_token(server.address(), query, "auditor");
        server.with_token("mara").patch("posts", json!({"name": "Seen"})).await.is(200);
        assert_eq!(stream.event().event, "updated");
        audit_becomes(&server, auditor, "/events?filter[collection]=posts", status).await;
        server.with_token("mara").patch("posts", json!({"name": "Secret"})).await.is(200);
        assert_eq!(stream.next(), None, "{auditor}");
        let refused = Stream::open_with_token(server.address(), query, "auditor");
        assert!(refused.head.starts_with(&format!("http/1.1 {status}")), "{}", refused.head);
    }
}

#[tokio::test]
async fn a_stream_without_news_ends_at_the_next_heartbeat_after_its_token_is_taken_back() {
    let setup = TestServer::setup("small").auth(Auth::Policy(audited(MAY_AUDIT)));
    let server = setup.flag(&["--heartbeat-ms", "20"]).start().await;
    let mut stream = Stream::open_with_token(server.address(), "", "auditor");
    assert_eq!(stream.next().unwrap().event, "head");
    audit_becomes(&server, "", "/events", 401).await;
    while let Some(heard) = stream.next() {
        assert_eq!(heard.event, "head", "what was on its way");
    }
}

#[tokio::test]
async fn a_stream_shows_the_keys_that_its_token_has_now() {
    let setup = TestServer::setup("small").auth(Auth::Policy(audited(MAY_AUDIT)));
    let server = setup.flag(&["--heartbeat-ms", "600000"]).start().await;
    let mara = server.with_token("mara");
    let mut stream = Stream::open_with_token(server.address(), "", "auditor");
    audit_becomes(&server, "may: [audit]\n    keys: [\"blog-*\"]", "/collections/posts/events", 403).await;
    mara.patch("posts", json!({"name": "Secret"})).await.is(200);
    mara.create(&document("blog-a", json!({}))).await.is(201);
    assert_eq!(stream.event().data["attributes"]["collection"], "blog-a");
}
