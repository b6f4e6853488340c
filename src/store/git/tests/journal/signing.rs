//! Signed commits and key files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::domain::Revision;
use crate::store::git::Options;
use crate::store::git::tests::support::*;
use crate::store::signature::{AllowedSigners, SignatureChecker, SignatureStatus, SigningKey, UnfitKey};
use crate::store::{Archive as _, Journal as _};

/// Copies a key of the fixtures into a folder, with this file mode.
fn key_file(folder: &Path, name: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::copy(Path::new("fixtures/signatures").join(name), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn p256() -> SigningKey {
    let folder = tempfile::tempdir().unwrap();
    SigningKey::read(&key_file(folder.path(), "p256", 0o600)).unwrap()
}

fn ed25519() -> SigningKey {
    let key = ssh_key::PrivateKey::from(ssh_key::private::Ed25519Keypair::from_seed(&[7; 32]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    key.write_openssh_file(&path, ssh_key::LineEnding::LF).unwrap();
    SigningKey::read(&path).unwrap()
}

/// Verifies the signature of a commit for a verifier who trusts this key.
fn signature(repo: &Repo, key: &SigningKey, revision: Revision) -> SignatureStatus {
    let archive = repo.archive();
    let line = format!("collectory@localhost namespaces=\"git\" {}\n", key.public_key());
    let (allowed, _) = AllowedSigners::parse(line.as_bytes());
    let checker = SignatureChecker::new(Some(allowed));
    let commit = archive.commit(revision).unwrap().unwrap();
    checker.check(archive.signature(revision).unwrap().as_ref(), &commit)
}

#[test]
fn every_commit_of_a_group_is_signed_the_first_of_a_repository_too() {
    for (repo, key) in [(Repo::new(), ed25519()), (Repo::bare(), p256())] {
        let options = Options { signing_key: Some(key.clone()), ..repo.options() };
        let mut journal = crate::store::git::GitJournal::open(options).unwrap();
        let drafts: Vec<_> = (0..8).map(|i| set(&format!("c{}.yaml", i % 5), &format!("{i}\n"))).collect();
        let made = append(&mut journal, &drafts);
        assert_eq!(made.len(), 8);
        for committed in made {
            let found = signature(&repo, &key, committed.revision);
            assert!(
                matches!(&found, SignatureStatus::Valid { signer, .. } if signer.is_committer),
                "{found:?}"
            );
        }
        repo.check();
        let raw = repo.git(&["cat-file", "commit", "main"]);
        assert!(raw.contains("+0000\ngpgsig -----BEGIN SSH SIGNATURE-----\n U1NIU0lH"), "{raw}");
        assert!(raw.contains("\n -----END SSH SIGNATURE-----\n\nChange c2.yaml\n"), "{raw}");
    }
}

#[test]
fn what_is_decided_again_has_the_same_name() {
    for key in [ed25519(), p256()] {
        let made = || {
            let repo = Repo::bare();
            let options = Options { signing_key: Some(key.clone()), ..repo.options() };
            append(&mut crate::store::git::GitJournal::open(options).unwrap(), &[set("a.yaml", "a\n")])
        };
        assert_eq!(made(), made());
    }
}

#[test]
fn signing_adds_no_flush() {
    for (repo, expected) in [(Repo::bare(), 5), (Repo::new(), 6)] {
        let options = Options { signing_key: Some(ed25519()), ..repo.options() };
        let mut journal = crate::store::git::GitJournal::open(options).unwrap();
        assert_eq!(flushes_of_groups(&mut journal), [expected, expected]);
    }
}

#[test]
fn a_signed_commit_reads_like_any_other() {
    let repo = Repo::new();
    let options = Options { signing_key: Some(ed25519()), ..repo.options() };
    let mut journal = crate::store::git::GitJournal::open(options).unwrap();
    let made = append(&mut journal, &[set("a.yaml", "a\n"), set("a.yaml", "b\n")]);
    let mut listed = Vec::new();
    let head = journal.head().unwrap().unwrap();
    journal
        .commits()
        .log(head, &mut |commit| {
            listed.push((commit.revision, commit.parents.clone(), commit.message.clone()));
            true
        })
        .unwrap();
    let message = set("a.yaml", "").message;
    assert_eq!(
        listed,
        [
            (made[1].revision, vec![made[0].revision], message.clone()),
            (made[0].revision, Vec::new(), message)
        ]
    );
}

#[test]
fn a_file_that_is_no_key_to_sign_with_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let copy = |name: &str, mode| key_file(folder.path(), name, mode);
    let truncated: String =
        fs::read_to_string("fixtures/signatures/p256").unwrap().chars().take(200).collect();
    for (path, why) in [
        (folder.path().join("absent"), "it can't be read"),
        (folder.path().to_owned(), "it is not a key file"),
        (copy("rsa.pub", 0o644), "it is a public key"),
        (copy("protected", 0o600), "a passphrase protects it"),
        (copy("rsa", 0o600), "a key of the kind ssh-rsa"),
        (
            write("pem", "-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\n"),
            "ssh-keygen -p",
        ),
        (
            write(
                "locked",
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nx\n-----END RSA PRIVATE KEY-----\n",
            ),
            "a passphrase protects it",
        ),
        (write("empty", ""), "it holds no private key"),
        (write("truncated", &truncated), "it holds no private key"),
        (write("long", &"x".repeat(100_000)), "it is not a key file"),
    ] {
        let error = SigningKey::read(&path).unwrap_err();
        assert!(error.why.to_string().contains(why), "{path:?}: {}", error.why);
        assert_eq!(error.path, path);
    }
    for mode in [0o640, 0o604, 0o666, 0o620] {
        let error = SigningKey::read(&copy("p256", mode)).unwrap_err();
        assert!(matches!(error.why, UnfitKey::Exposed { mode: found } if found == mode), "{error:?}");
    }
    SigningKey::read(&copy("p256", 0o400)).unwrap();
}

#[test]
fn a_key_is_shown_by_its_fingerprint_alone() {
    let key = p256();
    let shown = format!("{key:?} {key}");
    assert!(shown.contains("ecdsa-sha2-nistp256 SHA256:"), "{shown}");
    assert!(shown.len() < 200 && !shown.to_lowercase().contains("private"), "{shown}");
}
