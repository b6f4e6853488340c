//! `PATCH /collections/:key`

use serde_json::json;

use crate::support::{ATOMIC, TestServer, document, media, request_fixture};

#[tokio::test]
async fn what_is_left_out_keeps_its_value() {
    let server = TestServer::start("small").await;
    let updated = server.patch("posts", json!({"name": "All posts"})).await.is(200);
    let expected =
        json!({"type": "document", "name": "All posts", "directory": "content/posts", "recursive": true});
    assert_eq!(updated.attributes(), expected);
    let read = server.read("posts").await.is(200);
    assert_eq!(read.json(), updated.json());
    assert_eq!(read.header("etag"), updated.header("etag"));
    assert_eq!(updated.header("collectory-revision"), server.repo().head());
}

#[tokio::test]
async fn null_removes_an_attribute() {
    let server = TestServer::start("small").await;
    let updated = server.patch("posts", json!({"name": null, "recursive": null})).await.is(200);
    assert_eq!(updated.attributes(), json!({"type": "document", "directory": "content/posts"}));
    assert_eq!(server.repo().read("collections/posts.yaml"), "type: document\ndirectory: content/posts\n");
}

#[tokio::test]
async fn maps_and_lists_are_replaced_whole() {
    let server = TestServer::start("small").await;
    server.create(&request_fixture("document.json")).await.is(201);
    let statuses = json!({"hidden": {"directory": "hidden", "name": "Hidden"}});
    let updated =
        server.patch("blog", json!({"unpublishedStatuses": statuses, "x-colour": "red"})).await.is(200);
    assert_eq!(updated.attributes()["unpublishedStatuses"], statuses);
    assert_eq!(updated.attributes()["x-colour"], "red");
    let updated = server.update("images", &media("images", json!({"accept": [".gif"]}))).await.is(200);
    assert_eq!(updated.attributes()["accept"], json!([".gif"]));
}

#[tokio::test]
async fn a_shorthand_changes_one_status_and_keeps_its_name() {
    let server = TestServer::start("empty").await;
    let statuses = json!({"draft": {"directory": "a", "name": "Entwurf"}, "review": {"directory": "r", "name": "Review"}});
    server.create(&document("posts", json!({"unpublishedStatuses": statuses}))).await.is(201);
    let updated = server.patch("posts", json!({"draftDirectory": "b"})).await.is(200).attributes();
    assert_eq!(
        updated["unpublishedStatuses"],
        json!({"draft": {"directory": "b", "name": "Entwurf"}, "review": {"directory": "r", "name": "Review"}})
    );
}

#[tokio::test]
async fn a_patch_that_changes_nothing_makes_no_commit() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    let before = server.read("posts").await.is(200);
    for attributes in [
        json!({}),
        json!({"name": "Posts"}),
        json!({"type": "document", "recursive": true}),
        json!({"format": null}),
        json!({"directory": "content/posts/"}),
    ] {
        let same = server.patch("posts", attributes).await.is(200);
        assert_eq!(same.json(), before.json());
    }
    let without = json!({"data": {"type": "document-collection", "id": "posts"}});
    server.update("posts", &without).await.is(200);
    assert_eq!(server.repo().head(), head);
}

#[tokio::test]
async fn another_id_in_the_body_is_a_conflict_that_names_both() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    let refused = server.update("posts", &document("pages", json!({"name": "x"}))).await.is(409);
    assert_eq!(refused.error(), ("conflict".into(), json!({"pointer": "/data/id"})));
    assert_eq!(
        refused.detail(),
        "Body data.id ('pages') does not match URL key ('posts'). Use the URL key as the resource identifier."
    );
    assert_eq!(server.repo().head(), head);
}

#[tokio::test]
async fn a_kind_can_not_change() {
    let server = TestServer::start("small").await;
    // Attributes of the other type are not reported as separate errors.
    for attributes in [json!({}), json!({"accept": [".pdf"]})] {
        let refused = server.update("posts", &media("posts", attributes.clone())).await.is(409);
        assert_eq!(refused.error(), ("conflict".into(), json!({"pointer": "/data/type"})));
        let update = json!({"op": "update", "data": media("posts", attributes)["data"]});
        let request = server.request("POST", "/operations");
        let refused = request.body(ATOMIC, &json!({"atomic:operations": [update]})).send().await.is(409);
        let pointer = json!({"pointer": "/atomic:operations/0/data/type"});
        assert_eq!(refused.error(), ("conflict".into(), pointer));
    }
}

#[tokio::test]
async fn type_can_not_be_removed() {
    let server = TestServer::start("small").await;
    let refused = server.patch("posts", json!({"type": null})).await.is(400);
    assert_eq!(refused.error(), ("invalid_data".into(), json!({"pointer": "/data/attributes/type"})));
}

#[tokio::test]
async fn a_bad_value_changes_nothing_not_even_the_good_ones() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    let refused = server.patch("posts", json!({"name": "Good", "directory": "/bad"})).await.is(400);
    assert_eq!(refused.error().1, json!({"pointer": "/data/attributes/directory"}));
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
    assert_eq!(server.repo().head(), head);
}

#[tokio::test]
async fn a_missing_collection_comes_before_a_bad_body() {
    let server = TestServer::start("small").await;
    server.patch("nothing", json!({"name": 7})).await.is(404);
    server.update("nothing", &document("other", json!({}))).await.is(404);
}

#[tokio::test]
async fn every_attribute_of_both_kinds_can_be_set_changed_and_removed() {
    let server = TestServer::start("empty").await;
    for (name, kind) in [("document.json", "document"), ("media.json", "media")] {
        let whole = request_fixture(name);
        let id = whole["data"]["id"].as_str().unwrap();
        let mut bare = whole.clone();
        bare["data"]["attributes"] = json!({});
        server.create(&bare).await.is(201);
        let set = server.update(id, &whole).await.is(200);
        assert_eq!(set.attributes(), whole["data"]["attributes"]);
        let mut none = whole.clone();
        for (attribute, value) in none["data"]["attributes"].as_object_mut().unwrap() {
            if attribute != "type" {
                *value = json!(null);
            }
        }
        assert_eq!(server.update(id, &none).await.is(200).attributes(), json!({"type": kind}));
    }
}

#[tokio::test]
async fn the_present_uncommitted_bytes_of_other_files_are_left_alone() {
    let mut server = TestServer::start("small").await;
    let edited = "type: document\nname: By hand\n";
    server.repo().write_by_rename("collections/pages.yaml", edited);
    server.wait_for_attribute("pages", "name", "By hand").await;
    server.patch("posts", json!({"name": "By API"})).await.is(200);
    assert_eq!(server.repo().read("collections/pages.yaml"), edited);
    server.expect_git_status(" M collections/pages.yaml");
}
