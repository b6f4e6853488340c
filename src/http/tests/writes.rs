//! Writes.

use std::sync::Arc;

use crate::domain::{Actor, Command, Kind};
use crate::http::testing::{TestService, problem};
use crate::http::{Action, Allowed, Denied, ErrorStatus};

const NEW: &str = r#"{"data":{"type":"document-collection","id":"new","attributes":{"name":"New"}}}"#;

/// A change of `posts`.
fn posts(attributes: &str) -> String {
    format!(r#"{{"data":{{"type":"document-collection","id":"posts","attributes":{attributes}}}}}"#)
}

#[tokio::test]
async fn a_resource_can_be_sent_back_as_it_was_read() {
    let served = TestService::new();
    let read = served.get("/collections/posts").await;
    let body = String::from_utf8(read.body.to_vec()).unwrap();
    let answer = served.send("PATCH", "/collections/posts", &body).await.is(200);
    assert_eq!(answer.body, read.body);
}

#[tokio::test]
async fn a_write_names_its_actor_its_reason_and_its_request() {
    let served = TestService::behind(|_, _| Ok(Allowed::by(Actor::new("Mara", "mara@example.org"))));
    let headers = [
        ("content-type", "application/json"),
        ("commit-message", " Fr\u{fc}hjahrsputz "),
        ("x-request-id", "r-1"),
    ];
    served.ask("POST", "/collections", &headers, NEW).await.is(201);
    let submission = served.submissions.lock().unwrap().pop().unwrap();
    assert_eq!(submission.author, Actor::new("Mara", "mara@example.org"));
    assert_eq!(submission.reason.as_deref(), Some("Fr\u{fc}hjahrsputz"));
    assert_eq!(submission.request_id.as_deref(), Some("r-1"));
}

#[tokio::test]
async fn a_change_of_something_else_than_expected_is_not_made() {
    let served = TestService::new();
    let etag = served.get("/collections/posts").await.header("etag").to_owned();
    let before = served.everything().await;
    let weak = format!("W/{etag}");
    let media = ("content-type", "application/json");
    let body = posts(r#"{"name":"All"}"#);
    for (method, header, value) in [
        ("PATCH", "if-match", "\"x\""),
        ("PATCH", "if-match", weak.as_str()),
        ("PATCH", "if-none-match", etag.as_str()),
        ("PATCH", "if-none-match", "*"),
        ("DELETE", "if-match", "\"x\""),
        ("DELETE", "if-none-match", "*"),
    ] {
        let answer = served.ask(method, "/collections/posts", &[media, (header, value)], &body).await.is(412);
        assert_eq!(
            answer.json()["errors"][0]["meta"]["current"]["id"],
            "posts",
            "{method} {header}: {value}"
        );
        assert_eq!(answer.errors().to_lowercase(), format!("precondition_failed {header}"));
    }
    let taken = NEW.replace("new", "posts");
    served.ask("POST", "/collections", &[media, ("if-none-match", "*")], taken).await.is(412);
    let answer = served.ask("POST", "/collections", &[media, ("if-match", "*")], NEW).await.is(412);
    assert_eq!(answer.json()["errors"][0].get("meta"), None);
    assert_eq!(served.everything().await, before);
    served.ask("PATCH", "/collections/posts", &[media, ("if-match", &etag)], &body).await.is(200);
    served.ask("PATCH", "/collections/posts", &[media, ("if-match", &etag)], &body).await.is(412);
    served.ask("POST", "/collections", &[media, ("if-none-match", "*")], NEW).await.is(201);
    served.ask("DELETE", "/collections/posts", &[("if-match", "*")], "").await.is(204);
}

#[tokio::test]
async fn where_a_precondition_is_wanted_none_is_an_error() {
    let served = TestService::with(|context| context.settings.require_if_match = true);
    let answer = served.send("PATCH", "/collections/posts", &posts("{}")).await.is(428);
    assert_eq!(answer.errors(), "precondition_required If-Match");
    served.ask("DELETE", "/collections/posts", &[], "").await.is(428);
    served.ask("DELETE", "/collections/none", &[], "").await.is(404);
    served.send("POST", "/collections", NEW).await.is(201);
    served.ask("DELETE", "/collections/posts", &[("if-match", "*")], "").await.is(204);
}

#[tokio::test]
async fn whoever_may_not_look_learns_nothing() {
    let closed = TestService::behind(|_, _| Err(Denied::unauthenticated("A token is needed.")));
    for (method, path, body) in [
        ("GET", "/collections", ""),
        ("GET", "/collections/posts", ""),
        ("GET", "/collections/none", ""),
        ("GET", "/collections/none?include=x", ""),
        ("GET", "/problems", ""),
        ("GET", "/openapi.json", ""),
        ("POST", "/collections", NEW),
        ("POST", "/collections", "{"),
        ("PATCH", "/collections/none", NEW),
        ("PATCH", "/collections/posts", "nonsense"),
        ("DELETE", "/collections/none", ""),
        ("DELETE", "/collections/posts", ""),
    ] {
        let answer = closed.send(method, path, body).await.is(401);
        assert_eq!(answer.errors(), "unauthenticated", "{method} {path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    for open in ["/livez", "/readyz"] {
        closed.get(open).await.is(200);
    }
    assert!(closed.submissions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_hook_is_told_what_is_about_to_happen() {
    let served = TestService::behind(|head, action| {
        let asked = match action {
            Action::Follow { key } => format!("follow {key:?}"),
            Action::Operate => "operate".to_owned(),
            Action::List => "list".to_owned(),
            Action::Read { key } => format!("read {key}"),
            Action::Create { key, content } => {
                format!("create {key:?} {:?}", content.map(|it| it.attributes().len()))
            }
            Action::Update { key, content } => {
                format!("update {key} {:?}", content.map(|it| it.attributes().len()))
            }
            Action::Delete { key } => format!("delete {key}"),
            Action::ReadOpenApi => "read openapi".to_owned(),
            Action::ReadProblems => "read problems".to_owned(),
            Action::ReadCapabilities => "read capabilities".to_owned(),
            Action::ListPast => "list past".to_owned(),
            Action::ReadPast { key } => format!("read past {key}"),
            Action::ListEvents { key } => format!("list events {key:?}"),
            Action::StreamEvents { key } => format!("stream events {key:?}"),
            Action::ReadEvent { key } => format!("read event {key:?}"),
            Action::ReadDifference => "read difference".to_owned(),
            Action::ReadBlame { key } => format!("read blame {key}"),
            Action::ReadSyncToken => "read sync token".to_owned(),
            Action::ReadChanges => "read changes".to_owned(),
            Action::UndoEvent { key } => format!("undo event {key:?}"),
            Action::Restore { key } => format!("restore {key}"),
        };
        let asked = format!("{} {} {}: {asked}.", head.method, head.path, head.query);
        Err(Denied::new(ErrorStatus::TOO_MANY_REQUESTS, "told", "Told", asked))
    });
    for (method, path, body, asked) in [
        ("GET", "/collections?sort=x", "", "GET /collections sort=x: list"),
        ("HEAD", "/collections/posts", "", ""),
        ("GET", "/collections/%70osts", "", "GET /collections/%70osts : read posts"),
        ("POST", "/collections", NEW, "POST /collections : create Some(Key(\"new\")) Some(1)"),
        (
            "POST",
            "/collections",
            &NEW.replace("\"New\"", "7"),
            "POST /collections : create Some(Key(\"new\")) None",
        ),
        ("POST", "/collections", "[", "POST /collections : create None None"),
        ("PATCH", "/collections/a", &posts(r#"{"name":"x"}"#), "PATCH /collections/a : update a Some(1)"),
        ("PATCH", "/collections/a", "{}", "PATCH /collections/a : update a None"),
        ("DELETE", "/collections/a", "", "DELETE /collections/a : delete a"),
        ("GET", "/openapi.yaml", "", "GET /openapi.yaml : read openapi"),
        ("GET", "/problems", "", "GET /problems : read problems"),
        ("GET", "/collections?asOf=x", "", "GET /collections asOf=x: list past"),
        ("GET", "/collections/a?asOf=x", "", "GET /collections/a asOf=x: read past a"),
        ("GET", "/events", "", "GET /events : list events None"),
        ("GET", "/collections/a/events", "", "GET /collections/a/events : list events Some(Key(\"a\"))"),
        ("GET", "/events/x", "", "GET /events/x : read event None"),
        ("POST", "/events/x/undo", "", "POST /events/x/undo : undo event None"),
        ("GET", "/diff", "", "GET /diff : read difference"),
        ("GET", "/collections/a/blame", "", "GET /collections/a/blame : read blame a"),
        ("POST", "/collections/a/restore", "{}", "POST /collections/a/restore : restore a"),
        ("GET", "/sync-token", "", "GET /sync-token : read sync token"),
        ("GET", "/changes", "", "GET /changes : read changes"),
        ("GET", "/capabilities", "", "GET /capabilities : read capabilities"),
    ] {
        let answer = served.send(method, path, body).await;
        assert_eq!(answer.status, 429, "{method} {path}");
        if method != "HEAD" {
            assert_eq!(answer.json()["errors"][0]["detail"].as_str().unwrap().trim_end_matches('.'), asked);
        }
    }
}

#[tokio::test]
async fn a_hook_that_panics_is_an_error_that_tells_nothing() {
    let served = TestService::behind(|_, _| panic!("the secret is 42"));
    let answer = served.get("/collections").await.is(500);
    assert_eq!(answer.errors(), "internal_error");
    assert!(!String::from_utf8_lossy(&answer.body).contains("42"));
    served.send("POST", "/collections", NEW).await.is(500);
}

#[tokio::test]
async fn a_change_says_what_kind_it_takes_the_collection_for() {
    let served = TestService::new();
    served.send("PATCH", "/collections/posts", &posts(r#"{"name":"All"}"#)).await.is(200);
    let submission = served.submissions.lock().unwrap().pop().unwrap();
    assert!(matches!(submission.changes[0].command, Command::Update { kind: Some(Kind::Document), .. }));
}

#[tokio::test]
async fn a_file_that_never_was_valid_is_a_conflict_for_an_update() {
    let served = TestService::new();
    let mut next = served.projection.snapshot().unwrap().next();
    next.problems.insert("b/typo".to_owned(), problem("b/typo", Some("typo")));
    served.projection.publish(Arc::new(next));
    served.get("/collections/typo").await.is(404);
    let body = posts("{}").replace("posts", "typo");
    let answer = served.send("PATCH", "/collections/typo", &body).await.is(409);
    assert!(answer.json()["errors"][0]["detail"].as_str().unwrap().contains("b/typo:1:2: is wrong"));
}
