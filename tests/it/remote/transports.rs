//! Remotes behind servers: git's own daemon, HTTP with a password, and SSH.

use std::fs;

use serde_json::json;

use super::{Hub, link, wait_for_write};
use crate::support::{
    AUTHORIZATION, Auth, Daemon, ServedFolders, Setup, TOKEN, TestServer, eventually, git_daemon,
    serve_fixed_response, serve_http, sshd,
};

/// The transport to a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Folder,
    Daemon,
    Http,
    Ssh,
}

/// A remote, the flags that reach it, and its server, which lives as long as this.
pub(super) struct Reached {
    pub(super) hub: Hub,
    flags: Vec<String>,
    _daemon: Option<Daemon>,
}

impl Reached {
    /// Makes a remote reachable by a transport. Where that is not installed, prints so and returns `None`.
    pub(super) async fn by(by: By, hub: Hub) -> Option<Self> {
        let folder = hub.folder.path();
        let (mut daemon, mut flags) = (None, Vec::new());
        let url = match by {
            By::Folder => hub.url(),
            By::Daemon => {
                let port = daemon.insert(git_daemon(folder)).1;
                flags.push("--remote-insecure".to_owned());
                format!("git://127.0.0.1:{port}/hub.git")
            }
            By::Http => {
                fs::write(folder.join("token"), TOKEN).unwrap();
                let token = folder.join("token").display().to_string();
                flags.extend(["--remote-insecure".to_owned(), "--remote-token-file".to_owned(), token]);
                format!("http://127.0.0.1:{}/hub.git", serve_http(ServedFolders::all_from(folder)))
            }
            By::Ssh => {
                let Some(sshd) = sshd(folder) else {
                    say("no sshd is installed, so nothing is tried over ssh");
                    return None;
                };
                let port = daemon.insert(sshd).1;
                let file = |name: &str| folder.join(name).display().to_string();
                flags.extend(["--remote-key".to_owned(), file("user")]);
                flags.extend(["--remote-known-hosts".to_owned(), file("known_hosts")]);
                format!("ssh://127.0.0.1:{port}{}", hub.url())
            }
        };
        flags.extend(["--remote".to_owned(), url]);
        Some(Self { hub, flags, _daemon: daemon })
    }

    /// An instance that polls the remote every 100 ms.
    pub(super) fn setup(&self) -> Setup {
        self.polling("100")
    }

    /// An instance that learns nothing before it asks the remote.
    pub(super) fn deaf(&self) -> Setup {
        self.polling("0").deaf()
    }

    fn polling(&self, poll_ms: &str) -> Setup {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        TestServer::setup("")
            .without_repository()
            .auth(Auth::AllowAll)
            .flag(&flags)
            .flag(&["--remote-poll-ms", poll_ms])
    }
}

/// Returns why a service that has not reached the remote yet is not ready.
async fn why_not_ready(server: &TestServer) -> String {
    eventually("it says why it is not ready", async || {
        let readiness = server.get("/readyz").await;
        let readiness = (readiness.status() == 503).then(|| readiness.checked().json().to_string());
        readiness.filter(|readiness| readiness.contains("remote"))
    })
    .await
}

#[expect(clippy::print_stderr, reason = "the test runner shows it")]
fn say(text: &str) {
    eprintln!("{text}");
}

#[tokio::test]
async fn a_remote_that_may_only_be_read_is_told_and_asked_now_and_then() {
    let reached = Reached::by(By::Http, Hub::with("small")).await.unwrap();
    let server = reached.setup().flag(&["--remote-ack", "local"]).start().await;
    reached.hub.repo.git(&["config", "http.receivepack", "false"]);
    server.patch("posts", json!({"name": "Mine"})).await.is(200);
    let state = super::wait_for_remote_state(&server, "refused").await;
    assert_eq!(state["ahead"], 1);
    reached.hub.repo.git(&["config", "http.receivepack", "true"]);
    eventually("it is pushed", async || (link(&server).await["ahead"] == 0).then_some(())).await;
    assert_eq!(reached.hub.head().as_deref(), Some(&*server.repo().head()));
}

