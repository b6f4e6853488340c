//! A file that a person renames in letter case only, while the API writes to its key.

use serde_json::{Value, json};

use super::named;
use crate::support::{
    ATOMIC, JSON_API, TestServer, collectory_command, document, remove_operation, restore_document,
    run_to_end,
};

const LOWER: &str = "collections/posts.yaml";
const UPPER: &str = "collections/Posts.yaml";

/// Asserts that every commit is valid and that the work tree matches the head.
fn is_well(server: &mut TestServer) {
    let repo = server.repo();
    for commit in repo.git(&["rev-list", "HEAD"]).lines() {
        let files = repo.git(&["ls-tree", "-r", "--name-only", commit, "collections"]);
        assert!(!(files.contains(LOWER) && files.contains(UPPER)), "{commit}: {files}");
        let check = ["check", "--rev", commit, "."];
        assert_eq!(run_to_end(collectory_command(repo.path()).args(check)).assert_exit_code(0).stdout, "");
    }
    server.expect_git_status("");
}

fn add(key: &str) -> Value {
    crate::support::add_operation(&document(key, json!({"name": "By API"})))
}

#[tokio::test]
async fn a_write_to_the_renamed_key_commits_the_renaming_first() {
    let mut server = TestServer::start("small").await;
    server.repo().remove(LOWER);
    server.repo().write_by_rename(UPPER, &named("By hand"));
    server.wait_for_attribute("Posts", "name", "By hand").await;
    server.patch("Posts", json!({"name": "By API"})).await.is(200);
    let subjects = ["Update Posts: name", "Create Posts by hand", "Delete posts by hand", "Seed"];
    assert_eq!(server.repo().subjects(), subjects);
    assert_eq!(server.repo().field("HEAD~2", "%an"), "Hand Editor");
    assert_eq!(server.repo().trailer("HEAD~2", "Collectory-Origin"), ["work-tree"]);
    let files = server.repo().git(&["ls-tree", "--name-only", "HEAD:collections"]);
    assert_eq!(files.lines().collect::<Vec<_>>(), ["Posts.yaml", "images.yaml", "pages.yaml"]);
    is_well(&mut server);
}

#[tokio::test]
async fn a_creation_in_other_letter_case_commits_the_removal_first_and_says_so_in_a_dry_run() {
    for is_batch in [false, true] {
        let mut server = TestServer::start("small").await;
        server.repo().git(&["rm", "--quiet", LOWER]);
        server.wait_until_not_found("posts").await;
        let (path, kind, body) = if is_batch {
            ("/operations", ATOMIC, json!({"atomic:operations": [add("Posts")]}))
        } else {
            ("/collections", JSON_API, document("Posts", json!({})))
        };
        let dry = server.request("POST", path).header("Prefer", "dry-run").body(kind, &body).send().await;
        let dry = dry.is(200).json();
        let commits = dry["meta"]["commits"].as_array().unwrap().clone();
        let [gone, created] = commits.as_slice() else { panic!("two commits: {commits:?}") };
        assert!(gone["message"].as_str().unwrap().starts_with("Delete posts by hand\n"), "{gone}");
        assert!(gone["files"][0]["difference"].as_str().unwrap().contains("-name: Posts"), "{gone}");
        assert!(created["message"].as_str().unwrap().starts_with("Create Posts\n"), "{created}");
        assert_eq!(server.repo().subjects(), ["Seed"]);
        let done = server.request("POST", path).body(kind, &body).send().await;
        done.is(if is_batch { 200 } else { 201 });
        assert_eq!(server.repo().subjects(), ["Create Posts", "Delete posts by hand", "Seed"]);
        is_well(&mut server);
    }
}

#[tokio::test]
async fn a_batch_renames_in_one_commit_and_what_would_bring_the_old_key_back_is_refused() {
    let mut server = TestServer::start("small").await;
    let first = server.repo().head();
    server.operations(json!([remove_operation("posts"), add("Posts")])).await.is(200);
    assert_eq!(server.repo().commit_count(), 2);
    let body = restore_document(&first);
    server.request("POST", "/collections/posts/restore").document(&body).send().await.is(409);
    let deletion = server.newest_event("posts").await;
    server.undo(&deletion).await.is(409);
    server.create(&document("posts", json!({}))).await.is(409);
    assert_eq!(server.repo().commit_count(), 2);
    is_well(&mut server);
}

#[tokio::test]
async fn a_removal_that_is_not_served_leaves_the_key_taken() {
    let mut server = TestServer::setup("small").flag(&["--uncommitted", "ignore"]).start().await;
    server.repo().remove(LOWER);
    server.create(&document("Posts", json!({}))).await.is(409);
    assert_eq!(server.repo().subjects(), ["Seed"]);
    server.expect_git_status(" D collections/posts.yaml");
}

#[tokio::test]
async fn deleting_a_file_saved_beside_a_committed_one_is_refused_and_points_at_nothing() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename(UPPER, &named("By hand"));
    server.wait_for_problem(UPPER).await;
    let (code, source) = server.delete("Posts").await.is(409).error();
    assert_eq!((code.as_str(), source), ("conflict", Value::Null));
    let refused = server.operations(json!([add("new"), remove_operation("Posts")])).await.is(409);
    assert_eq!(refused.error().1, json!({"pointer": "/atomic:operations/1"}));
    assert_eq!(server.repo().subjects(), ["Seed"]);
    server.expect_git_status("?? collections/Posts.yaml");
}
