//! A branch that someone rewrites: everything the service acknowledged can be recovered.

use serde_json::json;

use super::named;
use crate::support::{EventStream, Repo, Setup, TestServer, eventually};

/// Starts a service that acknowledges three writes. Returns the head before and after them.
async fn written(setup: Setup) -> (TestServer, String, String) {
    let server = setup.flag(&["--tick-ms", "20"]).start().await;
    let before = server.repo().head();
    for name in ["A", "B", "C"] {
        server.patch("posts", json!({"name": name})).await.is(200);
    }
    let old = server.repo().head();
    (server, before, old)
}

/// Returns the only kept ref: its name below `refs/collectory/kept/`, and its revision.
fn kept(repo: &Repo) -> Option<(String, String)> {
    let refs = repo.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/collectory/"]);
    let (name, revision) = refs.lines().next()?.split_once(' ')?;
    assert_eq!(refs.lines().count(), 1, "{refs}");
    Some((name.strip_prefix("refs/collectory/kept/")?.to_owned(), revision.to_owned()))
}

/// Waits until the old head is kept again; returns the name of its ref.
async fn kept_again(server: &TestServer, old: &str) -> String {
    let (name, revision) = eventually("it is kept", async || kept(server.repo())).await;
    assert_eq!(revision, old);
    server.wait_for_problem(&format!("rewritten:{name}")).await;
    name
}

/// Waits until the old head is kept and reported as a problem; returns the name of its ref.
async fn kept_and_reported(server: &TestServer, old: &str, new: &str) -> String {
    let name = kept_again(server, old).await;
    let (time, id) = name.split_once('-').unwrap();
    assert_eq!((time.len(), id), ("20260301T093000Z".len(), &old[..8]), "{name}");
    let problem = server.wait_for_problem(&format!("rewritten:{name}")).await;
    let attributes = problem["attributes"].as_object().unwrap();
    let names: Vec<&String> = attributes.keys().collect();
    assert_eq!(names, ["events", "kind", "message", "revision", "since"]);
    let events = attributes["events"].as_array().unwrap();
    let went = server.repo().git(&["rev-list", &format!("{new}..{old}")]);
    let went: Vec<_> =
        went.lines().map(|commit| json!({"collection": "posts", "revision": commit})).collect();
    assert_eq!(*events, went);
    assert_eq!((&attributes["kind"], &attributes["revision"]), (&json!("rewritten"), &json!(old)));
    let message = attributes["message"].as_str().unwrap();
    for part in [old, new, &format!("git log main..refs/collectory/kept/{name}")] {
        assert!(message.contains(part), "{message}");
    }
    server.wait_for_log("the branch was rewritten").await;
    let log = server.log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("the branch was rewritten")).collect();
    let [line] = warnings[..] else { panic!("{log}") };
    for part in ["WARN", old, new, &format!("events=3 gone=\"posts {old:.8}, posts "), "commits=3", &name] {
        assert!(line.contains(part), "{part}: {line}");
    }
    name
}

#[tokio::test]
async fn acknowledged_writes_that_a_reset_takes_away_are_kept_until_they_are_let_go() {
    let (mut server, before, old) = written(TestServer::setup("small")).await;
    let mut stream = EventStream::open(server.address(), "", None);
    server.repo().git(&["reset", "--quiet", "--hard", "HEAD~3"]);
    server.wait_for_revision(&before).await;
    let reset = stream.next_event();
    assert_eq!((reset.event.as_str(), reset.data), ("reset", json!({"revision": before})));
    let name = kept_and_reported(&server, &old, &before).await;
    let ready = server.get("/readyz").await.is(200).json();
    assert_eq!(ready["meta"]["problems"], 1, "{ready}");
    server.repo().git(&["reflog", "expire", "--expire=now", "--all"]);
    server.repo().git(&["gc", "--quiet", "--prune=now"]);
    server.restart().await;
    server.wait_for_problem(&format!("rewritten:{name}")).await;
    let kept_ref = format!("refs/collectory/kept/{name}");
    server.repo().git(&["merge", "--quiet", &kept_ref]);
    server.wait_for_attribute("posts", "name", "C").await;
    server.wait_for_no_problem().await;
    assert_eq!(kept(server.repo()), None, "all of it is in the branch again");
    server.repo().git(&["reset", "--quiet", "--hard", &before]);
    server.wait_for_revision(&before).await;
    let name = kept_again(&server, &old).await;
    server.repo().git(&["update-ref", "-d", &format!("refs/collectory/kept/{name}")]);
    server.wait_for_no_problem().await;
    server.expect_git_status("");
}

#[tokio::test]
async fn a_reset_while_nothing_runs_is_noticed_by_the_next_start() {
    let (mut server, before, old) = written(TestServer::setup("small")).await;
    server.kill();
    server.repo().git(&["reset", "--quiet", "--hard", &before]);
    server.start_again().await;
    kept_and_reported(&server, &old, &before).await;
}

#[tokio::test]
async fn a_forced_push_into_a_bare_repository_is_a_rewrite_too() {
    let (server, before, old) = written(TestServer::setup("small").bare()).await;
    let clone = Repo::at(server.folder().join("clone"));
    let (from, to) = (server.repo().path().to_str().unwrap(), clone.path().to_str().unwrap());
    server.repo().git(&["clone", "--quiet", from, to]);
    clone.configure_user();
    clone.git(&["reset", "--quiet", "--hard", &before]);
    clone.write("collections/pages.yaml", &named("Pushed"));
    let new = clone.commit("Pushed");
    clone.git(&["push", "--quiet", "--force", "origin", "main"]);
    server.wait_for_attribute("pages", "name", "Pushed").await;
    kept_and_reported(&server, &old, &new).await;
}

#[tokio::test]
async fn people_rewrite_what_is_their_own_without_a_trace() {
    let (mut server, _, old) = written(TestServer::setup("small")).await;
    server.repo().write("collections/pages.yaml", &named("By hand"));
    server.repo().commit("By hand");
    server.wait_for_attribute("pages", "name", "By hand").await;
    server.repo().write("collections/pages.yaml", &named("Amended"));
    server.repo().git(&["commit", "--quiet", "--all", "--amend", "-m", "Amended"]);
    server.wait_for_attribute("pages", "name", "Amended").await;
    server.wait_for_revision(&server.repo().head()).await;
    server.repo().git(&["reset", "--quiet", "--hard", &old]);
    server.wait_for_revision(&old).await;
    assert_eq!(kept(server.repo()), None);
    server.wait_for_no_problem().await;
    let log = server.stop();
    let warnings = log.lines().filter(|line| line.contains("the branch was rewritten")).count();
    assert_eq!(warnings, 2, "{log}");
    server.expect_git_status("");
}
