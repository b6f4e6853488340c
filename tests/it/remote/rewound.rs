//! Remotes that were rewound while no instance ran, and what an instance knows about it afterwards.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::{
    Hub, create, kept, link, over_git, rewound, stopped, touch, wait_for_problem_about, wait_for_remote_state,
};
use crate::support::{
    Answer, Daemon, TestServer, collectory_command, document, eventually, git_daemon, run_to_end,
};

/// Returns the ref file that records up to where the branch here contains the remote's.
fn base_of(server: &TestServer) -> PathBuf {
    let git_dir = server.repo().git(&["rev-parse", "--absolute-git-dir"]);
    PathBuf::from(git_dir).join("collectory/remote/refs/collectory/base")
}

#[tokio::test]
async fn what_a_remote_has_lost_is_not_pushed_again_by_a_service_that_was_killed_before_it_noted_its_base() {
    for (ack, is_ours) in [("pushed", true), ("local", true), ("pushed", false)] {
        let hub = Hub::with("small");
        let mut server = hub.polling(50).flag(&["--remote-ack", ack]).start().await;
        let before = hub.head().unwrap();
        let note = base_of(&server);
        let stale = eventually("the base is noted", async || fs::read(&note).ok()).await;
        let gone = match is_ours {
            true => server.rename("posts", "Gone").await,
            false => hub.push_collection("posts", "Gone"),
        };
        server.wait_for_revision(&gone).await;
        // The answer to the push has arrived, too.
        eventually("it is pushed", async || (link(&server).await["ahead"] == 0).then_some(())).await;
        assert_eq!(hub.head().as_ref(), Some(&gone));
        server.kill();
        fs::write(&note, &stale).unwrap();
        hub.move_branch(&before);
        server.start_again().await;
        server.wait_for_revision(&before).await;
        assert_eq!(hub.head(), Some(before), "{ack}");
        eventually("what went is kept", async || (kept(&server) == gone).then_some(())).await;
    }
}

/// An instance that uses git's daemon, which finishes a push after the client is gone.
async fn behind_a_daemon(hub: &Hub, timeout_ms: u64) -> (Daemon, TestServer) {
    let daemon = git_daemon(hub.folder.path());
    let server = over_git(daemon.1, 100, timeout_ms).start().await;
    (daemon, server)
}

#[tokio::test]
async fn a_push_that_had_no_answer_and_may_yet_land_is_not_said_to_be_refused() {
    let hub = Hub::with("small");
    let (_daemon, server) = behind_a_daemon(&hub, 60_000).await;
    let [gate, first] = ["gate", "first"].map(|name| hub.repo.path().join(name));
    touch(&gate);
    // The hook holds up the first push, and refuses all others.
    let hold = format!("while [ -e {} ]; do sleep 0.05; done; exit 0", gate.display());
    hub.hook("pre-receive", &format!("if mkdir {}; then {hold}; fi; exit 1", first.display()));
    let lost = async {
        eventually("it is held up", async || first.exists().then_some(())).await;
        server.kill_transfers();
    };
    let (answer, ()) = tokio::join!(server.patch("posts", json!({"name": "Late"})), lost);
    assert_eq!(answer.is(503).error().0, "outcome_unknown");
    fs::remove_file(gate).unwrap();
    server.wait_for_attribute("posts", "name", "Late").await;
}

/// Makes the remote hold up pushes until the returned file is removed.
pub(super) fn held_up(hub: &Hub) -> PathBuf {
    let gate = hub.repo.path().join("gate");
    touch(&gate);
    hub.hook("pre-receive", &format!("while [ -e {} ]; do sleep 0.05; done", gate.display()));
    gate
}

#[tokio::test]
async fn a_push_that_comes_late_onto_what_the_remote_was_rewound_to_is_there_once_and_served() {
    let hub = Hub::with("small");
    let (_daemon, server) = behind_a_daemon(&hub, 1_500).await;
    let ask = async || {
        let asked = server.request("PATCH", "/collections/posts").header("Idempotency-Key", "once");
        asked.document(&document("posts", json!({"name": "Late"}))).send().await
    };
    let before = hub.head().unwrap();
    let gate = held_up(&hub);
    let unknown = ask().await.is(503);
    assert_eq!(unknown.error().0, "outcome_unknown");
    let event = unknown.json()["errors"][0]["meta"]["events"][0].as_str().unwrap().to_owned();
    let tree = hub.repo.git(&["rev-parse", "main^{tree}"]);
    let other = hub.repo.git(&["commit-tree", "-m", "Other", "-p", &before, &tree]);
    for head in [&other, &before] {
        hub.move_branch(head);
        server.wait_for_revision(head).await;
    }
    fs::remove_file(gate).unwrap();
    server.wait_for_attribute("posts", "name", "Late").await;
    let landed = hub.head().unwrap();
    let event = server.get(&format!("/events/{event}")).await.is(200).data();
    assert_eq!(event["attributes"]["revision"], landed);
    assert_eq!(ask().await.is(200).header("collectory-revision"), landed);
    assert_eq!(hub.repo.git(&["rev-list", "--count", &format!("{before}..main")]), "1");
}

