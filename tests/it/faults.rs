//! A disk, a lock or a client that misbehaves: the answer is clear, nothing is half-done, and everything works again
//! when the cause is gone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{DEADLINE, RawRequest, TestServer, document, eventually, eventually_status};

/// Writes until the service notices that the cause of a fault is gone.
async fn recovers(server: &TestServer) {
    let write = async || server.patch("posts", json!({"name": "After the fault"})).await;
    eventually_status("writes succeed again", 200, write).await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "After the fault");
}

/// Asserts that a write fails with a server error and changes nothing; returns the detail.
async fn fails(server: &TestServer, statuses: &[u16]) -> String {
    let head = server.repo().tip("main");
    let refused = server.patch("posts", json!({"name": "Never"})).await;
    assert!(statuses.contains(&refused.status()), "{refused:?}");
    let refused = refused.checked();
    assert_eq!(server.repo().tip("main"), head);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
    refused.detail()
}

#[tokio::test]
async fn a_folder_that_may_not_be_written_is_503_and_nothing_is_written_that_would_be_left_behind() {
    let server = TestServer::setup("small").without_capabilities().start().await;
    let folder = server.repo().path().join("collections");
    let may_write = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    may_write(0o555);
    fails(&server, &[503]).await;
    server.create(&document("new", json!({}))).await.is(503);
    server.delete("posts").await.is(503);
    may_write(0o755);
    recovers(&server).await;
}

async fn impatient() -> TestServer {
    TestServer::setup("small").flag(&["--lock-wait-ms-max", "50"]).start().await
}

#[tokio::test]
async fn a_held_index_is_503_that_names_the_lock_file() {
    let server = impatient().await;
    let lock = server.repo().git_folder().join("index.lock");
    fs::write(&lock, "").unwrap();
    let detail = fails(&server, &[503]).await;
    assert!(detail.contains("index.lock"), "{detail}");
    assert!(!detail.contains(&*server.folder().to_string_lossy()), "no path of the machine: {detail}");
    assert!(lock.exists(), "a lock of somebody else is never removed");
    let created = server.create(&document("new", json!({}))).await.is(503);
    assert!(created.header("retry-after").parse::<u32>().is_ok());
    let ready = server.get("/readyz").await.is(200).json();
    assert!(ready["meta"]["writes"].as_str().is_some_and(|why| why.contains("could not be made")), "{ready}");
    fs::remove_file(lock).unwrap();
    recovers(&server).await;
    assert_eq!(server.get("/readyz").await.is(200).json()["meta"].get("writes"), None);
}

#[tokio::test]
async fn a_lock_that_is_released_in_time_is_waited_for() {
    let server = TestServer::setup("small").flag(&["--lock-wait-ms-max", "30000"]).start().await;
    let lock = server.repo().git_folder().join("index.lock");
    fs::write(&lock, "").unwrap();
    let write = server.patch("posts", json!({"name": "Waited"}));
    let release = async {
        server.read("posts").await.is(200);
        fs::remove_file(&lock).unwrap();
    };
    let (answer, ()) = tokio::join!(write, release);
    answer.is(200);
}

#[tokio::test]
async fn a_lock_left_by_somebody_else_outlives_a_restart() {
    let mut server = impatient().await;
    server.kill();
    let lock = server.repo().git_folder().join("index.lock");
    fs::write(&lock, "someone's").unwrap();
    server.start_again().await;
    fails(&server, &[503]).await;
    assert!(lock.exists());
    fs::remove_file(lock).unwrap();
    recovers(&server).await;
}

