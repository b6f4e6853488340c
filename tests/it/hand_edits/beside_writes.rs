//! API writes concurrent with hand edits: both end up in the history, and neither undoes the other.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use tokio::task::JoinSet;

use super::named;
use crate::support::{Repo, TestServer, document, eventually};

const POSTS: &str = "collections/posts.yaml";

#[tokio::test]
async fn a_write_to_an_edited_key_commits_the_edit_first_as_the_person_s_own() {
    let server = TestServer::start("small").await;
    let edited = "# Mine\ntype: document\nname: By hand\ndirectory: hand\n";
    server.repo().write_by_rename(POSTS, edited);
    server.wait_for_attribute("posts", "name", "By hand").await;
    let updated = server.patch("posts", json!({"name": "By API"})).await.is(200);
    assert_eq!(updated.attributes(), json!({"type": "document", "name": "By API", "directory": "hand"}));
    assert_eq!(updated.json()["data"].get("meta"), None);
    assert_eq!(server.repo().subjects(), ["Update posts: name", "Edit posts by hand", "Seed"]);
    assert_eq!(server.repo().field("HEAD^", "%an <%ae>"), "Hand Editor <hand@example.org>");
    assert_eq!(server.repo().field("HEAD^", "%cn"), "Collectory");
    assert_eq!(server.repo().trailer("HEAD^", "Collectory-Origin"), ["work-tree"]);
    assert_eq!(server.repo().trailer("HEAD", "Collectory-Origin"), [""; 0]);
    assert_eq!(server.repo().git(&["show", "HEAD^:collections/posts.yaml"]), edited.trim_end());
    assert_eq!(server.repo().read(POSTS), edited.replace("By hand", "By API"));
}

