//! Uncommitted edits, saved in every way that programs use.

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::named;
use crate::support::{RawRequest, TestServer, eventually};

const POSTS: &str = "collections/posts.yaml";

#[tokio::test]
async fn a_saved_file_is_served_and_marked() {
    let mut server = TestServer::start("small").await;
    let revision = server.repo().head();
    server.repo().write_by_rename(POSTS, &named("By hand"));
    let good = server.wait_for_attribute("posts", "name", "By hand").await;
    assert_eq!(good.json()["data"]["meta"], json!({"uncommitted": true}));
    assert_eq!(good.header("collectory-revision"), revision);
    let list = server.list().await.is(200).json();
    assert_eq!(list["meta"]["uncommitted"], 1);
    assert_eq!(list["data"][2]["meta"], json!({"uncommitted": true}));
    assert_eq!(list["data"][1].get("meta"), None);
    assert_eq!(server.repo().head(), revision, "saving makes no commit");
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn new_and_deleted_files_are_live_and_counted_too() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename("collections/new.yaml", &named("New"));
    server.wait_for_attribute("new", "name", "New").await;
    server.repo().remove("collections/pages.yaml");
    server.wait_until_not_found("pages").await;
    assert_eq!(server.list().await.is(200).json()["meta"]["uncommitted"], 2);
    server.repo().git(&["checkout", "--", "collections/pages.yaml"]);
    server.wait_for_attribute("pages", "name", "Pages").await;
    server.repo().remove("collections/new.yaml");
    server.wait_until_not_found("new").await;
    let list = server.list().await.is(200).json();
    assert_eq!(list.get("meta"), None, "nothing needs saying any more");
    server.expect_git_status("");
}

#[tokio::test]
async fn uncommitted_edits_can_be_ignored() {
    let mut server = TestServer::setup("small").flag(&["--uncommitted", "ignore"]).start().await;
    server.repo().write_by_rename(POSTS, &named("By hand"));
    server.repo().write_by_rename("collections/new.yaml", &named("New"));
    server.patch("pages", json!({"name": "By API"})).await.is(200);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
    server.read("new").await.is(404);
    let refused = server.patch("posts", json!({"name": "By API"})).await.is(409);
    assert!(refused.detail().contains(POSTS), "{}", refused.detail());
    server.delete("posts").await.is(409);
    server.repo().git(&["add", POSTS]);
    server.repo().git(&["commit", "--quiet", "-m", "Mine"]);
    server.wait_for_attribute("posts", "name", "By hand").await;
    server.expect_git_status("?? collections/new.yaml");
}

#[tokio::test]
async fn a_file_that_changes_its_ending_is_renamed_at_once_and_no_problem() {
    for (from, to) in [(POSTS, "collections/posts.yml"), ("collections/posts.yml", POSTS)] {
        let setup = TestServer::setup("small").flag(&["--settle-patience-ms", "3600000"]);
        let mut server = setup.start().await;
        if from != POSTS {
            server.repo().git(&["mv", POSTS, from]);
            server.commit_by_hand("Rename").await;
        }
        server.repo().git(&["mv", from, to]);
        eventually("one is gone and one is new", async || {
            let list = server.list().await.is(200).json();
            (list["meta"]["uncommitted"] == 2).then_some(())
        })
        .await;
        server.wait_for_no_problem().await;
        assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
        server.expect_git_status(&format!("R  {from} -> {to}"));
    }
}

/// Longer than a busy machine takes between the two halves of a save, but short enough for a test.
pub(super) const LONG_PATIENCE: &[&str] = &["--settle-patience-ms", "3000"];

/// Saves `content` over `posts` in one of the ways that programs use.
type Save = fn(&TestServer, &str);

