//! The access log: one line for each request.

use serde_json::{Value, json};

use crate::support::{Auth, TestServer, document, eventually};
use crate::ui::checked;
use crate::ui::filled;

/// The policy with the token `mara-secret`.
const POLICY: &str = "\
tokens:
  - name: Mara
    email: mara@example.org
    hash: sha256:HASH
    may: [read, write, audit]
    keys: ['*']
";

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Returns the lines of the access log, once there are at least `count`.
async fn lines(server: &TestServer, count: usize) -> Vec<String> {
    let all = || -> Vec<String> {
        let log = server.log();
        log.lines().filter(|line| line.contains("collectory::access")).map(str::to_owned).collect()
    };
    eventually("the lines are written", async || Some(all()).filter(|lines| lines.len() >= count)).await
}

fn policy() -> Auth {
    Auth::Policy(POLICY.replace("HASH", &crate::support::token_hash("mara-secret")))
}

#[tokio::test]
async fn each_request_has_a_line_that_machines_read() {
    let mut server = TestServer::setup("small").auth(policy()).flag(&["--access-log", "json"]).start().await;
    let mara = server.with_token("mara-secret");
    let ready = lines(&server, 1).await.len();
    let read = mara.request("GET", "/collections/posts?fields[document-collection]=name");
    let read = read.header("traceparent", TRACE).send().await.is(200);
    mara.patch("posts", json!({"name": "All posts"})).await.is(200);
    server.request("GET", "/collections/no%0Abody").send().await.is(404);
    let lines = lines(&server, ready + 3).await;
    let entries: Vec<Value> = lines[ready..].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries[0]["level"], "INFO");
    assert_eq!((&entries[0]["method"], &entries[0]["route"]), (&json!("GET"), &json!("/collections/{key}")));
    assert_eq!((&entries[0]["status"], &entries[0]["actor"]), (&json!(200), &json!("Mara")));
    assert_eq!(entries[0]["bytes"], read.bytes().len());
    assert_eq!(entries[0]["request.id"], read.header("x-request-id"));
    assert_eq!(entries[0]["revision"], read.header("collectory-revision"));
    assert_eq!(entries[0]["traceparent"], TRACE);
    assert!(entries[0]["duration_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(
        (&entries[1]["method"], &entries[1]["revision"]),
        (&json!("PATCH"), &json!(server.repo().head()))
    );
    assert_eq!((&entries[2]["route"], &entries[2]["status"]), (&json!("none"), &json!(404)));
    let log = server.stop();
    assert!(!log.contains("mara-secret"), "{log}");
}

/// Returns the last line; there must be exactly `count`.
async fn last(server: &TestServer, count: usize) -> Value {
    let lines = lines(server, count).await;
    assert_eq!(lines.len(), count, "one line a request");
    serde_json::from_str(&lines[count - 1]).unwrap()
}

#[tokio::test]
async fn where_everybody_may_do_everything_a_read_is_one_of_nobody_in_particular() {
    for auth in [Auth::None, Auth::AllowAll] {
        let server = TestServer::setup("small").auth(auth).flag(&["--access-log", "json"]).start().await;
        let ready = lines(&server, 1).await.len();
        server.read("posts").await.is(200);
        assert_eq!(last(&server, ready + 1).await["actor"], "anonymous");
        server.patch("posts", json!({"name": "All posts"})).await.is(200);
        assert_eq!(last(&server, ready + 2).await["actor"], "anonymous");
    }
}

#[tokio::test]
async fn the_line_of_a_page_names_who_looked_and_the_revision() {
    let server = TestServer::setup("small").auth(policy()).flag(&["--access-log", "json"]).start().await;
    let mut count = lines(&server, 1).await.len();
    let mut logged = async || {
        count += 1;
        last(&server, count).await
    };
    let sign_in = checked(server.request("GET", "/ui/sign-in").send().await, 200);
    let line = logged().await;
    assert_eq!((&line["route"], line.get("actor"), line.get("revision")), (&json!("/ui/"), None, None));
    let entered = server.request("POST", "/ui/sign-in").form(filled(&sign_in, &[("secret", "mara-secret")]));
    let entered = entered.send().await;
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    logged().await;
    let page = |path: &str| server.request("GET", path).header("Cookie", &cookie).send();
    let before = server.repo().head();
    let form = checked(page("/ui/collections/posts").await, 200);
    assert_eq!(form.header("collectory-revision"), None);
    let line = logged().await;
    assert_eq!((&line["actor"], &line["revision"]), (&json!("Mara"), &json!(before)));
    let saved = server.request("POST", "/ui/collections/posts").header("Cookie", &cookie);
    assert_eq!(saved.form(filled(&form, &[("a.name", "All posts")])).send().await.status, 303);
    let line = logged().await;
    assert_eq!((&line["actor"], &line["revision"]), (&json!("Mara"), &json!(server.repo().head())));
    assert_ne!(server.repo().head(), before);
    checked(page("/ui/?asOf=HEAD~1").await, 200);
    assert_eq!(logged().await["revision"], before);
}

#[tokio::test]
async fn the_lines_have_the_form_of_the_log_and_all_are_there_at_the_end() {
    let mut server = TestServer::setup("small").flag(&["--access-log"]).start().await;
    for _ in 0..50 {
        server.read("posts").await.is(200);
    }
    let finished = server.stop();
    let read = "answered method=GET route=/collections/{key} status=200 duration_ms=";
    assert_eq!(finished.matches(read).count(), 50, "{finished}");
}

#[tokio::test]
async fn without_the_flag_or_the_level_there_is_none() {
    let mut server = TestServer::setup("small").start().await;
    server.list().await.is(200);
    let mut quiet = TestServer::setup("small").flag(&["--access-log", "--log-level", "warn"]).start().await;
    quiet.list().await.is(200);
    assert!(!server.stop().contains("collectory::access") && !quiet.stop().contains("collectory::access"));
}

#[tokio::test]
async fn the_place_in_a_trace_stands_in_every_line_of_a_request() {
    let server =
        TestServer::setup("small").flag(&["--log-level", "debug", "--log-format", "json"]).start().await;
    server.request("GET", "/collections/nobody").header("traceparent", TRACE).send().await.is(404);
    let refused = async || {
        let log = server.log();
        let line = log.lines().find(|line| line.contains("the request was refused"))?;
        serde_json::from_str::<Value>(line).ok()
    };
    let line = eventually("the refusal is told", refused).await;
    assert_eq!(line["span"]["traceparent"], TRACE, "{line}");
}

#[tokio::test]
async fn a_write_that_the_repository_can_t_take_is_told_with_its_request() {
    let server =
        TestServer::setup("small").flag(&["--log-format", "json", "--lock-wait-ms-max", "10"]).start().await;
    std::fs::write(server.repo().git_folder().join("index.lock"), "").unwrap();
    let write = |trace: &'static str| {
        let write = server.request("PATCH", "/collections/posts").header("traceparent", trace);
        write.document(&document("posts", json!({"name": "All posts"}))).send()
    };
    let other = "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01";
    let (one, two) = tokio::join!(write(TRACE), write(other));
    for (answer, trace) in [(one.is(503), TRACE), (two.is(503), other)] {
        let logged_refusal = || {
            server.log().lines().find_map(|line| {
                let line: Value = serde_json::from_str(line).ok()?;
                (line["target"] == "collectory::engine::refuse" && line["span"]["traceparent"] == trace)
                    .then_some(line)
            })
        };
        let line = eventually("the refusal is told", async || logged_refusal()).await;
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["span"]["request.id"], answer.header("x-request-id"));
    }
}
