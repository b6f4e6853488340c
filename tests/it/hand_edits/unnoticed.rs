//! Without a watcher, the slow tick finds every change.

use serde_json::json;

use super::named;
use super::saving::{LONG_PATIENCE, saved_in_every_way};
use crate::support::{Repo, TestServer, eventually};

const POSTS: &str = "collections/posts.yaml";

/// Starts a service without a watcher; it finds changes on its own tick.
async fn unwatched(more: &[&str]) -> TestServer {
    TestServer::setup("small").flag(&["--watch", "none", "--tick-ms", "20"]).flag(more).start().await
}

#[tokio::test]
async fn every_way_of_saving_is_found_by_the_tick() {
    let mut server = unwatched(LONG_PATIENCE).await;
    saved_in_every_way(&server).await;
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn what_is_broken_or_removed_is_found_by_the_tick() {
    let mut server = unwatched(&[]).await;
    server.repo().write(POSTS, "name: [\n");
    server.wait_for_problem(POSTS).await;
    server.repo().remove(POSTS);
    server.wait_until_not_found("posts").await;
    server.expect_git_status(" D collections/posts.yaml");
}

#[tokio::test]
async fn every_move_of_the_branch_is_found_by_the_tick() {
    let mut server = unwatched(&[]).await;
    let repo = server.repo().clone();
    repo.write_by_rename(POSTS, &named("Second"));
    server.wait_for_revision(&repo.commit("Second")).await;
    repo.git(&["pack-refs", "--all"]);
    repo.git(&["reset", "--quiet", "--hard", "HEAD^"]);
    server.wait_for_revision(&repo.head()).await;
    server.wait_for_attribute("posts", "name", "Posts").await;
    repo.git(&["checkout", "--quiet", "-b", "other"]);
    repo.write(POSTS, &named("Elsewhere"));
    repo.commit("Elsewhere");
    eventually("it is known that another branch is checked out", async || {
        let ready = server.get("/readyz").await.is(200);
        String::from_utf8_lossy(ready.bytes()).contains("other").then_some(())
    })
    .await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.write("collections/new.yaml", &named("New"));
    server.wait_for_attribute("new", "name", "New").await;
    server.expect_git_status("?? collections/new.yaml");
}

#[tokio::test]
async fn a_write_needs_no_notice_to_see_the_edit_of_its_key() {
    let server = TestServer::setup("small").deaf().start().await;
    server.repo().write_by_rename(POSTS, "# Mine\ntype: document\nname: By hand\n");
    server.patch("posts", json!({"name": "By API"})).await.is(200);
    assert_eq!(server.repo().subjects(), ["Update posts: name", "Edit posts by hand", "Seed"]);
    assert_eq!(server.repo().read(POSTS), "# Mine\ntype: document\nname: By API\n");
}

#[tokio::test]
async fn a_linked_work_tree_is_live_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let main = Repo::seeded(folder.path().join("main"), "small");
    let linked = folder.path().join("linked");
    main.git(&["checkout", "--quiet", "--detach"]);
    main.git(&["worktree", "add", "--quiet", linked.to_str().unwrap(), "main"]);
    let server = TestServer::setup("small").repository(&linked).flag(&["--tick-ms", "3600000"]).start().await;
    server.repo().write_by_rename(POSTS, &named("By hand"));
    server.wait_for_attribute("posts", "name", "By hand").await;
    server.commit_by_hand("By hand").await;
    eventually("it is committed", async || {
        server.list().await.is(200).json().get("meta").is_none().then_some(())
    })
    .await;
    server.patch("posts", json!({"name": "By API"})).await.is(200);
    assert!(server.repo().read(POSTS).contains("By API"));
    assert_eq!(server.repo().status(), "");
}
