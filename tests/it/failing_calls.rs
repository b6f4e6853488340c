//! A disk that refuses one kind of system call for a while, and kills before each call that changes anything.
//! The tests use an `LD_PRELOAD` library in front of the C library; the program under test is unchanged.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{Setup, TestServer, add_operation, document, eventually, restore_document};

/// The call that fails, and its errno(3).
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

/// The fault that a running service meets: its control file.
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

/// Returns the file of a key from git, independent of the service.
fn committed(server: &TestServer, key: &str) -> Option<String> {
    let path = format!("HEAD:collections/{key}.yaml");
    let output = server.repo().try_git(&["cat-file", "blob", &path]);
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// Asserts that every kind of write is done or refused, and every query of the past answered or refused. Returns
/// whether a write was refused.
async fn writes(server: &TestServer, what: &str, number: usize) -> bool {
    let name = format!("{what} {number}");
    let [key, other] = [format!("n{number}"), format!("m{number}")];
    let first = server.repo().git(&["rev-list", "--max-parents=0", "HEAD"]);
    let posts = document("posts", json!({"name": format!("{name}, together")}))["data"].clone();
    let batch = json!([
        {"op": "update", "data": posts},
        add_operation(&document(&other, json!({"name": name}))),
    ]);
    let restore = restore_document(&first);
    let mut is_refused = false;
    for answer in [
        server.patch("posts", json!({"name": name})).await,
        server.create(&document(&key, json!({"name": name}))).await,
        server.operations(batch).await,
        server.request("POST", "/collections/posts/restore").document(&restore).send().await,
        server.delete("pages").await,
    ] {
        assert!(matches!(answer.status(), 200 | 201 | 204 | 404 | 503), "{what}: {answer:?}");
        is_refused |= answer.status() == 503;
        drop(answer.checked());
    }
    let as_it_was = format!("/collections?asOf={first}");
    let since = format!("/diff?filter[from]={first}&filter[to]=HEAD");
    for path in ["/events", "/collections/posts/blame", &*since, &*as_it_was] {
        let answer = server.get(path).await;
        assert!(matches!(answer.status(), 200 | 503), "{what}, {path}: {answer:?}");
        drop(answer.checked());
    }
    for path in ["/collections", "/collections/posts", "/problems", "/sync-token"] {
        server.get(path).await.is(200);
    }
    is_refused
}

async fn survives(setup: Setup) {
    let folder = tempfile::tempdir().unwrap();
    let control = Fault(folder.path().join("fault"));
    // A lock of the service's own that could not be removed is in the way until the next attempt.
    let setup = setup.with_injected_faults(folder.path()).flag(&["--lock-wait-ms-max", "50"]);
    let server = setup.start().await;
    for (number, (call, name, errno)) in FAULTS.into_iter().enumerate() {
        let what = format!("{call} {name}");
        control.begin(call, errno);
        let is_refused = writes(&server, &what, number).await;
        // A failing read or unlink need not stop a write.
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
        // The other writes took effect completely or not at all.
        assert!(committed(&server, "posts").unwrap().contains(&last), "{what}");
        let served = server.list().await.is(200).ids();
        for key in ["posts".to_owned(), "pages".to_owned(), format!("n{number}"), format!("m{number}")] {
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
    survives(TestServer::setup("small")).await;
}

#[tokio::test]
async fn calls_that_fail_for_a_while_leave_a_bare_repository_and_its_service_well() {
    survives(TestServer::setup("small").bare()).await;
}

/// Kills a write before its first system call, then before its second, and so on, until it completes. Alternates
/// between the process alone and its whole process group. Returns the number of kills.
async fn killed_before_each_call(setup: Setup, is_by_hand: bool) -> i32 {
    let folder = tempfile::tempdir().unwrap();
    let control = Fault(folder.path().join("fault"));
    let mut server = setup.with_injected_faults(folder.path()).start().await;
    for number in 1.. {
        let by_hand = format!("By hand {number}");
        if is_by_hand {
            server.repo().write_by_rename(
                "collections/posts.yaml",
                &format!("# mine\ntype: document\nname: {by_hand}\n"),
            );
            server.wait_for_attribute("posts", "name", &*by_hand).await;
        }
        let before = server.read("posts").await.is(200).attributes()["directory"].clone();
        let (wanted, commits) = (json!(format!("d{number}")), server.repo().commit_count());
        control.begin(["kill", "kill-group"][number as usize % 2], number);
        let request = server.client().request("PATCH", "/collections/posts");
        let request = request.document(&document("posts", json!({"directory": wanted})));
        let is_done = request.attempt().await.map(|answer| answer.is(200)).is_some();
        control.end();
        if is_done && server.client().request("GET", "/livez").attempt().await.is_some() {
            return number - 1;
        }
        server.was_killed();
        server.start_again().await;
        let now = server.read("posts").await.is(200);
        let has_come = now.attributes()["directory"] == wanted;
        assert!(has_come || !is_done, "before call {number}: what was acknowledged is gone");
        assert!(has_come || now.attributes()["directory"] == before, "before call {number}: {now:?}");
        assert!(
            !is_by_hand || now.attributes()["name"] == *by_hand,
            "before call {number}: the edit is gone"
        );
        let made = server.repo().commit_count() - commits;
        let edits = if is_by_hand { 0..=1 } else { 0..=0 };
        assert!(edits.contains(&(made - usize::from(has_come))), "before call {number}: {made} commits");
        server.repo().fsck();
        assert_eq!(server.repo().leftover_files(), Vec::<PathBuf>::new(), "before call {number}");
        if !server.repo().is_bare() {
            let left = if is_by_hand && !has_come { " M collections/posts.yaml" } else { "" };
            assert_eq!(server.repo().status(), left, "before call {number}");
        }
    }
    unreachable!("every write has an end")
}

#[tokio::test]
async fn a_kill_before_any_call_leaves_a_work_tree_as_it_was_or_as_it_was_to_be() {
    assert!(killed_before_each_call(TestServer::setup("small"), false).await > 10);
}

#[tokio::test]
async fn a_kill_before_any_call_leaves_a_bare_repository_as_it_was_or_as_it_was_to_be() {
    assert!(killed_before_each_call(TestServer::setup("small").bare(), false).await > 10);
}

#[tokio::test]
async fn a_kill_before_any_call_loses_nothing_that_a_person_has_saved() {
    assert!(killed_before_each_call(TestServer::setup("small"), true).await > 10);
}

#[tokio::test]
async fn a_disk_that_hangs_holds_up_writes_and_no_reader_and_is_told_until_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let control = Fault(folder.path().join("fault"));
    let setup =
        TestServer::setup("small").with_injected_faults(folder.path()).flag(&["--writer-busy-ms-max", "100"]);
    let server = setup.start().await;
    let trouble =
        async || server.get("/readyz").await.is(200).json()["meta"]["writes"].as_str().map(str::to_owned);
    control.begin("hold", 0);
    let client = server.client().clone();
    let mut writes = JoinSet::new();
    writes.spawn(async move { client.patch("posts", json!({"name": "Late"})).await });
    let said = eventually("it is told that writes wait", &trouble).await;
    assert!(said.starts_with("writes wait"), "{said}");
    assert_ne!(server.read("posts").await.is(200).attributes()["name"], "Late", "it is not durable yet");
    server.repo().write_by_rename("collections/pages.yaml", "type: document\nname: Saved meanwhile\n");
    assert!(writes.try_join_next().is_none(), "nothing is answered before it is on disk");
    control.end();
    let written = writes.join_next().await.unwrap().unwrap();
    assert_eq!(written.is(200).attributes()["name"], "Late");
    server.wait_for_attribute("pages", "name", "Saved meanwhile").await;
    server.patch("pages", json!({"directory": "e"})).await.is(200);
    eventually("it is well again", async || trouble().await.is_none().then_some(())).await;
    assert!(committed(&server, "posts").unwrap().contains("Late"));
    server.repo().fsck();
}

#[tokio::test]
async fn a_clock_that_goes_back_by_a_day_takes_nothing_from_anybody() {
    const DAY_S: i32 = 86_400;
    let folder = tempfile::tempdir().unwrap();
    let control = Fault(folder.path().join("fault"));
    let mut server = TestServer::setup("small").with_injected_faults(folder.path()).start().await;
    let named = async |server: &TestServer, key: &str, name: &str| {
        let request = server.request("PATCH", "/collections/posts").header("Idempotency-Key", key);
        let answer = request.document(&document("posts", json!({"name": name}))).send().await.is(200);
        answer.header("collectory-revision")
    };
    let before = named(&server, "before", "Today").await;
    control.begin("clock", DAY_S);
    let yesterday = named(&server, "yesterday", "Yesterday").await;
    assert_eq!(named(&server, "yesterday", "Yesterday").await, yesterday, "it is done once");
    assert_eq!(named(&server, "before", "Today").await, before, "what was done before is known");
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: By hand\n");
    server.wait_for_attribute("posts", "name", "By hand").await;
    server.patch("posts", json!({"directory": "d"})).await.is(200);
    server.restart().await;
    server.repo().write_by_rename("collections/pages.yaml", "type: document\nname: By hand, too\n");
    server.wait_for_attribute("pages", "name", "By hand, too").await;
    server.patch("pages", json!({"directory": "e"})).await.is(200);
    control.end();
    let after = named(&server, "after", "Today again").await;
    server.restart().await;

    let log: Vec<String> = server.repo().git(&["log", "--format=%H"]).lines().map(str::to_owned).collect();
    let place = |revision: &str| log.iter().position(|it| it == revision);
    assert_eq!((place(&after), place(&yesterday), place(&before)), (Some(0), Some(5), Some(6)));
    let events = server.get("/collections/posts/events?page[size]=5").await.is(200).data();
    let events: Vec<&str> = events
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["attributes"]["revision"].as_str())
        .collect();
    let expected = [&log[0], &log[3], &log[4], &log[5], &log[6]].map(String::as_str);
    assert_eq!(events, expected, "the history is in the order of the commits");
    let then = server.get(&format!("/collections/posts?asOf={yesterday}")).await.is(200);
    assert_eq!(then.attributes()["name"], "Yesterday");
    assert_eq!(named(&server, "after", "Today again").await, after);
    assert_eq!(server.repo().status(), "");
    server.repo().fsck();
}
