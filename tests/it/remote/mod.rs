//! Several services that share one branch of a remote.

mod every_transport;
mod evidence;
mod fetched;
mod flags;
mod history;
mod hostile;
mod lines;
mod local;
mod long;
mod paced;
mod pushed;
mod reading;
mod replica;
mod rewound;
mod stopping;
mod transports;
mod work_tree;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::support::{Auth, Repo, Setup, TestServer, document, eventually, eventually_status};

/// A remote that is a folder, and a person who works with it in a clone.
struct Hub {
    folder: TempDir,
    repo: Repo,
}

impl Hub {
    /// Creates a remote without commits.
    fn empty() -> Self {
        let folder = tempfile::Builder::new().prefix("collectory-hub-").tempdir().unwrap();
        fs::create_dir(folder.path().join("hub.git")).unwrap();
        let repo = Repo::at(folder.path().join("hub.git"));
        repo.git(&["init", "--quiet", "--bare", "--initial-branch=main"]);
        Self { folder, repo }
    }

    /// Creates a remote with the history of a fixture.
    fn with(fixture: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("collectory-hub-").tempdir().unwrap();
        let repo =
            Repo::seeded(folder.path().join("seed"), fixture).bare_clone(folder.path().join("hub.git"));
        Self { folder, repo }
    }

    /// Like [`with`](Self::with), but the reflog keeps every move of the branch. Otherwise git would expire it: it
    /// runs `gc` after some thousand objects, and people push with the date of these tests, which is long past.
    fn noting_moves(fixture: &str) -> Self {
        let hub = Self::with(fixture);
        hub.repo.git(&["config", "core.logAllRefUpdates", "always"]);
        hub.repo.git(&["config", "gc.reflogExpire", "never"]);
        hub.repo.git(&["config", "gc.reflogExpireUnreachable", "never"]);
        hub
    }

    fn url(&self) -> String {
        self.repo.path().to_str().unwrap().to_owned()
    }

    /// An instance that polls the remote at its start, and then only when it has to.
    fn setup(&self) -> Setup {
        self.polling(0)
    }

    /// An instance that polls the remote at this interval.
    fn polling(&self, poll_ms: u64) -> Setup {
        let setup = TestServer::setup("").without_repository().auth(Auth::AllowAll);
        setup.flag(&["--remote", &self.url(), "--remote-poll-ms", &poll_ms.to_string()])
    }

    /// An instance that learns nothing before it asks the remote.
    fn deaf(&self) -> Setup {
        self.setup().deaf()
    }

    async fn instance(&self) -> TestServer {
        self.setup().start().await
    }

    /// Returns the clone of a person, which is made on first use.
    fn person(&self) -> Repo {
        let path = self.folder.path().join("person");
        if !path.exists() {
            self.repo.git(&["clone", "--quiet", &self.url(), path.to_str().unwrap()]);
            Repo::at(&path).configure_user();
        }
        Repo::at(path)
    }

    /// Changes the person's clone, commits everything and pushes it. Returns the commit.
    fn push_change(&self, change: impl FnOnce(&Repo)) -> String {
        let person = self.person();
        person.git(&["pull", "--quiet"]);
        change(&person);
        let commit = person.commit("Change");
        person.git(&["push", "--quiet", "origin", "HEAD"]);
        commit
    }

    /// Like [`push_change`](Self::push_change), for one collection file.
    fn push_collection(&self, key: &str, name: &str) -> String {
        let text = format!("type: document\nname: {name}\n");
        self.push_change(|person| person.write(&format!("collections/{key}.yaml"), &text))
    }

    fn head(&self) -> Option<String> {
        self.repo.tip("main")
    }

    /// Returns the parents of the head.
    fn parents(&self) -> String {
        self.repo.git(&["log", "-1", "--format=%P", "main"])
    }

    /// Moves the branch, forward or back.
    fn move_branch(&self, head: &str) {
        self.repo.git(&["update-ref", "refs/heads/main", head]);
    }

    fn loses_its_branch(&self) {
        self.repo.git(&["update-ref", "-d", "refs/heads/main"]);
    }

    /// Installs a hook that the remote runs for each push.
    fn hook(&self, name: &str, script: &str) {
        let path = self.repo.path().join("hooks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn no_hook(&self, name: &str) {
        fs::remove_file(self.repo.path().join("hooks").join(name)).unwrap();
    }

    /// The path of the remote while it is unreachable.
    fn away(&self) -> PathBuf {
        self.folder.path().join("away")
    }

    fn make_unreachable(&self) {
        fs::rename(self.repo.path(), self.away()).unwrap();
    }

    fn make_reachable(&self) {
        fs::rename(self.away(), self.repo.path()).unwrap();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.repo.fsck();
        }
    }
}