#[tokio::test]
async fn a_token_is_read_for_each_use_and_seen_by_nobody() {
    let reached = Reached::by(By::Http, Hub::with("small")).await.unwrap();
    let token = reached.hub.folder.path().join("token");
    let mut server = reached.setup().start().await;
    server.patch("posts", json!({"name": "First"})).await.is(200);
    fs::write(&token, "wrong\n").unwrap();
    server.patch("posts", json!({"name": "No"})).await.is(503);
    let state = link(&server).await.to_string();
    fs::write(&token, TOKEN).unwrap();
    wait_for_write(&server).await;
    let log = server.stop();
    assert!(!log.contains(TOKEN) && !log.contains("wrong") && !state.contains("wrong"), "{state}\n{log}");
}

#[tokio::test]
async fn no_other_host_than_the_remote_s_is_given_the_token() {
    let hub = Hub::with("small");
    let (port, heard) =
        serve_fixed_response("HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\n".into());
    let elsewhere = format!("http://127.0.0.1:{port}/hub.git/info/refs?service=git-upload-pack");
    let (port, _) = serve_fixed_response(format!("HTTP/1.1 302 Found\r\nLocation: {elsewhere}\r\n"));
    let token = hub.folder.path().join("token");
    fs::write(&token, TOKEN).unwrap();
    let url = format!("http://127.0.0.1:{port}/hub.git");
    let setup = TestServer::setup("").without_repository().auth(Auth::AllowAll).flag(&[
        "--remote-insecure",
        "--remote",
        &url,
    ]);
    let server = setup.flag(&["--remote-token-file", &token.display().to_string()]).start_without_waiting();
    let why = why_not_ready(&server).await;
    let heard = eventually("the other host was asked", async || {
        let heard = heard.lock().unwrap().clone();
        (heard.len() > 1).then_some(heard)
    })
    .await;
    assert!(heard.iter().all(|head| !head.contains(AUTHORIZATION)), "{why}\n{heard:#?}");
}

#[tokio::test]
async fn a_token_that_can_not_be_read_is_told_by_the_name_of_its_file() {
    let reached = Reached::by(By::Http, Hub::with("small")).await.unwrap();
    let server = reached.setup().start().await;
    let token = reached.hub.folder.path().join("token");
    fs::remove_file(&token).unwrap();
    super::unavailable(&server, "posts", "Not let in").await;
    let error = super::wait_for_remote_state(&server, "down").await["lastError"].to_string();
    assert!(error.contains(&format!("{} cannot be read: No such file", token.display())), "{error}");
    assert!(error.contains("is read again for each use") && !error.contains("subcommand"), "{error}");
    fs::write(&token, TOKEN).unwrap();
    super::wait_for_remote_state(&server, "up").await;
}

#[tokio::test]
async fn what_keeps_a_remote_away_is_told_anew_when_it_is_something_else() {
    let reached = Reached::by(By::Http, Hub::with("small")).await.unwrap();
    let server = reached.setup().start().await;
    let there = reached.hub.repo.path().with_extension("away");
    fs::rename(reached.hub.repo.path(), &there).unwrap();
    let error = super::wait_for_remote_state(&server, "down").await["lastError"].to_string();
    assert!(!error.contains("the token is not taken"), "{error}");
    fs::write(reached.hub.folder.path().join("token"), "wrong\n").unwrap();
    eventually("the token is told of", async || {
        link(&server).await["lastError"].as_str()?.contains("the token is not taken").then_some(())
    })
    .await;
    fs::rename(&there, reached.hub.repo.path()).unwrap();
}

#[tokio::test]
async fn a_host_that_is_not_known_is_not_trusted() {
    let Some(reached) = Reached::by(By::Ssh, Hub::with("small")).await else { return };
    fs::write(reached.hub.folder.path().join("known_hosts"), "").unwrap();
    let stranger = reached.setup().start_without_waiting();
    let why = why_not_ready(&stranger).await;
    assert!(!why.contains("user"), "{why}");
}