#[tokio::test]
async fn what_a_rewound_remote_had_is_no_problem_any_more_when_somebody_has_pushed_it_again() {
    for is_merged in [false, true] {
        let hub = Hub::with("small");
        let (server, gone) = rewound(&hub, &[]).await;
        if is_merged {
            let person = hub.person();
            person.git(&["fetch", "--quiet", server.repo().path().to_str().unwrap(), &gone]);
            hub.push_collection("pages", "Foreign");
            person.git(&["merge", "--quiet", "-m", "Take it back", &gone]);
            person.git(&["push", "--quiet", "origin", "HEAD"]);
        } else {
            hub.move_branch(&gone);
        }
        server.wait_for_revision(&hub.head().unwrap()).await;
        server.wait_for_no_problem().await;
        assert_eq!(kept(&server), "");
        server.request("POST", "/remote/restore").send().await.is(409);
    }
}

#[tokio::test]
async fn a_follower_pushes_nothing_whatever_becomes_of_the_remote() {
    let hub = Hub::with("small");
    let server = hub.polling(50).flag(&["--follow", "--work-tree"]).start().await;
    let before = hub.head().unwrap();
    server.wait_for_revision(&before).await;
    server.repo().configure_user();
    server.repo().write("collections/mine.yaml", "type: document\nname: Mine\n");
    server.commit_by_hand("Mine").await;
    hub.push_collection("theirs", "Theirs");
    wait_for_remote_state(&server, "stopped").await;
    hub.move_branch(&before);
    wait_for_remote_state(&server, "up").await;
    assert_eq!(hub.head(), Some(before));
}

#[tokio::test]
async fn a_follower_that_has_gone_on_beside_the_remote_accepts_it_and_keeps_what_was_here() {
    for is_served in [true, false] {
        let hub = Hub::with("small");
        let flags = ["--follow", "--work-tree"];
        let mut server = hub.polling(50).flag(&flags).start().await;
        server.wait_for_revision(&hub.head().unwrap()).await;
        server.repo().configure_user();
        server.repo().write("collections/mine.yaml", "type: document\nname: Mine\n");
        let mine = server.commit_by_hand("Mine").await;
        let theirs = hub.push_collection("theirs", "Theirs");
        let why = wait_for_remote_state(&server, "stopped").await.to_string();
        assert!(why.contains("`collectory remote accept`"), "{why}");
        if is_served {
            let accepted = server.request("POST", "/remote/accept").send().await.is(200);
            assert_eq!(accepted.header("collectory-revision"), theirs);
        } else {
            server.stop();
            let mut accept = collectory_command(server.folder());
            accept.args(["remote", "accept", "--follow", "--repo", server.repo().path().to_str().unwrap()]);
            run_to_end(accept.args(["--remote", &hub.url()])).assert_exit_code(0);
            server.start_again().await;
        }
        server.wait_for_revision(&theirs).await;
        wait_for_remote_state(&server, "up").await;
        assert_eq!((kept(&server), server.repo().status()), (mine.clone(), String::new()));
        wait_for_problem_about(&server, &mine).await;
        server.request("POST", "/remote/accept").send().await.is(200);
        server.wait_for_no_problem().await;
        assert_eq!((kept(&server), hub.head()), (String::new(), Some(theirs)));
    }
}

