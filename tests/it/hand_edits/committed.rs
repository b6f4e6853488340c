//! Every way in which git moves a branch while the service runs.

use serde_json::json;

use super::named;
use crate::support::{Repo, TestServer, eventually};

const POSTS: &str = "collections/posts.yaml";

async fn edited() -> TestServer {
    let server = TestServer::start("small").await;
    server.repo().write_by_rename(POSTS, &named("Second"));
    server.commit_by_hand("Second").await;
    server
}

/// Waits until the head is served, `posts` has this name, and nothing is marked as uncommitted.
async fn matches_head(server: &TestServer, name: &str) {
    server.wait_for_revision(&server.repo().head()).await;
    let good = server.wait_for_attribute("posts", "name", name).await;
    eventually("nothing is uncommitted", async || {
        server.list().await.is(200).json().get("meta").is_none().then_some(())
    })
    .await;
    drop(good);
}

#[tokio::test]
async fn what_is_committed_by_hand_is_served() {
    let server = edited().await;
    matches_head(&server, "Second").await;
    server.repo().remove("collections/pages.yaml");
    server.repo().write("collections/new.yaml", &named("New"));
    server.commit_by_hand("More").await;
    assert_eq!(server.list().await.is(200).ids(), ["images", "new", "posts"]);
}

#[tokio::test]
async fn amend_revert_and_cherry_pick_are_live() {
    let server = edited().await;
    server.repo().write(POSTS, &named("Amended"));
    server.repo().git(&["commit", "--quiet", "--all", "--amend", "-m", "Amended"]);
    matches_head(&server, "Amended").await;
    let amended = server.repo().head();
    server.repo().git(&["revert", "--no-edit", "HEAD"]);
    matches_head(&server, "Posts").await;
    server.repo().git(&["cherry-pick", &amended]);
    matches_head(&server, "Amended").await;
}

#[tokio::test]
async fn merges_and_rebases_are_live() {
    let server = TestServer::start("small").await;
    let repo = server.repo();
    repo.git(&["branch", "side"]);
    repo.write(POSTS, &named("Main"));
    repo.commit("Main");
    matches_head(&server, "Main").await;
    let folder = server.folder().join("side");
    repo.git(&["worktree", "add", "--quiet", folder.to_str().unwrap(), "side"]);
    let side = Repo::at(&folder);
    side.write("collections/pages.yaml", &named("Side"));
    side.commit("Side");
    repo.git(&["worktree", "remove", folder.to_str().unwrap()]);
    repo.git(&["merge", "--quiet", "--no-edit", "side"]);
    matches_head(&server, "Main").await;
    server.wait_for_attribute("pages", "name", "Side").await;
    repo.git(&["reset", "--quiet", "--hard", "HEAD^"]);
    matches_head(&server, "Main").await;
    server.wait_for_attribute("pages", "name", "Pages").await;
    repo.git(&["rebase", "--quiet", "side"]);
    matches_head(&server, "Main").await;
    server.wait_for_attribute("pages", "name", "Side").await;
}

#[tokio::test]
async fn resets_of_every_kind_are_understood() {
    let mut server = edited().await;
    server.repo().git(&["reset", "--quiet", "--soft", "HEAD^"]);
    server.wait_for_revision(&server.repo().head()).await;
    let good = server.wait_for_attribute("posts", "name", "Second").await;
    assert_eq!(
        good.json()["data"]["meta"]["uncommitted"],
        true,
        "files and index are the person's, and stay"
    );
    assert_eq!(server.repo().status(), "M  collections/posts.yaml");
    server.repo().git(&["reset", "--quiet", "--mixed", "HEAD"]);
    server.wait_for_attribute("posts", "name", "Second").await;
    assert_eq!(server.repo().status().trim(), "M collections/posts.yaml");
    server.repo().git(&["reset", "--quiet", "--hard", "HEAD"]);
    matches_head(&server, "Posts").await;
    server.expect_git_status("");
}

#[tokio::test]
async fn an_old_version_of_a_file_and_stashes_are_edits() {
    let mut server = edited().await;
    server.repo().git(&["checkout", "--quiet", "HEAD^", "--", POSTS]);
    let good = server.wait_for_attribute("posts", "name", "Posts").await;
    assert_eq!(good.json()["data"]["meta"]["uncommitted"], true);
    server.repo().git(&["stash", "--quiet"]);
    matches_head(&server, "Second").await;
    server.repo().git(&["stash", "pop", "--quiet"]);
    server.wait_for_attribute("posts", "name", "Posts").await;
    server.repo().git(&["checkout", "--quiet", "HEAD", "--", POSTS]);
    matches_head(&server, "Second").await;
    server.expect_git_status("");
}

