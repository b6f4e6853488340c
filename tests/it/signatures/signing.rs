//! `serve --signing-key`: every commit that the service makes is signed, whatever made it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{git_verifies, key, key_file, public, signers, verify};
use crate::support::{
    Repo, Setup, TestServer, add_operation, collectory_command, document, fixture, run_to_end,
};

/// A service that signs.
struct Signing {
    // Holds the key and the file that allows it.
    folder: tempfile::TempDir,
    server: TestServer,
}

impl Signing {
    async fn on(setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = key_file(folder.path(), &key(1));
        signers(folder.path(), &format!("collectory@localhost namespaces=\"git\" {}\n", public(&key(1))));
        let server = setup.flag(&["--signing-key", file.to_str().unwrap()]).start().await;
        Self { folder, server }
    }

    /// Asserts that `verify` and git accept the signature of every commit of the service.
    #[track_caller]
    fn has_signed(&self, len: usize) {
        let repo = self.server.repo();
        let signers = self.folder.path().join("allowed-signers");
        let flags = ["--json", "--require-signature", "--allowed-signers", signers.to_str().unwrap()];
        let commits = verify(repo, &flags).assert_exit_code(0).json_lines();
        let by_service: Vec<_> = commits.iter().filter(|commit| commit["maker"] == "service").collect();
        assert_eq!(by_service.len(), len, "{commits:#?}");
        for commit in by_service {
            assert_eq!(commit["signature"]["state"], "valid", "{commit}");
            assert_eq!(commit["signature"]["signer"], "collectory@localhost", "{commit}");
            let revision = commit["revision"].as_str().unwrap();
            assert_ne!(git_verifies(repo, &signers, revision), Some(false), "{commit}");
        }
    }
}

#[tokio::test]
async fn the_page_of_an_event_tells_whether_its_signature_holds() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("settings"), "small");
    let lists = tempfile::tempdir().unwrap();
    let listed =
        signers(lists.path(), &format!("collectory@localhost namespaces=\"git\" {}\n", public(&key(1))));
    repo.git(&["config", "gpg.ssh.allowedSignersFile", listed.to_str().unwrap()]);
    let mut signing = Signing::on(TestServer::setup("small").repository(repo.path())).await;
    let event_page = async |server: &TestServer| {
        let event = server.get("/events?page[size]=1").await.is(200).ids().remove(0);
        String::from_utf8(server.request("GET", &format!("/ui/events/{event}")).send().await.body).unwrap()
    };
    signing.server.create(&document("new", json!({"name": "New"}))).await.is(201);
    let page = event_page(&signing.server).await;
    assert!(
        page.contains("signed by collectory@localhost (SHA256:") && page.contains("; it holds<"),
        "{page}"
    );
    signers(lists.path(), &format!("else@example.org {}\n", public(&key(2))));
    signing.server.restart().await;
    let page = event_page(&signing.server).await;
    assert!(
        page.contains("signed by a key that is not allowed: it is not among the allowed signers"),
        "{page}"
    );
}

#[tokio::test]
async fn whatever_makes_the_service_commit_is_signed() {
    let signing = Signing::on(TestServer::setup("small")).await;
    let server = &signing.server;
    server.create(&document("new", json!({"name": "New"}))).await.is(201);
    server.patch("new", json!({"name": "Newer"})).await.is(200);
    let event = server.get("/events?page[size]=1").await.is(200).ids().remove(0);
    server.undo(&event).await.is(201);
    server.delete("new").await.is(204);
    let operations = json!([
        add_operation(&document("a", json!({"name": "A"}))),
        add_operation(&document("b", json!({"name": "B"}))),
    ]);
    server.operations(operations).await.is(200);
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: By hand\n");
    server.wait_for_attribute("posts", "name", "By hand").await;
    server.patch("posts", json!({"name": "By API"})).await.is(200);
    // Create, update, undo, delete, batch, the person's edit, update.
    signing.has_signed(7);
    assert_eq!(server.repo().field("HEAD^", "%an"), "Hand Editor");
    let actions = server.get("/events?filter[origin]=api").await.is(200).ids().len();
    assert_eq!(actions, 7, "events are what they were: five of one commit each, two of the batch");
}

#[tokio::test]
async fn a_repository_is_signed_from_its_first_commit_on_bare_or_not() {
    for setup in [TestServer::setup("small").without_repository(), TestServer::setup("small").unborn()] {
        let signing = Signing::on(setup).await;
        signing.server.create(&document("first", json!({}))).await.is(201);
        signing.has_signed(1);
    }
    let signing = Signing::on(TestServer::setup("small").bare()).await;
    signing.server.patch("posts", json!({"name": "Bare"})).await.is(200);
    signing.has_signed(1);
}

#[tokio::test]
async fn writes_at_one_time_are_signed_one_by_one() {
    let signing = Signing::on(TestServer::setup("small")).await;
    let creating = (0..24).map(|i| {
        let client = signing.server.client().clone();
        async move { client.create(&document(&format!("c{i}"), json!({}))).await.is(201) }
    });
    let mut tasks = tokio::task::JoinSet::new();
    creating.for_each(|create| drop(tasks.spawn(create)));
    tasks.join_all().await;
    signing.has_signed(24);
}

