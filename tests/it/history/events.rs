//! `/events`: pages, filters, and the content of each event.

use serde_json::json;

use super::{each, first_parents, in_order, with_history};
use crate::support::{EventStream, TestServer, document, restore_document};

#[tokio::test]
async fn every_commit_is_told_newest_first_with_its_changes() {
    let server = with_history().await;
    let all = server.get("/collections/posts/events").await.is(200);
    assert_eq!(all.header("collectory-revision"), server.repo().head());
    let list = all.json();
    assert_eq!(each(&list, "action"), ["updated", "updated", "updated", "created"]);
    assert_eq!(each(&list, "origin"), ["api", "git", "api", "git"]);
    let by_hand = "Rename by hand\n\nBecause I can.";
    assert_eq!(each(&list, "reason"), ["null", by_hand, "Spring clean-up", &each(&list, "subject")[3]]);
    assert_eq!(each(&list, "subject")[..2], ["Update posts: recursive", "Rename by hand"]);
    assert_eq!(each(&list, "revision"), first_parents(&server));
    let changes = |at: usize| list["data"][at]["attributes"]["changes"].clone();
    assert_eq!(changes(2), json!([{"attribute": "name", "from": "Posts", "to": "All posts"}]));
    assert_eq!(
        changes(1),
        json!([{"attribute": "name", "from": "All posts", "to": "By hand"}, {"attribute": "recursive", "from": true}])
    );
    assert_eq!(changes(3)[0], json!({"attribute": "type", "to": "document"}));
    let at = list["data"][1]["attributes"]["at"].as_str().unwrap();
    let git: i64 = server.repo().field("HEAD~1", "%ct").parse().unwrap();
    let git = chrono::DateTime::from_timestamp(git, 0).unwrap().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    assert_eq!(at, git);
    let id = list["data"][0]["id"].as_str().unwrap();
    assert_eq!(server.repo().trailer("HEAD", "Collectory-Event"), [id]);
    assert_eq!(server.get(&format!("/events/{id}")).await.is(200).data(), list["data"][0]);
}

#[tokio::test]
async fn pages_follow_their_links_in_both_directions() {
    let server = with_history().await;
    let all = server.get("/events").await.is(200);
    let ids = all.ids();
    assert_eq!(ids.len(), 6, "three of the fixture and three more");
    assert_eq!(all.json()["meta"]["page"]["total"], 6);
    for (start, along, backward) in [("/events?page[size]=2", "next", false), ("", "prev", true)] {
        let first = server.get("/events?page[size]=2").await.is(200).json();
        let mut link = if start.is_empty() { first["links"]["last"].clone() } else { json!(start) };
        let mut pages = Vec::new();
        while let Some(path) = link.as_str() {
            let page = server.get(path).await.is(200);
            pages.push(page.ids());
            link = page.json()["links"][along].clone();
        }
        if backward {
            pages.reverse();
        }
        assert_eq!(pages.concat(), ids, "along {along}");
    }
}

#[tokio::test]
async fn what_takes_back_says_what_it_took_back() {
    let server = with_history().await;
    let list = server.get("/collections/posts/events").await.is(200).json();
    let id = list["data"][0]["id"].as_str().unwrap().to_owned();
    server.undo(&id).await.is(201);
    let first = first_parents(&server)[4].clone();
    let restore = restore_document(&first);
    server.request("POST", "/collections/posts/restore").document(&restore).send().await.is(200);
    let list = server.get("/events?page[size]=2").await.is(200).json();
    assert_eq!(each(&list, "undoes"), ["null", &id]);
    assert_eq!(each(&list, "restores"), [first.as_str(), "null"]);
    for claimed in ["", "Collectory-Origin: merge\n"] {
        server
            .repo()
            .write("collections/posts.yaml", &format!("type: document\nname: By hand {}\n", claimed.len()));
        server.commit_by_hand(&format!("Copied\n\n{claimed}Collectory-Undoes: {id}")).await;
        let list = server.get("/events?page[size]=1").await.is(200).json();
        assert_eq!(each(&list, "undoes"), ["null"], "only the service knows what it has planned");
    }
}

#[tokio::test]
async fn a_file_that_a_commit_renames_keeps_its_story() {
    let server = with_history().await;
    server.repo().git(&["mv", "collections/posts.yaml", "collections/articles.yaml"]);
    server.commit_by_hand("Posts are articles").await;
    let list = server.get("/events?filter[since]=HEAD~1").await.is(200).json();
    assert_eq!(each(&list, "action"), ["created", "deleted"]);
    assert_eq!(each(&list, "movedFrom"), ["posts", "null"]);
    assert_eq!(each(&list, "movedTo"), ["null", "articles"]);
    let story = server.get("/collections/articles/events").await.is(200).json();
    assert_eq!(each(&story, "collection"), ["articles", "posts", "posts", "posts", "posts"]);
    let path = "/collections/articles/events?filter[since]=2000-01-01T00:00:00Z";
    let mut stream = EventStream::open_path(server.address(), path, "");
    for event in in_order(story["data"].as_array().unwrap()) {
        assert_eq!(&stream.next_event().data["id"], &event["id"]);
    }
    server.patch("articles", json!({"name": "Articles"})).await.is(200);
    assert_eq!(stream.next_event().data["attributes"]["collection"], "articles");
    let blame = server.get("/collections/articles/blame").await.is(200).json();
    assert!(blame["data"][0]["attributes"]["event"]["attributes"]["collection"] == "posts", "{blame}");
}

