//! Flags that do not go together, and remotes that are none.

use super::Hub;
use crate::support::TestServer;

#[tokio::test]
async fn what_makes_no_sense_is_wrong_usage() {
    for (flags, said) in [
        (&["--remote-poll-ms", "100"][..], "--remote <URL>"),
        (&["--work-tree"], "--remote <URL>"),
        (&["--remote", "http://127.0.0.1/x"], "--remote-insecure"),
        (&["--remote", "git://127.0.0.1/x"], "--remote-insecure"),
        (&["--remote", "ext::sh -c true"], "write https://"),
        (&["--remote", "https://mara:secret@host/x"], "--remote-token-file"),
    ] {
        let refused = TestServer::setup("").absent().flag(flags).refused().exits(2);
        assert!(refused.stderr.contains(said), "{flags:?}: {}", refused.stderr);
        assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn without_remote_and_without_a_copy_it_is_not_ready_and_goes_on_trying() {
    let hub = Hub::with("small");
    hub.goes_away();
    let server = hub.setup().flag(&["--branch", "main"]).start_unchecked();
    let answer = server.get("/readyz").await.is(503);
    assert!(answer.detail().contains("remote"), "{}", answer.detail());
    hub.comes_back();
    server.answers().await;
    assert_eq!(server.list().await.is(200).ids(), ["images", "pages", "posts"]);
}
