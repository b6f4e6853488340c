//! `POST /collections`

use serde_json::{Value, json};

use crate::support::{RawRequest, TestServer, document, media, request_fixture};

#[tokio::test]
async fn what_is_created_is_echoed_found_and_listed() {
    let server = TestServer::start("small").await;
    for name in ["document.json", "media.json"] {
        let body = request_fixture(name);
        let id = body["data"]["id"].as_str().unwrap();
        let created = server.create(&body).await.is(201);
        assert_eq!(created.header("location"), format!("/collections/{id}"));
        assert_eq!(created.attributes(), body["data"]["attributes"]);
        let read = server.read(id).await.is(200);
        assert_eq!(read.json(), created.json());
        assert_eq!(read.header("etag"), created.header("etag"));
        assert!(server.list().await.is(200).ids().contains(&id.to_owned()));
    }
}

#[tokio::test]
async fn a_document_with_only_a_type_and_an_id_is_enough_and_nothing_is_invented() {
    let server = TestServer::start("empty").await;
    let body = json!({"data": {"type": "document-collection", "id": "bare"}});
    let created = server.create(&body).await.is(201);
    assert_eq!(created.attributes(), json!({"type": "document"}));
    assert_eq!(server.repo().read("collections/bare.yaml"), "type: document\n");
    let created = server.create(&media("pics", json!({}))).await.is(201);
    assert_eq!(created.attributes(), json!({"type": "media"}));
}

#[tokio::test]
async fn the_attribute_type_may_be_said_and_must_then_be_true() {
    let server = TestServer::start("empty").await;
    server.create(&document("a", json!({"type": "document"}))).await.is(201);
    let refused = server.create(&document("b", json!({"type": "media"}))).await.is(400);
    assert_eq!(refused.error(), ("invalid_data".into(), json!({"pointer": "/data/attributes/type"})));
    server.read("b").await.is(404);
}

#[tokio::test]
async fn shorthands_become_statuses() {
    let server = TestServer::start("empty").await;
    let attributes = json!({"draftDirectory": "d/", "archiveDirectory": "a", "trashDirectory": "t"});
    let created = server.create(&document("posts", attributes)).await.is(201);
    let expected = json!({
        "type": "document",
        "unpublishedStatuses": {
            "draft": {"directory": "d", "name": "Draft"},
            "archived": {"directory": "a", "name": "Archived"},
            "trash": {"directory": "t", "name": "Trash"},
        },
    });
    assert_eq!(created.attributes(), expected);
    let file = server.repo().read("collections/posts.yaml");
    assert!(!file.contains("Directory"), "a shorthand is not stored: {file}");
}

#[tokio::test]
async fn an_explicit_status_wins_over_its_shorthand() {
    let server = TestServer::start("empty").await;
    let draft = json!({"draft": {"directory": "own", "name": "Entwurf"}});
    let attributes = json!({"draftDirectory": "d", "unpublishedStatuses": draft, "trashDirectory": "t"});
    let created = server.create(&document("posts", attributes)).await.is(201).attributes();
    assert_eq!(created["unpublishedStatuses"]["draft"], draft["draft"]);
    assert_eq!(created["unpublishedStatuses"]["trash"], json!({"directory": "t", "name": "Trash"}));
}

#[tokio::test]
async fn a_taken_key_is_a_conflict_for_both_kinds_and_changes_nothing() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    for body in [document("posts", json!({"name": "Mine"})), media("posts", json!({}))] {
        let refused = server.create(&body).await.is(409);
        assert_eq!(refused.error(), ("conflict".into(), json!({"pointer": "/data/id"})));
    }
    assert_eq!(server.repo().head(), head);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
}

#[tokio::test]
async fn keys_that_differ_in_letter_case_only_can_t_both_exist() {
    let server = TestServer::start("small").await;
    for key in ["Posts", "POSTS", "pOsts"] {
        let refused = server.create(&document(key, json!({}))).await.is(409);
        assert!(refused.detail().contains("posts"), "{}", refused.detail());
    }
    server.delete("posts").await.is(204);
    server.create(&document("Posts", json!({}))).await.is(201);
    server.create(&document("posts", json!({}))).await.is(409);
}

#[tokio::test]
async fn every_good_key_makes_a_file_of_that_name() {
    let server = TestServer::start("empty").await;
    let long = "k".repeat(128);
    for key in ["a", "0", "_drafts", "blog.2024", "a-b_c.d", "console", "com10", "A.B", &long] {
        server.create(&document(key, json!({"name": key}))).await.is(201);
        assert!(server.repo().has(&format!("collections/{key}.yaml")), "{key}");
        assert_eq!(server.read(key).await.is(200).attributes()["name"], key);
    }
}