const WAYS: &[(&str, Save)] = &[
    ("in place", |server, content| server.repo().write(POSTS, content)),
    ("temporary file and rename", |server, content| server.repo().write_by_rename(POSTS, content)),
    ("truncate and write in pieces", |server, content| {
        let mut file = fs::File::create(server.repo().path().join(POSTS)).unwrap();
        for byte in content.as_bytes() {
            file.write_all(&[*byte]).unwrap();
        }
    }),
    ("delete and recreate", |server, content| {
        server.repo().remove(POSTS);
        server.repo().write(POSTS, content);
    }),
    ("backup, new file, backup removed", |server, content| {
        let path = server.repo().path().join(POSTS);
        let backup = path.with_file_name("posts.yaml~");
        fs::rename(&path, &backup).unwrap();
        fs::write(&path, content).unwrap();
        fs::remove_file(backup).unwrap();
    }),
    ("swap file beside it", |server, content| {
        let path = server.repo().path().join(POSTS);
        let swap = path.with_file_name(".posts.yaml.swp");
        fs::write(&swap, "b0VIM").unwrap();
        fs::write(path.with_file_name("4913"), "").unwrap();
        fs::remove_file(path.with_file_name("4913")).unwrap();
        fs::write(&path, content).unwrap();
        fs::remove_file(swap).unwrap();
    }),
    ("cp -a", |server, content| copy_with(server, content, &["cp", "-a"])),
    ("sed -i", |server, content| {
        let path = server.repo().path().join(POSTS);
        let name = content.lines().nth(1).expect("a name");
        let script = format!("s/^name: .*/{name}/");
        let status = Command::new("sed").args(["-i", &script]).arg(path).status();
        assert!(status.unwrap().success());
    }),
    ("a copy beside it, kept with its times, renamed over it (as rsync does)", |server, content| {
        let path = server.repo().path().join(POSTS);
        let [outside, beside] =
            [server.folder().join("outside.yaml"), path.with_file_name(".posts.yaml.k3XyZ1")];
        fs::write(&outside, content).unwrap();
        let old = fs::metadata(&path).unwrap().modified().unwrap();
        fs::copy(&outside, &beside).unwrap();
        fs::File::options().write(true).open(&beside).unwrap().set_modified(old).unwrap();
        fs::rename(beside, path).unwrap();
        fs::remove_file(outside).unwrap();
    }),
    ("mv", |server, content| copy_with(server, content, &["mv"])),
    ("hard link over it", |server, content| {
        let path = server.repo().path().join(POSTS);
        let outside = server.folder().join("outside.yaml");
        fs::write(&outside, content).unwrap();
        fs::remove_file(&path).unwrap();
        fs::hard_link(&outside, &path).unwrap();
        fs::remove_file(outside).unwrap();
    }),
    ("folder moved away and back", |server, content| {
        let folder = server.repo().path().join("collections");
        let aside = server.folder().join("aside");
        fs::rename(&folder, &aside).unwrap();
        fs::write(aside.join("posts.yaml"), content).unwrap();
        fs::rename(&aside, &folder).unwrap();
    }),
    ("folder replaced by a copy", |server, content| {
        let folder = server.repo().path().join("collections");
        let copy = server.folder().join("copy");
        let old = server.folder().join("old");
        Command::new("cp").arg("-a").args([&folder, &copy]).status().unwrap();
        fs::write(copy.join("posts.yaml"), content).unwrap();
        fs::rename(&folder, &old).unwrap();
        fs::rename(&copy, &folder).unwrap();
        fs::remove_dir_all(old).unwrap();
    }),
];

fn copy_with(server: &TestServer, content: &str, command: &[&str]) {
    let outside = server.folder().join("outside.yaml");
    fs::write(&outside, content).unwrap();
    let target = server.repo().path().join(POSTS);
    let status = Command::new(command[0]).args(&command[1..]).arg(&outside).arg(target).status();
    assert!(status.unwrap().success());
    fs::remove_file(outside).ok();
}

#[tokio::test]
async fn every_way_of_saving_is_seen_and_never_shows_a_gap() {
    let mut server = TestServer::setup("small").flag(LONG_PATIENCE).start().await;
    saved_in_every_way(&server).await;
    server.expect_git_status(" M collections/posts.yaml");
}

/// Saves in every way and waits each time until the result is served. The list must never show a gap.
pub(super) async fn saved_in_every_way(server: &TestServer) {
    for (index, (way, save)) in WAYS.iter().enumerate() {
        let name = format!("Saved {index}");
        save(server, &named(&name));
        eventually(&format!("{way} is seen"), async || {
            let list = server.list().await.is(200);
            assert_eq!(list.ids(), ["images", "pages", "posts"], "{way} shows a gap");
            (list.data()[2]["attributes"]["name"] == name).then_some(())
        })
        .await;
        assert_eq!(server.get("/problems").await.is(200).ids(), [""; 0], "{way}");
    }
}