/// Waits until the answer for `posts` has a `meta` member, which reports the state of its file.
async fn the_edit_is_known(server: &TestServer) {
    eventually("the edit is known", async || {
        server.read("posts").await.is(200).data().get("meta").is_some().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_edit_of_comments_alone_is_committed_first_too_as_an_update_without_a_change() {
    let server = TestServer::start("small").await;
    server.repo().write_by_rename(POSTS, &format!("# Mine\n{}", server.repo().read(POSTS)));
    the_edit_is_known(&server).await;
    server.patch("posts", json!({"name": "By API"})).await.is(200);
    assert_eq!(server.repo().subjects(), ["Update posts: name", "Edit posts by hand", "Seed"]);
    assert_eq!(server.repo().trailer("HEAD^", "Collectory-Action"), ["collection.updated"]);
    let events = server.get("/collections/posts/events").await.is(200).data();
    let id = server.repo().trailer("HEAD^", "Collectory-Event");
    assert_eq!((&events[1]["id"], &events[1]["attributes"]["changes"]), (&json!(id[0]), &json!([])));
    assert_eq!(events[1]["attributes"]["origin"], "work-tree");
}

#[tokio::test]
async fn a_person_whom_the_repository_does_not_name_is_the_one_that_git_would_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("[user]\n\tname = {name}\n\temail = {name}@example.org\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (global, system) = (file("global"), file("system"));
    let repo = Repo::seeded(folder.path().join("settings"), "small");
    repo.git(&["config", "--remove-section", "user"]);
    for (without_system, person) in [("0", "global"), ("false", "system"), ("1", "anonymous")] {
        let global = if person == "global" { &global } else { "/dev/null" };
        let server = TestServer::setup("")
            .repository(repo.path())
            .environment("GIT_CONFIG_GLOBAL", global)
            .environment("GIT_CONFIG_SYSTEM", &system)
            .environment("GIT_CONFIG_NOSYSTEM", without_system)
            .start()
            .await;
        repo.write_by_rename(POSTS, &named(&format!("By {person}")));
        server.wait_for_attribute("posts", "name", format!("By {person}")).await;
        server.patch("posts", json!({"name": format!("By API beside {person}")})).await.is(200);
        assert_eq!(repo.field("HEAD^", "%an"), person);
    }
}

#[tokio::test]
async fn deleting_an_edited_key_keeps_the_edit_in_the_history() {
    for content in [named("By hand"), "name: [broken\n".to_owned()] {
        let server = TestServer::start("small").await;
        server.repo().write_by_rename(POSTS, &content);
        the_edit_is_known(&server).await;
        server.delete("posts").await.is(204);
        assert_eq!(server.repo().subjects(), ["Delete posts", "Edit posts by hand", "Seed"]);
        assert_eq!(server.repo().git(&["show", "HEAD^:collections/posts.yaml"]), content.trim_end());
        let message = server.repo().field("HEAD^", "%B");
        let events = server.get("/collections/posts/events").await.is(200).ids();
        let trailers = ["Action: collection.updated", "Key: posts", &format!("Event: {}", events[1])]
            .map(|trailer| format!("Collectory-{trailer}\n"));
        assert!(message.contains(&trailers.concat()), "{message}");
        assert!(!server.repo().has(POSTS));
    }
}

#[tokio::test]
async fn an_edit_that_mends_a_committed_file_is_told_by_what_it_changed_since_the_last_good_version() {
    for (mended, action, line) in [
        (Some(named("Mended")), "collection.updated", "name: \"Posts\" -> \"Mended\"\n"),
        (None, "collection.deleted", "name: \"Posts\"\n"),
    ] {
        let server = TestServer::start("small").await;
        let repo = server.repo();
        repo.write(POSTS, "type: document\nname: [broken\n");
        server.wait_for_revision(&repo.commit("Break it")).await;
        match &mended {
            Some(content) => {
                repo.write_by_rename(POSTS, content);
                server.wait_for_attribute("posts", "name", "Mended").await;
                server.patch("posts", json!({"name": "By API"})).await.is(200);
            }
            None => {
                repo.remove(POSTS);
                server.wait_until_not_found("posts").await;
                server.create(&document("posts", json!({"name": "By API"}))).await.is(201);
            }
        }
        assert_eq!(repo.trailer("HEAD^", "Collectory-Action"), [action]);
        assert!(repo.field("HEAD^", "%B").contains(line), "{}", repo.field("HEAD^", "%B"));
        let events = server.get("/collections/posts/events").await.is(200).data();
        assert_eq!(format!("collection.{}", events[1]["attributes"]["action"].as_str().unwrap()), action);
    }
}

#[tokio::test]
async fn an_edit_that_is_too_large_for_a_collection_is_committed_to_its_last_byte_before_its_key_is_deleted()
{
    for committed in ["posts", "new"] {
        let server = TestServer::start("small").await;
        let file = format!("collections/{committed}.yaml");
        let edited = large(200_000);
        server.repo().write_by_rename(&file, &edited);
        server.wait_for_problem(&file).await;
        server.delete(committed).await.is(204);
        assert_eq!(server.repo().subjects()[0], format!("Delete {committed}"));
        assert_eq!(server.repo().git(&["show", &format!("HEAD^:{file}")]), edited.trim_end());
        assert!(!server.repo().has(&file));
        assert_eq!(server.repo().status(), "");
        server.delete(committed).await.is(404);
    }
}

#[tokio::test]
async fn a_second_file_that_is_too_large_is_committed_to_its_last_byte_before_an_update() {
    let server = TestServer::start("small").await;
    let (file, edited) = ("collections/posts.yml", large(200_000));
    server.repo().write_by_rename(file, &edited);
    server.wait_for_problem(file).await;
    server.patch("posts", json!({"name": "By API"})).await.is(200);
    assert_eq!(server.repo().git(&["show", &format!("HEAD:{file}")]), edited.trim_end());
    assert_eq!((server.repo().read(file), server.repo().status()), (edited, String::new()));
}

#[tokio::test]
async fn an_edit_that_is_larger_than_what_is_read_of_a_file_is_a_person_s_to_commit() {
    let server = TestServer::start("small").await;
    server.repo().write_by_rename(POSTS, &large(1 << 20));
    server.wait_for_problem(POSTS).await;
    let detail = server.delete("posts").await.is(409).detail();
    assert!(detail.contains(POSTS) && detail.contains("1048576 bytes"), "{detail}");
    assert_eq!(server.repo().subjects(), ["Seed"]);
    server.repo().commit("Too much");
}

#[tokio::test]
async fn what_comes_late_into_a_file_that_is_still_open_is_waited_for() {
    let server = TestServer::start("small").await;
    let mut file = std::fs::File::create(server.repo().path().join(POSTS)).unwrap();
    file.write_all(b"type: document\nname: Early\n").unwrap();
    server.wait_for_attribute("posts", "name", "Early").await;
    let (client, mut writing) = (server.client().clone(), JoinSet::new());
    writing.spawn(async move { client.patch("posts", json!({"recursive": true})).await.is(200) });
    // Enough time for a write that does not wait.
    for _ in 0..5 {
        server.read("posts").await.is(200);
    }
    file.write_all(b"x-late: 1\n").unwrap();
    drop(file);
    writing.join_all().await;
    assert_eq!(
        server.read("posts").await.is(200).attributes(),
        json!({"type": "document", "name": "Early", "recursive": true, "x-late": 1})
    );
    assert_eq!(server.repo().status(), "");
}

#[tokio::test]
async fn a_file_that_stays_open_is_not_replaced_before_its_writer_has_closed_it() {
    let server = TestServer::start("small").await;
    let mut file = std::fs::File::create(server.repo().path().join(POSTS)).unwrap();
    file.write_all(b"type: document\nname: Early\n").unwrap();
    server.wait_for_attribute("posts", "name", "Early").await;
    let refused = server.patch("posts", json!({"recursive": true})).await.is(503);
    assert!(refused.detail().contains(POSTS) && refused.header("retry-after") == "1", "{}", refused.detail());
    server.patch("posts", json!({"name": "Early"})).await.is(200);
    server.delete("posts").await.is(503);
    server.patch("pages", json!({"recursive": false})).await.is(200);
    file.write_all(b"x-late: 1\n").unwrap();
    drop(file);
    let attributes = server.patch("posts", json!({"recursive": true})).await.is(200).attributes();
    assert_eq!(attributes, json!({"type": "document", "name": "Early", "recursive": true, "x-late": 1}));
    assert_eq!(server.repo().status(), "");
}

#[tokio::test]
async fn what_a_filter_of_git_s_would_change_is_a_person_s_to_commit() {
    let server = TestServer::start("small").await;
    server.repo().write(".gitattributes", "collections/*.yaml filter=crypt\n");
    server.repo().commit("Hide it");
    server.repo().write_by_rename(POSTS, "type: document\nname: Secret\n");
    server.wait_for_attribute("posts", "name", "Secret").await;
    server.patch("posts", json!({"recursive": true})).await.is(200);
    server.repo().git(&["config", "filter.crypt.clean", "sed s/Secret/Hidden/"]);
    server.repo().write_by_rename(POSTS, "type: document\nname: Secret again\n");
    server.wait_for_attribute("posts", "name", "Secret again").await;
    let detail = server.patch("posts", json!({"recursive": true})).await.is(409).detail();
    assert!(detail.contains(POSTS) && detail.contains("filter"), "{detail}");
    server.repo().commit("Hidden");
    assert_eq!(server.repo().git(&["show", &format!("HEAD:{POSTS}")]), "type: document\nname: Hidden again");
}

#[tokio::test]
async fn line_ends_that_git_would_convert_are_a_person_s_to_commit() {
    let mut server = TestServer::start("small").await;
    for (attribute, status) in [("text", 409), ("eol=lf", 409), ("text=auto", 200), ("-text", 200)] {
        server.repo().write(".gitattributes", &format!("collections/*.yaml {attribute}\n"));
        server.repo().commit(attribute);
        server.repo().write_by_rename(POSTS, &format!("type: document\r\nname: {attribute}\r\n"));
        server.wait_for_attribute("posts", "name", attribute).await;
        let answer = server.patch("posts", json!({"recursive": status == 200})).await.is(status);
        if status == 409 {
            assert!(answer.detail().contains("line ends"), "{}", answer.detail());
            server.repo().commit("As git has it");
        }
        assert_eq!(server.repo().status(), "", "{attribute}");
    }
    server.expect_git_status("");
}

/// A file with a comment of this size.
fn large(comment_bytes: usize) -> String {
    format!("type: document\n#{}\n", "x".repeat(comment_bytes))
}

#[tokio::test]
async fn a_write_before_the_watcher_has_spoken_loses_nothing_either() {
    let server = TestServer::start("small").await;
    for round in 0..20 {
        let edited = format!("# Round {round}\ntype: document\nname: Hand {round}\n");
        server.repo().write_by_rename(POSTS, &edited);
        server.patch("posts", json!({"name": format!("API {round}")})).await.is(200);
        let history = server.repo().git(&["log", "-p", "--format=", "-2", "--", POSTS]);
        assert!(history.contains(&format!("# Round {round}")), "the edit is in the history: {history}");
        let read = server.read("posts").await.is(200).attributes();
        assert_eq!(read["name"], format!("API {round}"));
    }
}

#[tokio::test]
async fn an_update_that_changes_nothing_commits_nothing_the_edit_included() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename(POSTS, &named("By hand"));
    server.wait_for_attribute("posts", "name", "By hand").await;
    let same = server.patch("posts", json!({"name": "By hand"})).await.is(200);
    assert_eq!(same.json()["data"]["meta"]["uncommitted"], true);
    assert_eq!(server.repo().commit_count(), 1);
    server.expect_git_status(" M collections/posts.yaml");
}

#[tokio::test]
async fn staged_changes_of_other_files_stay_staged() {
    let mut server = TestServer::start("mixed").await;
    server.repo().write("README.md", "staged\n");
    server.repo().git(&["add", "README.md"]);
    server.repo().write("README.md", "staged and then edited\n");
    server.repo().write("notes.txt", "untracked\n");
    server.repo().write("collections/staged.yaml", &named("Staged"));
    server.repo().git(&["add", "collections/staged.yaml"]);
    let before = server.repo().git(&["ls-files", "--stage", "README.md", "collections/staged.yaml"]);
    server.patch("posts", json!({"name": "By API"})).await.is(200);
    server.create(&document("more", json!({}))).await.is(201);
    let after = server.repo().git(&["ls-files", "--stage", "README.md", "collections/staged.yaml"]);
    assert_eq!(after, before);
    let shown = "MM README.md\nA  collections/staged.yaml\n?? notes.txt";
    assert_eq!(server.repo().status(), shown);
    server.expect_git_status(shown);
}

#[tokio::test]
async fn the_person_s_next_commit_does_not_revert_ours() {
    let server = TestServer::start("small").await;
    server.repo().write("notes.txt", "mine\n");
    server.repo().git(&["add", "notes.txt"]);
    server.patch("posts", json!({"name": "By API"})).await.is(200);
    server.delete("pages").await.is(204);
    server.create(&document("new", json!({}))).await.is(201);
    server.repo().git(&["commit", "--quiet", "-m", "Mine"]);
    let changed = server.repo().git(&["diff-tree", "-r", "--no-commit-id", "--name-only", "HEAD"]);
    assert_eq!(changed, "notes.txt");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "By API");
    server.read("pages").await.is(404);
}

#[tokio::test]
async fn a_file_announced_with_intent_to_add_is_not_deleted_by_the_person_s_next_commit() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename("collections/new.yaml", &named("Mine"));
    server.repo().git(&["add", "--intent-to-add", "collections/new.yaml"]);
    server.wait_for_attribute("new", "name", "Mine").await;
    server.patch("new", json!({"name": "By API"})).await.is(200);
    assert_eq!(server.repo().status(), "");
    server.repo().write("notes.txt", "mine\n");
    server.repo().git(&["add", "notes.txt"]);
    server.repo().git(&["commit", "--quiet", "-m", "Mine"]);
    let changed = server.repo().git(&["diff-tree", "-r", "--no-commit-id", "--name-only", "HEAD"]);
    assert_eq!(changed, "notes.txt");
    assert_eq!(server.read("new").await.is(200).attributes()["name"], "By API");
    server.expect_git_status("");
}

