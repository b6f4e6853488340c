//! Tests every outcome of a signature check. `tests/it/signatures` tests that `ssh-keygen` agrees.

use std::path::Path;

use chrono::DateTime;
use ssh_key::private::Ed25519Keypair;
use ssh_key::{HashAlg, LineEnding, PrivateKey};

use super::*;
use crate::domain::{Actor, Revision};

const PAYLOAD: &[u8] = b"What was signed.\n";

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new("fixtures/signatures").join(name)).unwrap()
}

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
}

fn public(key: &PrivateKey) -> String {
    key.public_key().to_openssh().unwrap()
}

fn armor(key: &PrivateKey, namespace: &str, payload: &[u8]) -> String {
    key.sign(namespace, HashAlg::Sha512, payload).unwrap().to_pem(LineEnding::LF).unwrap()
}

fn commit() -> Commit {
    let nobody = Actor::anonymous();
    Commit {
        revision: Revision::new([1; 20]),
        parents: Vec::new(),
        author: nobody,
        committer: Actor::service(),
        at: DateTime::from_timestamp(1_700_000_000, 0).unwrap(),
        message: String::new(),
    }
}

fn checked(checker: &SignatureChecker, armor: impl AsRef<[u8]>) -> SignatureStatus {
    let raw = RawSignature { signature: armor.as_ref().to_vec(), signed: PAYLOAD.to_vec() };
    checker.check(Some(&raw), &commit())
}

/// Returns a checker that trusts this file of allowed signers.
fn believing(file: &str) -> SignatureChecker {
    let (allowed, left_out) = AllowedSigners::parse(file.as_bytes());
    assert_eq!(left_out, []);
    SignatureChecker::new(Some(allowed))
}

#[test]
fn a_signature_of_an_allowed_key_is_valid_and_its_signer_is_named() {
    let armor = armor(&key(1), "git", PAYLOAD);
    for (principals, is_committer) in
        [("collectory@localhost", true), ("*@localhost,!mara@*", true), ("mara@example.org", false)]
    {
        let checker = believing(&format!("{principals} {}\n", public(&key(1))));
        let SignatureStatus::Valid { key: name, signer } = checked(&checker, &armor) else {
            panic!("{principals}")
        };
        assert_eq!((signer.principals.as_str(), signer.is_committer), (principals, is_committer));
        assert_eq!(name.algorithm, "ssh-ed25519");
        assert_eq!(name.fingerprint, key(1).fingerprint(HashAlg::Sha256).to_string());
    }
}

#[test]
fn of_several_lines_for_a_key_the_committer_s_own_is_told() {
    let public = public(&key(1));
    let checker = believing(&format!("mara@example.org {public}\ncollectory@localhost {public}\n"));
    let outcome = checked(&checker, armor(&key(1), "git", PAYLOAD));
    assert!(matches!(outcome, SignatureStatus::Valid { signer, .. } if signer.is_committer));
}

#[test]
fn without_a_list_a_signature_is_checked_against_its_own_key_only() {
    let checker = SignatureChecker::default();
    assert_eq!(checker.check(None, &commit()), SignatureStatus::None);
    assert!(matches!(checked(&checker, armor(&key(1), "git", PAYLOAD)), SignatureStatus::Unattributed(_)));
    let other = checked(&checker, armor(&key(1), "git", b"Something else.\n"));
    assert_eq!(other, SignatureStatus::Bad(BadSignature::Content));
}

#[test]
fn a_key_that_is_not_allowed_is_said_to_be() {
    let public = public(&key(1));
    for (file, expected) in [
        (String::new(), NotAllowed::Unlisted),
        (format!("a@b {}\n", self::public(&key(2))), NotAllowed::Unlisted),
        (format!("a@b namespaces=\"file,!git\" {public}\n"), NotAllowed::OtherPurpose),
        (format!("a@b valid-before=\"20200101Z\" {public}\n"), NotAllowed::OutOfTime),
        (format!("a@b valid-after=\"20240101Z\" {public}\n"), NotAllowed::OutOfTime),
    ] {
        let outcome = checked(&believing(&file), armor(&key(1), "git", PAYLOAD));
        assert!(
            matches!(&outcome, SignatureStatus::NotAllowed { why, .. } if *why == expected),
            "{file}: {outcome:?}"
        );
    }
    let mut checker = believing(&format!("a@b {public}\n"));
    checker.revoke(format!("# lost\n\n{public}\n").as_bytes()).unwrap();
    let outcome = checked(&checker, armor(&key(1), "git", PAYLOAD));
    assert!(matches!(outcome, SignatureStatus::NotAllowed { why: NotAllowed::Revoked, .. }));
}

