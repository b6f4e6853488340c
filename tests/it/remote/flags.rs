//! Flags that can't be combined, and invalid remotes.

use super::{Hub, link};
use crate::support::{TestServer, collectory_command, eventually, run_to_end};

#[tokio::test]
async fn what_makes_no_sense_is_wrong_usage() {
    for (flags, said) in [
        (&["--remote-poll-ms", "100"][..], "--remote <URL>"),
        (&["--work-tree"], "--remote <URL>"),
        (&["--remote", "http://127.0.0.1/x"], "--remote-insecure"),
        (&["--remote", "git://127.0.0.1/x"], "--remote-insecure"),
        (&["--remote", "ext::sh -c true"], "write https://"),
        (&["--remote", "https://mara:secret@host/x"], "--remote-token-file"),
        (&["--remote", "/hub", "--peer", "ftp://host/"], "write https://HOST/ or http://HOST:PORT/"),
        (&["--remote", "/hub", "--peer", "https://mara:secret@host/"], "write https://HOST/ or http"),
        (&["--remote", "/hub", "--peer", "https://"], "write https://HOST/ or http://HOST:PORT/"),
        (&["--remote", "/hub", "--follow", "--peer", "http://host/"], "cannot be used with"),
        (&["--remote", "/hub", "--follow", "--remote-push-interval-ms", "9"], "cannot be used with"),
        (&["--remote", "/hub", "--follow", "--remote-ack", "local"], "--follow takes no writes"),
        (&["--remote", "/hub", "--ahead-commits-max", "9"], "is for --remote-ack local"),
        (&["--remote", "/hub", "--remote-ack", "local", "--ahead-commits-max", "0"], "0 is not in"),
        (&["--remote", "/hub", "--remote-token-file", "/dev/null"], "by https, which /hub is not"),
        (&["--remote", "https://host/x", "--remote-key", "/dev/null"], "by ssh, which https://host/x is not"),
        (&["--remote", "/hub", "--remote-known-hosts", "/dev/null"], "by ssh, which /hub is not"),
        (&["--remote", "host:x", "--remote-key", "/nowhere"], "--remote-key: /nowhere cannot be read"),
        (&["--remote", "/hub", "--remote-branch", "a..b"], "--remote-branch: git makes no branch `a..b`"),
        (
            &["--remote", "/hub", "--remote-notice-secret", "/nowhere"],
            "--remote-notice-secret: /nowhere cannot be read",
        ),
    ] {
        let refused =
            TestServer::setup("").without_repository().flag(flags).expect_start_failure().assert_exit_code(2);
        assert!(refused.stderr.contains(said), "{flags:?}: {}", refused.stderr);
        assert!(!refused.stderr.contains("secret@"), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn what_is_switched_off_needs_no_remote_and_what_is_switched_on_does() {
    let mut setup = TestServer::setup("small");
    let variables = ["COLLECTORY_FOLLOW", "COLLECTORY_WORK_TREE", "COLLECTORY_REMOTE_INSECURE"];
    for (name, off) in variables.into_iter().zip(["false", "0", ""]) {
        setup = setup.environment(name, off);
    }
    setup.start().await.get("/collections").await.is(200);
    for (name, on) in variables.into_iter().zip(["true", "1", "yes"]) {
        let setup = TestServer::setup("").without_repository().environment(name, on);
        let refused = setup.expect_start_failure().assert_exit_code(2);
        assert!(refused.stderr.contains("--remote <URL>"), "{name}: {}", refused.stderr);
    }
}

#[test]
fn a_secret_that_could_verify_nothing_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "whsec_!!!\n").unwrap();
    let flags = ["--remote", "/hub", "--remote-notice-secret", file.to_str().unwrap()];
    let refused =
        TestServer::setup("").without_repository().flag(&flags).expect_start_failure().assert_exit_code(2);
    assert!(refused.stderr.contains("begins with whsec_ and does not go on in base64"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("!!!"), "{}", refused.stderr);
}

#[test]
fn what_is_done_through_a_service_is_told_of_no_repository() {
    let folder = tempfile::tempdir().unwrap();
    let to = "--to=http://127.0.0.1:1";
    let undo = ["undo", "0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e", to];
    for (command, flags) in [
        (&["remote", "accept", to][..], &["--remote=/hub", "--repo=/settings", "--branch=main"][..]),
        (&["remote", "restore", to], &["--repo=/settings", "--path=x", "--signing-key=/key"]),
        (&undo, &["--repo=/settings", "--path=x", "--signing-key=/key"]),
        (&["restore", "posts", "HEAD~1", to], &["--repo=/settings"]),
        (&["import", "-", to], &["--repo=/settings", "--branch=main"]),
    ] {
        for flag in flags {
            let refused =
                run_to_end(collectory_command(folder.path()).args(command).arg(flag)).assert_exit_code(2);
            let name = flag.split('=').next().unwrap();
            assert!(refused.stderr.contains(&format!("and {name} is for")), "{}", refused.stderr);
        }
        let mut command_line = collectory_command(folder.path());
        // `COLLECTORY_REPO` is ignored: the command still asks only the service.
        command_line.args(command).env("COLLECTORY_REPO", "/settings");
        run_to_end(&mut command_line).assert_exit_code(1);
    }
}

#[tokio::test]
async fn without_remote_and_without_a_copy_it_is_not_ready_and_goes_on_trying() {
    let hub = Hub::with("small");
    hub.make_unreachable();
    let server = hub.setup().flag(&["--branch", "main"]).start_without_waiting();
    let answer = server.get("/readyz").await.is(503);
    assert!(answer.detail().contains("remote"), "{}", answer.detail());
    hub.make_reachable();
    server.wait_until_ready().await;
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages", "posts"]);
}

#[tokio::test]
async fn a_remote_that_was_away_at_the_first_start_tells_its_branch_when_it_is_there() {
    let hub = Hub::with("small");
    hub.repo.git(&["branch", "live", "main"]);
    hub.repo.git(&["symbolic-ref", "HEAD", "refs/heads/live"]);
    hub.make_unreachable();
    let mut server = hub.polling(50).start_without_waiting();
    server.get("/readyz").await.is(503);
    hub.make_reachable();
    server.wait_until_ready().await;
    let main = hub.repo.tip("main");
    for name in ["First", "Second"] {
        let revision = server.patch("posts", serde_json::json!({"name": name})).await.is(200);
        assert_eq!(hub.repo.tip("live"), Some(revision.header("collectory-revision")));
        server.restart().await;
    }
    assert_eq!(hub.repo.tip("main"), main);
}

#[tokio::test]
async fn a_remote_that_says_nothing_holds_up_listening_for_seconds_only() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("git://{}/hub.git", silent.local_addr().unwrap());
    let setup = TestServer::setup("").without_repository().flag(&["--remote", &url, "--remote-insecure"]);
    let server = setup.flag(&["--remote-timeout-ms", "600000"]).start_without_waiting();
    server.get("/readyz").await.is(503);
}

#[tokio::test]
async fn a_branch_that_is_missing_while_others_exist_is_told_and_not_made() {
    let hub = Hub::with("small");
    let server = hub.polling(50).flag(&["--branch", "mian"]).start_without_waiting();
    let readiness = eventually("it is told", async || {
        let readiness = server.get("/readyz").await.is(503).json().to_string();
        readiness.contains("no branch `mian` but `main`").then_some(readiness)
    })
    .await;
    assert!(readiness.contains("--remote-branch"), "{readiness}");
    server.create(&crate::support::document("new", serde_json::json!({}))).await.is(503);
    assert_eq!(hub.repo.tip("mian"), None);
    hub.repo.git(&["branch", "mian", "main"]);
    server.wait_until_ready().await;
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages", "posts"]);
}

#[tokio::test]
async fn what_is_here_is_served_where_git_is_missing() {
    let hub = Hub::with("small");
    let nothing = hub.folder.path().join("nothing");
    std::fs::create_dir(&nothing).unwrap();
    let mut server = hub.instance().await;
    server.stop();
    let without = |server: &TestServer| {
        hub.setup().repository(server.repo().path()).environment("PATH", nothing.to_str().unwrap())
    };
    let bare = without(&server).start().await;
    assert_eq!(bare.list().await.is(200).ids(), ["images", "pages", "posts"]);
    bare.patch("posts", serde_json::json!({"name": "No"})).await.is(503);
    let state = link(&bare).await;
    assert_eq!(state["state"], "down");
    assert!(state["lastError"].as_str().unwrap().contains("2.36 or newer has to be installed"), "{state}");
    let absent =
        hub.setup().environment("PATH", nothing.to_str().unwrap()).expect_start_failure().assert_exit_code(1);
    assert!(absent.stderr.contains("2.36 or newer has to be installed"), "{}", absent.stderr);
}

#[tokio::test]
async fn a_folder_that_is_no_repository_is_told_with_what_to_do() {
    let hub = Hub::with("small");
    let mut server = hub.polling(50).start().await;
    server.stop();
    std::fs::rename(hub.repo.path().join("HEAD"), hub.repo.path().join("aside")).unwrap();
    server.start_again().await;
    let last_error = eventually("it is told", async || {
        let last_error = link(&server).await["lastError"].clone();
        last_error.as_str().map(str::to_owned)
    })
    .await;
    assert!(last_error.contains("git init --bare"), "{last_error}");
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages", "posts"]);
    std::fs::rename(hub.repo.path().join("aside"), hub.repo.path().join("HEAD")).unwrap();
}