#[tokio::test]
async fn a_held_branch_is_503() {
    let server = impatient().await;
    let lock = server.repo().git_folder().join("refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    fails(&server, &[503]).await;
    assert!(lock.exists());
    fs::remove_file(lock).unwrap();
    recovers(&server).await;
}

/// Puts a file where a folder is expected; permissions would not stop a privileged user.
fn block(folder: &Path) {
    let aside = folder.with_extension("aside");
    fs::rename(folder, aside).unwrap();
    fs::write(folder, "in the way").unwrap();
}

fn unblock(folder: &Path) {
    fs::remove_file(folder).unwrap();
    fs::rename(folder.with_extension("aside"), folder).unwrap();
}

#[tokio::test]
async fn objects_that_can_not_be_written_are_answered_without_details() {
    let server = TestServer::start("small").await;
    let objects = server.repo().git_folder().join("objects");
    let branch = server.repo().git_folder().join("refs/heads/main");
    let head = fs::read_to_string(&branch).unwrap();
    block(&objects);
    let refused = server.patch("posts", json!({"name": "Never"})).await;
    assert!(matches!(refused.status(), 500 | 503), "{refused:?}");
    let detail = refused.checked().detail();
    assert!(!detail.contains(&*server.folder().to_string_lossy()), "{detail}");
    assert_eq!(fs::read_to_string(&branch).unwrap(), head);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts", "reads go on");
    unblock(&objects);
    recovers(&server).await;
    server.wait_for_log("ERROR").await;
}

#[tokio::test]
async fn a_branch_folder_that_is_gone_is_survived() {
    let server = TestServer::start("small").await;
    let folder = server.repo().git_folder().join("refs/heads");
    block(&folder);
    let refused = server.patch("posts", json!({"name": "Never"})).await;
    assert!(matches!(refused.status(), 500 | 503), "{refused:?}");
    refused.checked();
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
    assert_eq!(server.list().await.is(200).ids().len(), 3, "an unreadable repository is no empty list");
    unblock(&folder);
    recovers(&server).await;
}

/// How often the repository is moved away and back.
const MOVES: usize = 10;

#[tokio::test]
async fn a_repository_that_is_moved_away_and_back_under_load_is_written_again_and_nothing_was_made_up() {
    let server = TestServer::start("small").await;
    let (path, away) = (server.repo().path(), server.repo().path().with_extension("away"));
    let is_done = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for key in ["a", "b"] {
        server.create(&document(key, json!({}))).await.is(201);
        let (client, is_done) = (server.client().clone(), Arc::clone(&is_done));
        writers.spawn(async move {
            for number in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                let answer = client.patch(key, json!({"name": format!("Number {number}")})).await;
                assert!(matches!(answer.status(), 200 | 503), "{answer:?}");
            }
        });
    }
    for _ in 0..MOVES {
        fs::rename(path, &away).unwrap();
        let write = async || server.patch("posts", json!({"name": "Never"})).await;
        eventually_status("writes are refused", 503, write).await;
        assert_eq!(server.list().await.is(200).ids().len(), 5);
        assert!(!path.exists(), "nothing is made in its place");
        fs::rename(&away, path).unwrap();
        recovers(&server).await;
    }
    is_done.store(true, Ordering::Relaxed);
    writers.join_all().await;
    let subjects = server.repo().subjects();
    assert!(!subjects.iter().any(|subject| subject.ends_with("by hand")), "{subjects:?}");
}

#[tokio::test]
async fn a_missing_object_never_turns_into_an_empty_list() {
    let server = TestServer::start("small").await;
    server.repo().write("collections/posts.yaml", "type: document\nname: Lost\n");
    server.repo().git(&["add", "--all"]);
    let file = server.repo().object_file(":collections/posts.yaml");
    let aside = file.with_extension("aside");
    fs::rename(&file, &aside).unwrap();
    let tree = server.repo().git(&["write-tree", "--missing-ok"]);
    let commit = server.repo().git(&["commit-tree", &tree, "-p", "HEAD", "-m", "Lost"]);
    server.repo().git(&["update-ref", "refs/heads/main", &commit]);
    for _ in 0..20 {
        let ids = server.list().await.is(200).ids();
        assert!(ids.contains(&"images".to_owned()) && ids.contains(&"pages".to_owned()), "{ids:?}");
    }
    fs::rename(&aside, &file).unwrap();
    server.wait_for_attribute("posts", "name", "Lost").await;
    server.wait_for_revision(&commit).await;
}

