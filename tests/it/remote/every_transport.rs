//! Promises that hold for every transport. Each is tested over a folder, `git daemon`, HTTP with a password, and SSH
//! where `sshd` is installed.

use serde_json::json;

use super::transports::{By, Reached};
use super::{Hub, create, touch, unavailable, wait_for_problem_about, wait_for_remote_state, wait_for_write};
use crate::support::{document, eventually};

/// Makes one test for each transport.
macro_rules! over_every_transport {
    ($($promise:ident),* $(,)?) => {$(
        mod $promise {
            use super::{By, try_over};

            #[tokio::test]
            async fn over_a_folder() {
                try_over(By::Folder, async |reached| super::$promise(&reached).await).await;
            }

            #[tokio::test]
            async fn over_git_daemon() {
                try_over(By::Daemon, async |reached| super::$promise(&reached).await).await;
            }

            #[tokio::test]
            async fn over_http() {
                try_over(By::Http, async |reached| super::$promise(&reached).await).await;
            }

            #[tokio::test]
            async fn over_ssh() {
                try_over(By::Ssh, async |reached| super::$promise(&reached).await).await;
            }
        }
    )*};
}

over_every_transport![
    writes_of_two_instances_are_on_the_remote_when_they_are_answered,
    the_first_writers_of_an_empty_remote_both_get_their_commit,
    a_lost_race_is_decided_again,
    what_was_written_at_one_instance_is_read_at_another,
    what_the_remote_refuses_is_told_in_its_words,
    a_write_of_which_nobody_knows_is_found_out_later,
    a_remote_that_goes_away_and_comes_back,
    a_rewound_remote_is_followed_and_restored,
    what_was_written_before_it_was_pushed_is_merged,
];

async fn try_over(by: By, promise: impl AsyncFnOnce(Reached)) {
    if let Some(reached) = Reached::by(by, Hub::with("small")).await {
        promise(reached).await;
    }
}

async fn writes_of_two_instances_are_on_the_remote_when_they_are_answered(reached: &Reached) {
    let (one, other) = (reached.setup().start().await, reached.setup().start().await);
    let revision = create(&one, "new").await;
    assert_eq!(reached.hub.head().as_ref(), Some(&revision));
    other.wait_for_revision(&revision).await;
    for round in 0..3 {
        let (name, there) = (json!({"name": format!("{round}")}), json!({"name": format!("there {round}")}));
        let (here, there) = tokio::join!(one.patch("posts", name), other.patch("new", there));
        here.is(200);
        there.is(200);
    }
    assert_eq!(reached.hub.repo.git(&["rev-list", "--count", "main"]), "8");
    other.delete("nobody").await.is(404);
}

async fn the_first_writers_of_an_empty_remote_both_get_their_commit(reached: &Reached) {
    reached.hub.loses_its_branch();
    let (one, other) = (reached.setup().start().await, reached.setup().start().await);
    let (posts, pages) = tokio::join!(create(&one, "posts"), create(&other, "pages"));
    let head = reached.hub.head().unwrap();
    assert!(head == posts || head == pages);
    assert_eq!(reached.hub.repo.git(&["rev-list", "--count", "main"]), "2");
}

async fn a_lost_race_is_decided_again(reached: &Reached) {
    let hub = &reached.hub;
    let server = reached.deaf().start().await;
    let tag = server.read("posts").await.is(200).header("etag");
    hub.push_collection("posts", "Foreign");
    let body = document("posts", json!({"name": "Mine"}));
    let stale = server.request("PATCH", "/collections/posts").header("If-Match", &tag).document(&body);
    stale.send().await.is(412);
    hub.push_collection("new", "Foreign");
    server.create(&document("new", json!({}))).await.is(409);
    server.patch("pages", json!({"name": "Mine"})).await.is(200);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Foreign");
    assert_eq!(hub.repo.git(&["rev-list", "--count", "--merges", "main"]), "0");
}

async fn what_was_written_at_one_instance_is_read_at_another(reached: &Reached) {
    // Long enough for any slow machine.
    let patient = ["--follow", "--min-revision-wait-ms", "30000"];
    let (one, follower) = (reached.setup().start().await, reached.setup().flag(&patient).start().await);
    for round in ["1", "2"] {
        let written = one.rename("posts", round).await;
        for wanted in [written.as_str(), "latest"] {
            let read =
                follower.request("GET", "/collections/posts").header("Collectory-Min-Revision", wanted);
            let read = read.send().await.is(200);
            assert_eq!(
                (read.attributes()["name"].as_str(), read.header("collectory-revision")),
                (Some(round), written.clone())
            );
        }
    }
    follower.patch("posts", json!({"name": "No"})).await.is(405);
}

