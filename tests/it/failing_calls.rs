//! A disk that refuses one kind of call for a while, as the program under test meets it: a library before the C
//! library has the calls fail, and nothing of the program knows of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{TestServer, document, eventually};

/// What fails, and how the system says so (errno(3)).
const FAULTS: [(&str, &str, i32); 11] = [
    ("flush", "EIO", 5),
    ("flush", "ENOSPC", 28),
    ("write", "ENOSPC", 28),
    ("write", "EIO", 5),
    ("write", "EDQUOT", 122),
    ("read", "EIO", 5),
    ("open", "EMFILE", 24),
    ("open", "EACCES", 13),
    ("rename", "EROFS", 30),
    ("rename", "EIO", 5),
    ("unlink", "EROFS", 30),
];

/// The fault that a running service meets.
struct Fault(PathBuf);

impl Fault {
    fn begin(&self, call: &str, number: i32) {
        let draft = self.0.with_extension("draft");
        fs::write(&draft, format!("{call} {number}")).unwrap();
        fs::rename(draft, &self.0).unwrap();
    }

    fn end(&self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// What git has, past whatever the service knows.
fn committed(server: &TestServer, key: &str) -> Option<String> {
    let path = format!("HEAD:collections/{key}.yaml");
    let output = server.repo().try_git(&["cat-file", "blob", &path]);
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// Every kind of write is done or refused; says whether one was refused.
async fn writes(server: &TestServer, what: &str, number: usize) -> bool {
    let name = format!("{what} {number}");
    let key = format!("n{number}");
    let mut is_refused = false;
    for answer in [
        server.patch("posts", json!({"name": name})).await,
        server.create(&document(&key, json!({"name": name}))).await,
        server.delete("pages").await,
    ] {
        assert!(matches!(answer.status(), 200 | 201 | 204 | 404 | 503), "{what}: {answer:?}");
        is_refused |= answer.status() == 503;
        drop(answer.checked());
    }
    server.read("posts").await.is(200);
    is_refused
}

async fn survives(setup: impl Fn(&Path) -> crate::support::Setup) {
    let folder = tempfile::tempdir().unwrap();
    let control = Fault(folder.path().join("fault"));
    let server = setup(folder.path()).start().await;
    for (number, (call, name, errno)) in FAULTS.into_iter().enumerate() {
        let what = format!("{call} {name}");
        control.begin(call, errno);
        let is_refused = writes(&server, &what, number).await;
        // What can't be read or removed need not stand in the way of a write.
        assert!(
            is_refused || matches!(call, "read" | "unlink"),
            "{what} has stopped nothing: is it met at all?"
        );
        control.end();
        let last = format!("After {what}");
        eventually(&format!("writes go on after {what}"), async || {
            let answer = server.patch("posts", json!({"name": last})).await;
            (answer.status() == 200).then(|| drop(answer.checked()))
        })
        .await;
        // Whatever became of the others, they are there whole or not at all.
        assert!(committed(&server, "posts").unwrap().contains(&last), "{what}");
        let served = server.list().await.is(200).ids();
        for key in ["posts".to_owned(), "pages".to_owned(), format!("n{number}")] {
            assert_eq!(served.contains(&key), committed(&server, &key).is_some(), "{what}: {key}");
        }
        if !served.contains(&"pages".to_owned()) {
            server.create(&document("pages", json!({}))).await.is(201);
        }
        server.repo().fsck();
    }
}

#[tokio::test]
async fn calls_that_fail_for_a_while_leave_a_work_tree_and_its_service_well() {
    survives(|folder| TestServer::setup("small").failing(folder)).await;
}

#[tokio::test]
async fn calls_that_fail_for_a_while_leave_a_bare_repository_and_its_service_well() {
    survives(|folder| TestServer::setup("small").bare().failing(folder)).await;
}
