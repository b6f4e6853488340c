//! `POST /operations`: all or nothing, in one commit.

use serde_json::{Value, json};

use crate::support::{
    ATOMIC, JSON_API, TestServer, add_operation, collectory_command, document, media, remove_operation,
    run_to_end, update_operation,
};

#[tokio::test]
async fn a_batch_is_one_commit_with_three_trailers_for_each_event() {
    let server = TestServer::start("small").await;
    let operations = json!([
        add_operation(&media("zoo", json!({}))),
        update_operation("posts", json!({"name": "All"})),
        remove_operation("pages")
    ]);
    let answer = server.operations(operations).await.is(200);
    let results = answer.json()["atomic:results"].clone();
    assert_eq!(results.as_array().map(Vec::len), Some(3));
    assert_eq!(results[0]["data"]["id"], "zoo");
    assert_eq!(results[1]["data"]["attributes"]["name"], "All");
    assert_eq!(results[2].get("data"), None);
    assert_eq!(server.list().await.is(200).ids(), ["images", "posts", "zoo"]);
    assert_eq!(server.repo().subjects(), ["Change 3 collections: pages, posts, zoo", "Seed"]);
    assert_eq!(server.repo().trailer("HEAD", "Collectory-Key"), ["pages", "posts", "zoo"]);
    assert_eq!(
        server.repo().trailer("HEAD", "Collectory-Action"),
        ["collection.deleted", "collection.updated", "collection.created"]
    );
    assert_eq!(server.repo().trailer("HEAD", "Collectory-Event").len(), 3);
}

#[tokio::test]
async fn the_answer_carries_the_extension() {
    let server = TestServer::start("small").await;
    for accept in [None, Some("*/*"), Some(JSON_API), Some(ATOMIC)] {
        let name = accept.unwrap_or("none");
        let body = json!({"atomic:operations": [update_operation("posts", json!({"name": name}))]});
        let mut request = server.request("POST", "/operations").body(ATOMIC, &body);
        if let Some(accept) = accept {
            request = request.header("Accept", accept);
        }
        let media_type = request.send().await.is(200).header("content-type");
        assert!(media_type.contains("ext=\"https://jsonapi.org/ext/atomic\""), "{media_type}");
    }
}

#[tokio::test]
async fn a_later_operation_sees_the_earlier_ones() {
    let server = TestServer::start("empty").await;
    let operations = json!([
        add_operation(&document("a", json!({"name": "A"}))),
        update_operation("a", json!({"directory": "a"})),
        add_operation(&document("b", json!({}))),
        remove_operation("b"),
        add_operation(&document("b", json!({"name": "B"}))),
    ]);
    let results = server.operations(operations).await.is(200).json()["atomic:results"].clone();
    assert_eq!(results[1]["data"]["attributes"], json!({"type": "document", "name": "A", "directory": "a"}));
    assert_eq!(server.read("b").await.is(200).attributes()["name"], "B");
    assert_eq!(server.repo().commit_count(), 2);
}

#[tokio::test]
async fn operations_that_lead_back_make_no_commit() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    let posts = server.read("posts").await.is(200).json()["data"].clone();
    for operations in [
        json!([update_operation("posts", json!({"name": "Posts"}))]),
        json!([
            update_operation("posts", json!({"name": "Other"})),
            update_operation("posts", json!({"name": "Posts"}))
        ]),
        json!([add_operation(&document("t", json!({}))), remove_operation("t")]),
        json!([
            remove_operation("posts"),
            add_operation(&json!({"data": posts})),
            update_operation("posts", json!({"name": "Posts"}))
        ]),
    ] {
        let count = operations.as_array().unwrap().len();
        let answer = server.operations(operations).await.is(200);
        assert_eq!(answer.json()["atomic:results"].as_array().map(Vec::len), Some(count));
        assert_eq!(server.repo().head(), head, "{:?}", server.repo().subjects());
    }
}

