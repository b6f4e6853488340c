//! `collectory verify` on histories that someone has tampered with.

use std::fs;

use ssh_key::{HashAlg, LineEnding, PrivateKey};

use super::{git_verifies, key, public, signers, verify};
use crate::support::{Repo, TestServer};

const SERVICE: &str = "Collectory <collectory@localhost>";
const MARA: &str = "Mara <mara@example.org>";

/// The time of commits: 2026-07-01T00:00:00Z, winter in the harness's time zone. Git passes it on in local time,
/// which `ssh-keygen` takes for standard time.
const AT: i64 = 1_782_864_000;

/// Builds a history commit by commit.
struct Forge {
    folder: tempfile::TempDir,
    repo: Repo,
    head: Option<String>,
}

impl Forge {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repo::init(folder.path().join("settings"));
        repo.git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
        Self { folder, repo, head: None }
    }

    /// Returns the text of the next commit, which changes no files.
    fn text(&self, committer: &str, subject: &str) -> String {
        self.text_of(&self.head.iter().map(String::as_str).collect::<Vec<_>>(), committer, subject)
    }

    fn text_of(&self, parents: &[&str], committer: &str, subject: &str) -> String {
        let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let parents: String = parents.iter().map(|parent| format!("parent {parent}\n")).collect();
        format!(
            "tree {tree}\n{parents}author {MARA} {AT} +0100\ncommitter {committer} {AT} +0100\n\n{subject}\n"
        )
    }

    /// Writes a commit as it is.
    fn write(&self, text: &str) -> String {
        let file = self.folder.path().join("commit");
        fs::write(&file, text).unwrap();
        self.repo.git(&["hash-object", "-t", "commit", "-w", file.to_str().unwrap()])
    }

    /// Writes a commit and moves the branch to it.
    fn push(&mut self, text: &str) -> String {
        let revision = self.write(text);
        self.repo.git(&["update-ref", "refs/heads/main", &revision]);
        self.head = Some(revision.clone());
        revision
    }

    fn allow(&self, text: &str) -> String {
        signers(self.folder.path(), text).to_str().unwrap().to_owned()
    }
}

fn armor(key: &PrivateKey, namespace: &str, text: &str) -> String {
    let signature = key.sign(namespace, HashAlg::Sha512, text.as_bytes()).unwrap();
    signature.to_pem(LineEnding::LF).unwrap()
}

/// Inserts a signature, valid or not, into a commit.
fn with(armor: &str, text: &str) -> String {
    text.replacen("\n\n", &format!("\ngpgsig {}\n\n", armor.trim_end().replace('\n', "\n ")), 1)
}

fn signed(key: &PrivateKey, text: &str) -> String {
    with(&armor(key, "git", text), text)
}

