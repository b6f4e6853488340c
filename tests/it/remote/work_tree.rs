//! An instance whose work tree has the whole tree of the branch.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use super::{Hub, create, unavailable, wait_for_remote_state};
use crate::support::{Repo, TestServer, document, eventually};

impl Hub {
    async fn with_work_tree(&self) -> TestServer {
        let server = self.polling(50).flag(&["--work-tree"]).start().await;
        server.wait_for_revision(&self.head().unwrap()).await;
        server
    }
}

/// Waits until the work tree and its index match the head.
async fn is_clean(server: &TestServer) {
    eventually("the work tree is brought forward", async || server.repo().status().is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn a_lock_that_a_git_has_left_is_named_where_it_keeps_the_branch_from_the_remote() {
    let hub = Hub::with("small");
    let server = hub.polling(50).flag(&["--work-tree", "--lock-wait-ms-max", "20"]).start().await;
    let lock = server.repo().path().join(".git/refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    let head = hub.push_change(|person| person.write("collections/news.yaml", "type: document\n"));
    server.wait_for_log("main.lock").await;
    let (code, error) = unavailable(&server, "posts", "Late").await;
    assert_eq!(code, "service_unavailable");
    assert!(error["detail"].as_str().unwrap().contains("`main.lock`"), "{error}");
    assert_eq!(hub.head().unwrap(), head, "nothing was pushed");
    fs::remove_file(&lock).unwrap();
    server.wait_for_revision(&head).await;
    server.patch("posts", json!({"name": "Late"})).await.is(200);
}

#[tokio::test]
async fn a_clone_has_all_files_and_what_others_push_comes_into_it() {
    let hub = Hub::with("small");
    hub.push_change(|person| {
        person.write("README.md", "one\n");
        person.write("docs/old/a.txt", "a\n");
        person.write("docs/b.txt", "b\n");
        person.write("folder", "a file\n");
    });
    let server = hub.with_work_tree().await;
    is_clean(&server).await;
    let here = server.repo();
    assert_eq!((here.read("README.md"), here.read("docs/old/a.txt")), ("one\n".into(), "a\n".into()));
    let head = hub.push_change(|person| {
        person.write("README.md", "two\n");
        person.git(&["rm", "--quiet", "-r", "docs/old", "folder"]);
        person.write("folder/inner.txt", "a folder\n");
        person.write("collections/sub/inner.txt", "beside collections\n");
        person.write("run.sh", "#!/bin/sh\n");
        person.git(&["add", "run.sh"]);
        person.git(&["update-index", "--chmod=+x", "run.sh"]);
        fs::set_permissions(person.path().join("run.sh"), Permissions::from_mode(0o755)).unwrap();
    });
    server.wait_for_revision(&head).await;
    is_clean(&server).await;
    assert_eq!(
        (here.read("README.md"), here.read("folder/inner.txt")),
        ("two\n".into(), "a folder\n".into())
    );
    assert_eq!(here.read("collections/sub/inner.txt"), "beside collections\n");
    assert!(!here.has("docs/old") && here.has("docs/b.txt"));
    here.configure_user();
    here.write("mine.txt", "mine\n");
    let mine = here.commit("Mine");
    eventually("it is pushed", async || (hub.head().as_ref() == Some(&mine)).then_some(())).await;
    assert_eq!(hub.repo.git(&["show", "main:README.md"]), "two");
}

#[tokio::test]
async fn large_files_come_and_go_as_any_other_and_stay_where_a_person_has_edited_them() {
    let large = |letter: &str| letter.repeat((1 << 20) + 1);
    let hub = Hub::with("small");
    hub.push_change(|person| {
        for name in ["changed", "shrunk", "docs/gone", "mine"] {
            person.write(name, &large("o"));
        }
    });
    let mut server = hub.with_work_tree().await;
    is_clean(&server).await;
    let here = server.repo();
    here.write("mine", &large("m"));
    let head = hub.push_change(|person| {
        for name in ["changed", "docs/new", "mine"] {
            person.write(name, &large("n"));
        }
        person.write("shrunk", "small\n");
        person.git(&["rm", "--quiet", "docs/gone"]);
    });
    server.wait_for_revision(&head).await;
    eventually("all comes that a person has left alone", async || (here.status() == " M mine").then_some(()))
        .await;
    assert!(here.read("changed") == large("n") && here.read("mine") == large("m"));
    server.expect_git_status(" M mine");
}

#[tokio::test]
async fn who_may_execute_a_file_is_brought_forward_with_and_without_its_content() {
    let hub = Hub::with("small");
    hub.push_change(|person| person.write("run.sh", "one\n"));
    let mut server = hub.with_work_tree().await;
    is_clean(&server).await;
    let files = ["run.sh", "collections/posts.yaml"];
    let mode = |repo: &Repo, file: &str| fs::metadata(repo.path().join(file)).unwrap().permissions().mode();
    let push = |mode: u32, text: Option<&str>| {
        hub.push_change(|person| {
            text.into_iter().for_each(|text| person.write("run.sh", text));
            for file in files {
                fs::set_permissions(person.path().join(file), Permissions::from_mode(mode)).unwrap();
            }
        })
    };
    for (pushed, text) in [(0o755, None), (0o644, None), (0o755, Some("two\n")), (0o644, Some("three\n"))] {
        let head = push(pushed, text);
        server.wait_for_revision(&head).await;
        is_clean(&server).await;
        assert_eq!(files.map(|file| mode(server.repo(), file) & 0o100), [pushed & 0o100; 2]);
    }
    assert_eq!(server.repo().read("run.sh"), "three\n");
    let here = server.repo();
    here.git(&["config", "core.fileMode", "false"]);
    let head = push(0o755, None);
    server.wait_for_revision(&head).await;
    is_clean(&server).await;
    assert_eq!(files.map(|file| mode(here, file) & 0o100), [0; 2]);
    here.configure_user();
    here.write("mine.txt", "mine\n");
    server.commit_by_hand("Mine").await;
    eventually("it is pushed", async || (hub.head() == Some(server.repo().head())).then_some(())).await;
    assert_eq!(hub.repo.git(&["diff", "--name-only", &head, "main"]), "mine.txt");
    server.expect_git_status("");
}

#[tokio::test]
async fn a_head_without_a_collections_folder_stops_nobody_for_longer_than_it_lasts() {
    let hub = Hub::with("small");
    let good = hub.head().unwrap();
    let (mut with, mut bare) = (hub.with_work_tree().await, hub.polling(50).start().await);
    bare.wait_for_revision(&good).await;
    hub.push_change(|person| {
        person.git(&["mv", "collections", "real"]);
        symlink("real", person.path().join("collections")).unwrap();
    });
    for server in [&with, &bare] {
        wait_for_remote_state(server, "stopped").await;
        assert_eq!(server.get("/collections/pages").await.is(200).json()["data"]["id"], "pages");
        unavailable(server, "pages", "Not now").await;
    }
    for server in [&mut with, &mut bare] {
        server.kill();
        server.start_again().await;
    }
    let mended = hub.push_change(|person| {
        person.git(&["rm", "--quiet", "collections"]);
        person.git(&["mv", "real", "collections"]);
    });
    for server in [&with, &bare] {
        server.wait_for_revision(&mended).await;
        wait_for_remote_state(server, "up").await;
    }
    is_clean(&with).await;
}

#[tokio::test]
async fn what_a_person_saved_or_staged_stays_when_others_push_the_same_file() {
    let hub = Hub::with("small");
    hub.push_change(|person| {
        person.write("saved.txt", "old\n");
        person.write("staged.txt", "old\n");
    });
    let mut server = hub.with_work_tree().await;
    is_clean(&server).await;
    let here = server.repo();
    here.write("saved.txt", "saved here\n");
    here.write("staged.txt", "staged here\n");
    here.git(&["add", "staged.txt"]);
    let head = hub.push_change(|person| {
        person.write("saved.txt", "theirs\n");
        person.write("staged.txt", "theirs\n");
        person.write("other.txt", "theirs\n");
    });
    server.wait_for_revision(&head).await;
    eventually("the other file comes", async || here.has("other.txt").then_some(())).await;
    assert_eq!(
        (here.read("saved.txt"), here.read("staged.txt")),
        ("saved here\n".into(), "staged here\n".into())
    );
    assert_eq!(here.git(&["show", ":saved.txt"]), "theirs", "the next commit takes nothing back");
    assert_eq!(here.git(&["show", ":staged.txt"]), "staged here");
    server.expect_git_status(" M saved.txt\nM  staged.txt");
}

#[tokio::test]
async fn links_and_submodules_come_and_go_as_files_do() {
    let hub = Hub::with("small");
    let other = hub.head().unwrap();
    let submodule = |person: &Repo, path: &str| {
        person.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{other},{path}")]);
        fs::create_dir_all(person.path().join(path)).unwrap();
    };
    let link = |repo: &Repo, target: &str, path: &str| symlink(target, repo.path().join(path)).unwrap();
    hub.push_change(|person| {
        link(person, "../outside", "first");
        link(person, "elsewhere", "becomes");
        person.write("plain", "plain\n");
        person.write("module", "a file\n");
        submodule(person, "modules/one");
    });
    let server = hub.with_work_tree().await;
    is_clean(&server).await;
    let here = server.repo();
    let leads = |path: &str| fs::read_link(here.path().join(path)).ok().map(|to| to.display().to_string());
    assert_eq!(leads("first"), Some("../outside".to_owned()));
    assert!(here.path().join("modules/one").is_dir());
    let head = hub.push_change(|person| {
        person.git(&["rm", "--quiet", "first", "becomes", "plain", "module", "modules/one"]);
        person.write("becomes", "a file now\n");
        link(person, "becomes", "plain");
        submodule(person, "module");
        link(person, "../plain", "collections/link.yaml");
    });
    server.wait_for_revision(&head).await;
    is_clean(&server).await;
    assert_eq!((leads("first"), leads("plain")), (None, Some("becomes".to_owned())));
    assert_eq!(here.read("becomes"), "a file now\n");
    assert!(here.path().join("module").is_dir() && !here.has("modules"));
    server.wait_for_problem("collections/link.yaml").await;
    server.create(&document("link", json!({}))).await.is(409);
}

#[tokio::test]
async fn no_file_is_written_through_a_link() {
    let hub = Hub::with("small");
    hub.push_change(|person| person.write("docs/a.txt", "old\n"));
    let mut server = hub.with_work_tree().await;
    is_clean(&server).await;
    let outside = server.folder().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.txt"), "old\n").unwrap();
    fs::remove_dir_all(server.repo().path().join("docs")).unwrap();
    symlink(&outside, server.repo().path().join("docs")).unwrap();
    let head = hub.push_change(|person| person.write("docs/a.txt", "new\n"));
    server.wait_for_revision(&head).await;
    server.patch("posts", json!({"name": "After"})).await.is(200);
    assert_eq!(fs::read_to_string(outside.join("a.txt")).unwrap(), "old\n");
    server.expect_git_status(" D docs/a.txt\n?? docs");
}

#[tokio::test]
async fn what_came_while_the_service_was_killed_or_is_rewound_comes_into_the_work_tree() {
    let hub = Hub::with("small");
    let before = hub.push_change(|person| person.write("README.md", "one\n"));
    let mut server = hub.with_work_tree().await;
    is_clean(&server).await;
    server.kill();
    let after = hub.push_change(|person| person.write("README.md", "two\n"));
    server.start_again().await;
    server.wait_for_revision(&after).await;
    is_clean(&server).await;
    assert_eq!(server.repo().read("README.md"), "two\n");
    hub.move_branch(&before);
    server.wait_for_revision(&before).await;
    is_clean(&server).await;
    assert_eq!(server.repo().read("README.md"), "one\n");
}

#[tokio::test]
async fn accepting_a_remote_that_was_not_rewritten_takes_no_commit_of_a_person_off_the_branch() {
    let hub = Hub::with("small");
    let server = hub.polling(50).flag(&["--work-tree"]).start().await;
    hub.hook("pre-receive", "echo closed; exit 1");
    let here = Repo::at(server.repo().path());
    here.configure_user();
    here.write("collections/mine.yaml", "type: document\nname: Mine\n");
    let mine = here.commit("Mine");
    wait_for_remote_state(&server, "refused").await;
    server.request("POST", "/remote/accept").send().await.is(200);
    assert_eq!(
        (server.repo().head(), here.path().join("collections/mine.yaml").exists()),
        (mine.clone(), true)
    );
    server.wait_for_no_problem().await;
    hub.no_hook("pre-receive");
    eventually("it is pushed", async || (hub.head().as_ref() == Some(&mine)).then_some(())).await;
}

/// Commits a collection by hand in the work tree of an instance.
fn commit_here(server: &TestServer, key: &str) -> String {
    server.repo().configure_user();
    server.repo().write(&format!("collections/{key}.yaml"), "type: document\n");
    server.repo().commit(key)
}

#[tokio::test]
async fn the_first_commit_of_a_person_makes_the_branch_of_an_empty_remote_and_never_makes_it_again() {
    for ack in ["pushed", "local"] {
        let hub = Hub::empty();
        let mut server = hub.polling(50).flag(&["--work-tree", "--remote-ack", ack]).start().await;
        wait_for_remote_state(&server, "up").await;
        let first = commit_here(&server, "first");
        let is_pushed = async || (hub.head().as_ref() == Some(&first)).then_some(());
        eventually("it is pushed", is_pushed).await;
        server.wait_for_revision(&first).await;
        create(&server, "second").await;
        eventually("all is pushed", async || (hub.head() == Some(server.repo().head())).then_some(())).await;
        wait_for_remote_state(&server, "up").await;
        for is_running in [true, false] {
            if !is_running {
                server.stop();
            }
            let head = hub.head().unwrap();
            hub.loses_its_branch();
            if !is_running {
                server.start_again().await;
            }
            wait_for_remote_state(&server, "rewritten").await;
            server.patch("first", json!({"name": "No"})).await.is(503);
            assert_eq!(hub.head(), None, "a branch that is gone is nobody's to make but an operator's");
            hub.move_branch(&head);
            wait_for_remote_state(&server, "up").await;
        }
    }
}

#[tokio::test]
async fn the_first_commits_of_two_people_over_an_empty_remote_are_merged() {
    let hub = Hub::empty();
    let setup = || hub.polling(50).flag(&["--work-tree"]);
    let (mut one, other) = (setup().start().await, setup().start().await);
    wait_for_remote_state(&one, "up").await;
    wait_for_remote_state(&other, "up").await;
    one.stop();
    commit_here(&one, "one");
    commit_here(&other, "other");
    eventually("the other is pushed", async || hub.head()).await;
    one.start_again().await;
    for server in [&one, &other] {
        eventually("both have both", async || (server.list().await.is(200).ids().len() == 2).then_some(()))
            .await;
    }
}
