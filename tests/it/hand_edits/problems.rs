//! Broken files: visible, harmless to other collections, and never mistaken for missing settings.

use serde_json::json;

use super::named;
use crate::support::{TestServer, collectory_command, document, eventually, run_to_end, update_operation};

const POSTS: &str = "collections/posts.yaml";

#[tokio::test]
async fn a_file_broken_by_hand_keeps_the_last_good_answer() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename(POSTS, "type: document\nname: [unclosed\n");
    let problem = server.wait_for_problem(POSTS).await;
    assert_eq!(problem["type"], "problem");
    assert_eq!(problem["attributes"]["path"], POSTS);
    assert_eq!(problem["attributes"]["collection"], "posts");
    assert_eq!(problem["attributes"]["serving"], "last-good");
    assert!(problem["attributes"]["since"].is_string(), "{problem}");
    assert!(problem["attributes"].get("revision").is_none(), "it is not committed: {problem}");
    let read = server.read("posts").await.is(200);
    assert_eq!(read.attributes()["name"], "Posts");
    assert_eq!(read.json()["data"]["meta"]["problem"]["path"], POSTS);
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages", "posts"]);
    server.restart().await;
    let again = server.wait_for_problem(POSTS).await;
    assert_eq!(again["attributes"]["since"], problem["attributes"]["since"], "it is as old as the file");
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn mending_the_file_clears_the_problem() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename(POSTS, "type: nonsense\n");
    server.wait_for_problem(POSTS).await;
    server.repo().write_by_rename(POSTS, &named("Mended"));
    server.wait_for_attribute("posts", "name", "Mended").await;
    server.wait_for_no_problem().await;
    let meta = server.read("posts").await.is(200).json()["data"]["meta"].clone();
    assert_eq!(meta, json!({"uncommitted": true}));
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn the_last_good_version_is_the_edit_that_was_being_served() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename(POSTS, &named("Good edit"));
    server.wait_for_attribute("posts", "name", "Good edit").await;
    server.repo().write_by_rename(POSTS, "broken: [\n");
    server.wait_for_problem(POSTS).await;
    let read = server.read("posts").await.is(200);
    assert_eq!(read.attributes()["name"], "Good edit");
    assert_eq!(read.json()["data"]["meta"]["uncommitted"], true);
    assert_eq!(server.list().await.is(200).json()["meta"]["uncommitted"], 1);
    server.commit_by_hand("Broken").await;
    assert_eq!(server.read("posts").await.is(200).json()["data"]["meta"]["uncommitted"], true);
    assert_eq!(server.list().await.is(200).json()["meta"]["uncommitted"], 1, "what is marked is counted");
    server.restart().await;
    server.wait_for_problem(POSTS).await;
    let read = server.read("posts").await.is(200);
    assert_eq!(read.attributes()["name"], "Posts", "after a restart the history is all there is");
    assert!(server.list().await.is(200).json().get("meta").is_none());
    server.expect_git_status("");
}