/// An instance that reaches the remote through the git protocol, at a port of this machine.
fn over_git(port: u16, poll_ms: u64, timeout_ms: u64) -> Setup {
    let url = format!("git://127.0.0.1:{port}/hub.git");
    let setup = TestServer::setup("").without_repository().auth(Auth::AllowAll);
    let setup = setup.flag(&["--remote", &url, "--remote-insecure"]);
    let setup = setup.flag(&["--remote-poll-ms", &poll_ms.to_string()]);
    setup.flag(&["--remote-timeout-ms", &timeout_ms.to_string()])
}

/// Starts a service that has followed a rewound remote and reported the removed commit. Returns that commit too.
async fn rewound(hub: &Hub, flags: &[&str]) -> (TestServer, String) {
    let server = hub.polling(50).flag(flags).start().await;
    let before = hub.head().unwrap();
    let gone = server.rename("posts", "Gone").await;
    eventually("it is pushed", async || (hub.head().as_ref() == Some(&gone)).then_some(())).await;
    hub.move_branch(&before);
    server.wait_for_revision(&before).await;
    wait_for_problem_about(&server, &gone).await;
    (server, gone)
}

/// Starts a service that stops at a rewound remote. Returns the remote's head and the commit that it lacks too.
async fn stopped(hub: &Hub) -> (TestServer, String, String) {
    let server = hub.polling(50).flag(&["--remote-rewrite", "stop"]).start().await;
    let before = hub.head().unwrap();
    let stays = server.rename("posts", "Stays").await;
    hub.move_branch(&before);
    wait_for_remote_state(&server, "stopped").await;
    (server, before, stays)
}

/// Returns the revisions that are kept of rewritten branches.
fn kept(server: &TestServer) -> String {
    server.repo().git(&["for-each-ref", "--format=%(objectname)", "refs/collectory/kept/"])
}

/// Waits until a problem mentions `what`.
async fn wait_for_problem_about(server: &TestServer, what: &str) {
    eventually("it is told", async || {
        server.get("/problems").await.is(200).json().to_string().contains(what).then_some(())
    })
    .await;
}

/// Waits until a write succeeds again.
async fn wait_for_write(server: &TestServer) {
    let write = async || server.patch("pages", json!({"name": "After"})).await;
    eventually_status("writes go on", 200, write).await;
}

/// Returns what `/readyz` reports about the remote.
async fn link(server: &TestServer) -> Value {
    server.get("/readyz").await.is(200).json()["meta"]["remote"].clone()
}

/// Waits until the remote is in a state.
async fn wait_for_remote_state(server: &TestServer, state: &str) -> Value {
    eventually(&format!("the remote is {state}"), async || {
        let link = link(server).await;
        (link["state"] == state).then_some(link)
    })
    .await
}

/// Makes a write that is refused with 503. Returns its only error, and the code of that error.
async fn unavailable(server: &TestServer, key: &str, name: &str) -> (String, Value) {
    let answer = server.patch(key, json!({"name": name})).await.is(503);
    assert_eq!(answer.header("retry-after"), "1");
    (answer.error().0, answer.json()["errors"][0].clone())
}

/// Creates an empty file.
fn touch(path: &Path) {
    fs::write(path, "").unwrap();
}

/// Creates a collection; returns its revision.
async fn create(server: &TestServer, key: &str) -> String {
    server.create(&document(key, json!({"name": key}))).await.is(201).header("collectory-revision")
}

/// The collections, each with its attributes.
type State = BTreeMap<String, Map<String, Value>>;

async fn state(server: &TestServer) -> State {
    let list = server.list().await.is(200).json();
    let of =
        |it: &Value| (it["id"].as_str().unwrap().to_owned(), it["attributes"].as_object().unwrap().clone());
    list["data"].as_array().unwrap().iter().map(of).collect()
}

/// Returns the state after applying events to it in order.
fn folded<'e>(mut state: State, events: impl IntoIterator<Item = &'e Value>) -> State {
    for event in events {
        let key = event["collection"].as_str().unwrap().to_owned();
        match event["action"].as_str().unwrap() {
            "created" => drop(state.insert(key.clone(), Map::new())),
            "updated" => {}
            "deleted" => {
                state.remove(&key);
                continue;
            }
            other => panic!("{other}: {event}"),
        }
        let attributes = state.entry(key).or_default();
        for change in event["changes"].as_array().unwrap() {
            let name = change["attribute"].as_str().unwrap().to_owned();
            match change.get("to").filter(|to| !to.is_null()) {
                Some(to) => drop(attributes.insert(name, to.clone())),
                None => drop(attributes.remove(&name)),
            }
        }
    }
    state
}
