//! Signatures: the service signs its commits, and `collectory verify` judges all signatures, compared with git where
//! `ssh-keygen` is installed.

mod signing;
mod verifying;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ssh_key::private::Ed25519Keypair;
use ssh_key::{LineEnding, PrivateKey};

use crate::support::{ProgramOutput, Repo, collectory_command, run_to_end};

/// Returns a different key for each number.
fn key(seed: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
}

fn public(key: &PrivateKey) -> String {
    key.public_key().to_openssh().unwrap()
}

/// Writes a private key to a file that other users can't read.
fn key_file(folder: &Path, key: &PrivateKey) -> PathBuf {
    let path = folder.join("signing-key");
    key.write_openssh_file(&path, LineEnding::LF).unwrap();
    path
}

/// Writes a file of allowed signers.
fn signers(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("allowed-signers");
    fs::write(&path, text).unwrap();
    path
}

fn verify(repo: &Repo, arguments: &[&str]) -> ProgramOutput {
    let folder = repo.path().parent().unwrap();
    run_to_end(collectory_command(folder).arg("verify").args(arguments).arg("--repo").arg(repo.path()))
}

/// Returns whether git accepts a commit's signature; `None` without `ssh-keygen`.
fn git_verifies(repo: &Repo, signers: &Path, revision: &str) -> Option<bool> {
    Command::new("ssh-keygen").arg("-?").output().ok()?;
    let file = format!("gpg.ssh.allowedSignersFile={}", signers.display());
    Some(repo.try_git(&["-c", &file, "verify-commit", revision]).status.success())
}