#[tokio::test]
async fn an_object_that_is_missing_at_a_start_harms_its_own_collection_only() {
    let mut server = TestServer::start("small").await;
    server.stop();
    let file = server.repo().object_file("HEAD:collections/posts.yaml");
    let aside = file.with_extension("aside");
    fs::rename(&file, &aside).unwrap();
    server.start_again().await;
    let problem = server.wait_for_problem("collections/posts.yaml").await;
    let said = problem["attributes"].to_string();
    assert!(said.contains("missing") && said.contains("git fsck"), "{said}");
    assert_eq!(server.list().await.is(200).ids().len(), 3, "the others are served, and the intact file");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
    server.patch("posts", json!({"name": "Never"})).await.is(409);
    server.patch("pages", json!({"name": "Written"})).await.is(200);
    fs::rename(&aside, &file).unwrap();
    server.wait_for_no_problem().await;
    server.patch("posts", json!({"name": "After"})).await.is(200);
}

#[tokio::test]
async fn a_corrupt_object_without_an_intact_file_is_a_problem_and_nothing_is_served_for_it() {
    let mut server = TestServer::setup("small").bare().start().await;
    server.stop();
    let file = server.repo().object_file("HEAD:collections/posts.yaml");
    let good = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(&file, b"x\x9cnot an object").unwrap();
    server.start_again().await;
    let problem = server.wait_for_problem("collections/posts.yaml").await;
    assert!(problem["attributes"].to_string().contains("corrupt"), "{problem}");
    server.read("posts").await.is(404);
    server.read("pages").await.is(200);
    fs::write(&file, good).unwrap();
    server.wait_for_no_problem().await;
    server.read("posts").await.is(200);
}

#[tokio::test]
async fn a_folder_of_objects_that_can_not_be_read_is_told_as_the_reason_and_no_list_is_served() {
    let mut server = TestServer::setup("small").bare().start().await;
    server.stop();
    let file = server.repo().object_file("HEAD:collections/posts.yaml");
    let folder = file.parent().unwrap().to_owned();
    block(&folder);
    server.start_again_unready();
    let refused = server.get("/collections").await.is(503).detail();
    assert!(refused.contains("cannot be read"), "{refused}");
    assert!(!refused.contains("still being read"), "{refused}");
    assert!(!refused.contains(&*server.folder().to_string_lossy()), "no path of the machine: {refused}");
    server.get("/readyz").await.is(503);
    unblock(&folder);
    server.wait_until_ready().await;
    assert_eq!(server.list().await.is(200).ids().len(), 3);
}

#[tokio::test]
async fn a_commit_that_puts_a_file_in_place_of_the_folder_is_refused_and_the_rest_stays_served() {
    let server = TestServer::setup("small").bare().start().await;
    let before = server.repo().tip("main").unwrap();
    server.repo().fast_import(&format!(
        "commit refs/heads/main\ncommitter Mara <mara@example.org> 1700000000 +0000\ndata 1\nx\nfrom {before}\n\
         D collections\nM 100644 inline collections\ndata 1\nx\n\n"
    ));
    let detail = eventually_status("it is told", 503, async || server.get("/readyz").await).await.detail();
    assert!(detail.contains("`collections` is a file"), "{detail}");
    assert_eq!(server.list().await.is(200).ids().len(), 3);
    server.wait_for_log("not a folder").await;
    server.repo().git(&["update-ref", "refs/heads/main", &before]);
    server.wait_until_ready().await;
}

#[tokio::test]
async fn a_person_who_commits_a_file_in_place_of_the_folder_empties_no_list() {
    let server = TestServer::start("small").await;
    let folder = server.repo().path().join("collections");
    let before = server.repo().head();
    // A watcher sees this as one step: the folder is never merely absent.
    block(&folder);
    server.repo().git(&["add", "--all"]);
    server.repo().git(&["commit", "-m", "No folder"]);
    let ready = async || {
        assert_eq!(server.list().await.is(200).ids().len(), 3);
        server.get("/readyz").await
    };
    let detail = eventually_status("it is told", 503, ready).await.detail();
    assert!(detail.contains("`collections` is a file"), "{detail}");
    assert_eq!(server.list().await.is(200).ids().len(), 3);
    server.wait_for_log("not a folder").await;
    server.repo().git(&["reset", "--hard", &before]);
    server.wait_until_ready().await;
    assert_eq!(server.list().await.is(200).ids().len(), 3);
}