#[test]
fn each_commit_is_told_by_its_signature_and_git_agrees() {
    let mut forge = Forge::new();
    let (service, mara, stranger, old) = (key(1), key(2), key(3), key(4));
    let mut expected = Vec::new();
    let mut push = |forge: &mut Forge, text: String, state: &'static str, disagrees: &'static str| {
        expected.push((forge.push(&text), state, disagrees));
    };
    let text = |forge: &Forge, who: &str, subject: &str| forge.text(who, subject);

    let root = text(&forge, SERVICE, "A root commit");
    push(&mut forge, signed(&service, &root), "valid", "");
    let plain = text(&forge, SERVICE, "Unsigned, of the service");
    push(&mut forge, plain, "unsigned", "without a valid signature");
    let plain = text(&forge, MARA, "Unsigned, by hand");
    push(&mut forge, plain, "unsigned", "");
    let own = text(&forge, MARA, "Signed by hand");
    push(&mut forge, signed(&mara, &own), "valid", "");
    let unknown = text(&forge, MARA, "Signed by a stranger");
    push(&mut forge, signed(&stranger, &unknown), "not-allowed", "not among the allowed signers");
    let late = text(&forge, MARA, "Signed by a key of yesterday");
    push(&mut forge, signed(&old, &late), "not-allowed", "not allowed at the time");
    let other = text(&forge, SERVICE, "Signed by a person for the service");
    push(&mut forge, signed(&mara, &other), "valid", "but mara@example.org signed it");
    let file = text(&forge, SERVICE, "Signed as a file");
    push(&mut forge, with(&armor(&service, "file", &file), &file), "bad", "made for `file`");
    let tampered = text(&forge, SERVICE, "Nobody gets a raise");
    push(&mut forge, signed(&service, &tampered).replace("Nobody", "Mallory"), "bad", "not what was signed");
    let moved = text(&forge, SERVICE, "At another time");
    push(
        &mut forge,
        signed(&service, &moved).replacen(&AT.to_string(), "1782864001", 1),
        "bad",
        "not what was signed",
    );
    let torn = text(&forge, SERVICE, "Torn");
    let half: Vec<_> = armor(&service, "git", &torn).lines().take(3).map(str::to_owned).collect();
    push(&mut forge, with(&half.join("\n"), &torn), "bad", "malformed: its end is missing");
    let pgp = text(&forge, MARA, "With GnuPG");
    let pgp = with("-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----", &pgp);
    push(&mut forge, pgp, "not-checked", "");
    let head = forge.head.clone().unwrap();
    let sides: Vec<_> =
        ["one", "two"].iter().map(|side| forge.write(&forge.text_of(&[&head], MARA, side))).collect();
    let octopus = forge.text_of(&[&head, &sides[0], &sides[1]], SERVICE, "An octopus");
    push(&mut forge, signed(&service, &octopus), "valid", "");

    let signers = forge.allow(&format!(
        "# The service, Mara, and her lost key.\n\
         collectory@localhost namespaces=\"git\" {}\n\
         mara@example.org {}\n\
         mara@example.org valid-before=\"20251231Z\" {}\n",
        public(&service),
        public(&mara),
        public(&old)
    ));
    let flags = ["--json", "--require-signature", "--allowed-signers", &signers];
    let commits = verify(&forge.repo, &flags).assert_exit_code(1).json_lines();
    assert_eq!(commits.len(), expected.len());
    for (commit, (revision, state, disagrees)) in commits.iter().zip(&expected) {
        assert_eq!(commit["revision"], *revision);
        assert_eq!(commit["signature"]["state"], *state, "{commit}");
        let faults = commit["disagreements"].to_string();
        assert!(faults.contains(disagrees) && disagrees.is_empty() == (faults == "[]"), "{commit}");
        if let Some(theirs) = git_verifies(&forge.repo, signers.as_ref(), revision) {
            assert_eq!(theirs, *state == "valid", "{commit}");
        }
    }
    forge.repo.fsck();
    let text =
        verify(&forge.repo, &["--allowed-signers", &signers, &expected[11].0]).assert_exit_code(1).stdout;
    assert!(text.contains("signed, not checked ok With GnuPG"), "{text}");
    assert!(text.contains("badly signed DISAGREES Torn"), "{text}");
    assert!(text.contains("    OpenPGP signatures are not checked"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains(" unsigned ok ")).count(), 2, "{text}");
}

#[test]
fn without_a_file_that_says_whom_to_believe_only_bad_signatures_disagree() {
    let mut forge = Forge::new();
    let text = forge.text(SERVICE, "Signed");
    let good = forge.push(&signed(&key(1), &text));
    let commits = verify(&forge.repo, &["--json"]).assert_exit_code(0).json_lines();
    assert_eq!(commits[0]["signature"]["state"], "unattributed");
    assert!(commits[0]["signature"]["key"].as_str().unwrap().starts_with("SHA256:"));
    let said = verify(&forge.repo, &[]).assert_exit_code(0);
    assert!(said.stdout.contains("signed, signer not checked (SHA256:"), "{said:#?}");
    assert!(said.stderr.contains("--allowed-signers"), "{said:#?}");
    let demanding = verify(&forge.repo, &["--require-signature"]).assert_exit_code(2);
    assert!(demanding.stderr.contains("--allowed-signers"), "{demanding:#?}");
    let text = forge.text(SERVICE, "Tampered");
    forge.push(&signed(&key(1), &text).replace("Tampered", "With"));
    verify(&forge.repo, &[]).assert_exit_code(1);
    verify(&forge.repo, &[&good]).assert_exit_code(0);
    verify(&forge.repo, &[&format!("{good}..")]).assert_exit_code(1);
}

