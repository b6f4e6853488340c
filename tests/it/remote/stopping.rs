//! A service that stops while it communicates with the remote.

use serde_json::json;
use tokio::net::TcpListener;

use super::Hub;
use crate::support::{Auth, Signal, TestServer, eventually};

/// Stops a service while a write waits. Returns the error code of the write, and the log.
async fn stop_while_a_write_waits(server: &mut TestServer) -> (String, String) {
    let asked = server.patch("posts", json!({"name": "Mine"}));
    let stopped = async {
        eventually("the write waits", async || {
            let ready = server.get("/readyz").await.is(200).json();
            ready["meta"]["writes"].as_str().is_some_and(|why| why.contains("writes wait")).then_some(())
        })
        .await;
        server.signal(Signal::TERM);
    };
    let (answer, ()) = tokio::join!(asked, stopped);
    let code = answer.is(503).error().0;
    (code, server.wait_for_exit(0))
}

const FLAGS: [&str; 6] =
    ["--shutdown-grace-ms", "4000", "--remote-timeout-ms", "600000", "--writer-busy-ms-max", "100"];

/// Log texts of a service that did not stop in order, or whose remote is unreachable.
const NOT_IN_ORDER: [&str; 3] = ["not everything was answered", "did not end", "cannot be reached"];

fn is_in_order(log: &str) {
    for said in NOT_IN_ORDER {
        assert!(!log.contains(said), "{log}");
    }
}

#[tokio::test]
async fn a_push_that_hangs_is_told_of_within_the_grace_period_and_holds_up_no_end() {
    let hub = Hub::with("small");
    hub.hook("pre-receive", "exec sleep 600");
    let mut server = hub.setup().flag(&FLAGS).start().await;
    let (code, log) = stop_while_a_write_waits(&mut server).await;
    assert_eq!(code, "outcome_unknown");
    is_in_order(&log);
}

#[tokio::test]
async fn a_look_that_ends_with_the_service_is_no_trouble_with_the_remote() {
    let hub = Hub::with("small");
    let mut server = hub.instance().await;
    server.stop();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("git://{}/hub.git", silent.local_addr().unwrap());
    let setup = TestServer::setup("").repository(server.repo().path()).auth(Auth::AllowAll);
    let mut server = setup.flag(&["--remote", &url, "--remote-insecure"]).start().await;
    let _look = silent.accept().await.unwrap();
    is_in_order(&server.stop());
}
