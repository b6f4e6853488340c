//! What people do on the pages, with and without the script.

use serde_json::json;

use crate::browser::{Browser, LOOKS, Script};
use crate::scene::{client, guarded, lived_in, open, sign_in};
use crate::support::document;

#[tokio::test]
async fn a_collection_is_made_changed_and_deleted() {
    make_change_and_delete(Script::Runs).await;
}

#[tokio::test]
async fn a_collection_is_made_changed_and_deleted_without_script() {
    make_change_and_delete(Script::Blocked).await;
}

async fn make_change_and_delete(script: Script) {
    let server = open().await;
    let Some(browser) = Browser::open(&server, script).await else { return };
    browser.goto("/").await;
    browser.shows("There are no collections yet").await;
    browser.press("New collection").await;
    browser.write("#f-id", "posts").await;
    browser.write("#f-name", "Posts").await;
    browser.write("#f-directory", "../outside").await;
    browser.write("#f-reason", "We begin").await;
    browser.press("Create").await;
    browser.shows("Nothing is saved yet").await;
    assert_eq!(browser.value("#f-name").await, "Posts", "what was typed stays");
    assert!(browser.text("#e-directory").await.contains("`..`"), "the error stands at its field");
    if script == Script::Runs {
        let focused = browser.run("return document.activeElement.id").await;
        assert_eq!(focused, "f-directory", "the field that is wrong has the focus");
    }
    browser.click(".errors a").await;
    browser.write("#f-directory", "content/posts").await;
    browser.press("Preview").await;
    browser.shows("The commit that this would make").await;
    browser.shows("+directory: content/posts").await;
    server.read("posts").await.is(404);
    browser.press("Create").await;
    browser.shows("Created, in a commit of its own.").await;
    assert!(server.repo().field("HEAD", "%B").contains("We begin"));

    browser.choose("#f-recursive", "true").await;
    browser.write("#f-unpublishedStatuses", "draft").await;
    browser.write("#f-unpublishedStatuses-directory-0", "content/drafts").await;
    browser.write("#f-unpublishedStatuses-name-0", "Draft").await;
    if script == Script::Runs {
        browser.press("Add a status").await;
        for (part, text) in [("key", "trash"), ("directory", "content/trash"), ("name", "Trash")] {
            browser.write(&format!("input[name='s.{part}.1']"), text).await;
        }
    }
    browser.write("#x-name", "owner").await;
    browser.write("#x-value", "{\"team\": \"Comms\"}").await;
    browser.press("Save").await;
    browser.shows("Saved, in a commit of its own.").await;
    let attributes = server.read("posts").await.is(200).attributes();
    assert_eq!((&attributes["recursive"], &attributes["x-owner"]), (&json!(true), &json!({"team": "Comms"})));
    assert_eq!(attributes["unpublishedStatuses"]["draft"]["directory"], "content/drafts");
    assert_eq!(attributes["unpublishedStatuses"].get("trash").is_some(), script == Script::Runs);

    let commits = server.repo().commit_count();
    browser.reload().await;
    browser.shows("Posts").await;
    assert_eq!(server.repo().commit_count(), commits, "to reload does nothing again");

    browser.press("Delete…").await;
    browser.shows("Delete posts?").await;
    browser.press("Leave it as it is").await;
    server.read("posts").await.is(200);
    browser.press("Delete…").await;
    browser.write("#reason", "Not needed").await;
    browser.press("Delete posts").await;
    browser.shows("Deleted, in a commit of its own.").await;
    server.read("posts").await.is(404);
    Browser::assert_none(&browser.complaints().await);
}

#[tokio::test]
async fn an_event_is_looked_up_undone_and_a_version_restored() {
    look_up_undo_and_restore(Script::Runs).await;
}

#[tokio::test]
async fn an_event_is_looked_up_undone_and_a_version_restored_without_script() {
    look_up_undo_and_restore(Script::Blocked).await;
}