async fn what_the_remote_refuses_is_told_in_its_words(reached: &Reached) {
    let hub = &reached.hub;
    let server = reached.setup().start().await;
    let head = hub.head();
    hub.hook("pre-receive", "echo 'closed on Sundays' >&2; exit 1");
    let (code, error) = unavailable(&server, "posts", "No").await;
    assert_eq!(code, "remote_refused");
    assert!(error["detail"].as_str().unwrap().contains("closed on Sundays"), "{error}");
    assert_eq!(hub.head(), head);
    hub.no_hook("pre-receive");
    wait_for_write(&server).await;
}

async fn a_write_of_which_nobody_knows_is_found_out_later(reached: &Reached) {
    let hub = &reached.hub;
    let gate = hub.repo.path().join("gate");
    let server = reached.setup().flag(&["--remote-timeout-ms", "2000"]).start().await;
    server.patch("posts", json!({"name": "First"})).await.is(200);
    hub.hook("pre-receive", &format!("while [ -e {0} ]; do sleep 0.05; done; exit 0", gate.display()));
    touch(&gate);
    let (code, error) = unavailable(&server, "posts", "Perhaps").await;
    assert_eq!(code, "outcome_unknown");
    let events = error["meta"]["events"].as_array().unwrap();
    assert_eq!(events.len(), 1, "{error}");
    wait_for_remote_state(&server, "unknown").await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "First", "reads go on");
    assert_eq!(unavailable(&server, "pages", "Later").await.0, "remote_unreachable");
    std::fs::remove_file(&gate).unwrap();
    server.wait_for_attribute("posts", "name", "Perhaps").await;
    let event = server.get(&format!("/events/{}", events[0].as_str().unwrap())).await.is(200).data();
    assert_eq!(event["attributes"]["revision"], hub.head().unwrap());
    wait_for_write(&server).await;
    wait_for_remote_state(&server, "up").await;
}

async fn a_remote_that_goes_away_and_comes_back(reached: &Reached) {
    let hub = &reached.hub;
    let server = reached.setup().flag(&["--remote-timeout-ms", "5000"]).start().await;
    let head = hub.head();
    hub.make_unreachable();
    assert_eq!(unavailable(&server, "posts", "No").await.0, "remote_unreachable");
    assert_eq!(unavailable(&server, "posts", "No").await.0, "remote_unreachable");
    assert_eq!(server.delete("nobody").await.is(503).error().0, "remote_unreachable");
    let state = wait_for_remote_state(&server, "down").await;
    assert!(state["lastError"].as_str().unwrap().contains("cannot be reached"), "{state}");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts", "reads go on");
    hub.make_reachable();
    assert_eq!(hub.head(), head);
    wait_for_write(&server).await;
    wait_for_remote_state(&server, "up").await;
}

async fn a_rewound_remote_is_followed_and_restored(reached: &Reached) {
    let hub = &reached.hub;
    let server = reached.setup().start().await;
    let before = hub.head().unwrap();
    let gone = server.rename("posts", "Gone").await;
    hub.move_branch(&before);
    server.wait_for_revision(&before).await;
    let foreign = hub.push_collection("pages", "Foreign");
    wait_for_problem_about(&server, &gone).await;
    server.request("POST", "/remote/restore").send().await.is(200);
    assert_eq!(hub.parents(), format!("{foreign} {gone}"));
    server.wait_for_attribute("posts", "name", "Gone").await;
}

async fn what_was_written_before_it_was_pushed_is_merged(reached: &Reached) {
    let hub = &reached.hub;
    let mut server = reached.setup().flag(&["--remote-ack", "local"]).start().await;
    hub.make_unreachable();
    let mine = server.patch("posts", json!({"x-mine": 1})).await.is(200).header("collectory-revision");
    // A transfer that still tries to push would be faster than the person.
    server.kill_transfers();
    server.stop();
    hub.make_reachable();
    let theirs = hub.push_collection("posts", "Theirs");
    server.start_again().await;
    eventually("both are on the remote", async || {
        (hub.parents() == format!("{theirs} {mine}")).then_some(())
    })
    .await;
    let served = server.wait_for_attribute("posts", "name", "Theirs").await;
    assert_eq!(served.attributes()["x-mine"], 1);
}
