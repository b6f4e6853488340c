//! Webhooks, as receivers see them.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use base64ct::{Base64, Encoding as _};
use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::operating::samples;
use crate::support::{
    Auth, Setup, Signal, TestServer, collectory_command, document, eventually, policy_of, run_to_end,
};

const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A delivery as it arrived.
#[derive(Debug, Clone)]
struct Delivery {
    id: String,
    body: Value,
}

/// A receiver that gives the queued answers, and 204 when there are none.
struct Receiver {
    address: SocketAddr,
    got: Arc<Mutex<Vec<Delivery>>>,
    answers: Arc<Mutex<VecDeque<String>>>,
}

impl Receiver {
    fn listen() -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn at(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let (got, answers): (Arc<Mutex<Vec<_>>>, Arc<Mutex<VecDeque<String>>>) = Default::default();
        let receiver = Self { address, got: Arc::clone(&got), answers: Arc::clone(&answers) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(delivery) = read(&mut stream) else { continue };
                let answer =
                    answers.lock().unwrap().pop_front().unwrap_or_else(|| "204 No Content".to_owned());
                if answer.starts_with("204") {
                    got.lock().unwrap().push(delivery);
                }
                let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).ok();
            }
        });
        receiver
    }

    fn answers(&self, answers: &[&str]) {
        self.answers.lock().unwrap().extend(answers.iter().map(|&answer| answer.to_owned()));
    }

    /// Waits for at least this many deliveries, and returns all.
    async fn gets(&self, count: usize) -> Vec<Delivery> {
        eventually(&format!("{count} deliveries"), async || {
            let got = self.got.lock().unwrap();
            (got.len() >= count).then(|| got.clone())
        })
        .await
    }
}

/// Reads a delivery and checks its signature.
fn read(stream: &mut std::net::TcpStream) -> Option<Delivery> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {head}"))[name.len() + 2..].to_owned()
    };
    assert!(head.starts_with("POST "), "{head}");
    let mut body = vec![0; header("content-length").parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&Base64::decode_vec(SECRET).unwrap()).unwrap();
    mac.update(format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).as_bytes());
    mac.update(&body);
    let signature = Base64::encode_string(&mac.finalize().into_bytes());
    assert_eq!(header("webhook-signature"), format!("v1,{signature}"));
    assert_eq!(header("content-type"), "application/json");
    Some(Delivery { id: header("webhook-id"), body: serde_json::from_slice(&body).unwrap() })
}

fn listed(folder: &Path, receivers: &[(&Receiver, &str)]) -> String {
    let file = folder.join("webhooks.yaml");
    let items = receivers.iter().map(|(receiver, more)| {
        format!("- {{url: 'http://{}/hook?token=x', secret: whsec_{SECRET}{more}}}\n", receiver.address)
    });
    fs::write(&file, format!("webhooks:\n{}", items.collect::<String>())).unwrap();
    file.to_string_lossy().into_owned()
}

fn setup(file: &str) -> Setup {
    TestServer::setup("small").flag(&[
        "--webhooks",
        file,
        "--webhook-retry-max",
        "20ms",
        "--webhook-allow-private",
    ])
}

fn keys(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries
        .iter()
        .filter_map(|delivery| delivery.body["data"]["attributes"]["collection"].as_str())
        .collect()
}

#[tokio::test]
async fn events_are_delivered_once_in_order_and_signed_whoever_made_them() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::listen();
    let mut server = setup(&listed(folder.path(), &[(&receiver, "")])).start().await;
    at_head(&server).await;
    server.create(&document("first", json!({"name": "First"}))).await.is(201);
    server.repo().write("collections/second.yaml", "type: document\n");
    server.repo().commit("By hand");
    server.wait_for_attribute("second", "type", "document").await;
    server.patch("first", json!({"name": "Renamed"})).await.is(200);
    let got = receiver.gets(3).await;
    assert_eq!(keys(&got), ["first", "second", "first"]);
    let types: Vec<_> = got.iter().map(|delivery| delivery.body["type"].clone()).collect();
    assert_eq!(types, ["collection.created", "collection.created", "collection.updated"]);
    let event = server.get(&format!("/events/{}", got[0].id)).await.is(200).data();
    assert_eq!(got[0].body["data"]["attributes"], event["attributes"]);
    assert_eq!(got[0].body["timestamp"], event["attributes"]["at"]);
    // What was delivered and recorded is not delivered again.
    let served = server.get("/collections").await.is(200).header("collectory-revision");
    eventually("the last delivery is noted", async || {
        let receivers = server.get("/webhooks").await.is(200).data();
        (receivers[0]["attributes"]["revision"] == served.as_str()).then_some(())
    })
    .await;
    server.restart().await;
    server.delete("second").await.is(204);
    let got = receiver.gets(4).await;
    assert_eq!((got.len(), &got[3].body["type"]), (4, &json!("collection.deleted")));
}