#[tokio::test]
async fn a_half_done_merge_is_left_exactly_as_it_is() {
    let mut server = TestServer::start("small").await;
    let repo = server.repo().clone();
    repo.git(&["checkout", "--quiet", "-b", "side"]);
    repo.write("notes.txt", "side\n");
    repo.commit("Side");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.write("notes.txt", "main\n");
    server.commit_by_hand("Main").await;
    assert!(!repo.try_git(&["merge", "side"]).status.success(), "there is a conflict");
    let before = (repo.read("notes.txt"), repo.git(&["ls-files", "--unmerged"]));
    server.patch("posts", json!({"name": "Meanwhile"})).await.is(200);
    let after = (repo.read("notes.txt"), repo.git(&["ls-files", "--unmerged"]));
    assert_eq!(after, before);
    assert!(repo.git_folder().join("MERGE_HEAD").exists());
    let ready = server.get("/readyz").await.is(200);
    assert!(String::from_utf8_lossy(ready.bytes()).contains("merge"), "{:?}", ready.json());
    repo.git(&["merge", "--abort"]);
    server.read("posts").await.is(200);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Meanwhile");
    if !repo.status().is_empty() {
        repo.git(&["reset", "--quiet", "--hard"]);
    }
    server.wait_for_attribute("posts", "name", "Meanwhile").await;
    server.expect_git_status("");
}