#[test]
fn a_list_of_revoked_keys_that_is_not_understood_is_refused() {
    let mut checker = SignatureChecker::default();
    assert_eq!(checker.revoke(b"SSHKRL\n\0\0\0\0\x01"), Err(RevokedKeysError::Krl));
    let broken = format!("{}\nssh-ed25519 AAAA\n", public(&key(1)));
    assert_eq!(checker.revoke(broken.as_bytes()), Err(RevokedKeysError::Line(2)));
}

#[test]
fn a_damaged_or_foreign_signature_is_bad() {
    let checker = SignatureChecker::default();
    let good = armor(&key(1), "git", PAYLOAD);
    let namespace = checked(&checker, armor(&key(1), "file", PAYLOAD));
    assert_eq!(namespace, SignatureStatus::Bad(BadSignature::Namespace("file".to_owned())));
    let lines: Vec<&str> = good.lines().collect();
    for damaged in [
        "no signature".to_owned(),
        "-----BEGIN SSH SIGNATURE-----\n".to_owned(),
        good.replace("-----END SSH SIGNATURE-----", ""),
        [&lines[..1], &lines[2..]].concat().join("\n"),
        [&lines[..2], &lines[4..]].concat().join("\n"),
        good.replacen("U1NI", "V1NI", 1),
        good.replacen(lines[2], &lines[2].replace(|c: char| c.is_ascii_digit(), "?"), 1),
    ] {
        let outcome = checked(&checker, &damaged);
        assert!(
            matches!(outcome, SignatureStatus::Bad(BadSignature::Malformed(_))),
            "{outcome:?}:\n{damaged}"
        );
    }
}

#[test]
fn the_armor_of_other_programs_may_have_lines_of_other_lengths() {
    let good = armor(&key(1), "git", PAYLOAD);
    let body: String = good.lines().filter(|line| !line.starts_with('-')).collect();
    let (begin, end) = ("-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----");
    let narrow = body.as_bytes().chunks(20).map(|line| std::str::from_utf8(line).unwrap());
    let narrow = narrow.collect::<Vec<_>>().join("\r\n");
    for other in [format!("{begin}\n{body}\n{end}"), format!("{begin}\r\n{narrow}\r\n{end}\r\n")] {
        assert!(
            matches!(checked(&SignatureChecker::default(), &other), SignatureStatus::Unattributed(_)),
            "{other}"
        );
    }
}

#[test]
fn rsa_signatures_are_checked() {
    let checker = believing(&format!("a@b {}", String::from_utf8(fixture("rsa.pub")).unwrap()));
    let outcome = checked(&checker, fixture("rsa.sig"));
    assert!(matches!(outcome, SignatureStatus::Valid { key, .. } if key.algorithm == "ssh-rsa"));
    let raw = RawSignature { signature: fixture("rsa.sig"), signed: b"Something else.\n".to_vec() };
    assert_eq!(checker.check(Some(&raw), &commit()), SignatureStatus::Bad(BadSignature::Content));
}

#[test]
fn what_is_not_checked_is_said_not_to_be() {
    let algorithm = |name: &str| NotChecked::Algorithm(name.to_owned());
    for (armor, expected) in [
        (b"-----BEGIN PGP SIGNATURE-----\n\niQ\n".to_vec(), NotChecked::OpenPgp),
        (b"-----BEGIN SIGNED MESSAGE-----\nMI\n".to_vec(), NotChecked::X509),
        (fixture("certificate.sig"), NotChecked::Certificate),
        (fixture("p384.sig"), algorithm("ecdsa-sha2-nistp384")),
        (fixture("small.sig"), algorithm("ssh-rsa of 1024 bits")),
    ] {
        assert_eq!(checked(&SignatureChecker::default(), armor), SignatureStatus::NotChecked(expected));
    }
}
