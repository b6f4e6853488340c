//! `asOf`, differences, blame, capabilities.

use serde_json::json;

use super::{each, first_parents, with_history};
use crate::support::{RawRequest, TestServer, collectory_command, restore_document, run_to_end};

#[tokio::test]
async fn any_revision_is_shown_as_git_has_it_by_whatever_name() {
    let server = with_history().await;
    let revisions = first_parents(&server);
    server.repo().git(&["tag", "-a", "-m", "A tag", "v1", &revisions[2]]);
    for (name, revision, posts) in [
        (revisions[3].as_str(), &revisions[3], "Posts"),
        (&revisions[2][..9], &revisions[2], "All posts"),
        ("v1", &revisions[2], "All posts"),
        ("main", &revisions[0], "By hand"),
        ("2999-01-01T00:00:00Z", &revisions[0], "By hand"),
        ("2999-01-01T00:00:00+02:00", &revisions[0], "By hand"),
    ] {
        let one = server.get(&format!("/collections/posts?asOf={name}")).await.is(200);
        assert_eq!(
            (one.attributes()["name"].as_str(), one.header("collectory-revision").as_str()),
            (Some(posts), revision.as_str()),
            "{name}"
        );
        let list =
            server.get(&format!("/collections?asOf={name}&sort=-id&filter[type]=document")).await.is(200);
        assert_eq!(list.header("collectory-revision"), *revision);
        assert_eq!(list.ids(), ["posts", "pages"]);
    }
    let sparse = server.get("/collections/posts?asOf=v1&fields[document-collection]=name").await.is(200);
    assert_eq!(sparse.attributes(), json!({"name": "All posts"}));
    let page = server.get("/collections?asOf=v1&page[size]=1").await.is(200).json();
    let next = server.get(page["links"]["next"].as_str().unwrap()).await.is(200);
    assert_eq!(next.header("collectory-revision"), revisions[2], "the next page is of the same past");
}

#[tokio::test]
async fn the_pages_of_a_past_stay_of_that_past_while_its_name_moves_on() {
    let server = with_history().await;
    let head = server.repo().head();
    for name in ["HEAD", "main", "2999-01-01T00:00:00Z"] {
        let at = server.repo().head();
        let first = server.get(&format!("/collections?asOf={name}&page[size]=1")).await.is(200).json();
        assert!(!first["links"]["self"].as_str().unwrap().contains(&at), "it is as it was asked");
        server.patch("posts", json!({"name": format!("Beyond {name}")})).await.is(200);
        for link in ["first", "next", "last"] {
            let other = server.get(first["links"][link].as_str().unwrap()).await.is(200);
            assert_eq!(other.header("collectory-revision"), at, "{link} of {name}");
        }
    }
    assert_ne!(server.repo().head(), head);
}

#[tokio::test]
async fn the_link_of_a_past_collection_leads_to_its_past() {
    let server = with_history().await;
    let revisions = first_parents(&server);
    server.delete("pages").await.is(204);
    for query in ["asOf=HEAD~2", "asOf=HEAD~2&page[size]=5&fields[document-collection]=name"] {
        let list = server.get(&format!("/collections?{query}")).await.is(200).json();
        for collection in list["data"].as_array().unwrap() {
            let link = collection["links"]["self"].as_str().unwrap();
            let read = server.get(link).await.is(200);
            assert_eq!(read.header("collectory-revision"), revisions[1], "{link}");
            assert_eq!(read.attributes()["name"], collection["attributes"]["name"], "{link}");
            assert_eq!(read.data()["links"]["self"], link);
        }
    }
}

#[tokio::test]
async fn what_is_deleted_or_broken_since_is_shown_as_it_was() {
    let server = TestServer::start("small").await;
    let before = server.repo().head();
    server.delete("pages").await.is(204);
    server.repo().write("collections/posts.yaml", "type: [\n");
    let broken = server.commit_by_hand("Break it").await;
    assert_eq!(
        server.get(&format!("/collections/pages?asOf={before}")).await.is(200).attributes()["name"],
        "Pages"
    );
    server.get(&format!("/collections/pages?asOf={broken}")).await.is(404);
    server.get(&format!("/collections/never?asOf={before}")).await.is(404);
    let posts = server.get(&format!("/collections/posts?asOf={broken}")).await.is(200);
    assert_eq!(posts.attributes()["name"], "Posts");
    assert_eq!(posts.data()["meta"]["problem"]["path"], "collections/posts.yaml");
}