async fn look_up_undo_and_restore(script: Script) {
    let server = lived_in().await;
    let Some(browser) = Browser::open(&server, script).await else { return };
    sign_in(&browser, "Mara Weiss").await;

    // An auditor asks who renamed the posts, when and why.
    browser.goto("/collections/posts/source").await;
    browser.shows("The navigation says News; so do we").await;
    browser.click(".source .begins a[title^='The navigation']").await;
    browser.shows("News and stories").await;
    browser.shows("Jonas Okafor").await;
    browser.press("Undo…").await;
    browser.shows("+name: Posts").await;
    browser.write("#reason", "The old name is known").await;
    browser.press("Undo posts").await;
    browser.shows("Undone, by a commit of its own.").await;
    let posts = client(&server, "Mara Weiss").read("posts").await.is(200).attributes();
    assert_eq!((posts["name"].as_str(), posts.get("x-owner")), (Some("Posts"), None));

    browser.press("History").await;
    browser.shows("3 events").await;
    assert_eq!(browser.count("input[name=from]").await, 3);
    browser.click("li:nth-child(3) input[name=from]").await;
    browser.click("li:nth-child(2) input[name=to]").await;
    browser.click("main form[action$='/compare'] button").await;
    browser.shows("1 collection differs.").await;
    browser.shows("News and stories").await;
    browser.back().await;
    browser.click("li:nth-child(2) a[href*='/restore?']").await;
    browser.shows("Restore posts?").await;
    browser.press("Restore posts").await;
    browser.shows("Restored, by a commit of its own.").await;
    let posts = client(&server, "Mara Weiss").read("posts").await.is(200).attributes();
    assert_eq!(posts["name"], "News and stories");
    Browser::assert_none(&browser.complaints().await);
}

#[tokio::test]
async fn the_list_is_searched_filtered_and_sorted_and_everything_shown_as_it_was() {
    search_filter_sort_and_go_back(Script::Runs).await;
}

#[tokio::test]
async fn the_list_is_searched_filtered_and_sorted_and_everything_shown_as_it_was_without_script() {
    search_filter_sort_and_go_back(Script::Blocked).await;
}

async fn search_filter_sort_and_go_back(script: Script) {
    let server = lived_in().await;
    let Some(browser) = Browser::open(&server, script).await else { return };
    sign_in(&browser, "Jonas Okafor").await;
    browser.shows("1 to 5 of 5").await;
    browser.write("#q", "content/").await;
    if script == Script::Blocked {
        browser.press("Filter").await;
    }
    browser.shows("1 to 4 of 4, out of 5").await;
    browser.press("Show all").await;
    browser.shows("1 to 5 of 5").await;
    browser.choose("#mark", "broken").await;
    if script == Script::Blocked {
        browser.press("Filter").await;
    }
    browser.shows("1 to 1 of 1, out of 5").await;
    browser.press("press-releases").await;
    browser.shows("collections/press-releases.yaml:4:9").await;
    browser.goto("/").await;
    browser.press("Last change").await;
    browser.find("th[aria-sort=descending]").await;
    assert_eq!(browser.text("tbody tr:first-child th a").await, "jobs", "changed last stands first");
    browser.press("As it was").await;
    browser.write("#as-of", "HEAD~3").await;
    browser.press("Show").await;
    browser.shows("Nothing can be changed here").await;
    browser.shows("News until 2019").await;
    browser.press("legacy-news").await;
    browser.shows("archive/news").await;
    assert_eq!(browser.count("form[method=post][action*='/collections/']").await, 0);
    browser.press("Collections").await;
    browser.press("Back to the present").await;
    browser.shows("1 to 5 of 5").await;
    browser.press("Timeline").await;
    browser.shows("9 events").await;
    browser.choose("#action", "deleted").await;
    browser.press("Filter").await;
    browser.shows("1 event").await;
    browser.shows("Moved to the archive").await;
    Browser::assert_none(&browser.complaints().await);
}