#[tokio::test]
async fn any_text_comes_back_as_it_was_sent() {
    let server = TestServer::start("empty").await;
    let long = "ä".repeat(1000);
    let texts = [
        "",
        " ",
        " both ends ",
        "yes",
        "no",
        "on",
        "Off",
        "null",
        "~",
        "Null",
        "true",
        "1",
        "1.5",
        "0x1F",
        "1e3",
        "012",
        "12:30:45",
        "2026-01-02",
        ".inf",
        ".nan",
        "-",
        "- a",
        "a: b",
        "a #b",
        "#",
        "'",
        "\"",
        "\\",
        "|",
        ">",
        "%",
        "@",
        "`",
        "!",
        "&a",
        "*a",
        "?",
        ":",
        "{}",
        "[]",
        "a\nb",
        "\n",
        "a\n",
        "\ttab",
        "tab\t",
        "\r",
        "a\r\nb",
        "\u{0}",
        "\u{7}",
        "\u{85}",
        "\u{a0}",
        "\u{2028}",
        "\u{feff}",
        "🎉",
        "日本語",
        "e\u{301}",
        "---",
        "...",
        "<<",
        "=",
        "y",
        "n",
        "Y",
        "1_000",
        "0b1",
        "0o7",
        "+1",
        "1.",
        ".5",
        long.as_str(),
    ];
    for (index, text) in texts.iter().enumerate() {
        let key = format!("t{index}");
        let created = server.create(&document(&key, json!({"name": text, "x-copy": [text]}))).await.is(201);
        assert_eq!(created.attributes()["name"], *text, "{text:?}");
    }
    server_restarted_shows(server, &texts).await;
}

async fn server_restarted_shows(mut server: TestServer, texts: &[&str]) {
    server.restart().await;
    assert!(server.get("/problems").await.is(200).ids().is_empty());
    for (index, text) in texts.iter().enumerate() {
        let attributes = server.read(&format!("t{index}")).await.is(200).attributes();
        assert_eq!(attributes, json!({"type": "document", "name": text, "x-copy": [text]}), "{text:?}");
    }
}

#[tokio::test]
async fn names_with_x_hold_any_json_value() {
    let mut server = TestServer::start("empty").await;
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(9_223_372_036_854_775_807_i64),
        json!(-9_223_372_036_854_775_808_i64),
        json!(18_446_744_073_709_551_615_u64),
        json!(1.5),
        json!(1e300),
        json!(0.1),
        json!("text"),
        json!([]),
        json!({}),
        json!([[], [{}], {"a": [1, {"b": null}]}]),
        json!({"": 1, " ": 2, "a: b": 3, "yes": 4, "1": 5, "~": 6}),
    ];
    let named = values.iter().enumerate().map(|(n, value)| (format!("x-{n}"), value.clone()));
    let attributes: Value = named.collect::<serde_json::Map<_, _>>().into();
    let mut expected = attributes.clone();
    expected["type"] = json!("document");
    assert_eq!(server.create(&document("free", attributes)).await.is(201).attributes(), expected);
    server.restart().await;
    assert_eq!(server.read("free").await.is(200).attributes(), expected);
}

#[tokio::test]
async fn members_that_json_api_does_not_know_are_ignored() {
    let server = TestServer::start("empty").await;
    let mut body = document("posts", json!({"name": "Posts", "@note": "ignored"}));
    body["@context"] = json!({"any": "thing"});
    body["jsonapi"] = json!({"version": "1.0"});
    body["meta"] = json!({"a": 1});
    body["links"] = json!({"self": "/elsewhere"});
    body["unknown"] = json!(1);
    body["data"]["relationships"] = json!({});
    body["data"]["meta"] = json!({"b": 2});
    body["data"]["links"] = json!({});
    body["data"]["@note"] = json!("ignored");
    body["data"]["other"] = json!([1]);
    let created = server.create(&body).await.is(201);
    assert_eq!(created.attributes(), json!({"type": "document", "name": "Posts"}));
}

#[tokio::test]
async fn plain_json_is_taken_too() {
    let server = TestServer::start("empty").await;
    for (key, media_type) in [
        ("a", "application/json"),
        ("b", "application/json; charset=utf-8"),
        ("c", "Application/JSON;charset=UTF-8"),
    ] {
        let request = server.request("POST", "/collections").body(media_type, &document(key, json!({})));
        request.send().await.is(201);
    }
}

#[tokio::test]
async fn all_faults_are_told_at_once() {
    let server = TestServer::start("empty").await;
    let attributes = json!({
        "name": 7, "directory": "../x", "nmae": "x", "recursive": "yes",
        "unpublishedStatuses": {"a/b~c": {"name": "no directory"}},
    });
    let refused = server.create(&document("posts", attributes)).await.is(400).json();
    let mut pointers: Vec<_> = refused["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["source"]["pointer"].as_str().unwrap())
        .collect();
    pointers.sort_unstable();
    let expected = [
        "/data/attributes/directory",
        "/data/attributes/name",
        "/data/attributes/nmae",
        "/data/attributes/recursive",
        "/data/attributes/unpublishedStatuses/a~1b~0c",
    ];
    assert_eq!(pointers, expected);
}

#[tokio::test]
async fn a_chunked_body_is_a_body() {
    let server = TestServer::start("empty").await;
    let body = document("posts", json!({"name": "In pieces"})).to_string();
    let (one, two) = body.split_at(17);
    let chunks = format!("{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n", one.len(), two.len());
    let request = RawRequest::new("POST", "/collections")
        .header("Content-Type", "application/vnd.api+json")
        .header("Transfer-Encoding", "chunked")
        .body(chunks);
    assert_eq!(request.send(server.address()).is(201).attributes()["name"], "In pieces");
}

#[tokio::test]
async fn a_trailing_slash_of_a_directory_is_dropped() {
    let server = TestServer::start("empty").await;
    let created = server.create(&document("posts", json!({"directory": "content/posts/"}))).await.is(201);
    assert_eq!(created.attributes()["directory"], "content/posts");
}
