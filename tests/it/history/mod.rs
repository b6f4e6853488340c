//! The history over HTTP and on the command line, compared with git's output.

mod asked;
mod command_line;
mod damage;
mod events;
mod polled;
mod proof;
mod stream;
mod taken_back;

use serde_json::{Value, json};

use crate::support::{TestServer, document};

/// Starts a service with three events of `posts` after the fixture's: two through the API, one by hand.
async fn with_history() -> TestServer {
    let server = TestServer::start("small").await;
    let rename = server.request("PATCH", "/collections/posts").header("Commit-Message", "Spring clean-up");
    rename.document(&document("posts", json!({"name": "All posts"}))).send().await.is(200);
    server
        .repo()
        .write("collections/posts.yaml", "type: document\nname: By hand # why\ndirectory: content/posts\n");
    server.commit_by_hand("Rename by hand\n\nBecause I can.").await;
    server.patch("posts", json!({"recursive": false})).await.is(200);
    server
}

/// Returns one attribute of each resource in a list.
fn each(list: &Value, attribute: &str) -> Vec<String> {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    list["data"].as_array().unwrap().iter().map(|item| shown(&item["attributes"][attribute])).collect()
}

/// Returns the revisions along first parents, newest first, as git lists them.
fn first_parents(server: &TestServer) -> Vec<String> {
    let log = server.repo().git(&["log", "--first-parent", "--format=%H"]);
    log.lines().map(str::to_owned).collect()
}

/// Reorders events to the order in which they happened. A list is newest first, but the events of one commit are
/// ordered by key in both.
fn in_order(events: &[Value]) -> Vec<Value> {
    let commits = events.chunk_by(|one, two| one["attributes"]["revision"] == two["attributes"]["revision"]);
    let commits: Vec<_> = commits.collect();
    commits.into_iter().rev().flatten().cloned().collect()
}
