//! Every kind of repository that can be served, and those that can't.

use std::fs;

use serde_json::json;

use crate::support::{Repo, TestServer, collectory_command, document, eventually, run_to_end};

#[tokio::test]
async fn an_absent_folder_becomes_a_repository() {
    let mut server = TestServer::setup("").without_repository().start().await;
    assert_eq!(server.list().await.is(200).data(), json!([]));
    // Whoever begins by hand finds the folder.
    fs::write(server.repo().path().join("collections/pages.yaml"), "type: document\n").unwrap();
    eventually("the file is served", async || (server.read("pages").await.status() == 200).then_some(()))
        .await;
    server.patch("pages", json!({"name": "Pages"})).await.is(200);
    server.create(&document("posts", json!({"name": "Posts"}))).await.is(201);
    assert!(server.repo().has("collections/posts.yaml"));
    server.restart().await;
    assert_eq!(server.list().await.is(200).ids(), ["pages", "posts"]);
}

#[tokio::test]
async fn an_empty_folder_becomes_a_repository() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty");
    fs::create_dir(&path).unwrap();
    let server = TestServer::setup("").repository(&path).start().await;
    server.create(&document("posts", json!({}))).await.is(201);
}

#[tokio::test]
async fn a_folder_with_other_content_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("letter.txt"), "Dear").unwrap();
    let refused = TestServer::setup("").repository(folder.path()).expect_start_failure().assert_exit_code(1);
    assert!(refused.stderr.contains(&*folder.path().to_string_lossy()), "{}", refused.stderr);
    assert!(!folder.path().join(".git").exists());
    assert_eq!(refused.stdout, "");
}

#[tokio::test]
async fn a_bare_repository_is_served_and_written() {
    let mut server = TestServer::setup("small").bare().start().await;
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages", "posts"]);
    server.patch("posts", json!({"name": "All"})).await.is(200);
    server.create(&document("new", json!({}))).await.is(201);
    server.delete("pages").await.is(204);
    let names = server.repo().git(&["ls-tree", "--name-only", "-r", "HEAD"]);
    assert_eq!(names, "collections/images.yaml\ncollections/new.yaml\ncollections/posts.yaml");
    server.restart().await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "All");
}

#[tokio::test]
async fn a_repository_without_a_first_commit_gets_one_with_the_first_write() {
    let server = TestServer::setup("").unborn().start().await;
    assert_eq!(server.repo().tip("main"), None);
    server.create(&document("posts", json!({"name": "Posts"}))).await.is(201);
    assert_eq!(server.repo().subjects(), ["Create posts"]);
    assert_eq!(server.repo().field("HEAD", "%P"), "");
}

#[tokio::test]
async fn a_nested_path_is_served_and_the_rest_left_alone() {
    let setup = TestServer::setup("mixed").flag(&["--path", ".cms/sets/collections"]);
    let server = setup.start().await;
    assert_eq!(server.list().await.is(200).data(), json!([]));
    server.create(&document("posts", json!({}))).await.is(201);
    assert!(server.repo().has(".cms/sets/collections/posts.yaml"));
    let changed = server.repo().git(&["diff-tree", "-r", "--name-status", "HEAD^", "HEAD"]);
    assert_eq!(changed, "A\t.cms/sets/collections/posts.yaml");
    server.delete("posts").await.is(204);
    let names = server.repo().git(&["diff", "--name-only", "HEAD~2", "HEAD"]);
    assert_eq!(names, "");
}

#[tokio::test]
async fn a_linked_work_tree_is_served_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let main = Repo::seeded(folder.path().join("main"), "small");
    let linked = folder.path().join("linked");
    main.git(&["worktree", "add", "--quiet", "-b", "settings", linked.to_str().unwrap()]);
    let server = TestServer::setup("").repository(&linked).start().await;
    server.patch("posts", json!({"name": "Linked"})).await.is(200);
    assert!(server.repo().read("collections/posts.yaml").contains("name: Linked"));
    assert_eq!(main.tip("settings"), Some(server.repo().head()));
    assert_ne!(main.head(), server.repo().head());
    assert_eq!(main.status(), "");
    server.repo().write_by_rename("collections/pages.yaml", "type: document\nname: By hand\n");
    server.wait_for_attribute("pages", "name", "By hand").await;
    server.repo().commit("By hand");
    drop(server);
    main.git(&["worktree", "remove", "--force", linked.to_str().unwrap()]);
}