#[tokio::test]
async fn a_file_in_place_of_the_folder_leaves_what_is_committed_served_and_is_told() {
    let mut server = TestServer::start("small").await;
    let folder = server.repo().path().join("collections");
    block(&folder);
    let note = eventually("it is told", async || {
        let meta = server.get("/readyz").await.is(200).json()["meta"].clone();
        meta["workTree"].as_str().map(str::to_owned)
    })
    .await;
    assert_eq!(note, "`collections` is no folder, and links are not followed");
    assert_eq!(server.list().await.is(200).ids().len(), 3);
    unblock(&folder);
    server.expect_git_status("");
}

#[tokio::test]
async fn what_is_written_while_a_link_stands_in_place_of_the_folder_is_no_edit_when_the_folder_is_back() {
    for is_restarted in [false, true] {
        let mut server = TestServer::start("small").await;
        let folder = server.repo().path().join("collections");
        let aside = folder.with_extension("aside");
        fs::rename(&folder, &aside).unwrap();
        std::os::unix::fs::symlink(&aside, &folder).unwrap();
        for name in ["Twice", "Posts anew"] {
            server.patch("posts", json!({"name": name})).await.is(200);
        }
        server.create(&document("notes", json!({"name": "Notes"}))).await.is(201);
        server.delete("images").await.is(204);
        if is_restarted {
            server.kill();
        }
        fs::remove_file(&folder).unwrap();
        fs::rename(&aside, &folder).unwrap();
        if is_restarted {
            server.start_again().await;
        }
        eventually("the files are brought forward", async || {
            server.repo().git(&["status", "--porcelain"]).is_empty().then_some(())
        })
        .await;
        let read = server.read("posts").await.is(200);
        assert_eq!(read.attributes()["name"], "Posts anew");
        assert_eq!(read.json()["data"]["meta"]["uncommitted"], serde_json::Value::Null);
        server.read("notes").await.is(200);
        server.read("images").await.is(404);
    }
}

#[tokio::test]
async fn an_aborted_body_stores_nothing() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    let body = document("half", json!({"name": "Half"})).to_string();
    for length in [0, 1, body.len() / 2, body.len() - 1] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let request = format!(
            "POST /collections HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.api+json\r\nContent-Length: {}\r\n\r\n{}",
            body.len(),
            &body[..length]
        );
        stream.write_all(request.as_bytes()).unwrap();
        drop(stream);
    }
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let chunked = "POST /collections HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.api+json\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{\"data\"";
    stream.write_all(chunked.as_bytes()).unwrap();
    drop(stream);
    server.patch("posts", json!({"name": "Posts"})).await.is(200);
    server.read("half").await.is(404);
    assert_eq!(server.repo().head(), head);
}