#[tokio::test]
async fn a_session_that_ended_brings_back_what_was_typed() {
    session_ends(Script::Runs).await;
}

#[tokio::test]
async fn a_session_that_ended_brings_back_what_was_typed_without_script() {
    session_ends(Script::Blocked).await;
}

async fn session_ends(script: Script) {
    let mut server = guarded().await;
    let posts = document("posts", json!({"name": "Posts"}));
    client(&server, "Mara Weiss").create(&posts).await.is(201);
    let Some(browser) = Browser::open(&server, script).await else { return };
    browser.goto("/collections/posts").await;
    browser.write("#secret", "guess").await;
    browser.press("Sign in").await;
    browser.shows("not known here").await;
    browser.write("#secret", "mara-secret").await;
    browser.press("Sign in").await;
    browser.write("#f-name", "Typed for a long time").await;
    assert_eq!(browser.path().await, "/collections/posts", "one is led back");
    browser.write("#f-reason", "Kept").await;
    server.restart_here().await;
    browser.press("Save").await;
    browser.shows("Your session has ended").await;
    browser.write("#secret", "mara-secret").await;
    browser.press("Sign in").await;
    browser.shows("nothing was done yet").await;
    assert_eq!(browser.value("#f-name").await, "Typed for a long time");
    assert_eq!(browser.value("#f-reason").await, "Kept");
    browser.press("Save").await;
    browser.shows("Saved, in a commit of its own.").await;
    browser.press("Sign out").await;
    browser.shows("Your token").await;
    browser.goto("/").await;
    browser.shows("Your token").await;
}

#[tokio::test]
async fn keys_and_directories_are_copied() {
    let server = open().await;
    let Some(browser) = Browser::open(&server, Script::Runs).await else { return };
    let statuses = json!({"draft": {"directory": "content/drafts", "name": "Draft"}});
    let posts =
        json!({"directory": "content/posts", "revisionDirectory": "old", "unpublishedStatuses": statuses});
    server.create(&document("posts", posts)).await.is(201);
    let copied = async |of: &str| {
        browser.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }").await;
        browser.click(&format!("button[aria-label='Copy {of}']")).await;
        browser.run("return window.copied").await
    };
    browser.goto("/collections/posts").await;
    for (of, text) in [
        ("posts", "posts"),
        ("directory", "content/posts"),
        ("revisionDirectory", "old"),
        ("directory of draft", "content/drafts"),
    ] {
        assert_eq!(copied(of).await, text, "{of}");
    }
    browser.write("#f-directory", "typed").await;
    assert_eq!(copied("directory").await, "typed", "what stands there by now");
    browser.press("Add a status").await;
    assert_eq!(browser.count("#f-unpublishedStatuses-directory-2 + button").await, 0, "an empty one is not");
    browser.goto("/collections/posts?asOf=HEAD").await;
    assert_eq!(copied("content/posts").await, "content/posts");
    Browser::assert_none(&browser.complaints().await);
}

#[tokio::test]
async fn everything_is_done_with_the_keyboard_alone() {
    let server = open().await;
    let Some(browser) = Browser::open(&server, Script::Runs).await else { return };
    browser.goto("/new").await;
    browser.keys("\u{e004}").await;
    assert_eq!(
        browser.run("return document.activeElement.className").await,
        "skip",
        "first comes the way past the head"
    );
    browser.keys("\u{e007}").await;
    browser.run("document.getElementById('f-id').focus()").await;
    browser.keys("posts\u{e004}Posts\u{e007}").await;
    browser.shows("Created, in a commit of its own.").await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
    browser.look(LOOKS[2]).await;
    browser.goto("/").await;
    browser.find(".when summary").await.send_keys("\u{e007}").await.unwrap();
    browser.find("#as-of").await.send_keys("\u{e00c}").await.unwrap();
    let focused = browser.run("return document.activeElement.textContent").await;
    assert_eq!(focused, "As it was", "Escape leads back to what was opened");
}
