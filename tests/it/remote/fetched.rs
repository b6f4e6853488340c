//! Commits that others have pushed.

use serde_json::json;

use super::{Hub, create, kept, link, rewound, stopped, wait_for_problem_about, wait_for_remote_state};
use crate::support::{
    Auth, Client, EventStream, Repo, TestServer, collectory_command, eventually, policy_of, run_to_end,
};

#[tokio::test]
async fn a_remote_that_was_rewound_is_followed_and_what_went_is_kept_and_told() {
    let hub = Hub::with("small");
    let server = hub.polling(50).start().await;
    let before = hub.head().unwrap();
    let gone = server.rename("posts", "Gone").await;
    let mut stream = EventStream::open_path(server.address(), "/events", "");
    assert!(stream.head.starts_with("http/1.1 200"), "{}", stream.head);
    hub.move_branch(&before);
    server.wait_for_revision(&before).await;
    assert_eq!(kept(&server), gone);
    while stream.next_message().expect("the stream says `reset`").event != "reset" {}
    let problems = server.get("/problems").await.is(200).data();
    for said in [&gone, "1 of its events went", "`collectory remote restore`", "`collectory remote accept`"] {
        assert!(problems.to_string().contains(said), "{said}: {problems}");
    }
    server.patch("pages", json!({"name": "Later"})).await.is(200);
    assert!(!hub.repo.git(&["rev-list", "main"]).contains(&gone), "what was taken away does not come back");
}

#[tokio::test]
async fn a_rewound_remote_is_not_followed_where_somebody_is_to_decide() {
    let hub = Hub::with("small");
    let (server, _, stays) = stopped(&hub).await;
    let state = link(&server).await;
    assert!(state["lastError"].as_str().unwrap().contains("collectory remote accept"), "{state}");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Stays");
    server.patch("posts", json!({"name": "No"})).await.is(503);
    hub.move_branch(&stays);
    wait_for_remote_state(&server, "up").await;
    server.patch("posts", json!({"name": "Yes"})).await.is(200);
}

#[tokio::test]
async fn a_remote_without_the_branch_or_with_another_history_is_never_followed() {
    let hub = Hub::with("small");
    let server = hub.polling(50).start().await;
    let before = hub.head().unwrap();
    hub.loses_its_branch();
    wait_for_remote_state(&server, "rewritten").await;
    server.patch("posts", json!({"name": "No"})).await.is(503);
    assert_eq!(hub.head(), None);
    let tree = hub.repo.git(&["rev-parse", &format!("{before}^{{tree}}")]);
    let other = hub.repo.git(&["commit-tree", "-m", "Other", &tree]);
    hub.move_branch(&other);
    server.patch("posts", json!({"name": "No"})).await.is(503);
    assert_eq!((server.repo().head(), hub.head()), (before.clone(), Some(other)));
    hub.move_branch(&before);
    wait_for_remote_state(&server, "up").await;
}

#[tokio::test]
async fn commits_that_a_person_makes_here_are_pushed() {
    let hub = Hub::with("small");
    let server = hub.polling(50).flag(&["--work-tree"]).start().await;
    server.repo().configure_user();
    server.repo().write("collections/posts.yaml", "type: document\nname: By hand\n");
    let commit = server.commit_by_hand("By hand").await;
    server.patch("pages", json!({"name": "By API"})).await.is(200);
    assert!(hub.repo.git(&["rev-list", "main"]).contains(&commit));
    assert!(server.repo().read("collections/pages.yaml").contains("By API"));
}

#[tokio::test]
async fn a_remote_that_is_a_folder_of_this_machine_is_watched() {
    let hub = Hub::with("small");
    let (one, other) = (hub.instance().await, hub.instance().await);
    let head = hub.push_collection("posts", "Foreign");
    one.wait_for_revision(&head).await;
    let head = create(&one, "new").await;
    other.wait_for_revision(&head).await;
}