#[tokio::test]
async fn a_moved_reference_is_served_and_the_work_tree_brought_forward() {
    let server = edited().await;
    let second = server.repo().head();
    server.repo().git(&["reset", "--quiet", "--hard", "HEAD^"]);
    matches_head(&server, "Posts").await;
    server.repo().git(&["update-ref", "refs/heads/main", &second]);
    server.wait_for_revision(&second).await;
    server.wait_for_attribute("posts", "name", "Second").await;
    eventually("the files follow", async || server.repo().status().is_empty().then_some(())).await;
    assert_eq!(server.repo().read(POSTS), named("Second"));
}

#[tokio::test]
async fn a_push_into_the_repository_is_live_bare_or_not() {
    for bare in [false, true] {
        let setup = TestServer::setup("small");
        let server = if bare { setup.bare() } else { setup }.start().await;
        server.repo().git(&["config", "receive.denyCurrentBranch", "ignore"]);
        let clone = Repo::at(server.folder().join("clone"));
        let path = clone.path().to_str().unwrap();
        server.repo().git(&["clone", "--quiet", ".", path]);
        clone.git(&["config", "user.name", "Pusher"]);
        clone.git(&["config", "user.email", "p@example.org"]);
        clone.write(POSTS, &named("Pushed"));
        let head = clone.commit("Pushed");
        clone.git(&["push", "--quiet", "origin", "HEAD:main"]);
        server.wait_for_revision(&head).await;
        server.wait_for_attribute("posts", "name", "Pushed").await;
        if !bare {
            eventually("the files follow", async || server.repo().status().is_empty().then_some(())).await;
        }
        server.patch("posts", json!({"name": "After"})).await.is(200);
        clone.git(&["pull", "--quiet", "--rebase"]);
        assert_eq!(clone.head(), server.repo().head());
    }
}

#[tokio::test]
async fn maintenance_changes_nothing() {
    let server = edited().await;
    for command in
        [&["pack-refs", "--all"][..], &["gc", "--quiet"], &["repack", "-a", "-d", "-q"], &["prune"]]
    {
        server.repo().git(command);
        let name = format!("After {}", command[0]);
        server.patch("posts", json!({"name": name})).await.is(200);
        server.repo().write_by_rename(POSTS, &named("By hand"));
        server.commit_by_hand("By hand").await;
        matches_head(&server, "By hand").await;
    }
    assert_eq!(server.list().await.is(200).ids().len(), 3);
}

#[tokio::test]
async fn while_another_branch_is_checked_out_the_served_one_goes_on() {
    let server = edited().await;
    let repo = server.repo();
    repo.git(&["checkout", "--quiet", "-b", "other", "HEAD^"]);
    repo.write("collections/pages.yaml", &named("Other"));
    repo.commit("Other");
    server.patch("posts", json!({"name": "Served"})).await.is(200);
    assert_eq!(server.read("pages").await.is(200).attributes()["name"], "Pages");
    assert!(repo.read(POSTS).contains("name: Posts"), "the work tree is not touched");
    assert_eq!(repo.status(), "");
    let ready = server.get("/readyz").await.is(200);
    assert!(String::from_utf8_lossy(ready.bytes()).contains("other"), "{:?}", ready.json());
    repo.git(&["checkout", "--quiet", "main"]);
    matches_head(&server, "Served").await;
    assert!(repo.read(POSTS).contains("name: Served"));
}

#[tokio::test]
async fn a_history_that_was_rewritten_is_served_as_it_is_now() {
    let server = edited().await;
    for number in 0..5 {
        server.patch("posts", json!({"name": format!("Write {number}")})).await.is(200);
    }
    server.repo().git(&["reset", "--quiet", "--hard", "HEAD~3"]);
    matches_head(&server, "Write 1").await;
    server.patch("posts", json!({"name": "On top"})).await.is(200);
    assert_eq!(server.repo().commit_count(), 5);
}

#[tokio::test]
async fn with_a_slow_tick_only_the_watcher_is_needed() {
    let setup = TestServer::setup("small").flag(&["--tick-ms", "3600000"]);
    let mut server = setup.start().await;
    server.repo().write(POSTS, &named("Watched"));
    server.wait_for_attribute("posts", "name", "Watched").await;
    server.commit_by_hand("Watched").await;
    server.expect_git_status("");
}