/// Reads until the other side closes.
fn rest_of(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_slow_client_is_cut_off_and_holds_up_nobody() {
    // Longer than the gap between two bytes of a fast client on a busy machine.
    let setup =
        TestServer::setup("small").flag(&["--header-wait-ms-max", "2000", "--body-wait-ms-max", "2000"]);
    let server = setup.start().await;
    let mut slow_head = TcpStream::connect(server.address()).unwrap();
    slow_head.write_all(b"GET /collections HTTP/1.1\r\nHost").unwrap();
    let mut slow_body = TcpStream::connect(server.address()).unwrap();
    let head = "POST /collections HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.api+json\r\nContent-Length: 100\r\n\r\n{";
    slow_body.write_all(head.as_bytes()).unwrap();
    let silent = TcpStream::connect(server.address()).unwrap();
    server.patch("posts", json!({"name": "Fast"})).await.is(200);
    assert!(!rest_of(slow_head).starts_with("HTTP/1.1 2"));
    let answer = rest_of(slow_body);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(rest_of(silent), "");
    // On a new connection, because the one that the client keeps is about to be closed too.
    RawRequest::new("GET", "/collections").send(server.address()).is(200);
}

#[tokio::test]
async fn as_many_connections_are_served_as_the_system_has_open_files_for() {
    let server = TestServer::setup("small").open_files(48).start().await;
    let mut connections: Vec<_> =
        (0..100).map(|_| TcpStream::connect(server.address()).expect("it listens")).collect();
    for connection in &mut connections {
        connection.set_read_timeout(Some(DEADLINE)).expect("any time will do");
        connection.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is taken");
        let mut status = [0; 12];
        connection.read_exact(&mut status).expect("it is answered");
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    server.patch("posts", json!({"name": "Written while they are open"})).await.is(200);
}

#[tokio::test]
async fn connections_leave_writes_the_files_that_they_need_where_few_may_be_open() {
    let server = TestServer::setup("small").open_files_max(64).start().await;
    // The client keeps this connection open.
    server.patch("posts", json!({"name": "Written before"})).await.is(200);
    let held: Vec<_> = (0..200).map(|_| TcpStream::connect(server.address()).expect("it listens")).collect();
    for turn in 0..20 {
        server.patch("posts", json!({"name": format!("Written beside them, {turn}")})).await.is(200);
    }
    drop(held);
}

#[tokio::test]
async fn a_file_that_may_not_grow_fails_the_write_and_not_the_service() {
    let server = TestServer::setup("small").file_blocks_max(8).start().await;
    let mut written = 0;
    let reflog = || fs::read_to_string(server.repo().git_folder().join("logs/refs/heads/main")).unwrap();
    loop {
        let long = document(&format!("long-{written}"), json!({"name": "x".repeat(900)}));
        match server.create(&long).await.status() {
            201 => written += 1,
            503 => break,
            status => panic!("{status}"),
        }
    }
    assert!(written > 0);
    server.read("posts").await.is(200);
    assert!(reflog().ends_with('\n'), "{}", reflog());
}

#[tokio::test]
async fn whoever_does_not_read_the_log_holds_up_neither_writes_nor_the_end() {
    let mut server = TestServer::setup("small").stuck_log().start().await;
    let broken = server.repo().path().join("collections/broken.yaml");
    fs::write(&broken, "name: [\n").unwrap();
    eventually("the broken file is told", async || {
        let problems = server.get("/problems").await.is(200).json();
        problems["data"].as_array().is_some_and(|all| !all.is_empty()).then_some(())
    })
    .await;
    server.patch("posts", json!({"name": "Written all the same"})).await.is(200);
    fs::remove_file(broken).unwrap();
    server.stop();
}

#[tokio::test]
async fn a_limit_on_bodies_holds_for_lengths_told_and_untold() {
    let server = TestServer::setup("small").flag(&["--body-bytes-max", "100000"]).start().await;
    let large = document("large", json!({"name": "x".repeat(200_000)}));
    server.create(&large).await.is(413);
    let text = large.to_string();
    let chunked = format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
    let request = RawRequest::new("POST", "/collections")
        .header("Content-Type", "application/vnd.api+json")
        .header("Transfer-Encoding", "chunked")
        .body(chunked);
    request.send(server.address()).is(413);
    server.create(&document("small-one", json!({}))).await.is(201);
}

/// A client that waits for a response before it sends its body must not wait in vain.
#[tokio::test]
async fn a_length_above_the_limit_is_refused_before_the_body_has_come() {
    let server = TestServer::setup("small").flag(&["--body-wait-ms-max", "3600000"]).start().await;
    let request = RawRequest::new("POST", "/collections")
        .header("Content-Type", "application/vnd.api+json")
        .header("Content-Length", "99999999999")
        .body("{");
    request.send(server.address()).is(413);
}

#[tokio::test]
async fn a_full_disk_is_answered_and_recovered_from() {
    let Some(disk) = SmallDisk::mount() else { return };
    let repo = crate::support::Repo::seeded(disk.path().join("settings"), "small");
    let server = TestServer::setup("").repository(repo.path()).start().await;
    let filler = disk.path().join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    let block = vec![7_u8; 4096];
    while file.write_all(&block).is_ok() {}
    drop(file);
    fails(&server, &[500, 503]).await;
    fs::remove_file(&filler).unwrap();
    recovers(&server).await;
    drop(server);
}

/// A tmpfs of a few megabytes. Only a privileged user can mount one; elsewhere the test that needs it checks nothing.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(folder.path())
            .stderr(std::process::Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        std::process::Command::new("umount").arg(self.path()).status().ok();
    }
}