#[tokio::test]
async fn a_hand_edit_under_operations_that_lead_back_is_not_committed() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: By hand\n");
    server.wait_for_attribute("posts", "name", "By hand").await;
    let back = json!([
        update_operation("posts", json!({"name": "Other"})),
        update_operation("posts", json!({"name": "By hand"}))
    ]);
    let results = server.operations(back).await.is(200).json()["atomic:results"].clone();
    assert_eq!(results[1]["data"]["meta"]["uncommitted"], true);
    assert_eq!(server.repo().subjects(), ["Seed"]);
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn several_operations_on_one_collection_are_told_as_what_they_come_to() {
    let server = TestServer::start("small").await;
    let operations = json!([
        add_operation(&document("a", json!({"name": "A"}))),
        update_operation("a", json!({"directory": "a"})),
        update_operation("posts", json!({"name": "Other"})),
        update_operation("posts", json!({"name": "Final"})),
        remove_operation("pages"),
        add_operation(&document("pages", json!({"name": "Again"}))),
    ]);
    server.operations(operations).await.is(200);
    assert_eq!(server.repo().subjects()[0], "Change 3 collections: a, pages, posts");
    assert_eq!(server.repo().trailer("HEAD", "Collectory-Key"), ["a", "pages", "posts"]);
    let actions = ["collection.created", "collection.updated", "collection.updated"];
    assert_eq!(server.repo().trailer("HEAD", "Collectory-Action"), actions);
    let events = server.get("/events").await.is(200).json()["data"].clone();
    let ids: Vec<_> = events.as_array().unwrap()[..3].iter().map(|event| event["id"].clone()).collect();
    let mut in_trailers = server.repo().trailer("HEAD", "Collectory-Event");
    in_trailers.sort();
    let mut shown: Vec<_> = ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    shown.sort();
    assert_eq!(shown, in_trailers);
    server
        .operations(json!([
            update_operation("a", json!({"name": "1"})),
            update_operation("a", json!({"name": "2"}))
        ]))
        .await
        .is(200);
    assert_eq!(server.repo().subjects()[0], "Update a: name");
    let mut verify = collectory_command(server.repo().path());
    run_to_end(verify.args(["verify", "--repo"]).arg(server.repo().path())).assert_exit_code(0);
}

#[tokio::test]
async fn one_fault_undoes_everything_and_is_pointed_at() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    let fine = add_operation(&document("fine", json!({})));
    let cases = [
        (remove_operation("nothing"), 404, "/atomic:operations/1"),
        (update_operation("nothing", json!({})), 404, "/atomic:operations/1"),
        (add_operation(&document("posts", json!({}))), 409, "/atomic:operations/1/data/id"),
        (add_operation(&document("fine", json!({}))), 409, "/atomic:operations/1/data/id"),
        (add_operation(&document("..", json!({}))), 400, "/atomic:operations/1/data/id"),
        (add_operation(&document("x", json!({"name": 7}))), 400, "/atomic:operations/1/data/attributes/name"),
        (update_operation("posts", json!({"nmae": "x"})), 400, "/atomic:operations/1/data/attributes/nmae"),
        (json!({"op": "upsert"}), 400, "/atomic:operations/1"),
        (json!({"op": "remove"}), 400, "/atomic:operations/1"),
        (json!({"op": "add"}), 400, "/atomic:operations/1"),
        (json!(7), 400, "/atomic:operations/1"),
        (
            json!({"op": "add", "data": {"type": "document-collection", "lid": "l"}}),
            400,
            "/atomic:operations/1",
        ),
        (
            json!({"op": "remove", "ref": {"type": "document-collection", "lid": "l"}}),
            400,
            "/atomic:operations/1",
        ),
    ];
    for (operation, status, pointer) in cases {
        let refused = server.operations(json!([fine, operation])).await.is(status);
        let found = refused.error().1["pointer"].as_str().unwrap_or_default().to_owned();
        assert!(found.starts_with(pointer), "{operation}: {found}");
    }
    assert_eq!(server.repo().head(), head);
    server.read("fine").await.is(404);
}

#[tokio::test]
async fn targets_can_be_named_by_reference_or_link() {
    let server = TestServer::setup("small").base_path("/api").start().await;
    let data = |key: &str, name: &str| document(key, json!({"name": name}))["data"].clone();
    let operations = json!([
        {"op": "update", "ref": {"type": "document-collection", "id": "posts"}, "data": data("posts", "By ref")},
        {"op": "update", "href": "/api/collections/pages", "data": data("pages", "By href")},
        {"op": "remove", "href": "/api/collections/images"},
        {"op": "add", "href": "/api/collections", "data": data("new", "Added")},
    ]);
    server.operations(operations).await.is(200);
    assert_eq!(server.list().await.is(200).ids(), ["new", "pages", "posts"]);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "By ref");
    assert_eq!(server.read("pages").await.is(200).attributes()["name"], "By href");
}