#[tokio::test]
async fn a_work_tree_that_is_added_for_the_served_branch_is_not_left_behind() {
    let server = TestServer::setup("small").bare().start().await;
    let folder = tempfile::tempdir().unwrap();
    let linked = folder.path().join("linked");
    server.repo().git(&["worktree", "add", "--quiet", linked.to_str().unwrap(), "main"]);
    let head = server.repo().tip("main");
    let refused = server.patch("posts", json!({"name": "Behind its back"})).await.is(503);
    let (_, errors) = (refused.header("retry-after"), refused.json()["errors"].to_string());
    assert!(errors.contains("another work tree"), "{errors}");
    assert_eq!(server.repo().tip("main"), head);
    assert_eq!(Repo::at(&linked).status(), "");
    Repo::at(&linked).write_by_rename("collections/pages.yaml", "type: document\nname: By hand\n");
    Repo::at(&linked).commit("By hand");
    server.wait_for_attribute("pages", "name", "By hand").await;
    server.repo().git(&["worktree", "remove", linked.to_str().unwrap()]);
    server.patch("posts", json!({"name": "Again"})).await.is(200);
}

#[tokio::test]
async fn a_served_branch_that_is_not_checked_out_leaves_the_work_tree_alone() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    repo.git(&["branch", "live"]);
    let server = TestServer::setup("").repository(repo.path()).flag(&["--branch", "live"]).start().await;
    let main = repo.head();
    server.patch("posts", json!({"name": "Live"})).await.is(200);
    assert_eq!(repo.head(), main);
    assert!(repo.read("collections/posts.yaml").contains("name: Posts"));
    assert!(repo.git(&["show", "live:collections/posts.yaml"]).contains("name: Live"));
}

#[tokio::test]
async fn a_detached_head_needs_a_branch_to_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    repo.git(&["checkout", "--quiet", "--detach"]);
    let refused = TestServer::setup("").repository(repo.path()).expect_start_failure().assert_exit_code(1);
    assert!(refused.stderr.contains("branch"), "{}", refused.stderr);
    let server = TestServer::setup("").repository(repo.path()).flag(&["--branch", "main"]).start().await;
    server.patch("posts", json!({"name": "x"})).await.is(200);
    assert_ne!(repo.tip("main"), Some(repo.head()));
}