#[test]
fn git_s_configuration_names_whom_to_believe() {
    let mut forge = Forge::new();
    let text = forge.text(SERVICE, "Signed");
    forge.push(&signed(&key(1), &text));
    let state = |code| {
        let commits = verify(&forge.repo, &["--json"]).assert_exit_code(code).json_lines();
        commits[0]["signature"]["state"].as_str().unwrap().to_owned()
    };
    forge.repo.write("signers", &format!("collectory@localhost {}\n", public(&key(1))));
    // Like git, `verify` resolves this from the root of the work tree.
    forge.repo.git(&["config", "gpg.ssh.allowedSignersFile", "signers"]);
    assert_eq!(state(0), "valid");
    let said = verify(&forge.repo, &[]).assert_exit_code(0).stderr;
    assert!(said.contains("settings/signers, as git is configured"), "{said}");
    // Anyone who commits could add a key to this file.
    let demanding = verify(&forge.repo, &["--require-signature"]).assert_exit_code(2).stderr;
    assert!(demanding.contains("checked-out file"), "{demanding}");
    let named = forge.repo.path().join("signers");
    verify(&forge.repo, &["--require-signature", "--allowed-signers", named.to_str().unwrap()])
        .assert_exit_code(0);
    forge.repo.write("revoked", &format!("{}\n", public(&key(1))));
    forge.repo.git(&["config", "gpg.ssh.revocationFile", "revoked"]);
    assert_eq!(state(1), "not-allowed");
    let none = forge.allow("");
    assert_eq!(
        verify(&forge.repo, &["--json", "--revoked-keys", &none]).assert_exit_code(0).json_lines()[0]["signature"]
            ["state"],
        "valid"
    );
    let other = verify(&forge.repo, &["--json", "--revoked-keys", &none, "--allowed-signers", &none])
        .assert_exit_code(1);
    assert_eq!(other.json_lines()[0]["signature"]["detail"], "it is not among the allowed signers");
    forge.repo.git(&["config", "gpg.ssh.allowedSignersFile", "absent"]);
    let absent = verify(&forge.repo, &[]).assert_exit_code(1);
    assert!(absent.stderr.contains("cannot read the allowed signers"), "{absent:#?}");
    let from_home = forge.repo.path().parent().unwrap().join("home-config");
    fs::write(&from_home, format!("[gpg \"ssh\"]\n\tallowedSignersFile = {none}\n")).unwrap();
    forge.repo.git(&["config", "--unset", "gpg.ssh.allowedSignersFile"]);
    let mut command = crate::support::collectory_command(forge.folder.path());
    command.env("GIT_CONFIG_GLOBAL", from_home).args(["verify", "--repo"]).arg(forge.repo.path());
    crate::support::run_to_end(&mut command).assert_exit_code(1);
}

#[test]
fn what_is_wrong_with_the_files_is_told_with_the_line() {
    let mut forge = Forge::new();
    let text = forge.text(SERVICE, "Signed");
    let revision = forge.push(&signed(&key(1), &text));
    let public = public(&key(1));
    let signers = forge.allow(&format!("nobody\n* cert-authority {public}\n* {public}\n"));
    let said = verify(&forge.repo, &["--allowed-signers", &signers]).assert_exit_code(0);
    assert!(
        said.stderr.contains("line 1 is left out") && said.stderr.contains("line 2 is left out"),
        "{said:#?}"
    );
    assert_ne!(git_verifies(&forge.repo, signers.as_ref(), &revision), Some(false));
    let revoked = forge.folder.path().join("revoked");
    fs::write(&revoked, "nonsense\n").unwrap();
    let said = verify(&forge.repo, &["--revoked-keys", revoked.to_str().unwrap()]).assert_exit_code(1);
    assert!(said.stderr.contains("line 1 is no public key"), "{said:#?}");
}