#[tokio::test]
async fn a_local_name_stands_for_what_was_added_with_it() {
    let server = TestServer::start("small").await;
    let named = |key: &str, lid: Value| {
        let mut operation = add_operation(&document(key, json!({})));
        operation["data"]["lid"] = lid;
        operation
    };
    let data = json!({"type": "document-collection", "lid": "new", "attributes": {"name": "By lid"}});
    let by_ref = json!({"op": "update", "ref": {"type": "document-collection", "lid": "new"}, "data": data});
    let by_data = json!({"op": "update", "data": data});
    for update in [&by_ref, &by_data] {
        let done = server.operations(json!([named("new", json!("new")), update])).await.is(200);
        assert_eq!(done.json()["atomic:results"][1]["data"]["attributes"]["name"], "By lid");
        server.delete("new").await.is(204);
    }
    for (operations, pointer) in [
        (json!([by_data]), "/atomic:operations/0/data/lid"),
        (json!([by_ref]), "/atomic:operations/0/ref/lid"),
        (json!([named("new", json!("a")), by_data]), "/atomic:operations/1/data/lid"),
        (json!([named("new", json!("a")), named("other", json!("a"))]), "/atomic:operations/1/data/lid"),
        (json!([named("new", json!(7))]), "/atomic:operations/0/data/lid"),
    ] {
        let refused = server.operations(operations).await.is(400);
        assert_eq!(refused.error(), ("invalid_data".into(), json!({"pointer": pointer})));
    }
    server.read("new").await.is(404);
}

#[tokio::test]
async fn a_document_without_operations_is_refused() {
    let server = TestServer::start("small").await;
    for body in [
        json!({}),
        json!([]),
        json!({"atomic:operations": []}),
        json!({"atomic:operations": {}}),
        json!({"atomic:operations": null}),
        json!({"operations": [remove_operation("posts")]}),
        json!({"data": []}),
    ] {
        server.request("POST", "/operations").body(ATOMIC, &body).send().await.is(400);
    }
    let many: Vec<_> = (0..100_000).map(|_| remove_operation("posts")).collect();
    server.operations(json!(many)).await.is(413);
    assert_eq!(server.repo().commit_count(), 1);
}

#[tokio::test]
async fn the_media_type_of_the_extension_is_required() {
    let server = TestServer::start("small").await;
    let body = json!({"atomic:operations": [remove_operation("posts")]});
    for media_type in [JSON_API, "application/json"] {
        server.request("POST", "/operations").body(media_type, &body).send().await.is(415);
    }
    let request = server.request("POST", "/operations").body(ATOMIC, &body);
    let refused = request
        .header("Accept", "application/vnd.api+json;ext=\"https://example.org/x\"")
        .send()
        .await
        .is(406);
    assert_eq!(refused.error().1, json!({"header": "Accept"}));
    server.request("POST", "/operations?include=x").body(ATOMIC, &body).send().await.is(400);
    server.read("posts").await.is(200);
}

#[tokio::test]
async fn a_long_batch_has_a_subject_of_bearable_length() {
    let server = TestServer::start("empty").await;
    let operations: Vec<_> =
        (0..50).map(|n| add_operation(&document(&format!("a-rather-long-key-{n:02}"), json!({})))).collect();
    server.operations(json!(operations)).await.is(200);
    let subject = server.repo().subjects().remove(0);
    assert!(subject.starts_with("Change 50 collections: a-rather-long-key-00"), "{subject}");
    assert!(subject.len() <= 120, "{subject}");
    assert_eq!(server.repo().trailer("HEAD", "Collectory-Key").len(), 50);
}

#[tokio::test]
async fn a_reference_of_another_type_finds_nothing() {
    let server = TestServer::start("small").await;
    let removal = json!([{"op": "remove", "ref": {"type": "media-collection", "id": "posts"}}]);
    server.operations(removal).await.is(404);
    let data = json!({"type": "document-collection", "id": "posts", "attributes": {"name": "Other"}});
    let change = json!([{"op": "update", "ref": {"type": "media-collection", "id": "posts"}, "data": data}]);
    server.operations(change).await.is(400);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
    server.operations(json!([remove_operation("posts")])).await.is(200);
    server.read("posts").await.is(404);
}