#[tokio::test]
async fn the_end_of_a_rebase_or_a_merge_is_noticed_at_once() {
    let server = TestServer::setup("small").flag(&["--tick-ms", "3600000"]).start().await;
    let repo = server.repo();
    let says = async |what: &str, is_said: bool| {
        eventually(what, async || {
            let ready = server.get("/readyz").await.is(200);
            (String::from_utf8_lossy(ready.bytes()).contains(what) == is_said).then_some(())
        })
        .await;
    };
    for (what, end) in [("rebase", &["rebase", "--continue"][..]), ("merge", &["commit", "--no-edit"])] {
        repo.git(&["checkout", "--quiet", "-B", "side"]);
        repo.write("notes.txt", &format!("{what} side\n"));
        repo.commit("Side");
        repo.git(&["checkout", "--quiet", "main"]);
        repo.write("notes.txt", &format!("{what} main\n"));
        repo.commit("Main");
        assert!(!repo.try_git(&[what, "side"]).status.success(), "there is a conflict");
        says(what, true).await;
        repo.write("notes.txt", &format!("{what} both\n"));
        repo.git(&["add", "notes.txt"]);
        repo.git(&[&["-c", "core.editor=true"][..], end].concat());
        says(what, false).await;
    }
}

#[tokio::test]
async fn creating_a_key_that_exists_only_by_hand_is_a_conflict() {
    let mut server = TestServer::start("small").await;
    server.repo().write_by_rename("collections/mine.yaml", &named("Mine"));
    server.wait_for_attribute("mine", "name", "Mine").await;
    server.create(&document("mine", json!({}))).await.is(409);
    assert_eq!(server.repo().read("collections/mine.yaml"), named("Mine"));
    server.expect_git_status("?? collections/mine.yaml");
}