#[tokio::test]
async fn a_revision_that_the_branch_does_not_reach_is_unknown() {
    let server = with_history().await;
    server.repo().git(&["branch", "other", "HEAD~2"]);
    let tree = server.repo().git(&["rev-parse", "HEAD^{tree}"]);
    let stray = server.repo().git(&["commit-tree", "-m", "Stray", &tree]);
    server.repo().git(&["tag", "stray", &stray]);
    server.get("/collections?asOf=other").await.is(200);
    for (name, status) in [
        (stray.as_str(), 404),
        ("stray", 404),
        ("0123456789012345678901234567890123456789", 404),
        ("abcdef0", 404),
        ("1970-01-01T00:00:00Z", 404),
        ("HEAD~100", 404),
        ("1970-01-01", 404),
        ("HEAD^{tree}", 400),
        (tree.as_str(), 400),
        (&tree[..12], 400),
        ("main@{1}", 400),
        ("abcde", 400),
        ("..", 400),
        ("", 400),
        ("2026-02-30T00:00:00Z", 400),
    ] {
        for path in ["/collections", "/collections/posts"] {
            let (_, source) = server.get(&format!("{path}?asOf={name}")).await.is(status).error();
            assert_eq!(source["parameter"], "asOf", "{name}");
        }
    }
}

#[tokio::test]
async fn a_commit_that_the_branch_reaches_may_be_named_from_one_that_it_does_not() {
    let server = TestServer::start("small").await;
    let seed = server.repo().head();
    server.repo().git(&["checkout", "--quiet", "-b", "topic"]);
    server.repo().write("collections/posts.yaml", "type: document\nname: Topic\n");
    let topic = server.repo().commit("Topic");
    server.repo().git(&["checkout", "--quiet", "main"]);
    server.delete("posts").await.is(204);
    for named in ["topic~1".to_owned(), format!("{topic}%5E")] {
        let then = server.get(&format!("/collections/posts?asOf={named}")).await.is(200);
        assert_eq!(then.header("collectory-revision"), seed, "{named}");
    }
    server.get("/collections/posts?asOf=topic").await.is(404);
    let body = restore_document("topic^");
    server.request("POST", "/collections/posts/restore").document(&body).send().await.is(201);
    let mut verify = collectory_command(server.repo().path());
    run_to_end(verify.args(["verify", "--repo", ".", "--head-was", "topic~1"])).assert_exit_code(0);
}

#[tokio::test]
async fn a_difference_can_be_of_some_collections_only() {
    let server = with_history().await;
    let root = server.repo().git(&["rev-list", "--max-parents=0", "HEAD"]);
    let difference =
        |keys: &str| format!("/diff?filter[from]={root}&filter[to]=HEAD&filter[collection]={keys}");
    assert_eq!(server.get(&difference("posts,images")).await.is(200).ids(), ["posts"]);
    assert!(server.get(&difference("images")).await.is(200).ids().is_empty());
    server.get(&difference("never")).await.is(404);
}

#[tokio::test]
async fn what_is_blamed_is_committed_and_an_edit_beside_it_is_told() {
    let server = with_history().await;
    assert_eq!(server.get("/collections/posts/blame").await.is(200).json().get("meta"), None);
    let committed = server.repo().read("collections/posts.yaml");
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: Not yet\n");
    server.wait_for_attribute("posts", "name", "Not yet").await;
    let blame = server.get("/collections/posts/blame").await.is(200).json();
    assert_eq!(blame["meta"]["uncommitted"], true);
    server.repo().remove("collections/posts.yaml");
    server.wait_until_not_found("posts").await;
    server.get("/collections/posts/blame").await.is(404);
    let finished = run_to_end(collectory_command(server.repo().path()).args(["blame", "posts"]));
    finished.assert_exit_code(1);
    server.repo().write_by_rename("collections/posts.yaml", &committed);
}

#[tokio::test]
async fn days_and_parents_are_revisions_too() {
    let server = with_history().await;
    let revisions = first_parents(&server);
    let today = server.repo().field("HEAD", "%cs");
    for (name, revision) in
        [("HEAD", 0), ("HEAD~2", 2), ("main^", 1), (&format!("{}^~1", revisions[0]), 2), (today.as_str(), 0)]
    {
        let found = server.get(&format!("/collections?asOf={name}")).await.is(200);
        assert_eq!(found.header("collectory-revision"), revisions[revision], "{name}");
    }
    server.repo().git(&["tag", "stray", &server.repo().git(&["commit-tree", "-m", "Stray", "HEAD^{tree}"])]);
    let detail = server.get("/collections?asOf=stray").await.is(404).detail();
    assert!(detail.contains("exists and is no longer, or never was, part of the served branch"), "{detail}");
}