#[tokio::test]
async fn each_operation_may_name_the_version_that_it_builds_on() {
    let server = TestServer::start("small").await;
    let tag = server.get("/collections/posts").await.is(200).header("etag");
    let other = server.get("/collections/pages").await.is(200).header("etag");
    let with = |mut operation: Value, tag: &str| {
        operation["meta"] = json!({"ifMatch": tag});
        operation
    };
    let stale = json!([
        with(update_operation("posts", json!({"name": "One"})), &tag),
        with(remove_operation("pages"), "\"0000000000000000000000000000000000000000\"")
    ]);
    let refused = server.operations(stale).await.is(412);
    assert_eq!(refused.json()["errors"][0]["source"]["pointer"], "/atomic:operations/1/meta/ifMatch");
    assert_eq!(server.repo().commit_count(), 1, "nothing was written");
    let fresh = json!([
        with(update_operation("posts", json!({"name": "One"})), &tag),
        with(remove_operation("pages"), &other)
    ]);
    server.operations(fresh).await.is(200);
    for meta in [json!({"ifMatch": "bare"}), json!({"ifMatch": 1}), json!("x")] {
        let mut operation = remove_operation("posts");
        operation["meta"] = meta;
        server.operations(json!([operation])).await.is(400);
    }
}

#[tokio::test]
async fn what_a_batch_builds_on_is_what_was_there_before_it() {
    let server = TestServer::start("small").await;
    let served = server.read("posts").await.is(200);
    let named = |name: &str, tag: &str| {
        let mut operation = update_operation("posts", json!({"name": name}));
        operation["meta"] = json!({"ifMatch": tag});
        operation
    };
    let (tag, unknown) = (served.header("etag"), format!("\"{}\"", "0".repeat(40)));
    for first in [update_operation("posts", json!({"name": "Never"})), named("Never", &tag)] {
        let refused = server.operations(json!([first, named("Never either", &unknown)])).await.is(412);
        assert_eq!(refused.header("etag"), tag);
        let current = &refused.json()["errors"][0]["meta"]["current"];
        assert_eq!(current["attributes"], served.data()["attributes"], "nobody was ever shown anything else");
    }
    let made = json!([add_operation(&document("new", json!({}))), {"op": "remove", "href": "/collections/new", "meta": {"ifMatch": unknown}}]);
    assert_eq!(server.operations(made).await.is(412).header_if_any("etag"), None);
    server.operations(json!([named("One", &tag), named("Two", &tag)])).await.is(200);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Two");
}

#[tokio::test]
async fn where_changes_need_a_version_a_batch_can_name_it() {
    let server = TestServer::setup("small").flag(&["--require-if-match"]).start().await;
    let refused = server.operations(json!([remove_operation("pages")])).await.is(428);
    assert_eq!(refused.header("etag"), server.read("pages").await.is(200).header("etag"));
    let mut operation = remove_operation("pages");
    operation["meta"] = json!({"ifMatch": server.get("/collections/pages").await.is(200).header("etag")});
    server.operations(json!([operation])).await.is(200);
}

#[tokio::test]
async fn a_batch_that_builds_on_too_much_is_refused_where_it_goes_beyond_that() {
    let server = TestServer::setup("empty").flag(&["--operations-bytes-max", "100000"]).start().await;
    let list: Vec<String> = (0..3_000).map(|number| format!("entry {number}")).collect();
    for key in ["a", "b", "c"] {
        server.create(&document(key, json!({"x-list": list}))).await.is(201);
    }
    let before = server.repo().head();
    let renamed = |keys: &[&str]| -> Value {
        keys.iter().map(|key| update_operation(key, json!({"name": "New"}))).collect::<Vec<_>>().into()
    };
    let refused = server.operations(renamed(&["a", "b", "c"])).await.is(413).json();
    assert_eq!(refused["errors"][0]["source"]["pointer"], "/atomic:operations/2/data");
    assert_eq!(refused["errors"][0]["code"], "payload_too_large");
    assert_eq!(server.repo().head(), before);
    server.operations(renamed(&["a", "b"])).await.is(200);
    server
        .operations(json!([remove_operation("a"), remove_operation("b"), remove_operation("c")]))
        .await
        .is(200);
}
