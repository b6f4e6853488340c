//! Sparse fieldsets, sorting, filters and pages (jsonapi.md sections 6 and 7).

use serde_json::{Value, json};

use crate::support::{CheckedAnswer, TestServer, add_operation, document};

async fn ids(server: &TestServer, query: &str) -> Vec<String> {
    server.get(&format!("/collections?{query}")).await.is(200).ids()
}

/// Starts a service with exactly twelve documents, `k00` to `k11`.
async fn twelve() -> TestServer {
    let server = TestServer::setup("empty").bare().start().await;
    let operations: Vec<_> = (0..12)
        .map(|n| {
            let attributes = json!({"name": format!("Name {}", 11 - n), "directory": format!("d/{}", n % 3)});
            add_operation(&document(&format!("k{n:02}"), attributes))
        })
        .collect();
    server.operations(json!(operations)).await.is(200);
    server
}

#[tokio::test]
async fn sparse_fieldsets_leave_out_the_rest() {
    let server = TestServer::start("small").await;
    let read = server.get("/collections/posts?fields[document-collection]=name,directory").await.is(200);
    assert_eq!(read.attributes(), json!({"name": "Posts", "directory": "content/posts"}));
    let read = server.get("/collections/posts?fields%5Bdocument-collection%5D=name,unknown").await.is(200);
    assert_eq!(read.attributes(), json!({"name": "Posts"}));
    let list = server.get("/collections?fields[document-collection]=").await.is(200).data();
    assert!(list[1].get("attributes").is_none_or(|attributes| *attributes == json!({})));
    assert_eq!(list[0]["attributes"]["name"], "Images", "other types are untouched");
}

#[tokio::test]
async fn sparse_fieldsets_work_on_writes() {
    let server = TestServer::start("small").await;
    let path = "?fields[document-collection]=name";
    let body = document("new", json!({"name": "New", "directory": "new"}));
    let created = server.request("POST", &format!("/collections{path}")).document(&body).send().await.is(201);
    assert_eq!(created.attributes(), json!({"name": "New"}));
    let body = document("new", json!({"directory": "newer"}));
    let updated =
        server.request("PATCH", &format!("/collections/new{path}")).document(&body).send().await.is(200);
    assert_eq!(updated.attributes(), json!({"name": "New"}));
}

#[tokio::test]
async fn lists_are_sorted_by_what_was_asked_for_with_ties_by_id() {
    let server = twelve().await;
    let all: Vec<_> = (0..12).map(|n| format!("k{n:02}")).collect();
    assert_eq!(ids(&server, "sort=id").await, all);
    let backwards: Vec<_> = all.iter().rev().cloned().collect();
    assert_eq!(ids(&server, "sort=-id").await, backwards);
    let by_name = ids(&server, "sort=name").await;
    assert_eq!(by_name[..4], ["k11", "k10", "k01", "k00"], "byte order: Name 0, Name 1, Name 10, Name 11");
    let by_directory = ids(&server, "sort=directory").await;
    assert_eq!(by_directory[..5], ["k00", "k03", "k06", "k09", "k01"]);
    let both = ids(&server, "sort=-directory,-id").await;
    assert_eq!(both[..5], ["k11", "k08", "k05", "k02", "k10"]);
}

#[tokio::test]
async fn a_missing_attribute_sorts_as_empty() {
    let server = TestServer::start("small").await;
    server.create(&document("unnamed", json!({}))).await.is(201);
    assert_eq!(ids(&server, "sort=name").await, ["unnamed", "images", "pages", "posts"]);
    assert_eq!(ids(&server, "sort=type").await, ["pages", "posts", "unnamed", "images"]);
}

#[tokio::test]
async fn filters_hold_together() {
    let server = TestServer::start("small").await;
    assert_eq!(ids(&server, "filter[type]=media").await, ["images"]);
    assert_eq!(ids(&server, "filter[type]=document-collection").await, ["pages", "posts"]);
    assert_eq!(ids(&server, "filter[name]=Posts").await, ["posts"]);
    assert_eq!(ids(&server, "filter[directory]=content%2Fpages").await, ["pages"]);
    assert_eq!(ids(&server, "filter[type]=media&filter[name]=Posts").await, [""; 0]);
    assert_eq!(ids(&server, "filter[name]=posts").await, [""; 0], "filters are exact");
    server.create(&document("spaced", json!({"name": "Two words + more"}))).await.is(201);
    assert_eq!(ids(&server, "filter[name]=Two+words+%2B+more").await, ["spaced"]);
}

#[tokio::test]
async fn an_empty_query_is_none() {
    let server = TestServer::start("small").await;
    for query in ["", "&", "&&"] {
        assert_eq!(ids(&server, query).await.len(), 3, "{query:?}");
    }
}

/// Follows a link from the host's root.
async fn follow(server: &TestServer, link: &Value) -> CheckedAnswer {
    server.get(link.as_str().expect("the page has such a link")).await.is(200)
}