#[tokio::test]
async fn what_is_replaced_by_force_is_kept_before_it_goes() {
    let hub = Hub::with("small");
    let (mut server, _, stays) = stopped(&hub).await;
    let foreign = hub.push_collection("pages", "Foreign");
    server.stop();
    let repo = server.repo().path().to_str().unwrap().to_owned();
    let found = hub.folder.path().join("found");
    let refs = "for-each-ref --format='%(objectname)' refs/collectory/kept/";
    let look = format!("env -i PATH=\"$PATH\" git -C {repo} {refs}");
    hub.hook("pre-receive", &format!("{look} > {0}; [ -e {0}.takes ]", found.display()));
    let restore = || {
        let mut command = collectory_command(server.folder());
        command.args(["remote", "restore", "--force", "--repo", &repo, "--remote", &hub.url()]);
        run_to_end(&mut command)
    };
    restore().assert_exit_code(1);
    assert_eq!(fs::read_to_string(&found).unwrap().trim(), foreign);
    assert_eq!(kept(&server), "", "it has not gone");
    touch(&found.with_extension("takes"));
    restore().assert_exit_code(0);
    assert_eq!((hub.head(), kept(&server)), (Some(stays), foreign));
    hub.no_hook("pre-receive");
    server.start_again().await;
    server.patch("posts", json!({"name": "Goes on"})).await.is(200);
}

#[tokio::test]
async fn what_is_restored_without_a_service_is_merged_by_attribute_in_the_folder_that_is_named() {
    let hub = Hub::with("small");
    hub.push_change(|person| drop(person.git(&["mv", "collections", "settings"])));
    let setup = hub.polling(50).flag(&["--path", "settings", "--remote-rewrite", "stop"]);
    let mut server = setup.start().await;
    let before = hub.head().unwrap();
    server.patch("posts", json!({"x-mine": "Stays"})).await.is(200);
    hub.move_branch(&before);
    wait_for_remote_state(&server, "stopped").await;
    server.stop();
    hub.push_change(|person| person.write("settings/posts.yaml", "type: document\nname: Foreign\n"));
    let mut restore = collectory_command(server.folder());
    restore.args(["remote", "restore", "--remote", &hub.url(), "--path", "settings", "--repo"]);
    run_to_end(restore.arg(server.repo().path())).assert_exit_code(0);
    server.start_again().await;
    let merged = server.read("posts").await.is(200).attributes();
    assert_eq!((&merged["x-mine"], &merged["name"]), (&json!("Stays"), &json!("Foreign")));
}

#[tokio::test]
async fn what_a_person_committed_since_the_service_ended_leaves_the_work_tree_with_what_is_let_go() {
    let hub = Hub::with("small");
    let mut server = hub.polling(50).flag(&["--work-tree", "--remote-rewrite", "stop"]).start().await;
    let before = hub.head().unwrap();
    server.create(&document("gone", json!({}))).await.is(201);
    hub.move_branch(&before);
    wait_for_remote_state(&server, "stopped").await;
    server.stop();
    let repo = server.repo();
    repo.configure_user();
    repo.write("collections/mine.yaml", "type: document\n");
    let mine = repo.commit("Mine");
    let mut accept = collectory_command(server.folder());
    accept.args(["remote", "accept", "--repo", repo.path().to_str().unwrap(), "--remote", &hub.url()]);
    run_to_end(&mut accept).assert_exit_code(0);
    assert_eq!((repo.head(), kept(&server)), (before, mine));
    assert!(repo.status().is_empty(), "{:?}", repo.status());
    assert!(!repo.has("collections/gone.yaml") && !repo.has("collections/mine.yaml"));
}

#[tokio::test]
async fn what_was_restored_and_goes_again_is_named_as_the_history_named_it() {
    let hub = Hub::with("small");
    let server = hub.polling(50).start().await;
    let before = hub.head().unwrap();
    let one = create(&server, "one").await;
    let posts = server.rename("posts", "Gone").await;
    hub.move_branch(&before);
    server.wait_for_revision(&before).await;
    wait_for_problem_about(&server, &one).await;
    let pages = server.rename("pages", "Other").await;
    let restored = restore(&server).await.is(200).header("collectory-revision").to_owned();
    server.wait_for_revision(&restored).await;
    server.wait_for_no_problem().await;
    hub.move_branch(&before);
    server.wait_for_revision(&before).await;
    wait_for_problem_about(&server, &posts).await;
    let problem = server.get("/problems").await.is(200).data()[0]["attributes"].clone();
    let went = problem["events"].as_array().unwrap().iter();
    let went: Vec<_> = went.map(|it| (it["collection"].clone(), it["revision"].clone())).collect();
    let expected = [("posts", &posts), ("one", &one), ("pages", &pages)];
    assert_eq!(went, expected.map(|(key, revision)| (json!(key), json!(revision))));
    assert!(problem["message"].as_str().unwrap().contains("3 of its events went"), "{problem}");
}