#[tokio::test]
async fn a_broken_commit_names_its_revision_and_author() {
    let server = TestServer::start("small").await;
    server.repo().write(POSTS, "type: document\nname: 7\n");
    let head = server.repo().commit("Oops");
    let problem = server.wait_for_problem(POSTS).await;
    let problem = if problem["attributes"].get("revision").is_some() {
        problem
    } else {
        server.wait_for_revision(&head).await;
        server.wait_for_problem(POSTS).await
    };
    assert_eq!(problem["attributes"]["revision"], head);
    assert_eq!(problem["attributes"]["line"], 2);
    let author = problem["attributes"]["author"].to_string();
    assert!(author.contains("Hand Editor"), "{author}");
    server.repo().git(&["revert", "--no-edit", "HEAD"]);
    server.wait_for_no_problem().await;
    eventually("nothing needs saying any more", async || {
        let read = server.read("posts").await.is(200).json();
        read["data"].get("meta").is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_broken_file_can_not_be_updated_but_deleted() {
    let server = TestServer::start("small").await;
    server.repo().write_by_rename(POSTS, "broken: [\n");
    server.wait_for_problem(POSTS).await;
    let refused = server.patch("posts", json!({"name": "x"})).await.is(409);
    assert!(refused.detail().contains(POSTS), "{}", refused.detail());
    assert_eq!(server.repo().commit_count(), 1);
    server.patch("pages", json!({"name": "Unharmed"})).await.is(200);
    server.delete("posts").await.is(204);
    server.wait_for_no_problem().await;
}

#[tokio::test]
async fn a_file_with_a_bad_name_is_a_problem_of_its_own() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename("collections/bad name.yaml", &named("Bad"));
    let problem = server.wait_for_problem("collections/bad name.yaml").await;
    assert_eq!(problem["attributes"]["serving"], "nothing");
    assert!(problem["attributes"].get("collection").is_none_or(serde_json::Value::is_null), "{problem}");
    server.repo().write_by_rename("collections/Posts.yaml", &named("Shouting"));
    server.wait_for_problem("collections/Posts.yaml").await;
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages", "posts"]);
    server.repo().remove("collections/bad name.yaml");
    server.repo().remove("collections/Posts.yaml");
    server.wait_for_no_problem().await;
    server.expect_git_status("");
}

#[tokio::test]
async fn a_file_whose_name_is_not_utf_8_is_a_problem_saved_or_committed() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut server = TestServer::start("small").await;
    let shown = "collections/coll\u{fffd}.yaml";
    let name = std::ffi::OsStr::from_bytes(b"collections/coll\xff.yaml");
    let path = server.repo().path().join(name);
    std::fs::write(&path, "type: media\n").unwrap();
    server.wait_for_problem(shown).await;
    let mut check = collectory_command(server.repo().path());
    let checked = run_to_end(check.args(["check", "."])).assert_exit_code(1);
    assert!(checked.stdout.starts_with(&format!("{shown}:1:1: ")), "{}", checked.stdout);
    let head = server.commit_by_hand("Commit it").await;
    server.restart().await;
    assert_eq!(server.wait_for_problem(shown).await["attributes"]["revision"], head);
    assert_eq!(server.list().await.is(200).json().get("meta"), None);
    std::fs::remove_file(&path).unwrap();
    server.wait_for_no_problem().await;
    server.repo().commit("Remove it");
    server.wait_for_no_problem().await;
}

#[tokio::test]
async fn a_huge_file_is_a_problem_and_nobody_waits_for_it() {
    let mut server = TestServer::start("small").await;
    let huge = server.repo().path().join("collections/huge.yaml");
    // The file is sparse, but reading it would take minutes.
    std::fs::File::create(&huge).unwrap().set_len(20 << 30).unwrap();
    let problem = server.wait_for_problem("collections/huge.yaml").await;
    let message = problem["attributes"]["message"].as_str().unwrap();
    assert!(message.contains("more than the 65536 bytes"), "{message}");
    server.repo().write_by_rename(POSTS, &named("By hand"));
    server.wait_for_attribute("posts", "name", "By hand").await;
    server.patch("pages", json!({"name": "Written beside it"})).await.is(200);
    std::fs::remove_file(huge).unwrap();
    server.wait_for_no_problem().await;
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn an_empty_file_is_never_taken_for_no_settings() {
    let mut server = TestServer::start("small").await;
    server.repo().write(POSTS, "");
    server.wait_for_problem(POSTS).await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
    server.repo().git(&["checkout", "--", POSTS]);
    server.wait_for_no_problem().await;
    server.expect_git_status("");
}

#[tokio::test]
async fn a_committed_link_is_a_problem_and_harms_no_other_write() {
    let server = TestServer::start("small").await;
    std::os::unix::fs::symlink("../elsewhere", server.repo().path().join("collections/link.yaml")).unwrap();
    server.commit_by_hand("Add a link").await;
    let (refused, written) =
        tokio::join!(server.delete("link"), server.patch("posts", json!({"name": "Written beside it"})));
    let detail = refused.is(409).detail();
    assert!(detail.contains("link.yaml") && detail.contains("git rm"), "{detail}");
    written.is(200);
    assert!(server.repo().path().join("collections/link.yaml").is_symlink());
}

#[tokio::test]
async fn what_is_no_file_and_was_removed_by_hand_is_in_the_way_of_its_own_key_alone() {
    let server = TestServer::start("small").await;
    let repo = server.repo();
    let path = |name: &str| repo.path().join("collections").join(name);
    std::os::unix::fs::symlink("../elsewhere", path("link.yaml")).unwrap();
    repo.write("collections/folder.yaml/inside", "x");
    server.commit_by_hand("Add a link and a folder").await;
    std::fs::remove_file(path("link.yaml")).unwrap();
    std::fs::remove_dir_all(path("folder.yaml")).unwrap();
    server.wait_for_no_problem().await;
    for key in ["link", "folder", "Link"] {
        let (new, name) = (document(key, json!({})), format!("Written beside {key}"));
        let (refused, written) =
            tokio::join!(server.create(&new), server.patch("posts", json!({"name": name})));
        refused.is(409);
        written.is(200);
    }
    let dry = server.request("POST", "/collections").header("Prefer", "dry-run");
    dry.document(&document("link", json!({}))).send().await.is(409);
    server.commit_by_hand("Remove both").await;
    for key in ["link", "folder"] {
        server.create(&document(key, json!({}))).await.is(201);
    }
}

#[tokio::test]
async fn an_answer_to_a_write_tells_of_the_file_beside_it() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename("collections/posts.yml", "type: document\n");
    server.wait_for_problem("collections/posts.yml").await;
    let updated = server.patch("posts", json!({"name": "Written"})).await.is(200);
    let read = server.read("posts").await.is(200);
    assert_eq!(updated.data(), read.data());
    assert!(read.data()["meta"]["problem"]["path"].is_string());
    let batch = json!([update_operation("posts", json!({"name": "Again"}))]);
    let results = server.operations(batch).await.is(200).json();
    assert_eq!(results["atomic:results"][0]["data"], server.read("posts").await.is(200).data());
    server.expect_git_status("");
}

#[tokio::test]
async fn a_second_file_that_comes_and_goes_changes_nothing_of_its_collection() {
    let mut server = TestServer::start("small").await;
    let second = "collections/posts.yml";
    server.repo().write_by_rename(second, "type: document\n");
    server.wait_for_problem(second).await;
    server.patch("posts", json!({"name": "Beside it"})).await.is(200);
    std::fs::remove_file(server.repo().path().join(second)).unwrap();
    server.wait_for_no_problem().await;
    server.patch("posts", json!({"name": "Alone"})).await.is(200);
    let repo = server.repo();
    let subjects = repo.git(&["log", "--format=%s"]);
    let problems =
        ["Update posts: name", "Edit posts by hand", "Update posts: name", "Edit posts by hand", "Seed"];
    assert_eq!(subjects.lines().collect::<Vec<_>>(), problems);
    for by_hand in ["HEAD~1", "HEAD~3"] {
        let message = repo.git(&["log", "-1", "--format=%B", by_hand]);
        assert_eq!(message, "Edit posts by hand\n\nCollectory-Origin: work-tree");
    }
    let path = repo.path().to_str().unwrap();
    run_to_end(collectory_command(server.folder()).args(["verify", "--repo", path])).assert_exit_code(0);
    server.expect_git_status("");
}

#[tokio::test]
async fn a_status_without_a_name_is_told_and_served_as_it_is_written() {
    let mut server = TestServer::start("small").await;
    let text = "type: document\nunpublishedStatuses:\n  draft:\n    directory: drafts\n";
    let statuses = json!({"draft": {"directory": "drafts"}});
    server.repo().write_by_rename(POSTS, text);
    server.wait_for_attribute("posts", "unpublishedStatuses", statuses.clone()).await;
    let position = |problem: &serde_json::Value, line: usize| {
        let of = &problem["attributes"];
        assert_eq!(
            (&of["serving"], &of["line"], &of["column"]),
            (&json!("as-written"), &json!(line), &json!(3))
        );
        assert_eq!(of["message"], "unpublishedStatuses.draft: a status needs a `name`");
    };
    position(&server.wait_for_problem(POSTS).await, 3);
    let update = document("posts", json!({"name": "Posts"}));
    let dry = server.request("PATCH", "/collections/posts").header("Prefer", "dry-run");
    let dry = dry.document(&update).send().await.is(200);
    let updated = server.update("posts", &update).await.is(200);
    let read = server.read("posts").await.is(200);
    assert_eq!(updated.data(), read.data(), "the answer is what is read next");
    assert_eq!(updated.header("etag"), read.header("etag"));
    assert_eq!(dry.data()["meta"], read.data()["meta"]);
    assert_eq!(updated.attributes()["unpublishedStatuses"], statuses, "what is not touched does not matter");
    position(&server.wait_for_problem(POSTS).await, 4);
    server.restart().await;
    position(&server.wait_for_problem(POSTS).await, 4);
    let meta = server.read("posts").await.is(200).json()["data"]["meta"].clone();
    assert_eq!(meta["problem"]["line"], 4);
    let touched = document("posts", json!({"unpublishedStatuses": statuses}));
    server.update("posts", &touched).await.is(400);
    server.update("posts", &document("posts", json!({"draftDirectory": "d"}))).await.is(200);
    server.wait_for_no_problem().await;
    let named = json!({"draft": {"directory": "d", "name": "Draft"}});
    assert_eq!(server.read("posts").await.is(200).attributes()["unpublishedStatuses"], named);
}
