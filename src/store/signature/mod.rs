//! Signatures of commits: made with a [`SigningKey`], and checked as git does, for validity and signer.
//!
//! Git runs `ssh-keygen` (`verify_ssh_signed_buffer` in its `gpg-interface.c`); this module gives the same result
//! without another program:
//!
//! ```text
//! gpgsig ──armor──▶ SSH signature ──▶ is it valid for its own key? ──no──▶ Bad
//!   │                                   │ yes
//!   └─ OpenPGP, X.509: NotChecked       ▼
//!                     is the key allowed? no list: Unattributed · no: NotAllowed · yes: Valid
//! ```
//!
//! * As in git, a key is trusted whichever principal it is listed for; [`Signer::is_committer`] reports whether that
//!   is the committer.
//! * As in git, a key must have been allowed at the committer's time, so replacing a key does not invalidate what it
//!   signed before.
//! * Certificates, keys beyond those of [`NotChecked::Algorithm`] and formats other than SSH are not checked, and
//!   reported as such.

mod allowed;
mod armor;
mod key;
#[cfg(test)]
mod tests;

use std::fmt;

use ssh_key::public::KeyData;
use ssh_key::{HashAlg, PublicKey};

use crate::store::{Commit, RawSignature};
pub use allowed::AllowedSigners;
pub use key::{SigningKey, SigningKeyError, UnfitKey};

/// The purpose of a signature, so that one made for another purpose is rejected (PROTOCOL.sshsig).
pub(super) const NAMESPACE: &str = "git";

/// The result of checking a commit's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureStatus {
    /// There is none.
    None,
    /// It is valid, and its key is allowed.
    Valid {
        /// The key.
        key: KeyName,
        /// The owner of the key.
        signer: Signer,
    },
    /// It is valid, but there is no list of allowed signers.
    Unattributed(KeyName),
    /// It is valid, but its key is not allowed.
    NotAllowed {
        /// The key.
        key: KeyName,
        /// The reason.
        why: NotAllowed,
    },
    /// It is not valid.
    Bad(BadSignature),
    /// It is of a kind that is not checked.
    NotChecked(NotChecked),
}

/// Formats it in a few words for people; [`NotChecked`] and the others give reasons.
impl fmt::Display for SignatureStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("unsigned"),
            Self::Valid { key, signer } => write!(f, "signed by {} ({})", signer.principals, key.fingerprint),
            Self::Unattributed(key) => write!(f, "signed, signer not checked ({})", key.fingerprint),
            Self::NotAllowed { .. } => f.write_str("signed by a key that is not allowed"),
            Self::Bad(_) => f.write_str("badly signed"),
            Self::NotChecked(_) => f.write_str("signed, not checked"),
        }
    }
}

/// A public key in readable form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyName {
    /// Its algorithm, such as `ssh-ed25519`.
    pub algorithm: String,
    /// Its fingerprint, `SHA256:` and 43 characters.
    pub fingerprint: String,
}

impl KeyName {
    fn of(key: &KeyData) -> Self {
        Self {
            algorithm: key.algorithm().to_string(),
            fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
        }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.algorithm, self.fingerprint)
    }
}

/// The owner of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// The principals that it is listed for: names or patterns, as in the file.
    pub principals: String,
    /// Whether the committer's e-mail address is among them.
    pub is_committer: bool,
}

/// Why a key is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// It is not listed.
    #[error("it is not among the allowed signers")]
    Unlisted,
    /// It is listed for another period.
    #[error("it was not allowed at the time of the commit")]
    OutOfTime,
    /// It is listed for other purposes.
    #[error("it is allowed for other purposes than git")]
    OtherPurpose,
    /// It is revoked.
    #[error("it is revoked")]
    Revoked,
}

/// Why a signature is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    /// It can't be read.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// It was made for something else.
    #[error("it was made for `{0}`, not for `git`")]
    Namespace(String),
    /// The commit is not the one that was signed.
    #[error("the commit is not what was signed")]
    Content,
}

/// Why a signature is not checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotChecked {
    /// It is one of `gpg`.
    #[error("OpenPGP signatures are not checked; `git verify-commit` does")]
    OpenPgp,
    /// It is one of `gpgsm`.
    #[error("X.509 signatures are not checked; `git verify-commit` does")]
    X509,
    /// It was made with an SSH certificate.
    #[error("signatures with SSH certificates are not checked; `git verify-commit` does")]
    Certificate,
    /// Its key is not one of Ed25519, ECDSA on P-256 (both also on security keys) and RSA of 2,048 to 4,096 bits.
    #[error("signatures with keys of the kind {0} are not checked; `git verify-commit` does")]
    Algorithm(String),
    /// Its commit is too large to be read whole.
    #[error("the signature of a commit of {0} bytes is not checked; `git verify-commit` does")]
    TooLarge(u64),
}

/// What is wrong with a list of revoked keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevokedKeysError {
    /// It is a binary revocation list.
    #[error("it is a KRL, which is not understood; list the public keys themselves, one a line")]
    Krl,
    /// A line is not a public key. Skipping it would trust the key that it means.
    #[error("line {0} is no public key")]
    Line(usize),
}

/// Checks signatures.
#[derive(Debug, Clone, Default)]
pub struct SignatureChecker {
    allowed: Option<AllowedSigners>,
    revoked: Vec<KeyData>,
}

impl SignatureChecker {
    /// Creates a checker that trusts the allowed signers; `None` if there is no list.
    #[must_use]
    pub const fn new(allowed: Option<AllowedSigners>) -> Self {
        Self { allowed, revoked: Vec::new() }
    }

    /// Revokes the keys of a file, which has one public key per line, empty lines and comments.
    ///
    /// # Errors
    ///
    /// Refuses a file with anything else.
    pub fn revoke(&mut self, file: &[u8]) -> Result<(), RevokedKeysError> {
        if file.starts_with(b"SSHKRL\n\0") {
            return Err(RevokedKeysError::Krl);
        }
        for (number, line) in entries(&String::from_utf8_lossy(file)) {
            self.revoked.push(public_key(line).ok_or(RevokedKeysError::Line(number))?);
        }
        Ok(())
    }

    /// Checks the signature of a commit.
    #[must_use]
    pub fn check(&self, raw: Option<&RawSignature>, commit: &Commit) -> SignatureStatus {
        let Some(raw) = raw else { return SignatureStatus::None };
        let key = match armor::check(&raw.signature, &raw.signed) {
            Ok(key) => key,
            Err(outcome) => return outcome,
        };
        let name = KeyName::of(&key);
        if self.revoked.contains(&key) {
            return SignatureStatus::NotAllowed { key: name, why: NotAllowed::Revoked };
        }
        let Some(allowed) = &self.allowed else { return SignatureStatus::Unattributed(name) };
        match allowed.find(&key, commit.at.timestamp(), commit.committer.email()) {
            Ok(signer) => SignatureStatus::Valid { key: name, signer },
            Err(why) => SignatureStatus::NotAllowed { key: name, why },
        }
    }
}

/// Returns the lines of a list of keys, numbered from 1, without empty ones and comments.
fn entries(list: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(list.lines().map(str::trim)).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Parses the public key at the beginning of a text: its algorithm and its digits; the rest is a comment.
fn public_key(text: &str) -> Option<KeyData> {
    let mut words = text.split_ascii_whitespace();
    let (algorithm, digits) = (words.next()?, words.next()?);
    Some(PublicKey::from_openssh(&format!("{algorithm} {digits}")).ok()?.key_data().clone())
}