/// Makes another person win the race against this many pushes that restore `gone`.
fn others_are_faster(hub: &Hub, gone: &str, times: usize) {
    let is_restored = format!("git merge-base --is-ancestor {gone} $new");
    let is_early = format!("[ $(git rev-list --count --grep=Faster main) -lt {times} ]");
    // Pushed objects are in quarantine until the push is accepted, and git moves no ref from within it. The empty
    // environment leaves the quarantine.
    let git = "env -i PATH=\"$PATH\" git -c user.name=o -c user.email=o@example.org";
    let commit = format!("{git} commit-tree -p main -m Faster 'main^{{tree}}'");
    let moves = format!("{git} update-ref refs/heads/main $({commit})");
    hub.hook("pre-receive", &format!("read -r old new ref; {is_restored} && {is_early} && {moves}; exit 0"));
}

async fn restore(server: &TestServer) -> Answer {
    server.request("POST", "/remote/restore").send().await
}

#[tokio::test]
async fn what_is_restored_while_others_push_is_decided_again_on_what_they_have_pushed() {
    for ack in ["pushed", "local"] {
        let hub = Hub::with("small");
        let (server, gone) = rewound(&hub, &["--remote-ack", ack, "--races-max", "2"]).await;
        others_are_faster(&hub, &gone, 2);
        let answer = restore(&server).await.is(200);
        let merge = hub.head().unwrap();
        assert_eq!(answer.json()["meta"]["revision"], merge);
        let parents = hub.repo.git(&["log", "-1", "--format=%P %s", "main^1", "--"]);
        assert!(parents.ends_with("Faster"), "{parents}");
        assert_eq!(hub.repo.git(&["rev-parse", "main^2"]), gone);
        assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Gone");
        server.wait_for_no_problem().await;
        assert_eq!(kept(&server), "");
    }
}

#[tokio::test]
async fn what_is_restored_while_others_keep_pushing_is_told_as_any_race_that_is_lost_each_time() {
    let hub = Hub::with("small");
    let (server, gone) = rewound(&hub, &["--races-max", "1"]).await;
    others_are_faster(&hub, &gone, 2);
    let lost = restore(&server).await.is(503);
    assert_eq!(
        (lost.error().0, lost.detail()),
        ("service_unavailable".into(), "The branch keeps moving, try again.".into())
    );
    assert_eq!(lost.header("retry-after"), "1");
    assert_eq!(kept(&server), gone);
    wait_for_remote_state(&server, "up").await;
    restore(&server).await.is(200);
    server.wait_for_attribute("posts", "name", "Gone").await;
}

#[tokio::test]
async fn of_what_others_push_while_they_are_overruled_by_force_the_last_is_kept() {
    let hub = Hub::with("small");
    let (server, gone) = rewound(&hub, &[]).await;
    others_are_faster(&hub, &gone, 2);
    server.request("POST", "/remote/restore?force=true").send().await.is(200);
    assert_eq!(hub.head().as_ref(), Some(&gone));
    server.wait_for_attribute("posts", "name", "Gone").await;
    let last = server.repo().git(&["log", "--format=%s", "-2", &kept(&server), "--"]);
    assert_eq!(last, "Faster\nFaster");
}

#[tokio::test]
async fn what_is_restored_waits_for_the_push_that_is_under_way() {
    let hub = Hub::with("small");
    let (server, gone) = rewound(&hub, &["--remote-ack", "local"]).await;
    let [gate, busy, both] = ["gate", "busy", "both"].map(|name| hub.repo.path().join(name));
    touch(&gate);
    let [at, by, of] = [&gate, &busy, &both].map(|path| path.display());
    let hold =
        format!("mkdir {by} || touch {of}; while [ -e {at} ]; do sleep 0.05; done; rmdir {by}; exit 0");
    hub.hook("pre-receive", &hold);
    let mine = server.rename("pages", "Mine").await;
    eventually("it is being pushed", async || busy.exists().then_some(())).await;
    let opened = async {
        server.wait_for_log("what is here was merged").await;
        fs::remove_file(&gate).unwrap();
    };
    let (restored, ()) = tokio::join!(restore(&server), opened);
    restored.is(200);
    assert!(!both.exists(), "one is pushed after the other");
    let history = hub.repo.git(&["rev-list", "main"]);
    assert!(history.contains(&gone) && history.contains(&mine), "{history}");
    server.wait_for_no_problem().await;
}