#[tokio::test]
async fn a_notice_has_the_remote_looked_at() {
    let hub = Hub::with("small");
    let server = hub.deaf().start().await;
    let head = hub.push_collection("posts", "Foreign");
    server.request("POST", "/remote/notices").send().await.is(202);
    server.wait_for_revision(&head).await;
    server.request("GET", "/remote/notices").send().await.is(405);
}

#[tokio::test]
async fn behind_a_policy_a_notice_is_signed_or_from_an_operator() {
    let hub = Hub::with("small");
    let secret = hub.folder.path().join("secret");
    std::fs::write(&secret, "It's a Secret to Everybody\n").unwrap();
    let policy = policy_of(&[("Op", "read, operate", "*"), ("Reader", "read", "*")]);
    let setup = hub.deaf().auth(Auth::Policy(policy));
    let server = setup.flag(&["--remote-notice-secret", secret.to_str().unwrap()]).start().await;
    let reader = server.client().with_token("reader");
    let notice = |client: &Client| client.request("POST", "/remote/notices");
    notice(server.client()).send().await.is(401);
    notice(&reader).send().await.is(403);
    let wrong = notice(server.client()).header("X-Gitlab-Token", "It's a secret to Everybody");
    wrong.send().await.is(401);
    let signed = notice(server.client()).header("X-Gitlab-Token", "It's a Secret to Everybody");
    signed.form("a".repeat((1 << 20) + 1)).send().await.is(413);
    notice(&server.client().with_token("op")).send().await.is(202);
    let head = hub.push_collection("posts", "Foreign");
    notice(server.client()).header("X-Gitlab-Token", "It's a Secret to Everybody").send().await.is(202);
    eventually("the push is served", async || {
        let found = reader.list().await.is(200).header_if_any("collectory-revision");
        (found.as_ref() == Some(&head)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn siblings_are_told_of_a_push() {
    let hub = Hub::with("small");
    let other = hub.deaf().start().await;
    let peer = format!("http://{}/", other.address());
    let one = hub.deaf().flag(&["--peer", &peer]).start().await;
    let head = create(&one, "new").await;
    other.wait_for_revision(&head).await;
}

#[tokio::test]
async fn a_commit_in_a_remote_whose_git_folder_stands_elsewhere_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = Repo::seeded(folder.path().join("theirs"), "small");
    theirs.git(&["init", "--quiet", "--separate-git-dir", folder.path().join("elsewhere").to_str().unwrap()]);
    let url = theirs.path().to_str().unwrap().to_owned();
    let setup = TestServer::setup("").without_repository().flag(&["--remote", &url, "--remote-poll-ms", "0"]);
    let server = setup.start().await;
    theirs.write("collections/new.yaml", "type: document\nname: New\n");
    server.wait_for_revision(&theirs.commit("Write new")).await;
}

#[tokio::test]
async fn a_sibling_that_hangs_holds_up_no_other() {
    let hub = Hub::with("small");
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = hub.deaf().start().await;
    // Notified one after the other, they would take too long for this test.
    let mut peers = vec![format!("http://{}/", silent.local_addr().unwrap()); 50];
    peers.push(format!("http://{}/", other.address()));
    let one = hub.deaf().flag(&["--peer", &peers.join(",")]).start().await;
    let head = create(&one, "new").await;
    other.wait_for_revision(&head).await;
}

#[tokio::test]
async fn a_follower_takes_no_writes_and_shows_those_of_others() {
    let hub = Hub::with("small");
    let follower = hub.setup().flag(&["--follow"]).start().await;
    let refused = follower.patch("posts", json!({"name": "Mine"})).await.is(405);
    assert!(refused.detail().contains("takes no writes"), "{}", refused.detail());
    assert_eq!(refused.header("allow"), "GET, HEAD, OPTIONS");
    follower.operations(json!([])).await.is(405);
    let options = follower.request("OPTIONS", "/collections/posts").send().await.is(204);
    assert_eq!(options.header("allow"), "GET, HEAD, OPTIONS");
    crate::ui::get_page(&follower, "/", 200).await.has("posts").lacks("New collection");
    crate::ui::get_page(&follower, "/collections/posts", 200).await.lacks("Save");
    crate::ui::get_page(&follower, "/new", 403).await.has("takes no writes");
    let restore = follower.request("POST", "/remote/restore").send().await.is(405);
    assert_eq!(restore.header("allow"), "OPTIONS");
    let head = create(&hub.instance().await, "new").await;
    follower.wait_for_revision(&head).await;
}

#[tokio::test]
async fn an_instance_that_has_not_seen_the_remote_for_too_long_is_not_ready() {
    let hub = Hub::with("small");
    let server = hub.polling(50).flag(&["--max-staleness-ms", "500"]).start().await;
    hub.make_unreachable();
    // On a busy machine it may be too long ago before a fetch has failed.
    let remote = eventually("it is not ready, and the remote is down", async || {
        let readiness = server.get("/readyz").await.checked().json();
        let remote = readiness["errors"][0]["meta"]["remote"].clone();
        (remote["state"] == "down").then_some(remote)
    })
    .await;
    assert!(remote["lastError"].is_string(), "{remote}");
    server.read("posts").await.is(200);
    hub.make_reachable();
    server.wait_until_ready().await;
}

#[tokio::test]
async fn what_a_rewritten_remote_has_lost_is_merged_with_what_it_has_now() {
    let hub = Hub::with("small");
    let (server, gone) = rewound(&hub, &[]).await;
    let foreign = hub.push_collection("pages", "Foreign");
    let service = format!("http://{}/", server.address());
    let mut command = collectory_command(server.folder());
    let restored = run_to_end(command.args(["remote", "restore", "--to", &service])).assert_exit_code(0);
    let merge = hub.head().unwrap();
    assert!(restored.stdout.contains(&merge), "{restored:?}");
    assert_eq!(hub.parents(), format!("{foreign} {gone}"));
    server.wait_for_revision(&merge).await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Gone");
    assert_eq!(server.read("pages").await.is(200).attributes()["name"], "Foreign");
    server.wait_for_no_problem().await;
    server.request("POST", "/remote/restore").send().await.is(409);
}

#[tokio::test]
async fn a_remote_that_stopped_writes_is_accepted() {
    let hub = Hub::with("small");
    let (server, before, _) = stopped(&hub).await;
    server.request("POST", "/remote/accept").send().await.is(200);
    server.wait_for_revision(&before).await;
    server.wait_for_no_problem().await;
    server.patch("posts", json!({"name": "Goes on"})).await.is(200);
}

#[tokio::test]
async fn a_persons_commits_are_merged_with_what_others_have_pushed_meanwhile() {
    let hub = Hub::with("small");
    let mut server = hub.polling(50).flag(&["--work-tree"]).start().await;
    server.stop();
    let here = Repo::at(server.repo().path());
    here.configure_user();
    here.write("collections/mine.yaml", "type: document\nname: Mine\n");
    let mine = here.commit("Mine");
    let theirs = hub.push_collection("theirs", "Theirs");
    server.start_again().await;
    eventually("both are on the remote", async || {
        let parents = hub.parents();
        (parents == format!("{theirs} {mine}")).then_some(())
    })
    .await;
    server.wait_for_attribute("theirs", "name", "Theirs").await;
    assert_eq!(server.read("mine").await.is(200).attributes()["name"], "Mine");
    server.patch("mine", json!({"name": "Goes on"})).await.is(200);
    wait_for_remote_state(&server, "up").await;
}

#[tokio::test]
async fn a_persons_commits_that_were_not_pushed_are_kept_when_a_rewritten_remote_is_followed() {
    let hub = Hub::with("small");
    let before = hub.head().unwrap();
    hub.push_collection("posts", "Goes");
    let mut server = hub.polling(50).flag(&["--work-tree"]).start().await;
    server.wait_for_revision(&hub.head().unwrap()).await;
    server.stop();
    let here = Repo::at(server.repo().path());
    here.configure_user();
    here.write("collections/mine.yaml", "type: document\nname: Mine\n");
    let mine = here.commit("Mine");
    hub.move_branch(&before);
    server.start_again().await;
    server.wait_for_revision(&before).await;
    assert_eq!(kept(&server), mine);
    wait_for_problem_about(&server, &mine).await;
}

#[tokio::test]
async fn the_lock_of_a_git_that_was_killed_keeps_nobody_from_the_remote() {
    let hub = Hub::with("small");
    let mut server = hub.polling(50).start().await;
    let git_dir = server.repo().git(&["rev-parse", "--absolute-git-dir"]);
    let plant = || {
        for note in ["polled", "judged"] {
            // If the lock already exists, it belongs to a running git.
            let lock = format!("{git_dir}/collectory/remote/refs/collectory/{note}.lock");
            drop(std::fs::File::create_new(lock));
        }
    };
    plant();
    let head = hub.push_collection("posts", "While it runs");
    server.wait_for_revision(&head).await;
    server.patch("posts", json!({"name": "Pushed"})).await.is(200);

    server.kill();
    plant();
    let head = hub.push_collection("posts", "While it is down");
    server.start_again().await;
    server.wait_for_revision(&head).await;
    server.patch("posts", json!({"name": "Pushed again"})).await.is(200);
}

#[tokio::test]
async fn notes_of_the_remote_that_a_power_cut_left_empty_keep_nobody_from_it() {
    let hub = Hub::with("small");
    let mut server = hub.polling(50).start().await;
    server.patch("posts", json!({"name": "Pushed"})).await.is(200);
    let git_dir = server.repo().git(&["rev-parse", "--absolute-git-dir"]);
    for left in ["", &"\0".repeat(41)] {
        server.kill();
        for note in ["base", "polled", "judged"] {
            std::fs::write(format!("{git_dir}/collectory/remote/refs/collectory/{note}"), left).unwrap();
        }
        let head = hub.push_collection("posts", "While it is down");
        server.start_again().await;
        server.wait_for_revision(&head).await;
        server.patch("posts", json!({"name": "Pushed again"})).await.is(200);
    }
}

#[tokio::test]
async fn what_an_operator_has_decided_is_answered_when_it_can_be_read() {
    for (decision, name) in [("restore", "Gone"), ("accept", "Posts"), ("restore?&force=true", "Gone")] {
        let hub = Hub::with("small");
        let (server, _) = rewound(&hub, &[]).await;
        let before = hub.head();
        let path = format!("/remote/{}", decision.split('?').next().unwrap());
        let other = server.request("POST", &format!("{path}?include=x")).send().await.is(400);
        assert_eq!(other.error().1, json!({"parameter": "include"}), "{decision}");
        for (field, status) in [("Accept", 406), ("Content-Type", 415)] {
            let asked = server.request("POST", &path).header(field, "application/vnd.api+json; x=y");
            asked.send().await.is(status);
        }
        let answer = server.request("POST", &format!("/remote/{decision}")).send().await.is(200);
        assert_eq!(answer.json()["meta"]["revision"], hub.head().unwrap(), "{decision}");
        assert_eq!(hub.head() == before, decision == "accept", "{decision}");
        let read = server.read("posts").await.is(200);
        assert_eq!(answer.header("collectory-revision"), read.header("collectory-revision"), "{decision}");
        assert_eq!(read.attributes()["name"], name, "{decision}");
        assert!(server.get("/problems").await.is(200).ids().is_empty(), "{decision}");
    }
}

#[tokio::test]
async fn another_history_that_is_accepted_is_answered_when_it_can_be_read() {
    let hub = Hub::with("small");
    let server = hub.polling(50).start().await;
    let tree = hub.repo.git(&["mktree"]);
    let other = hub.repo.git(&["commit-tree", "-m", "Other", &tree]);
    hub.move_branch(&other);
    wait_for_remote_state(&server, "rewritten").await;
    server.request("POST", "/remote/accept").send().await.is(200);
    let read = server.list().await.is(200);
    assert_eq!((read.header("collectory-revision"), read.ids().len()), (other, 0));
}
