//! Reads.

use std::pin::pin;
use std::sync::Arc;

use chrono::DateTime;
use serde_json::json;
use warp::http::HeaderValue;
use warp::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, VARY,
};

use crate::config::{BasePath, Origin};
use crate::domain::{Key, Kind, Revision};
use crate::engine::{BranchRewrite, RemovedEvent};
use crate::http::browser::cors::Cors;
use crate::http::testing::{Hook, TestService, entry, problem, snapshot};
use crate::http::{Action, Allowed, Denied, Guard, RequestHead};
use crate::telemetry::{Limit, LimitCounters};

#[tokio::test]
async fn whoever_asks_whether_the_process_lives_asks_for_no_revision() {
    let wrong = [("collectory-min-revision", "nonsense")];
    TestService::new().ask("GET", "/collections", &wrong, "").await.is(400);
    for served in [TestService::new(), TestService::loading(|_| ())] {
        served.ask("GET", "/livez", &wrong, "").await.is(200);
    }
}

#[tokio::test]
async fn a_list_can_be_filtered_sorted_cut_and_thinned() {
    let served = TestService::new();
    for (query, keys) in [
        ("", "notes photos posts"),
        ("&&", "notes photos posts"),
        ("sort=-id", "posts photos notes"),
        ("sort=name", "photos notes posts"),
        ("sort=-name", "posts notes photos"),
        ("sort=type,-id", "posts notes photos"),
        ("sort=directory", "notes posts photos"),
        ("filter[type]=document", "notes posts"),
        ("filter[type]=media-collection", "photos"),
        ("filter[type]=bogus", ""),
        ("filter[name]=Posts&filter[directory]=content%2Fposts", "posts"),
        ("filter[name]=Posts&filter[directory]=media", ""),
        ("filter[name]=", ""),
        ("page[size]=2", "notes photos"),
        ("page[number]=2&page[size]=2", "posts"),
        ("page[offset]=1", "photos posts"),
        ("page[before]=&page[size]=1", "posts"),
        ("filter[type]=document&sort=-id&page[limit]=1", "posts"),
    ] {
        let answer = served.get(&format!("/collections?{query}")).await.is(200);
        assert_eq!(answer.keys(), keys, "{query}");
    }
    let thin = served.get("/collections?fields[document-collection]=name&filter[type]=document").await;
    assert_eq!(thin.json()["data"][0]["attributes"], json!({"name": "Notes"}));
    assert_eq!(
        thin.json()["links"]["self"],
        "/collections?fields%5Bdocument-collection%5D=name&filter%5Btype%5D=document"
    );
    let bare = served.get("/collections/posts?fields%5Bdocument-collection%5D=").await.is(200);
    assert_eq!(bare.json()["data"]["attributes"], json!({}));
    let other = served.get("/collections/posts?fields[media-collection]=").await.is(200);
    assert_eq!(other.json()["data"]["attributes"]["name"], "Posts");
}

#[tokio::test]
async fn pages_tell_their_total_and_the_profile_that_they_keep() {
    let served = TestService::new();
    let page = served.get("/collections?page[size]=1").await.is(200);
    assert_eq!(page.json()["meta"], json!({"page": {"total": 3}}));
    assert_eq!(page.header("content-type"), "application/vnd.api+json");
    let profile =
        "application/vnd.api+json;profile=\"https://jsonapi.org/profiles/ethanresnick/cursor-pagination\"";
    let accept = [("accept", profile)];
    let page = served.ask("GET", "/collections?page[size]=1", &accept, "").await.is(200);
    assert_eq!(page.header("content-type"), profile);
    let whole = served.ask("GET", "/collections", &accept, "").await.is(200);
    assert_eq!(whole.header("content-type"), "application/vnd.api+json");
    let large = served.ask("GET", "/collections?page[size]=101", &accept, "").await.is(400);
    assert_eq!(large.json()["errors"][0]["meta"], json!({"page": {"maxSize": 100}}));
}

#[tokio::test]
async fn nothing_new_is_answered_without_a_body() {
    let served = TestService::new();
    for path in ["/collections", "/collections/posts", "/collections?sort=name"] {
        let etag = served.get(path).await.is(200).header("etag").to_owned();
        for known in [etag.clone(), format!("W/{etag}"), format!("\"x\", {etag}"), "*".to_owned()] {
            let answer = served.ask("GET", path, &[("if-none-match", &known)], "").await.is(304);
            assert_eq!(answer.header("etag"), etag, "{path}");
        }
        served.ask("GET", path, &[("if-none-match", "\"x\"")], "").await.is(200);
        served.ask("GET", path, &[("if-match", &etag)], "").await.is(200);
        let stale = served.ask("GET", path, &[("if-match", "\"x\"")], "").await.is(412);
        assert_eq!(stale.errors(), "precondition_failed If-Match");
    }
}