#[tokio::test]
async fn two_revisions_are_compared_both_ways_and_as_text() {
    let server = with_history().await;
    let revisions = first_parents(&server);
    let path = format!("/diff?filter[from]={}&filter[to]=main", revisions[3]);
    let found = server.get(&path).await.is(200);
    assert_eq!(found.ids(), ["posts"]);
    assert_eq!(
        found.data()[0]["attributes"],
        json!({"action": "updated", "changes": [{"attribute": "name", "from": "Posts", "to": "By hand"},
                                                {"attribute": "recursive", "from": true, "to": false}]})
    );
    let back =
        server.get(&format!("/diff?filter[from]=main&filter[to]={}", revisions[3])).await.is(200).json();
    assert_eq!(each(&back, "action"), ["updated"]);
    let text = RawRequest::new("GET", &path).header("Accept", "text/x-diff").send(server.address());
    assert_eq!(text.status(), 200);
    let text = String::from_utf8(text.body).unwrap();
    let git = server.repo().git(&["diff", "--no-color", "--no-prefix", &revisions[3], "HEAD"]);
    let lines = |text: &str| {
        let changed = |line: &&str| {
            (line.starts_with('+') || line.starts_with('-'))
                && !line.starts_with("---")
                && !line.starts_with("+++")
        };
        text.lines().filter(changed).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&text), lines(&git));
    for (query, parameter) in [
        ("", "filter[from]"),
        ("filter[from]=main", "filter[to]"),
        ("filter[from]=main&filter[to]=a..b", "filter[to]"),
        ("filter[from]=main&filter[to]=main&x=1", "x"),
    ] {
        let (_, source) = server.get(&format!("/diff?{query}")).await.is(400).error();
        assert_eq!(source["parameter"], parameter, "{query}");
    }
}

#[tokio::test]
async fn git_applies_the_text_of_a_difference_in_both_directions() {
    let server = with_history().await;
    let first = first_parents(&server).pop().unwrap();
    let repo = server.repo();
    repo.write("collections/crlf.yaml", "type: document\r\nname: \"CR LF\"");
    repo.write("collections/empty.yaml", "");
    repo.remove("collections/pages.yaml");
    let last = server.commit_by_hand("Of every kind").await;
    for (from, to) in [(&first, &last), (&last, &first)] {
        let path = format!("/diff?filter[from]={from}&filter[to]={to}");
        let patch = RawRequest::new("GET", &path).header("Accept", "text/x-diff").send(server.address());
        let file = server.folder().join("patch");
        std::fs::write(&file, patch.body).unwrap();
        repo.git(&["checkout", "--quiet", "--detach", from]);
        repo.git(&["apply", "--index", "--whitespace=nowarn", file.to_str().unwrap()]);
        assert_eq!(repo.git(&["diff", "--cached", to]), "", "{from} to {to}");
        repo.git(&["reset", "--quiet", "--hard"]);
    }
    repo.git(&["checkout", "--quiet", "main"]);
}

#[tokio::test]
async fn each_value_has_the_event_that_gave_it() {
    let server = with_history().await;
    let revisions = first_parents(&server);
    let blame = server.get("/collections/posts/blame").await.is(200);
    assert_eq!(blame.ids(), ["posts/type", "posts/name", "posts/directory", "posts/recursive"]);
    let by = |at: usize| blame.data()[at]["attributes"]["event"]["attributes"]["revision"].clone();
    assert_eq!([by(0), by(1), by(3)], [json!(revisions[3]), json!(revisions[1]), json!(revisions[0])]);
    assert_eq!(blame.data()[1]["attributes"]["value"], "By hand");
    server.get("/collections/never/blame").await.is(404);
    server.delete("posts").await.is(204);
    server.get("/collections/posts/blame").await.is(404);
}

#[tokio::test]
async fn the_service_says_what_it_can() {
    let server = TestServer::start("small").await;
    let capabilities = server.get("/capabilities").await.is(200);
    assert_eq!(capabilities.data()["id"], "self");
    assert_eq!(
        capabilities.attributes()["pagination"]["styles"],
        json!({"offset": true, "page": true, "cursor": true})
    );
    assert_eq!(capabilities.attributes()["changes"], json!({"supported": true}));
    assert_eq!(capabilities.attributes()["limits"]["attributesMax"], 256);
    assert_eq!(capabilities.attributes()["limits"]["operationsBytesMax"], 2 * 1_024 * 1_024);
    let sparse = "/capabilities?fields[collection-settings-capabilities]=changes";
    assert_eq!(server.get(sparse).await.is(200).attributes(), json!({"changes": {"supported": true}}));
    let sparse = server.get("/sync-token?fields[sync-token]=").await.is(200);
    assert_eq!(sparse.attributes(), json!({}));
    for path in ["/capabilities?fields[sync-token]=x", "/sync-token?fields[collection-event]=x"] {
        server.get(path).await.is(400);
    }
}
