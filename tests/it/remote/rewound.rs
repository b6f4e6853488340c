//! Remotes that were rewound while nothing ran here, and what is known of it afterwards.

use std::fs;
use std::path::PathBuf;

use super::Hub;
use crate::support::{TestServer, eventually};
use serde_json::json;

/// Where it is noted up to where the branch here contains the remote's.
fn base_of(server: &TestServer) -> PathBuf {
    let git_dir = server.repo().git(&["rev-parse", "--absolute-git-dir"]);
    PathBuf::from(git_dir).join("collectory/remote/refs/collectory/base")
}

fn kept(server: &TestServer) -> String {
    server.repo().git(&["for-each-ref", "--format=%(objectname)", "refs/collectory/kept/"])
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
            true => server.patch("posts", json!({"name": "Gone"})).await.is(200).header("collectory-revision"),
            false => hub.somebody_writes("posts", "Gone"),
        };
        server.serves(&gone).await;
        eventually("it is on the remote", async || (hub.head().as_ref() == Some(&gone)).then_some(())).await;
        server.kill();
        fs::write(&note, &stale).unwrap();
        hub.repo.git(&["update-ref", "refs/heads/main", &before]);
        server.start_again().await;
        server.serves(&before).await;
        assert_eq!(hub.head(), Some(before), "{ack}");
        eventually("what went is kept", async || (kept(&server) == gone).then_some(())).await;
    }
}