#[tokio::test]
async fn pages_by_offset_link_to_each_other() {
    let server = twelve().await;
    let first = server.get("/collections?page[limit]=5").await.is(200);
    assert_eq!(first.ids(), ["k00", "k01", "k02", "k03", "k04"]);
    assert_eq!(first.json()["meta"]["page"]["total"], 12);
    let second = follow(&server, &first.json()["links"]["next"]).await;
    assert_eq!(second.ids(), ["k05", "k06", "k07", "k08", "k09"]);
    let last = follow(&server, &first.json()["links"]["last"]).await;
    assert_eq!(last.ids(), ["k10", "k11"]);
    assert!(last.json()["links"]["next"].is_null());
    assert_eq!(follow(&server, &second.json()["links"]["prev"]).await.ids(), first.ids());
    assert_eq!(follow(&server, &last.json()["links"]["first"]).await.ids(), first.ids());
    assert_eq!(follow(&server, &second.json()["links"]["self"]).await.ids(), second.ids());
    let beyond = server.get("/collections?page[offset]=100&page[limit]=5").await.is(200);
    assert_eq!(beyond.data(), json!([]));
    assert!(beyond.json()["links"]["next"].is_null());
    server.get("/collections?page[offset]=99999999999999999999999999").await.is(200);
}

#[tokio::test]
async fn pages_by_number_start_with_one() {
    let server = twelve().await;
    let second = server.get("/collections?page[number]=2&page[size]=5").await.is(200);
    assert_eq!(second.ids(), ["k05", "k06", "k07", "k08", "k09"]);
    assert_eq!(follow(&server, &second.json()["links"]["next"]).await.ids(), ["k10", "k11"]);
    assert_eq!(follow(&server, &second.json()["links"]["prev"]).await.ids()[0], "k00");
}

#[tokio::test]
async fn a_cursor_walk_sees_everything_once_and_ends_in_null() {
    let server = twelve().await;
    for query in [
        "page[size]=5",
        "page[size]=5&sort=-name",
        "page[size]=5&sort=directory",
        "page[size]=1&page[after]=",
    ] {
        let mut page = server.get(&format!("/collections?{query}")).await.is(200);
        assert!(page.json()["links"]["prev"].is_null(), "{query}");
        let mut seen = page.ids();
        while !page.json()["links"]["next"].is_null() {
            let next = follow(&server, &page.json()["links"]["next"]).await;
            let back = follow(&server, &next.json()["links"]["prev"]).await;
            assert_eq!(back.ids(), page.ids(), "{query}");
            page = next;
            seen.extend(page.ids());
        }
        seen.sort();
        let all: Vec<_> = (0..12).map(|n| format!("k{n:02}")).collect();
        assert_eq!(seen, all, "{query}");
    }
}

#[tokio::test]
async fn a_cursor_outlives_its_item() {
    let server = twelve().await;
    let first = server.get("/collections?page[size]=3").await.is(200);
    server.delete("k02").await.is(204);
    assert_eq!(follow(&server, &first.json()["links"]["next"]).await.ids(), ["k03", "k04", "k05"]);
}

#[tokio::test]
async fn a_cursor_of_another_order_is_bad() {
    let server = twelve().await;
    let first = server.get("/collections?page[size]=3&sort=name").await.is(200);
    let next = first.json()["links"]["next"].as_str().unwrap().to_owned();
    let other = next.replace("sort=name", "sort=directory");
    assert_ne!(other, next);
    let refused = server.get(&other).await.is(400);
    assert_eq!(refused.error(), ("invalid_data".into(), json!({"parameter": "page[after]"})));
}

#[tokio::test]
async fn links_keep_filter_sort_and_fields() {
    let server = twelve().await;
    let query = "filter[type]=document&sort=-id&fields[document-collection]=name&page[limit]=5";
    let first = server.get(&format!("/collections?{query}")).await.is(200);
    let next = follow(&server, &first.json()["links"]["next"]).await;
    assert_eq!(next.ids(), ["k06", "k05", "k04", "k03", "k02"]);
    assert_eq!(next.data()[0]["attributes"], json!({"name": "Name 5"}));
}

#[tokio::test]
async fn sizes_above_a_hundred_are_a_hundred() {
    let server = TestServer::setup("empty").bare().start().await;
    let operations: Vec<_> =
        (0..130).map(|n| add_operation(&document(&format!("k{n:03}"), json!({})))).collect();
    server.operations(json!(operations)).await.is(200);
    for query in ["page[size]=1000", "page[limit]=101", "page[number]=1&page[size]=99999999999999999999999"] {
        let page = server.get(&format!("/collections?{query}")).await.is(200);
        assert_eq!(page.ids().len(), 100, "{query}");
        let next = page.json()["links"]["next"].as_str().unwrap().to_owned();
        assert!(next.contains("=100"), "{next}");
        assert_eq!(follow(&server, &json!(next)).await.ids().len(), 30, "{query}");
    }
    assert_eq!(server.list().await.is(200).ids().len(), 130, "without a page there is no limit");
}

#[tokio::test]
async fn a_refusal_of_a_parameter_says_which_ones_there_are() {
    let server = TestServer::start("small").await;
    for (path, known) in [
        (
            "/collections?fooBar=1",
            "it takes fields[document-collection], fields[media-collection], sort, filter[type]",
        ),
        ("/collections?include=x", "it takes fields[document-collection]"),
        (
            "/collections/posts?sort=name",
            "it takes fields[document-collection], fields[media-collection], asOf.",
        ),
        ("/events?sort=name", "filter[collection], filter[attribute], filter[action]"),
        (
            "/collections/posts/events?filter[collection]=posts",
            "it takes fields[collection-event], filter[attribute]",
        ),
        ("/changes?x=1", "it takes fields[change-summary], filter[since]."),
    ] {
        let refused = server.get(path).await.is(400);
        assert!(refused.detail().contains(known), "{path}: {}", refused.detail());
    }
    let refused = server.request("DELETE", "/collections/posts?x=1").send().await.is(400);
    assert!(refused.detail().ends_with("it takes none."), "{}", refused.detail());
}
