//! Writes that wait before a push: for `--remote-push-interval-ms`, or to let other instances go first.

use std::time::{Duration, Instant};

use serde_json::json;

use super::rewound::held_up;
use super::transports::{By, Reached};
use super::{Hub, create, link, over_git, unavailable};
use crate::operating::samples;
use crate::support::{Setup, Signal, TestServer, document, eventually, git_daemon};

/// An instance that pushes once, and then not again for a long time.
fn paced(setup: Setup) -> Setup {
    setup.flag(&["--remote-push-interval-ms", "600000", "--log-level", "debug"])
}

/// Waits until a write is held back.
async fn a_write_is_held(server: &TestServer) {
    server.wait_for_log("writes wait until the branch may go on").await;
}

#[tokio::test]
async fn a_write_that_waits_for_its_turn_holds_up_nothing_else() {
    let hub = Hub::with("small");
    let mut server = paced(hub.polling(50)).flag(&["--work-tree"]).start().await;
    create(&server, "first").await;
    let mine = server.patch("posts", json!({"name": "Mine"}));
    let meanwhile = async {
        a_write_is_held(&server).await;
        server.repo().write_by_rename("collections/saved.yaml", "type: document\nname: Saved\n");
        server.wait_for_attribute("saved", "name", "Saved").await;
        let head = hub.push_collection("pages", "Foreign");
        let read = server.request("GET", "/collections/pages").header("Collectory-Min-Revision", "latest");
        assert_eq!(read.send().await.is(200).header("collectory-revision"), head);
        server.patch("pages", json!({"name": "Foreign"})).await.is(200);
        server.create(&document("pages", json!({"name": "Again"}))).await.is(409);
        assert_eq!(hub.head(), Some(head), "nothing was pushed");
        assert_eq!(link(&server).await["state"], "up");
        server.repo().remove("collections/saved.yaml");
        server.wait_until_not_found("saved").await;
        server.signal(Signal::TERM);
    };
    let (mine, ()) = tokio::join!(mine, meanwhile);
    let revision = mine.is(200).header("collectory-revision");
    assert_eq!(hub.head(), Some(revision), "at the end nothing waits for its turn");
    server.wait_for_exit(0);
}

#[tokio::test]
async fn a_lost_race_is_no_push_after_which_others_wait() {
    let reached = Reached::by(By::Daemon, Hub::with("small")).await.unwrap();
    let server = paced(reached.deaf()).start().await;
    let theirs = reached.hub.push_collection("pages", "Foreign");
    let mine = server.rename("posts", "Mine").await;
    assert_eq!(reached.hub.repo.git(&["rev-parse", "main", "main~1"]), format!("{mine}\n{theirs}"));
}

#[tokio::test]
async fn what_became_of_a_push_is_asked_with_growing_pauses_while_no_other_push_may_start() {
    let hub = Hub::with("small");
    let daemon = git_daemon(hub.folder.path());
    let setup = paced(over_git(daemon.1, 5_000, 1_000)).flag(&["--admin-listen", "127.0.0.1:0"]);
    let server = setup.start().await;
    held_up(&hub);
    assert_eq!(unavailable(&server, "posts", "Late").await.0, "outcome_unknown");
    let fetches = async || samples(&server).await["collectory_remote_fetch_duration_seconds_count"];
    let (began, before) = (Instant::now(), fetches().await);
    eventually("it is asked", async || (fetches().await >= before + 4.0).then_some(())).await;
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn who_was_faster_than_others_waits_for_them_without_holding_up_anything_else() {
    let hub = Hub::with("small");
    let server = hub.polling(50).flag(&["--log-level", "debug"]).start().await;
    hub.push_collection("pages", "Foreign");
    server.wait_for_attribute("pages", "name", "Foreign").await;
    let mark = hub.repo.path().join("mark");
    hub.hook("pre-receive", &format!("touch {}; sleep 0.3", mark.display()));
    let later = async {
        eventually("the first write is pushed", async || mark.exists().then_some(())).await;
        server.patch("posts", json!({"name": "Second"})).await
    };
    let (first, second) = tokio::join!(server.patch("posts", json!({"name": "First"})), later);
    a_write_is_held(&server).await;
    let [first, second] = [first, second].map(|answer| answer.is(200).header("collectory-revision"));
    assert_eq!(hub.repo.git(&["rev-parse", "main", "main~1"]), format!("{second}\n{first}"));
}

#[tokio::test]
async fn a_person_s_commits_wait_for_their_turn_and_hold_up_nothing() {
    let hub = Hub::with("small");
    let mut server = paced(hub.polling(50)).flag(&["--work-tree"]).start().await;
    create(&server, "first").await;
    let person = server.repo();
    person.configure_user();
    person.write("collections/saved.yaml", "type: document\nname: Saved\n");
    let commit = person.commit("Save");
    server.wait_for_attribute("saved", "name", "Saved").await;
    server.wait_for_revision(&commit).await;
    assert_ne!(hub.head().as_ref(), Some(&commit));
    server.signal(Signal::TERM);
    server.wait_for_exit(0);
    assert_eq!(hub.head(), Some(commit), "at the end nothing waits for its turn");
}
