//! Two people at the same time, and pages that follow events.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::browser::{Browser, Script};
use crate::scene::{client, lived_in, open, sign_in};
use crate::support::{document, eventually};

/// How soon an event must be visible on an open page.
const LIVE_WAIT_MAX: Duration = Duration::from_secs(1);

#[tokio::test]
async fn two_windows_that_edit_the_same_collection_merge_or_choose() {
    edit_together(Script::Runs).await;
}

#[tokio::test]
async fn two_windows_that_edit_the_same_collection_merge_or_choose_without_script() {
    edit_together(Script::Blocked).await;
}

async fn edit_together(script: Script) {
    let server = open().await;
    server.create(&document("posts", json!({"name": "Posts", "directory": "a"}))).await.is(201);
    let Some(one) = Browser::open(&server, script).await else { return };
    let Some(two) = Browser::open(&server, script).await else { return };
    for browser in [&one, &two] {
        browser.goto("/collections/posts").await;
        browser.find("#f-name").await;
    }
    two.write("#f-directory", "b").await;
    one.write("#f-name", "Typed by one").await;
    two.press("Save").await;
    two.shows("Saved, in a commit").await;
    if script == Script::Runs {
        one.shows("Somebody has changed this collection").await;
    }
    assert_eq!(one.value("#f-name").await, "Typed by one", "what is being typed is never touched");
    one.press("Save").await;
    one.shows("both changes are in").await;

    two.goto("/collections/posts").await;
    one.goto("/collections/posts").await;
    two.write("#f-name", "Of two").await;
    two.press("Save").await;
    two.shows("Saved, in a commit").await;
    one.write("#f-name", "Of one").await;
    one.write("#f-format", "json").await;
    one.press("Save").await;
    one.shows("what both of you changed").await;
    assert_eq!(one.value("#f-name").await, "Of one");
    if script == Script::Runs {
        let focused = one.run("return document.activeElement.id").await;
        assert_eq!(focused, "f-name", "the field that both have changed has the focus");
    }
    assert_eq!(one.text(".overlap div:nth-of-type(2) pre").await, "Of two");
    assert_eq!(one.text(".overlap div:nth-of-type(3) pre").await, "Typed by one");
    one.click("input[name='pick.name'][value=theirs]").await;
    one.press("Save").await;
    one.shows("Saved").await;
    let attributes = server.read("posts").await.is(200).attributes();
    assert_eq!(attributes, json!({"type": "document", "name": "Of two", "directory": "b", "format": "json"}));
    Browser::assert_none(&one.complaints().await);
}

#[tokio::test]
async fn what_happens_is_on_every_live_page_within_a_second() {
    let mut server = lived_in().await;
    let Some(browser) = Browser::open(&server, Script::Runs).await else { return };
    sign_in(&browser, "Jonas Okafor").await;
    let mara = client(&server, "Mara Weiss");
    let name = |name: String| document("jobs", json!({"name": name}));
    let mut slowest = Duration::ZERO;
    for (at, path) in
        ["/", "/collections/jobs/source", "/collections/jobs/history", "/events"].into_iter().enumerate()
    {
        browser.goto(path).await;
        browser.find("body[data-following]").await;
        let position = format!("Positions {at}");
        let patch = mara.request("PATCH", "/collections/jobs").header("Commit-Message", &position);
        patch.document(&name(position.clone())).send().await.is(200);
        let since = Instant::now();
        browser.shows(&position).await;
        slowest = slowest.max(since.elapsed());
    }
    browser.shows("1 new event.").await;

    // The page of problems shows a hand edit and a file that breaks.
    browser.goto("/problems").await;
    browser.find("body[data-following]").await;
    server.repo().write_by_rename("collections/photos.yaml", "type: media\nname: [Photos\n");
    let since = Instant::now();
    browser.shows("collections/photos.yaml:2:7").await;
    let until = since.elapsed();
    server.expect_git_status(
        " M collections/photos.yaml\n M collections/press-releases.yaml\n M collections/team.yaml",
    );
    eventually("two problems are counted", async || {
        (browser.text("#problem-count").await == "2").then_some(())
    })
    .await;

    // Another person deletes the collection.
    browser.goto("/collections/jobs").await;
    browser.find("body[data-following]").await;
    mara.delete("jobs").await.is(204);
    let since = Instant::now();
    browser.shows("Somebody has deleted this collection.").await;
    slowest = slowest.max(since.elapsed());
    assert!(slowest < LIVE_WAIT_MAX, "the slowest page took {slowest:?}");
    // A saved file is read only after it has been unchanged for a moment.
    assert!(until < LIVE_WAIT_MAX * 2, "the hand edit took {until:?}");
    Browser::assert_none(&browser.complaints().await);
}

#[tokio::test]
async fn a_page_finds_back_to_a_service_that_was_away() {
    let mut server = open().await;
    server.create(&document("posts", json!({"name": "Posts"}))).await.is(201);
    let Some(browser) = Browser::open(&server, Script::Runs).await else { return };
    browser.goto("/").await;
    browser.find("body[data-following]").await;
    server.restart_here().await;
    server.patch("posts", json!({"name": "After the restart"})).await.is(200);
    browser.shows("After the restart").await;
    eventually("it follows again", async || (browser.count("body[data-following]").await == 1).then_some(()))
        .await;
}