#[tokio::test]
async fn what_is_asked_twice_or_only_tried_is_as_without_signatures() {
    let mut signing = Signing::on(TestServer::setup("small")).await;
    let head = signing.server.repo().head();
    let body = document("posts", json!({"name": "Once"}));
    let dry = signing.server.request("PATCH", "/collections/posts").header("Prefer", "dry-run");
    dry.document(&body).send().await.is(200);
    assert_eq!(signing.server.repo().head(), head);
    let mut revisions = Vec::new();
    for restarts in [false, false, true] {
        if restarts {
            signing.server.restart().await;
        }
        let write = signing.server.request("PATCH", "/collections/posts").header("Idempotency-Key", "k");
        revisions.push(write.document(&body).send().await.is(200).header("collectory-revision"));
    }
    assert!(revisions.iter().all(|revision| *revision == signing.server.repo().head()), "{revisions:?}");
    signing.has_signed(1);
}

#[tokio::test]
async fn ssh_keygen_accepts_the_signature_as_it_stands() {
    if Command::new("ssh-keygen").arg("-?").output().is_err() {
        return;
    }
    let signing = Signing::on(TestServer::setup("small")).await;
    signing.server.patch("posts", json!({"name": "Signed"})).await.is(200);
    let repo = signing.server.repo();
    let raw = repo.git(&["cat-file", "commit", "HEAD"]) + "\n";
    let armor: Vec<_> = raw
        .lines()
        .skip_while(|line| !line.starts_with("gpgsig "))
        .take_while(|line| line.starts_with("gpgsig ") || line.starts_with(' '))
        .map(|line| line.trim_start_matches("gpgsig").trim_start().to_owned() + "\n")
        .collect();
    let header = format!("gpgsig {}", armor.join(" "));
    let at = |name: &str| signing.folder.path().join(name);
    fs::write(at("signature"), armor.concat()).unwrap();
    fs::write(at("payload"), raw.replace(&header, "")).unwrap();
    let check = |payload: &str| {
        let mut command = Command::new("ssh-keygen");
        command.args(["-Y", "verify", "-n", "git", "-I", "collectory@localhost", "-f"]);
        command.arg(at("allowed-signers")).arg("-s").arg(at("signature"));
        let output = command.stdin(fs::File::open(at(payload)).unwrap()).output().unwrap();
        output.status.success()
    };
    assert!(check("payload"));
    fs::write(at("other"), raw).unwrap();
    assert!(!check("other"));
}

#[tokio::test]
async fn the_log_tells_the_fingerprint_and_never_the_key() {
    let mut signing = Signing::on(TestServer::setup("small").environment("RUST_LOG", "trace")).await;
    signing.server.patch("posts", json!({"name": "Logged"})).await.is(200);
    let log = signing.server.stop();
    assert!(log.contains("signing every commit") && log.contains("ssh-ed25519 SHA256:"), "{log}");
    let secret = fs::read_to_string(signing.folder.path().join("signing-key")).unwrap();
    let digits: String = secret.lines().filter(|line| !line.starts_with('-')).collect();
    assert!(!log.contains("PRIVATE KEY"));
    for piece in digits.as_bytes().chunks_exact(24).skip(1) {
        assert!(!log.contains(std::str::from_utf8(piece).unwrap()));
    }
}

#[test]
fn a_key_that_can_not_be_used_stops_the_start_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &str, mode: u32| {
        let path = folder.path().join(format!("{name}-{mode:o}"));
        fs::copy(fixture("../signatures").join(name), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    for (file, why) in [
        (folder.path().join("absent"), "can't be read"),
        (folder.path().to_owned(), "not a key file"),
        (copy("p256", 0o644), "others may read it (mode 0644)"),
        (copy("rsa.pub", 0o644), "public key"),
        (copy("protected", 0o600), "passphrase"),
        (copy("rsa", 0o600), "ssh-rsa"),
        (copy("payload", 0o600), "no private key"),
    ] {
        let file = file.to_str().unwrap();
        let made = folder.path().join("made");
        let serve = ["serve", "--auth", "none", "--listen", "127.0.0.1:0", "--signing-key", file, "--repo"];
        let refused =
            run_to_end(collectory_command(folder.path()).args(serve).arg(&made)).assert_exit_code(1);
        assert!(refused.stderr.contains(why) && refused.stderr.contains(file), "{}", refused.stderr);
        assert_eq!((refused.stdout.as_str(), made.exists()), ("", false));
    }
}

#[test]
fn the_example_of_init_is_signed_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = key_file(folder.path(), &key(1));
    let signers = signers(folder.path(), &format!("collectory@localhost {}\n", public(&key(1))));
    run_to_end(collectory_command(folder.path()).args(["init", "made"]).env("COLLECTORY_SIGNING_KEY", file))
        .assert_exit_code(0);
    let repo = Repo::at(folder.path().join("made"));
    let flags = ["--require-signature", "--allowed-signers", signers.to_str().unwrap()];
    let said = verify(&repo, &flags).assert_exit_code(0).stdout;
    assert!(said.contains("signed by collectory@localhost (SHA256:"), "{said}");
    assert_ne!(git_verifies(&repo, Path::new(&signers), "HEAD"), Some(false));
    repo.fsck();
}