/// Waits until every receiver has a start position.
async fn at_head(server: &TestServer) {
    eventually("the receivers have begun", async || {
        let receivers = server.get("/webhooks").await.is(200).data();
        receivers.as_array().unwrap().iter().all(|one| !one["attributes"]["revision"].is_null()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_receiver_that_is_down_loses_nothing_over_a_crash_and_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (up, down) = (Receiver::listen(), Receiver::listen());
    down.answers(&["500 Internal Server Error"; 1_000]);
    let mut server =
        setup(&listed(folder.path(), &[(&down, ", name: down"), (&up, ", keys: ['b*']")])).start().await;
    at_head(&server).await;
    for key in ["a", "b", "c"] {
        server.create(&document(key, json!({}))).await.is(201);
    }
    assert_eq!(keys(&up.gets(1).await), ["b"]);
    let shown = eventually("the failure is shown", async || {
        let receivers = server.get("/webhooks").await.is(200).data();
        let [down, up] = [0, 1].map(|it| receivers[it]["attributes"].clone());
        // The other receiver's progress is recorded, so that the delivery is not repeated after a kill.
        (down["lag"] == 3 && down["lastError"].is_object() && up["lag"] == 0).then_some(receivers)
    })
    .await;
    assert_eq!((&shown[0]["id"], &shown[0]["attributes"]["state"]), (&json!("down"), &json!("failing")));
    assert!(shown[0]["attributes"]["lastError"]["message"].as_str().unwrap().contains("500"));
    assert!(!shown.to_string().contains("token=x"), "{shown}");
    server.kill();
    down.answers.lock().unwrap().clear();
    server.start_again().await;
    assert_eq!(keys(&down.gets(3).await), ["a", "b", "c"]);
    assert_eq!(up.gets(1).await.len(), 1);
    eventually("nobody is owed anything", async || {
        let receivers = server.get("/webhooks").await.is(200).data();
        receivers.as_array().unwrap().iter().all(|one| one["attributes"]["lag"] == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_receiver_whose_position_can_not_be_read_is_sent_a_reset_and_then_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::listen();
    let mut server = setup(&listed(folder.path(), &[(&receiver, "")])).start().await;
    at_head(&server).await;
    server.create(&document("first", json!({}))).await.is(201);
    receiver.gets(1).await;
    server.stop();
    let ours = server.repo().git_folder().join("collectory");
    let is_position = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("webhook-");
    let files = fs::read_dir(ours).unwrap().map(|entry| entry.unwrap().path());
    files.filter(is_position).for_each(|path| fs::write(path, "").unwrap());
    let head = server.repo().head();
    server.start_again().await;
    let got = receiver.gets(2).await;
    assert_eq!(got[1].body["type"], "history.reset");
    assert_eq!(got[1].body["data"], json!({"from": "", "to": head}));
    server.create(&document("second", json!({}))).await.is(201);
    let got = receiver.gets(3).await;
    assert_eq!(keys(&got), ["first", "second"]);
}

#[tokio::test]
async fn a_receiver_that_is_gone_redirects_or_asks_for_the_past_gets_what_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let (gone, past) = (Receiver::listen(), Receiver::listen());
    gone.answers(&["410 Gone"]);
    past.answers(&["302 Found\r\nLocation: /elsewhere"]);
    let first = {
        let repo = crate::support::Repo::seeded(folder.path().join("settings"), "small");
        repo.head()
    };
    let since = format!(", since: '{first}', actions: [created]");
    let file = listed(folder.path(), &[(&gone, ""), (&past, &since)]);
    let repository = folder.path().join("settings");
    let server = setup(&file).repository(&repository).flag(&["--admin-listen", "127.0.0.1:0"]).start().await;
    at_head(&server).await;
    server.create(&document("a", json!({}))).await.is(201);
    server.patch("a", json!({"name": "A"})).await.is(200);
    server.create(&document("b", json!({}))).await.is(201);
    assert_eq!(keys(&past.gets(2).await), ["a", "b"], "after a redirect it is tried at the same place");
    let states = eventually("the one is gone", async || {
        let receivers = server.get("/webhooks").await.is(200).data();
        (receivers[0]["attributes"]["state"] == "ended").then_some(receivers)
    })
    .await;
    assert_eq!(states[1]["attributes"]["state"], "delivering");
    assert_eq!(gone.got.lock().unwrap().len(), 0);
    eventually("whoever is gone lags no more", async || {
        (samples(&server).await["collectory_webhook_lag_events"] == 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_rewritten_branch_is_told_once_with_both_revisions() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::listen();
    let server = setup(&listed(folder.path(), &[(&receiver, "")])).start().await;
    at_head(&server).await;
    let kept = server.repo().head();
    let revision = server.create(&document("a", json!({}))).await.is(201).header("collectory-revision");
    receiver.gets(1).await;
    server.repo().git(&["reset", "--quiet", "--hard", &kept]);
    let got = receiver.gets(2).await;
    assert_eq!(got[1].body["type"], "history.reset");
    assert_eq!(got[1].body["data"], json!({"from": revision, "to": kept}));
    server.create(&document("b", json!({}))).await.is(201);
    let got = receiver.gets(3).await;
    assert_eq!((got.len(), keys(&got)), (3, vec!["a", "b"]));
}

#[tokio::test]
async fn a_branch_that_goes_on_from_the_noted_commit_is_no_reset_whatever_else_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::listen();
    let server = setup(&listed(folder.path(), &[(&receiver, ", keys: ['blog-*']")])).start().await;
    at_head(&server).await;
    let revision = server.create(&document("blog-a", json!({}))).await.is(201).header("collectory-revision");
    receiver.gets(1).await;
    let beside = crate::support::Repo::at(folder.path().join("beside"));
    server.repo().git(&[
        "worktree",
        "add",
        "--quiet",
        "--detach",
        beside.path().to_str().unwrap(),
        &revision,
    ]);
    beside.write("collections/blog-c.yaml", "type: document\n");
    let other = beside.commit("Beside what was written meanwhile");
    for key in ["x", "y"] {
        server.create(&document(key, json!({}))).await.is(201);
    }
    server.repo().git(&["reset", "--quiet", "--hard", &other]);
    receiver.gets(2).await;
    server.create(&document("z", json!({}))).await.is(201);
    server.repo().git(&["reset", "--quiet", "--hard", "HEAD^"]);
    server.wait_for_revision(&other).await;
    server.create(&document("blog-d", json!({}))).await.is(201);
    let got = receiver.gets(3).await;
    assert_eq!((got.len(), keys(&got)), (3, vec!["blog-a", "blog-c", "blog-d"]));
}

#[tokio::test]
async fn private_addresses_are_refused_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::listen();
    let file = listed(folder.path(), &[(&receiver, "")]);
    let server =
        TestServer::setup("small").flag(&["--webhooks", &file, "--webhook-retry-max", "20ms"]).start().await;
    at_head(&server).await;
    server.create(&document("a", json!({}))).await.is(201);
    let why = eventually("it is refused", async || {
        let receivers = server.get("/webhooks").await.is(200).data();
        let why = receivers[0]["attributes"]["lastError"]["message"].as_str()?.to_owned();
        why.contains("--webhook-allow-private").then_some(why)
    });
    assert!(why.await.starts_with("the address is private"));
    assert_eq!(receiver.got.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn the_list_is_read_again_and_a_bad_one_is_not_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (Receiver::listen(), Receiver::listen());
    let file = listed(folder.path(), &[(&one, "")]);
    let server = setup(&file).start().await;
    at_head(&server).await;
    fs::write(&file, "- url: nowhere\n").unwrap();
    server.signal(Signal::HUP);
    server.wait_for_log("kept the last good list").await;
    listed(folder.path(), &[(&other, "")]);
    server.signal(Signal::HUP);
    eventually("the other one is told", async || {
        let receivers = server.get("/webhooks").await.is(200).data();
        let url = receivers[0]["attributes"]["url"].as_str().unwrap().to_owned();
        url.contains(&other.address.to_string()).then_some(())
    })
    .await;
    at_head(&server).await;
    server.create(&document("a", json!({}))).await.is(201);
    assert_eq!(keys(&other.gets(1).await), ["a"]);
    assert_eq!(one.got.lock().unwrap().len(), 0);
    let mut serve = collectory_command(folder.path());
    fs::write(&file, "- url: nowhere\n").unwrap();
    serve.args(["serve", "--auth", "none", "--listen", "127.0.0.1:0", "--webhooks", &file]);
    let refused = run_to_end(&mut serve).assert_exit_code(1);
    assert!(refused.stderr.contains("webhooks.yaml:1:1: receiver 1"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_receiver_that_begins_with_a_time_is_told_everything_from_its_first_moment_on() {
    let folder = tempfile::tempdir().unwrap();
    let receivers = [(); 3].map(|()| Receiver::listen());
    // The first commit of the fixture is dated 2 January.
    let sinces = ["2026-01-01", "2026-01-02", "2026-01-03"].map(|day| format!(", since: {day}"));
    let entries: Vec<_> = receivers.iter().zip(sinces.iter().map(String::as_str)).collect();
    let server = setup(&listed(folder.path(), &entries)).start().await;
    server.create(&document("a", json!({}))).await.is(201);
    for (receiver, count) in receivers.iter().zip([4, 4, 1]) {
        let delivered = keys(&receiver.gets(count).await).join(" ");
        assert_eq!(delivered, ["images pages posts a", "a"][usize::from(count == 1)]);
    }
}

#[tokio::test]
async fn a_receiver_whose_beginning_is_not_there_yet_is_told_from_there_when_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::listen();
    let file = listed(folder.path(), &[(&receiver, ", since: release")]);
    let server = setup(&file).start().await;
    server.wait_for_log("since: ").await;
    server.repo().git(&["tag", "release"]);
    server.create(&document("a", json!({}))).await.is(201);
    assert_eq!(keys(&receiver.gets(1).await), ["a"]);
}

#[tokio::test]
async fn a_pipe_in_the_place_of_the_list_holds_up_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let file = listed(folder.path(), &[(&Receiver::listen(), "")]);
    let mut server = setup(&file).start().await;
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    server.signal(Signal::HUP);
    server.wait_for_log("kept the last good list").await;
    server.stop();
    let mut serve = collectory_command(folder.path());
    serve.args(["serve", "--auth", "none", "--listen", "127.0.0.1:0", "--webhooks", &file]);
    let refused = run_to_end(&mut serve).assert_exit_code(1);
    assert!(refused.stderr.contains("it is no regular file"), "{}", refused.stderr);
}

#[tokio::test]
async fn whoever_operates_may_ask_for_the_receivers_and_nobody_else() {
    let policy = policy_of(&[("Operator", "operate", "*"), ("Other", "read, audit, write", "*")]);
    let server = TestServer::setup("small").auth(Auth::Policy(policy)).start().await;
    server.get("/webhooks").await.is(401);
    server.client().with_token("other").get("/webhooks").await.is(403);
    assert_eq!(server.client().with_token("operator").get("/webhooks").await.is(200).data(), json!([]));
}

#[tokio::test]
async fn what_a_receiver_was_not_told_is_counted_while_it_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::listen();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    receiver.address = silent.local_addr().unwrap();
    let server = setup(&listed(folder.path(), &[(&receiver, ", actions: [created]")])).start().await;
    at_head(&server).await;
    for key in ["a", "b"] {
        server.create(&document(key, json!({}))).await.is(201);
    }
    server.patch("a", json!({"name": "A"})).await.is(200);
    let shown = eventually("it is owed two events", async || {
        let receivers = server.get("/webhooks").await.is(200).data();
        (receivers[0]["attributes"]["lag"] == 2).then_some(receivers)
    })
    .await;
    assert_eq!(shown[0]["attributes"]["lastError"], Value::Null, "that is known before a try has failed");
}