/// Reads the list continuously while it is saved in every way. The settle patience is longer than any stall of a busy
/// machine between the two halves of a save; the last save does not depend on it.
#[tokio::test]
async fn no_reader_ever_sees_a_gap_or_half_a_value() {
    let mut server = TestServer::setup("small").flag(&["--settle-patience-ms", "3600000"]).start().await;
    let (address, done) = (server.address(), AtomicBool::new(false));
    let lists = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut lists, mut newest) = (0, None);
            while !done.load(Ordering::Relaxed) {
                let list = RawRequest::new("GET", "/collections").send(address).is(200);
                assert_eq!(list.ids(), ["images", "pages", "posts"]);
                let name = list.data()[2]["attributes"]["name"].as_str().expect("a name").to_owned();
                let number = name.strip_prefix("Saved ").and_then(|rest| rest.parse::<usize>().ok());
                assert!(number.is_some() || name == "Posts", "half a value: {name:?}");
                assert!(number >= newest, "half a value, or an older one: {name:?} after {newest:?}");
                newest = number;
                lists += 1;
            }
            lists
        });
        for round in 0..8 {
            for (index, (_, save)) in WAYS.iter().enumerate() {
                save(&server, &named(&format!("Saved {}", round * WAYS.len() + index)));
            }
        }
        done.store(true, Ordering::Relaxed);
        reader.join().expect("the reader saw no gap")
    });
    assert!(lists > 0, "somebody has read");
    server.repo().write_by_rename(POSTS, &named("Last"));
    server.wait_for_attribute("posts", "name", "Last").await;
    server.wait_for_no_problem().await;
    server.expect_git_status(" M collections/posts.yaml");
}

/// The service checks the files every 10 ms, whatever the watcher reports.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn half_a_value_is_not_shown_however_long_its_writer_pauses() {
    let flags = ["--settle-patience-ms", "3600000", "--tick-ms", "10"];
    let mut server = TestServer::setup("small").flag(&flags).start().await;
    server.repo().write(POSTS, &named("First of May"));
    server.wait_for_attribute("posts", "name", "First of May").await;
    let mut file = fs::File::create(server.repo().path().join(POSTS)).unwrap();
    file.write_all(named("First").as_bytes()).unwrap();
    for round in 0..3 {
        server.repo().write_by_rename("collections/pages.yaml", &named(&format!("Round {round}")));
        server.wait_for_attribute("pages", "name", format!("Round {round}")).await;
        assert_eq!(server.read("posts").await.is(200).attributes()["name"], "First of May");
    }
    drop(file);
    server.wait_for_attribute("posts", "name", "First").await;
    server.wait_for_no_problem().await;
    server.expect_git_status(" M collections/pages.yaml\n M collections/posts.yaml");
}

#[tokio::test]
async fn an_edit_in_a_folder_that_was_replaced_is_still_seen() {
    let mut server = TestServer::start("small").await;
    WAYS.iter().find(|(way, _)| *way == "folder replaced by a copy").unwrap().1(&server, &named("One"));
    server.wait_for_attribute("posts", "name", "One").await;
    server.repo().write(POSTS, &named("Two"));
    server.wait_for_attribute("posts", "name", "Two").await;
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn the_first_file_of_a_folder_that_did_not_exist_is_seen() {
    let mut server = TestServer::start("empty").await;
    server.repo().write(POSTS, &named("First"));
    server.wait_for_attribute("posts", "name", "First").await;
    server.expect_git_status("?? collections/posts.yaml");
}

#[tokio::test]
async fn thousands_of_files_at_once_are_all_seen() {
    let mut server = TestServer::start("small").await;
    for number in 0..2000 {
        server.repo().write(&format!("collections/k{number:04}.yaml"), &named("Many"));
    }
    eventually("all are served", async || (server.list().await.is(200).ids().len() == 2003).then_some(()))
        .await;
    assert_eq!(server.list().await.is(200).json()["meta"]["uncommitted"], 2000);
    server.repo().git(&["clean", "--quiet", "--force", "-d"]);
    eventually("all are gone", async || (server.list().await.is(200).ids().len() == 3).then_some(())).await;
    server.expect_git_status("");
}

#[tokio::test]
async fn an_edit_made_while_the_service_was_down_is_served_after_the_start() {
    let mut server = TestServer::start("small").await;
    server.stop();
    server.repo().write(POSTS, &named("Meanwhile"));
    server.start_again().await;
    let good = server.wait_for_attribute("posts", "name", "Meanwhile").await;
    assert_eq!(good.json()["data"]["meta"]["uncommitted"], true);
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn a_change_of_comments_alone_is_an_edit_with_a_tag_of_its_own() {
    let mut server = TestServer::start("small").await;
    let before = server.read("posts").await.is(200).header("etag");
    server.repo().write_by_rename(POSTS, &format!("# A comment\n{}", server.repo().read(POSTS)));
    eventually("the edit is marked", async || {
        let read = server.read("posts").await.is(200);
        (read.json()["data"]["meta"]["uncommitted"] == true).then(|| assert_ne!(read.header("etag"), before))
    })
    .await;
    server.expect_git_status(" M collections/posts.yaml");
}