#[tokio::test]
async fn nobody_gets_an_empty_list_while_the_repository_is_being_read() {
    let served = TestService::loading(|_| ());
    for path in ["/collections", "/collections/posts", "/problems", "/readyz"] {
        let answer = served.get(path).await.is(503);
        assert_eq!(
            (answer.errors().as_str(), answer.header("retry-after")),
            ("service_unavailable", "1"),
            "{path}"
        );
    }
    served.get("/livez").await.is(200);
    let body = r#"{"data":{"type":"media-collection","id":"a"}}"#;
    served.send("POST", "/collections", body).await.is(503);
    served.send("PATCH", "/collections/a", body).await.is(503);
    served.ask("DELETE", "/collections/a", &[], "").await.is(503);
}

#[tokio::test]
async fn readiness_says_that_writes_wait() {
    let served = TestService::with(|context| context.settings.limits.writes.writer_busy_ms_max = 60_000);
    served.projection.note_busy(Some(std::time::Instant::now()));
    assert!(served.get("/readyz").await.is(200).json()["meta"]["writes"].is_null());
    let reached = LimitCounters::default();
    let counts = reached.clone();
    let served = TestService::with(|context| {
        context.telemetry.reached = counts;
        context.settings.limits.writes.writer_busy_ms_max = 0;
    });
    assert!(served.get("/readyz").await.is(200).json()["meta"]["writes"].is_null(), "it has nothing to do");
    served.projection.note_busy(Some(std::time::Instant::now()));
    let ready = served.get("/readyz").await.is(200).json();
    assert_eq!(ready["meta"]["writes"], "writes wait: the writer has been at one thing for 0 s");
    served.get("/readyz").await.is(200);
    assert_eq!(reached.of(Limit::WriterBusy), 1, "it is the same thing");
    served.projection.note_busy(Some(std::time::Instant::now()));
    served.get("/readyz").await.is(200);
    assert_eq!(reached.of(Limit::WriterBusy), 2);
    served.projection.set_write_error(Some("the disk is full".to_owned()));
    let ready = served.get("/readyz").await.is(200).json();
    let both = "writes wait: the writer has been at one thing for 0 s; the last write could not be made: the disk is full";
    assert_eq!(ready["meta"]["writes"], both);
}

#[tokio::test]
async fn a_long_list_is_sorted_thinned_and_shown_to_some_as_a_short_one_is() {
    let served =
        TestService::behind(|_, _| Ok(Allowed::anonymous().with_visibility(|key| key.as_str() != "k0001")));
    let name = |number: usize| format!("N{:04}", 5_000 - number);
    let entries = (0..1_500).map(|number| {
        entry(&format!("k{number:04}"), Kind::Document, &[("name", &name(number)), ("directory", "d")])
    });
    served.projection.publish(Arc::new(snapshot(entries)));
    let list = served.get("/collections?sort=name&fields[document-collection]=name").await.is(200);
    let keys = list.keys();
    assert!(keys.starts_with("k1499 k1498 ") && keys.ends_with(" k0002 k0000"), "{keys}");
    assert!(list.json()["data"][0]["attributes"]["directory"].is_null());
    let again = [("if-none-match", list.header("etag"))];
    let path = "/collections?sort=name&fields[document-collection]=name";
    served.ask("GET", path, &again, "").await.is(304);
}

