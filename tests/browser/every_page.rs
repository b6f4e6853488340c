//! Every page in light and dark, wide and narrow windows: accessible, valid and small.

use std::path::PathBuf;

use crate::browser::{Browser, LOOKS, Script};
use crate::checks::Checked;
use crate::scene::{client, guarded, lived_in, open, sign_in};
use crate::support::TestServer;

#[tokio::test]
async fn every_page_of_a_service_in_use_is_accessible_valid_and_light() {
    let server = lived_in().await;
    let Some(browser) = Browser::open(&server, Script::Runs).await else { return };
    let Some(mut pages) = Checked::new(&browser, "in-use") else { return };
    let mara = client(&server, "Mara Weiss");
    let events = mara.get("/events").await.is(200).data();
    let id = |at: usize| events[at]["id"].as_str().unwrap().to_owned();
    let (deleted, renamed) = (id(1), id(2));
    let revision = events[2]["attributes"]["revision"].as_str().unwrap().to_owned();
    pages.visit("sign-in", "/sign-in").await;
    sign_in(&browser, "Mara Weiss").await;
    for (name, path) in [
        ("list", "/"),
        ("list-empty", "/?q=nothing+like+this"),
        ("list-broken", "/?mark=broken"),
        ("new", "/new"),
        ("new-media", "/new?kind=media"),
        ("settings", "/collections/posts"),
        ("settings-broken", "/collections/press-releases"),
        ("settings-uncommitted", "/collections/team"),
        ("settings-as-it-was", "/collections/posts?asOf=HEAD~4"),
        ("source", "/collections/posts/source"),
        ("source-broken", "/collections/press-releases/source"),
        ("history", "/collections/posts/history"),
        ("delete", "/collections/posts/delete"),
        ("events", "/events"),
        ("events-filtered", "/events?actor=jonas@example.org&action=updated"),
        ("events-none", "/events?actor=nobody"),
        ("compare", "/compare"),
        ("compared", "/compare?from=HEAD~6&to=HEAD"),
        ("problems", "/problems"),
        ("problems-none", "/problems?asOf=HEAD"),
        ("about", "/about"),
        ("missing", "/collections/legacy-news"),
    ] {
        pages.visit(name, path).await;
    }
    pages.visit("event", &format!("/events/{renamed}")).await;
    pages.visit("event-deleted", &format!("/events/{deleted}")).await;
    pages.visit("undo", &format!("/events/{renamed}/undo")).await;
    pages.visit("restore", &format!("/collections/posts/restore?revision={revision}~5")).await;
    browser.complaints().await;
    pages.finish().await;
}

#[tokio::test]
async fn every_page_that_says_no_or_nothing_yet_is_accessible_and_valid() {
    let empty = open().await;
    let guarded = guarded().await;
    let Some(mut browser) = Browser::open(&empty, Script::Runs).await else { return };
    {
        let Some(mut pages) = Checked::new(&browser, "empty") else { return };
        for (name, path) in [
            ("list", "/"),
            ("events", "/events"),
            ("problems", "/problems"),
            ("compare", "/compare"),
            ("about", "/about"),
        ] {
            pages.visit(name, path).await;
        }
        browser.goto("/new").await;
        browser.write("#f-id", "a b").await;
        browser.write("#f-directory", "../up").await;
        browser.write("#f-unpublishedStatuses", "draft").await;
        browser.press("Create").await;
        browser.shows("Nothing is saved yet").await;
        pages.posted("errors").await;
        browser.write("#f-id", "posts").await;
        browser.write("#f-directory", "content/posts").await;
        browser.write("#f-unpublishedStatuses-directory-0", "content/drafts").await;
        browser.write("#f-unpublishedStatuses-name-0", "Draft").await;
        browser.press("Preview").await;
        browser.shows("The commit that this would make").await;
        pages.posted("preview").await;
        pages.finish().await;
    }
    browser.turn_to(&guarded);
    let Some(mut pages) = Checked::new(&browser, "refused") else { return };
    sign_in(&browser, "Reader").await;
    pages.visit("list", "/").await;
    pages.visit("forbidden", "/new").await;
    pages.visit("missing", "/nothing").await;
    pages.finish().await;
}

/// Replaces a folder by a file until this is dropped.
struct Misplaced {
    folder: PathBuf,
    aside: PathBuf,
}

impl Misplaced {
    fn new(folder: PathBuf, aside: PathBuf) -> Self {
        std::fs::rename(&folder, &aside).unwrap();
        std::fs::write(&folder, "no folder").unwrap();
        Self { folder, aside }
    }
}

impl Drop for Misplaced {
    fn drop(&mut self) {
        std::fs::remove_file(&self.folder).unwrap();
        std::fs::rename(&self.aside, &self.folder).unwrap();
    }
}

#[tokio::test]
async fn a_page_that_can_not_be_shown_yet_says_so_and_comes_by_itself() {
    let mut server = TestServer::setup("small").bare().start().await;
    server.stop();
    let blob = server.repo().git(&["rev-parse", "HEAD:collections/posts.yaml"]);
    let folder = server.repo().git_folder().join("objects").join(&blob[..2]);
    let misplaced = Misplaced::new(folder, server.folder().join("aside"));
    server.start_again_unready();
    let Some(browser) = Browser::open(&server, Script::Runs).await else { return };
    let Some(mut pages) = Checked::new(&browser, "starting") else { return };
    pages.visit("list", "/?sort=name").await;
    browser.shows("Not yet").await;
    pages.finish().await;
    drop(misplaced);
    browser.shows("1 to 3 of 3").await;
    assert_eq!(browser.path().await, "/?sort=name");
}

#[tokio::test]
async fn the_pictures_of_the_readme_are_of_these_pages() {
    let Some(folder) = std::env::var_os("COLLECTORY_PICTURES") else { return };
    let server = lived_in().await;
    let Some(browser) = Browser::open(&server, Script::Runs).await else { return };
    sign_in(&browser, "Jonas Okafor").await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (name, path, look) in [
        ("collections", "/", LOOKS[0]),
        ("source", "/collections/posts/source", LOOKS[0]),
        ("timeline-dark", "/events", LOOKS[1]),
    ] {
        browser.look(look).await;
        browser.goto(path).await;
        std::fs::write(folder.join(format!("{name}.png")), browser.picture(false).await).unwrap();
    }
}