/// Gives the same lists of allowed signers to git and to `verify`.
#[test]
fn git_agrees_about_every_list_of_allowed_signers() {
    let mut forge = Forge::new();
    let text = forge.text(SERVICE, "Signed");
    let revision = forge.push(&signed(&key(1), &text));
    let (own, other) = (public(&key(1)), public(&key(2)));
    for (line, is_valid) in [
        (format!("collectory@localhost {own}"), true),
        (format!("mara@example.org,ben@example.org {own} a comment"), true),
        (format!("*@localhost {own}"), true),
        (format!("\"the service\" {own}"), true),
        (format!("a@b namespaces=\"git\" {own}"), true),
        (format!("a@b namespaces=\"file,g?t\" {own}"), true),
        (format!("a@b NAMESPACES=\"file\" {own}"), false),
        (format!("a@b namespaces=\"*,!git\" {own}"), false),
        (format!("a@b valid-after=\"20260630235959Z\" {own}"), true),
        (format!("a@b valid-after=\"20260701Z\",valid-before=\"20260701000001Z\" {own}"), true),
        (format!("a@b valid-after=\"20260701000001Z\" {own}"), false),
        (format!("a@b valid-before=\"202606302359Z\" {own}"), false),
        (format!("a@b valid-before=\"20260701120000\" {own}"), true),
        (format!("a@b valid-before=\"20260701115959\" {own}"), false),
        (format!("a@b valid-before=\"2026\" {own}"), false),
        (format!("a@b nonsense {own}"), false),
        (format!("a@b cert-authority {own}"), false),
        (format!("a@b {other}\n\n# a comment\n  c@d {own}"), true),
        (format!("nonsense\na@b {own}"), true),
        (format!("a@b {other}"), false),
        (String::new(), false),
    ] {
        let signers = forge.allow(&format!("{line}\n"));
        let commits = verify(&forge.repo, &["--json", "--allowed-signers", &signers]).json_lines();
        assert_eq!(commits[0]["signature"]["state"] == "valid", is_valid, "{line}: {}", commits[0]);
        if let Some(theirs) = git_verifies(&forge.repo, signers.as_ref(), &revision) {
            assert_eq!(theirs, is_valid, "{line}");
        }
    }
}

#[tokio::test]
async fn forged_trailers_disagree_whoever_signed_them() {
    let server = TestServer::start("small").await;
    let message = "Update posts: name\n\nCollectory-Action: collection.updated\nCollectory-Key: posts\n\
                   Collectory-Event: 0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e\n";
    let repo = server.repo();
    let head = repo.head();
    let tree = repo.field("HEAD", "%T");
    let text = format!(
        "tree {tree}\nparent {head}\nauthor {MARA} {AT} +0000\ncommitter {MARA} {AT} +0000\n\n{message}"
    );
    let file = server.folder().join("commit");
    fs::write(&file, signed(&key(2), &text)).unwrap();
    let forged = repo.git(&["hash-object", "-t", "commit", "-w", file.to_str().unwrap()]);
    repo.git(&["update-ref", "refs/heads/main", &forged]);
    server.wait_for_revision(&forged).await;
    let signers = signers(server.folder(), &format!("mara@example.org {}\n", public(&key(2))));
    let flags = ["--json", "--allowed-signers", signers.to_str().unwrap()];
    let last = verify(repo, &flags).assert_exit_code(1).json_lines().pop().unwrap();
    assert_eq!(last["signature"]["state"], "valid");
    let faults = last["disagreements"].to_string();
    assert!(faults.contains("mara@example.org committed it") && faults.contains("did not touch"), "{last}");
}