#[tokio::test]
async fn problems_are_listed_to_those_who_may_see_their_collections() {
    let some = |_: &RequestHead<'_>, action: Action<'_>| match action {
        Action::ReadProblems => Ok(Allowed::anonymous().with_visibility(|key| key.as_str() == "posts")),
        _ => Err(Denied::forbidden()),
    };
    let kept = "20260301T093000Z-9fceb02d";
    let everything = format!("b/! b/notes b/posts rewritten:{kept}");
    for (served, ids) in [(TestService::new(), everything.as_str()), (TestService::behind(some), "b/posts")] {
        let mut next = snapshot([]);
        let problems =
            [problem("b/posts", Some("posts")), problem("b/!", None), problem("b/notes", Some("notes"))];
        next.problems = problems.into_iter().map(|problem| (problem.path.clone(), problem)).collect();
        let since = DateTime::UNIX_EPOCH;
        let revision = Revision::new([0x9f; 20]);
        let message = "It went.".to_owned();
        let events = vec![RemovedEvent { revision, key: Key::parse("posts").unwrap() }];
        next.rewritten =
            Arc::new(vec![BranchRewrite { name: kept.into(), message, since, revision, events }]);
        served.projection.publish(Arc::new(next));
        let answer = served.get("/problems").await.is(200);
        assert_eq!(answer.keys(), ids);
        let listed = answer.json()["data"].as_array().unwrap().clone();
        let posts = listed.iter().find(|problem| problem["id"] == "b/posts").unwrap()["attributes"].clone();
        assert_eq!(posts["author"], json!({"name": "Mara", "email": "mara@example.org"}));
        if let Some(rewritten) = listed.iter().find(|problem| problem["attributes"]["kind"] == "rewritten") {
            assert_eq!(
                rewritten["attributes"],
                json!({"kind": "rewritten", "message": "It went.", "since": "1970-01-01T00:00:00Z",
                       "revision": revision.to_string(),
                       "events": [{"collection": "posts", "revision": revision.to_string()}]})
            );
        }
        let thin = served.get("/problems?fields[problem]=line").await.is(200);
        assert_eq!(thin.json()["data"][0]["attributes"], json!({"line": 1}));
    }
}

#[tokio::test]
async fn a_list_shows_what_the_caller_may_see_under_a_tag_of_its_own() {
    let served = TestService::behind(|head, _| {
        let who = head.headers.get("authorization").map_or("", |value| value.to_str().unwrap()).to_owned();
        Ok(Allowed::anonymous().with_visibility(move |key| key.as_str().starts_with(&who)))
    });
    let as_seen =
        async |who: &str, path: &str| served.ask("GET", path, &[("authorization", who)], "").await.is(200);
    assert_eq!(as_seen("n", "/collections").await.keys(), "notes");
    assert_eq!(as_seen("p", "/collections?page[size]=1").await.keys(), "photos");
    assert_eq!(as_seen("p", "/collections?page[size]=1").await.json()["meta"]["page"]["total"], 2);
    assert_ne!(
        as_seen("n", "/collections").await.header("etag"),
        as_seen("p", "/collections").await.header("etag")
    );
}

#[tokio::test]
async fn all_paths_lie_below_the_base_path() {
    let base_path = "/api/v1".parse::<BasePath>().unwrap();
    let served = TestService::with(|context| context.settings.base_path = base_path);
    let answer = served.get("/api/v1/collections/posts").await.is(200).json();
    assert_eq!(answer["data"]["links"]["self"], "/api/v1/collections/posts");
    assert_eq!(served.get("/api/v1/collections").await.json()["links"]["self"], "/api/v1/collections");
    let page = served.get("/api/v1/collections?page[size]=1").await.json();
    assert!(page["links"]["next"].as_str().unwrap().starts_with("/api/v1/collections?"));
    for path in ["/collections", "/api/collections", "/api/v1", "/api/v1/", "/api/v1collections", "/"] {
        served.get(path).await.is(404);
    }
    let thin = served.get("/api/v1/collections/posts?fields[document-collection]=name").await.is(200);
    assert_eq!(
        thin.json()["links"]["self"],
        "/api/v1/collections/posts?fields%5Bdocument-collection%5D=name"
    );
}

#[tokio::test]
async fn the_openapi_document_is_there_in_the_variant_with_the_hook_only() {
    let served = TestService::new();
    let headers = [("host", "example.org"), ("accept", "text/html")];
    let json = served.ask("GET", "/openapi.json", &headers, "").await.is(200);
    assert_eq!(json.header("content-type"), "application/json");
    assert_eq!(json.json()["servers"], json!([{"url": "http://example.org"}]));
    let absolute = served.ask("GET", "http://localhost:77/openapi.json", &headers, "").await.is(200);
    assert_eq!(absolute.json()["servers"], json!([{"url": "http://localhost:77"}]), "not the field `Host`");
    let yaml = served.ask("GET", "/openapi.yaml", &headers, "").await.is(200);
    assert_eq!(yaml.header("content-type"), "application/yaml");
    let denied = TestService::behind(|_, action| match action {
        Action::ReadOpenApi => Err(Denied::forbidden()),
        _ => Ok(Allowed::anonymous()),
    });
    let without = TestService::with(|context| context.access.guard = Guard::Without);
    for path in ["/openapi.json", "/openapi.yaml"] {
        denied.get(path).await.is(403);
        without.get(path).await.is(404);
    }
    without.get("/collections").await.is(200);
}