#[tokio::test]
async fn lists_of_filters_and_an_attribute_find_events() {
    let server = with_history().await;
    let found = |query: &'static str| {
        let server = &server;
        async move { each(&server.get(&format!("/events?{query}")).await.is(200).json(), "collection") }
    };
    assert_eq!(found("filter[attribute]=recursive&filter[collection]=posts").await.len(), 3);
    assert_eq!(found("filter[collection]=posts,pages&filter[action]=created").await, ["pages", "posts"]);
    assert_eq!(found("filter[origin]=api,command&filter[collection]=posts").await.len(), 2);
    server.get("/events?filter[collection]=posts,never").await.is(404);
    server.get("/events?filter[origin]=api,mars").await.is(400);
}

#[tokio::test]
async fn the_newest_commit_comes_first_and_its_events_in_the_order_of_their_keys() {
    let server = TestServer::start("small").await;
    for name in ["a", "b"] {
        server.repo().write("collections/posts.yaml", &format!("type: document\nname: {name}\n"));
        server.repo().write("collections/images.yaml", &format!("type: media\nname: {name}\n"));
        server.repo().write("collections/pages.yaml", &format!("type: document\nname: {name}\n"));
        server.wait_for_revision(&server.repo().commit(name)).await;
    }
    let all = server.get("/events").await.is(200).json();
    assert_eq!(each(&all, "collection"), ["images", "pages", "posts"].repeat(3));
    let mut newest_first = each(&all, "revision");
    newest_first.dedup();
    assert_eq!(newest_first, first_parents(&server));
    let pages = server.get("/events?page[size]=2").await.is(200).json();
    assert_eq!(each(&pages, "collection"), ["images", "pages"]);
    let next = server.get(pages["links"]["next"].as_str().unwrap()).await.is(200).json();
    assert_eq!(each(&next, "collection"), ["posts", "images"], "a page may end within a commit");
}

#[tokio::test]
async fn a_page_stays_where_it_was_when_new_commits_come() {
    let server = with_history().await;
    let ids = server.get("/events").await.is(200).ids();
    let first = server.get("/events?page[size]=2").await.is(200).json();
    server.patch("posts", json!({"name": "Newer"})).await.is(200);
    let next = server.get(first["links"]["next"].as_str().unwrap()).await.is(200);
    assert_eq!(next.ids(), ids[2..4]);
}

#[tokio::test]
async fn filters_hold_together_and_alone() {
    let server = with_history().await;
    let first = first_parents(&server).pop().unwrap();
    for (query, count) in [
        ("filter[collection]=posts".to_owned(), 4),
        ("filter[action]=created".to_owned(), 3),
        ("filter[action]=deleted".to_owned(), 0),
        ("filter[origin]=api".to_owned(), 2),
        ("filter[origin]=git&filter[action]=updated".to_owned(), 1),
        ("filter[actor]=anonymous".to_owned(), 2),
        ("filter[actor]=anonymous@localhost".to_owned(), 2),
        ("filter[actor]=nobody".to_owned(), 0),
        (format!("filter[since]={first}"), 3),
        (format!("filter[until]={first}"), 3),
        ("filter[since]=2000-01-01T00:00:00Z".to_owned(), 6),
        ("filter[since]=2000-01-01T00:00:00+01:00".to_owned(), 6),
        ("filter[until]=2000-01-01T00:00:00Z".to_owned(), 0),
    ] {
        let answer = server.get(&format!("/events?{query}")).await.is(200);
        assert_eq!(answer.ids().len(), count, "{query}");
        assert_eq!(answer.json()["meta"]["page"]["total"], count, "{query}");
    }
}

