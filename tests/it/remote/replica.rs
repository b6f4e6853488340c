//! A remote whose reads go to a replica that lags behind what was pushed.

use std::fs;

use serde_json::json;

use super::{Hub, kept, link, wait_for_write};
use crate::support::{
    Auth, Repo, ServedFolders, Setup, TOKEN, TestServer, eventually, eventually_status, serve_http,
};

/// A remote, its replica, and the flags that reach both at one address.
struct Replicated {
    hub: Hub,
    replica: Repo,
    flags: [String; 4],
}

impl Replicated {
    fn new() -> Self {
        let hub = Hub::with("small");
        let folder = hub.folder.path().join("replica");
        fs::create_dir(&folder).unwrap();
        let replica = hub.repo.bare_clone(folder.join("hub.git"));
        let token = hub.folder.path().join("token");
        fs::write(&token, TOKEN).unwrap();
        let hosted = ServedFolders { read: folder, pushed: hub.folder.path().to_owned() };
        let url = format!("http://127.0.0.1:{}/hub.git", serve_http(hosted));
        let flags = ["--remote", &url, "--remote-token-file", token.to_str().unwrap()].map(str::to_owned);
        Self { hub, replica, flags }
    }

    fn setup(&self) -> Setup {
        let setup = TestServer::setup("").without_repository().auth(Auth::AllowAll);
        let setup = setup.flag(&self.flags.each_ref().map(String::as_str)).flag(&["--remote-insecure"]);
        setup.flag(&["--remote-poll-ms", "50", "--remote-timeout-ms", "3000"])
    }

    fn catches_up(&self) {
        self.replica.git(&["fetch", "--quiet", &self.hub.url(), "+refs/heads/main:refs/heads/main"]);
    }
}

#[tokio::test]
async fn an_instance_does_not_go_back_to_what_a_replica_still_shows() {
    let remote = Replicated::new();
    let server = remote.setup().start().await;
    server.patch("posts", json!({"name": "First"})).await.is(200);
    let head = server.rename("posts", "Second").await;
    assert_eq!(remote.hub.head().as_ref(), Some(&head));
    let latest = async || {
        let read = server.request("GET", "/collections/posts");
        read.header("Collectory-Min-Revision", "latest").send().await
    };
    latest().await.is(503);
    assert_eq!(server.read("posts").await.is(200).header("collectory-revision"), head);
    server.delete("nobody").await.is(404);
    assert_eq!(kept(&server), "");
    remote.catches_up();
    eventually_status("the replica is believed again", 200, latest).await;
    server.wait_for_no_problem().await;
    assert_eq!(link(&server).await["state"], "up");
}

#[tokio::test]
async fn a_write_that_rests_on_what_a_replica_shows_is_not_applied_before_it_has_caught_up() {
    let remote = Replicated::new();
    let (one, other) = (remote.setup().start().await, remote.setup().start().await);
    let first = one.rename("posts", "First").await;
    let refused = other.patch("posts", json!({"name": "Stale"})).await.is(503);
    assert_eq!(refused.error().0, "remote_unreachable");
    assert_eq!(remote.hub.head(), Some(first));
    remote.catches_up();
    wait_for_write(&other).await;
    assert_eq!(other.read("posts").await.is(200).attributes()["name"], "First");
}

#[tokio::test]
async fn a_remote_that_was_rewound_on_both_sides_is_followed() {
    let remote = Replicated::new();
    let before = remote.hub.head().unwrap();
    let server = remote.setup().start().await;
    let gone = server.rename("posts", "Gone").await;
    remote.catches_up();
    remote.replica.git(&["update-ref", "refs/heads/main", &before]);
    assert_eq!(server.read("posts").await.is(200).header("collectory-revision"), gone);
    remote.hub.move_branch(&before);
    server.wait_for_revision(&before).await;
    eventually("what went is kept", async || (kept(&server) == gone).then_some(())).await;
}