#[tokio::test]
async fn a_sane_request_id_comes_back() {
    let served = TestService::new();
    let answer = served.ask("GET", "/nowhere", &[("x-request-id", "abc-1")], "").await.is(404);
    assert_eq!(answer.header("x-request-id"), "abc-1");
    let answer = served.ask("GET", "/nowhere", &[("x-request-id", "a b")], "").await.is(404);
    assert_ne!(answer.header("x-request-id"), "a b");
}

#[tokio::test]
async fn no_answer_says_twice_what_every_answer_says() {
    let guard = Guard::with(Hook(|_, action| {
        if let Action::Read { .. } = action {
            return Ok(Allowed::anonymous());
        }
        let ours = [CACHE_CONTROL, VARY, CONTENT_TYPE, CONTENT_LENGTH, ACCESS_CONTROL_ALLOW_ORIGIN];
        let (names, other) = (ours.into_iter().chain([RETRY_AFTER]), HeaderValue::from_static("7"));
        Err(names.fold(Denied::forbidden(), |denied, name| denied.with_header(name, other.clone())))
    }));
    let cors = Cors::from_iter(["https://cms.example.org".parse::<Origin>().unwrap()]);
    let served = TestService::with(|context| (context.access.guard, context.access.cors) = (guard, cors));
    let page = ("origin", "https://cms.example.org");
    let found = served.ask("GET", "/collections/posts", &[page], "").await.is(200);
    let same = [page, ("if-none-match", "*")];
    let unchanged = served.ask("GET", "/collections/posts", &same, "").await.is(304);
    let head = served.ask("HEAD", "/collections/posts", &[page], "").await.is(200);
    let denied = served.ask("GET", "/collections", &[page], "").await.is(403);
    let denied_head = served.ask("HEAD", "/collections", &[page], "").await.is(403);
    for (head, full) in [(&head, &found), (&denied_head, &denied)] {
        assert_eq!((head.header("content-length"), head.body.len()), (&*full.body.len().to_string(), 0));
    }
    assert_eq!(denied.header("retry-after"), "7");
    for answer in [&found, &unchanged, &head, &denied, &denied_head] {
        assert_eq!(answer.headers.keys_len(), answer.headers.len(), "{:?}", answer.headers);
        assert_eq!(answer.header("access-control-allow-origin"), page.1);
        assert_eq!((answer.header("cache-control"), answer.header("vary")), ("no-store", "Accept, Origin"));
        assert!(answer.headers.values().all(|value| !value.is_empty()), "{:?}", answer.headers);
        assert_ne!(answer.header("x-request-id"), "");
    }
}

#[tokio::test]
async fn one_answer_is_made_once_however_often_it_is_sent() {
    let served = TestService::loading(|_| ());
    let entries = (0..1000).map(|n| entry(&format!("k{n}"), Kind::Document, &[("name", "x")]));
    served.projection.publish(Arc::new(snapshot(entries)));
    let first = served.get("/collections").await.is(200).body;
    let second = served.get("/collections").await.is(200).body;
    assert_eq!(first.as_ptr(), second.as_ptr());
    let first = served.get("/collections/k7").await.is(200).body;
    let second = served.get("/collections/k7").await.is(200).body;
    assert_eq!(first.as_ptr(), second.as_ptr());
}

#[test]
fn many_problems_are_put_together_off_the_threads_that_answer() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let served = TestService::new();
        let mut snapshot = served.projection.snapshot().unwrap().next();
        let problems = (0..200).map(|n| problem(&format!("collections/b{n}.yaml"), None));
        snapshot.problems = problems.map(|it| (it.path.clone(), it)).collect();
        served.projection.publish(Arc::new(snapshot));
        // The only blocking thread is busy until `held` is dropped.
        let (held, wait) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || wait.recv());
        let mut asked = pin!(served.get("/problems"));
        tokio::select! {
            biased;
            _ = &mut asked => panic!("it held up everybody else"),
            () = std::future::ready(()) => {}
        }
        drop(held);
        assert_eq!(asked.await.json()["data"].as_array().unwrap().len(), 200);
        busy.await.unwrap().unwrap_err();
    });
}