#[tokio::test]
async fn what_can_not_be_answered_is_refused_by_name() {
    let server = with_history().await;
    let cursor = server.get("/events?page[size]=1").await.is(200).json()["links"]["next"].clone();
    let cursor = cursor.as_str().unwrap().replace("/events?", "");
    for (path, status, parameter) in [
        ("/events?foo=1".to_owned(), 400, "foo"),
        ("/events?page[offset]=1".to_owned(), 400, "page[offset]"),
        ("/events?page[size]=0".to_owned(), 400, "page[size]"),
        ("/events?page[after]=nonsense".to_owned(), 400, "page[after]"),
        (format!("/events?filter[origin]=api&{cursor}"), 400, "page[after]"),
        (format!("/collections/posts/events?{cursor}"), 400, "page[after]"),
        ("/events?filter[action]=made".to_owned(), 400, "filter[action]"),
        ("/events?filter[origin]=x".to_owned(), 400, "filter[origin]"),
        ("/events?filter[since]=main~x".to_owned(), 400, "filter[since]"),
        ("/events?filter[since]=12345".to_owned(), 400, "filter[since]"),
        ("/events?filter[until]=2026-13-01T00:00:00Z".to_owned(), 400, "filter[until]"),
        ("/events?filter[until]=abcdef0123".to_owned(), 404, "filter[until]"),
        ("/collections/posts/events?filter[collection]=posts".to_owned(), 400, "filter[collection]"),
        ("/events?filter[collection]=never".to_owned(), 404, "filter[collection]"),
        ("/events?filter[collection]=no%20key".to_owned(), 404, "filter[collection]"),
        (
            "/diff?filter[from]=HEAD~1&filter[to]=HEAD&filter[collection]=never".to_owned(),
            404,
            "filter[collection]",
        ),
    ] {
        let (_, source) = server.get(&path).await.is(status).error();
        assert_eq!(source["parameter"], parameter, "{path}");
    }
    for path in ["/collections/never/events", "/events/posts", "/events/00000000-0000-0000-0000-000000000000"]
    {
        server.get(path).await.is(404);
    }
    server.repo().write_by_rename("collections/new.yaml", "type: document\n");
    server.wait_for_attribute("new", "type", "document").await;
    for path in ["/collections/new/events", "/collections/new/blame", "/events?filter[collection]=new"] {
        let detail = server.get(path).await.is(404).detail();
        assert_eq!(detail, "Collection 'new' has no history yet: its file is not committed.", "{path}");
    }
    server.repo().remove("collections/new.yaml");
    server.wait_until_not_found("new").await;
    for (method, path) in [("POST", "/events"), ("DELETE", "/diff"), ("GET", "/events/x/undo")] {
        server.request(method, path).send().await.is(405);
    }
    server.request("HEAD", "/events").send().await.is(200);
}

#[tokio::test]
async fn merges_broken_files_and_forged_trailers_are_told_as_they_are() {
    let mut server = TestServer::start("small").await;
    let repo = server.repo();
    repo.git(&["checkout", "--quiet", "-b", "side"]);
    repo.write("collections/side.yaml", "type: media\n");
    repo.commit("Side one");
    repo.write("collections/side.yaml", "type: media\nname: Side\n");
    repo.commit("Side two");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.git(&["merge", "--quiet", "--no-ff", "-m", "Merge the side", "side"]);
    repo.write("collections/posts.yaml", "type: document\nname: [\n");
    repo.commit("Break it\n\nCollectory-Action: collection.created\nCollectory-Key: pages\nCollectory-Event: 0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e");
    repo.write(
        "collections/posts.yaml",
        "type: document\nname: Mended\ndirectory: content/posts\nrecursive: true\n",
    );
    server.commit_by_hand("Mend it").await;
    let posts = server.get("/collections/posts/events").await.is(200).json();
    let shown = |at: usize, name: &str| posts["data"][at]["attributes"][name].clone();
    assert_eq!(shown(0, "changes"), json!([{"attribute": "name", "from": "Posts", "to": "Mended"}]));
    assert_eq!(shown(1, "problem")["path"], "collections/posts.yaml");
    assert_eq!((shown(1, "changes"), shown(1, "origin")), (json!(null), json!("git")));
    let side = server.get("/collections/side/events").await.is(200).json();
    assert_eq!(each(&side, "action"), ["created"], "a merge is compared with its first parent");
    assert_eq!(side["data"][0]["attributes"]["changes"][1], json!({"attribute": "name", "to": "Side"}));
    server.stop();
}

#[tokio::test]
async fn a_deleted_collection_keeps_its_past() {
    let server = with_history().await;
    server.delete("posts").await.is(204);
    server.create(&document("posts", json!({"name": "Again"}))).await.is(201);
    let list = server.get("/collections/posts/events").await.is(200).json();
    assert_eq!(each(&list, "action")[..2], ["created", "deleted"]);
    assert_eq!(list["data"][1]["attributes"]["changes"][0], json!({"attribute": "type", "from": "document"}));
}

#[tokio::test]
async fn before_the_first_commit_there_is_nothing_to_tell() {
    let server = TestServer::setup("small").unborn().start().await;
    let answer = server.get("/events").await.is(200);
    assert_eq!((answer.ids().len(), answer.header_if_any("collectory-revision")), (0, None));
    assert_eq!(server.get("/sync-token").await.is(200).attributes(), json!({"syncToken": "0".repeat(40)}));
    server.get("/collections?asOf=2999-01-01T00:00:00Z").await.is(404);
}