#[tokio::test]
async fn creating_a_key_that_was_deleted_by_hand_keeps_both_in_the_history() {
    let server = TestServer::start("small").await;
    server.repo().remove(POSTS);
    server.wait_until_not_found("posts").await;
    server.create(&document("posts", json!({"name": "Again"}))).await.is(201);
    assert_eq!(server.repo().subjects(), ["Create posts", "Delete posts by hand", "Seed"]);
    assert_eq!(server.repo().read(POSTS), named("Again"));
}

/// How many writes of each key a checkout races with.
const RACED_WRITES: usize = 60;

#[tokio::test]
async fn a_checkout_of_the_served_branch_that_races_with_writes_makes_up_no_edit() {
    let server = TestServer::start("small").await;
    let repo = Repo::at(server.repo().path());
    let keys = ["a", "b", "c"];
    for key in keys {
        server.create(&document(key, json!({}))).await.is(201);
    }
    let is_done = Arc::new(AtomicBool::new(false));
    let checkouts = thread::spawn({
        let is_done = Arc::clone(&is_done);
        move || {
            while !is_done.load(Ordering::Relaxed) {
                // The checkout fails when it meets our lock.
                repo.try_git(&["checkout", "--quiet", "main"]);
            }
        }
    });
    let mut writers = JoinSet::new();
    for key in keys {
        let client = server.client().clone();
        writers.spawn(async move {
            for number in 0..RACED_WRITES {
                let name = format!("Number {number}");
                client.patch(key, json!({"name": name})).await.is(200);
                assert_eq!(client.read(key).await.is(200).attributes()["name"], name);
            }
        });
    }
    writers.join_all().await;
    is_done.store(true, Ordering::Relaxed);
    checkouts.join().unwrap();
    let subjects = server.repo().subjects();
    assert!(!subjects.iter().any(|subject| subject.ends_with("by hand")), "{subjects:?}");
    eventually("nothing is left to be mended", async || server.repo().status().is_empty().then_some(()))
        .await;
}