#[tokio::test]
async fn what_was_served_is_served_again_in_the_middle_of_a_rebase_and_of_a_bisection() {
    let mut server = TestServer::setup("small").start().await;
    for name in ["One", "Two", "Three"] {
        server.patch("posts", json!({"name": name})).await.is(200);
    }
    server.kill();
    let repo = server.repo();
    let begun = [&["bisect", "start", "HEAD", "HEAD~3"][..], &["checkout", "--quiet", "HEAD~1"]];
    for (command, name) in begun.into_iter().zip(["Four", "Five"]) {
        repo.git(command);
        let (there, read) = (repo.head(), repo.read("collections/posts.yaml"));
        let mut again = TestServer::setup("").repository(repo.path()).start().await;
        again.patch("posts", json!({"name": name})).await.is(200);
        again.kill();
        assert!(repo.git(&["show", "main:collections/posts.yaml"]).contains(name));
        assert_eq!((repo.head(), repo.read("collections/posts.yaml")), (there, read), "it is the person's");
        repo.git(&["checkout", "--quiet", "main"]);
    }
    repo.git(&["checkout", "--quiet", "--detach"]);
    repo.git(&["branch", "other"]);
    repo.git(&["update-ref", "-d", "refs/heads/main"]);
    let refused = TestServer::setup("").repository(repo.path()).expect_start_failure().assert_exit_code(1);
    assert!(refused.stderr.contains("HEAD is detached"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_repository_whose_making_was_cut_short_is_made_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let git = folder.path().join("r/.git");
    for inside in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        fs::create_dir_all(git.join(inside)).unwrap();
    }
    for inside in ["config", "HEAD.new"] {
        fs::write(git.join(inside), "").unwrap();
    }
    let server = TestServer::setup("").repository(&folder.path().join("r")).start().await;
    server.read("posts").await.is(404);
}

#[test]
fn a_mistyped_branch_is_refused_and_never_an_empty_list() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    repo.git(&["branch", "live"]);
    let setup = || TestServer::setup("").repository(repo.path());
    let refused = setup().flag(&["--branch", "mian"]).expect_start_failure().assert_exit_code(1);
    assert!(refused.stderr.contains("no branch `mian` but `live`, `main`;"), "{}", refused.stderr);
    repo.git(&["symbolic-ref", "HEAD", "refs/heads/master"]);
    let refused = setup().expect_start_failure().assert_exit_code(1);
    assert!(refused.stderr.contains("no branch `master`, which HEAD names, but"), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
    let mut log = collectory_command(folder.path());
    let read =
        run_to_end(log.args(["log", "--branch", "mian", "--repo"]).arg(repo.path())).assert_exit_code(1);
    assert!(read.stderr.contains("no branch `mian`"), "{}", read.stderr);
    assert_eq!((repo.tip("mian"), repo.tip("master")), (None, None));
}

#[tokio::test]
async fn a_second_service_on_the_same_repository_is_refused() {
    let server = TestServer::start("small").await;
    let refused =
        TestServer::setup("").repository(server.repo().path()).expect_start_failure().assert_exit_code(1);
    assert!(refused.stderr.contains("another collectory"), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
    server.patch("posts", json!({"name": "Still alive"})).await.is(200);
}

#[tokio::test]
async fn broken_files_of_the_past_are_served_in_their_last_good_version() {
    let mut server = TestServer::start("small").await;
    server.repo().write("collections/posts.yaml", "type: document\nname: [broken\n");
    let broken = server.repo().commit("Break posts");
    for _ in 0..2 {
        server.wait_for_revision(&broken).await;
        let read = server.read("posts").await.is(200);
        assert_eq!(read.attributes()["name"], "Posts");
        let problem = &read.json()["data"]["meta"]["problem"];
        assert_eq!(problem["path"], "collections/posts.yaml");
        assert!(
            problem["line"].is_u64() && problem["column"].is_u64() && problem["message"].is_string(),
            "{problem}"
        );
        server.restart().await;
    }
    let conflict = server.patch("posts", json!({"name": "x"})).await.is(409);
    assert!(conflict.detail().contains("collections/posts.yaml"), "{}", conflict.detail());
}

#[tokio::test]
async fn links_folders_and_other_specials_are_problems() {
    let server = TestServer::start("small").await;
    let folder = server.repo().path().join("collections");
    std::os::unix::fs::symlink("/etc/passwd", folder.join("evil.yaml")).unwrap();
    std::os::unix::fs::symlink("posts.yaml", folder.join("alias.yaml")).unwrap();
    fs::create_dir(folder.join("folder.yaml")).unwrap();
    fs::write(folder.join("folder.yaml/inside.yaml"), "type: document\n").unwrap();
    server.commit_by_hand("Add specials").await;
    let expected = ["collections/alias.yaml", "collections/evil.yaml", "collections/folder.yaml"];
    assert_eq!(server.get("/problems").await.is(200).ids(), expected);
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages", "posts"]);
    server.create(&document("evil", json!({}))).await.is(409);
    assert!(folder.join("evil.yaml").is_symlink());
}

#[tokio::test]
async fn a_sha256_repository_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    fs::create_dir(&path).unwrap();
    Repo::at(&path).git(&["init", "--quiet", "--object-format=sha256"]);
    let refused = TestServer::setup("").repository(&path).expect_start_failure().assert_exit_code(1);
    assert!(refused.stderr.to_lowercase().contains("sha"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_thousand_files_are_listed_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::init(folder.path().join("r"));
    for n in 0..1000 {
        repo.write(&format!("collections/k{n:04}.yaml"), &format!("type: document\nname: Number {n}\n"));
    }
    let head = repo.commit("Add a thousand");
    let mut server = TestServer::setup("").repository(repo.path()).start().await;
    for _ in 0..2 {
        let list = server.list().await.is(200);
        assert_eq!(list.header("collectory-revision"), head);
        assert_eq!(list.ids().len(), 1000);
        server.restart().await;
    }
}

#[tokio::test]
async fn a_shallow_clone_that_is_deepened_while_it_is_served_shows_its_whole_history() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Repo::seeded(folder.path().join("origin"), "small");
    for name in ["A", "B", "C"] {
        origin.write("collections/posts.yaml", &format!("type: document\nname: {name}\n"));
        origin.commit(name);
    }
    let clone = folder.path().join("clone");
    let url = format!("file://{}", origin.path().display());
    origin.git(&["clone", "--quiet", "--depth", "2", &url, &clone.to_string_lossy()]);
    let server = TestServer::setup("").repository(&clone).start().await;
    let events = "/collections/posts/events";
    let actions = async || {
        let events = server.get(events).await.is(200).data();
        let events = events.as_array().unwrap().iter();
        events.map(|event| event["attributes"]["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(actions().await, ["updated", "created"]);
    let oldest = &server.get(events).await.is(200).data()[1]["attributes"];
    assert!(oldest["problem"].to_string().contains("git fetch --unshallow"), "{oldest}");
    let lost = server.get("/collections/posts?asOf=HEAD~3").await.is(404).detail();
    assert!(lost.contains("git fetch --unshallow"), "{lost}");
    let boundary = server.get(events).await.is(200).ids()[1].clone();
    let undone = server.undo(&boundary).await.is(503).detail();
    assert!(undone.contains("git fetch --unshallow"), "{undone}");
    server.repo().git(&["fetch", "--quiet", "--unshallow"]);
    server.get("/collections/posts?asOf=HEAD~3").await.is(200);
    assert_eq!(actions().await, ["updated", "updated", "updated", "created"]);
    server.patch("posts", json!({"name": "D"})).await.is(200);
    assert_eq!(actions().await.len(), 5);
}

#[tokio::test]
async fn a_shallow_clone_of_what_the_service_wrote_is_served_and_changed_and_says_what_it_is() {
    let origin = TestServer::start("small").await;
    for name in ["A", "B"] {
        origin.patch("posts", json!({"name": name})).await.is(200);
    }
    let folder = tempfile::tempdir().unwrap();
    let clone = folder.path().join("clone");
    let url = format!("file://{}", origin.repo().path().display());
    origin.repo().git(&["clone", "--quiet", "--depth", "1", &url, &clone.to_string_lossy()]);
    let file = folder.path().join("bundle");
    for (arguments, code) in [
        (vec!["restore", "posts", "HEAD~1"], 1),
        (vec!["backup", file.to_str().unwrap()], 1),
        (vec!["doctor"], 0),
    ] {
        let finished = run_to_end(collectory_command(&clone).args(&arguments).args(["--repo", "."]))
            .assert_exit_code(code);
        let said = format!("{}{}", finished.stdout, finished.stderr);
        assert!(said.contains("git fetch --unshallow"), "{arguments:?}: {said}");
    }
    let server = TestServer::setup("").repository(&clone).start().await;
    server.patch("posts", json!({"name": "C"})).await.is(200);
}

#[tokio::test]
async fn a_partial_clone_says_how_to_have_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Repo::seeded(folder.path().join("origin"), "small");
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    for name in ["B", "A", "B"] {
        origin.write("collections/posts.yaml", &format!("type: document\nname: {name}\n"));
        origin.commit(name);
    }
    let url = format!("file://{}", origin.path().display());
    for (filter, status) in [("blob:none", 200), ("tree:0", 503)] {
        let clone = folder.path().join(filter.replace(':', "-"));
        origin.git(&["clone", "--quiet", &format!("--filter={filter}"), &url, &clone.to_string_lossy()]);
        let server = TestServer::setup("").repository(&clone).start().await;
        let answer = server.get("/collections/posts?asOf=HEAD~1").await.is(status).json().to_string();
        assert!(answer.contains("git fetch --refetch --no-filter"), "{filter}: {answer}");
        assert!(!answer.contains("hash-object"), "{filter}: {answer}");
        if status == 200 {
            // Only older objects show what the newest commit changed, and which commit set an attribute.
            let answer = server.get("/collections/posts/blame").await.is(503).detail();
            assert!(answer.contains("git fetch --refetch --no-filter"), "{answer}");
            let newest = &server.get("/collections/posts/events").await.is(200).data()[0]["attributes"];
            assert!(newest["problem"].to_string().contains("git fetch --refetch --no-filter"), "{newest}");
        }
    }
}

#[tokio::test]
async fn a_partial_clone_without_any_content_says_at_every_question_how_to_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Repo::seeded(folder.path().join("origin"), "small");
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", origin.path().display());
    let clone = folder.path().join("clone");
    origin.git(&["clone", "--quiet", "--no-checkout", "--filter=blob:none", &url, &clone.to_string_lossy()]);
    let flags = ["--history-wait-ms-max", "1"];
    let mut server = TestServer::setup("").repository(&clone).flag(&flags).start_without_waiting();
    for path in ["/collections", "/collections/posts", "/events", "/collections/posts/blame"] {
        let detail = server.get(path).await.is(503).detail();
        assert!(detail.contains("git fetch --refetch --no-filter"), "{path}: {detail}");
    }
    server.expect_git_status(
        "D  collections/images.yaml\nD  collections/pages.yaml\nD  collections/posts.yaml",
    );
}

#[tokio::test]
async fn where_no_file_can_have_a_second_name_a_repository_is_served_and_written() {
    let tools = tempfile::tempdir().unwrap();
    let mut server = TestServer::setup("small").without_links(tools.path()).start().await;
    let in_place = server.repo().path().join("collections");
    assert!(
        !run_to_end(
            std::process::Command::new(tools.path().join("no_links"))
                .arg("ln")
                .args([in_place.join("posts.yaml"), in_place.join("linked.yaml")],)
        )
        .status
        .success()
    );
    for round in 0..3 {
        server.create(&document("new", json!({"name": "New"}))).await.is(201);
        server.patch("posts", json!({"name": format!("Posts {round}")})).await.is(200);
        assert_eq!(server.repo().git(&["status", "--porcelain"]), "");
        server.kill();
        server.start_again().await;
        server.delete("new").await.is(204);
    }
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts 2");
    assert_eq!(server.repo().git(&["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_work_tree_that_becomes_sparse_empties_no_list() {
    let server = TestServer::start("small").await;
    server.repo().write("docs/notes.txt", "Notes");
    server.repo().commit("Notes");
    server.repo().git(&["sparse-checkout", "set", "--cone", "--sparse-index", "docs"]);
    let note = eventually("it is told", async || {
        let meta = server.get("/readyz").await.is(200).json()["meta"].clone();
        meta["workTree"].as_str().map(str::to_owned)
    })
    .await;
    assert!(note.contains("git sparse-checkout disable"), "{note}");
    assert_eq!(server.list().await.is(200).ids().len(), 3);
    server.patch("posts", json!({"name": "Never"})).await.is(503);
    server.repo().git(&["sparse-checkout", "disable"]);
    server.patch("posts", json!({"name": "Posts anew"})).await.is(200);
}
