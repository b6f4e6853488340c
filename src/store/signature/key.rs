//! The private key that signs every commit of the service, in git's format.
//!
//! The result is an SSH signature in the namespace `git` (OpenSSH, `PROTOCOL.sshsig`), so `git log --show-signature`,
//! `git verify-commit` and `ssh-keygen -Y verify -n git` accept it. No other program is run to make it.
//!
//! The key is read once and then exists only in memory; only its algorithm and fingerprint are logged or shown.
//!
//! Ed25519 and ECDSA on P-256 are deterministic (RFC 8032, RFC 6979), so a commit that is decided again after a lost
//! race has the same id. RSA keys are refused: they need milliseconds where the others need microseconds, and the
//! timing reveals information about the key (RUSTSEC-2023-0071).

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ssh_key::private::KeypairData;
use ssh_key::{EcdsaCurve, HashAlg, LineEnding, PrivateKey, PublicKey};

use crate::store::StoreError;
use crate::store::signature::{KeyName, NAMESPACE};

/// The maximum size of a signing key's file, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 64 * 1024;

/// A private key that signs commits.
#[derive(Clone)]
pub struct SigningKey(Arc<PrivateKey>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.to_string()).finish()
    }
}

/// Formats its algorithm and the fingerprint of its public half.
impl fmt::Display for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&KeyName::of(self.0.public_key().key_data()), f)
    }
}

/// A file that can't be used as a signing key.
#[derive(Debug, thiserror::Error)]
#[error("cannot sign with {path}")]
pub struct SigningKeyError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    #[source]
    pub why: UnfitKey,
}

/// Why a file can't be used as a signing key.
#[derive(Debug, thiserror::Error)]
pub enum UnfitKey {
    /// Reading it failed.
    #[error("it can't be read")]
    Unreadable(#[source] io::Error),
    /// It is a folder, a pipe or the like, or longer than any key.
    #[error("it is not a key file")]
    NoFile,
    /// Others may read it.
    #[error("others may read it (mode {mode:04o}); take that away with `chmod go= FILE`")]
    Exposed {
        /// Its permissions.
        mode: u32,
    },
    /// It is the public half.
    #[error("it is a public key; name the private one, whose file mostly has the same name without `.pub`")]
    Public,
    /// It has a passphrase, which nobody is there to type.
    #[error(
        "a passphrase protects it, and a service has nobody to type one; make a key for it alone: \
         ssh-keygen -t ed25519 -N '' -f FILE"
    )]
    Protected,
    /// It is a private key in a format other than OpenSSH's own.
    #[error("its format is not that of OpenSSH; rewrite it with `ssh-keygen -p -f FILE`")]
    OtherFormat,
    /// It is a key of a kind that is not used for signing.
    #[error("it is a key of the kind {0}, which is not signed with; take ssh-ed25519 or ecdsa-sha2-nistp256")]
    Kind(String),
    /// It is not a key at all, or damaged.
    #[error("it holds no private key of OpenSSH, or a damaged one")]
    NoKey,
}

impl SigningKey {
    /// Reads the file of an unprotected private key, as `ssh-keygen -t ed25519 -N ''` makes it.
    ///
    /// Like `ssh`, refuses a file of our own that anyone else may read (`sshkey_perm_ok` in OpenSSH's `authfile.c`). A
    /// file of another user, such as a mounted secret, may be readable by our group, but not by everyone.
    ///
    /// # Errors
    ///
    /// Reports why the file can't be used as a signing key.
    pub fn read(path: &Path) -> Result<Self, SigningKeyError> {
        let unfit = |why| SigningKeyError { path: path.to_owned(), why };
        let key = read(path).and_then(|(text, mode)| match parse(&text) {
            // First, because a public key may be known to anyone.
            Err(UnfitKey::Public) => Err(UnfitKey::Public),
            _ if mode.is_exposed => Err(UnfitKey::Exposed { mode: mode.bits }),
            key => key,
        });
        key.map_err(unfit)
    }

    /// Returns the public half as one line, to follow a principal in a file of allowed signers.
    #[must_use]
    pub fn public_key(&self) -> String {
        self.0.public_key().to_openssh().expect("a key that was read can be written")
    }

    /// Returns the armored signature of a commit object.
    pub(in crate::store) fn sign(&self, commit: &[u8]) -> Result<String, StoreError> {
        let signature = self.0.sign(NAMESPACE, HashAlg::Sha512, commit);
        signature.and_then(|signature| signature.to_pem(LineEnding::LF)).map_err(StoreError::Sign)
    }
}

/// The permissions of a file.
struct Mode {
    bits: u32,
    is_exposed: bool,
}

/// Returns the text of a file and its permissions, both from the same open file, so that they belong together.
fn read(path: &Path) -> Result<(String, Mode), UnfitKey> {
    // Opening a pipe would block.
    if !std::fs::metadata(path).map_err(UnfitKey::Unreadable)?.is_file() {
        return Err(UnfitKey::NoFile);
    }
    let file = File::open(path).map_err(UnfitKey::Unreadable)?;
    let metadata = file.metadata().map_err(UnfitKey::Unreadable)?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    let bits = metadata.mode() & 0o7777;
    let is_exposed = bits & if is_ours { 0o077 } else { 0o007 } != 0;
    let mut text = Vec::new();
    let len = file.take(KEY_FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(UnfitKey::Unreadable)?;
    if len as u64 > KEY_FILE_BYTES_MAX {
        return Err(UnfitKey::NoFile);
    }
    let text = String::from_utf8(text).map_err(|_| UnfitKey::NoKey)?;
    Ok((text, Mode { bits, is_exposed }))
}

fn parse(text: &str) -> Result<SigningKey, UnfitKey> {
    let text = text.trim();
    if !text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----") {
        let is_public = PublicKey::from_openssh(text).is_ok() || text.contains("PUBLIC KEY-----");
        return Err(match text.contains("PRIVATE KEY-----") {
            _ if is_public => UnfitKey::Public,
            true if text.contains("ENCRYPTED") => UnfitKey::Protected,
            true => UnfitKey::OtherFormat,
            false => UnfitKey::NoKey,
        });
    }
    let key = PrivateKey::from_openssh(format!("{text}\n")).map_err(|_| UnfitKey::NoKey)?;
    if key.is_encrypted() {
        return Err(UnfitKey::Protected);
    }
    let is_usable = match key.key_data() {
        KeypairData::Ed25519(_) => true,
        KeypairData::Ecdsa(pair) => pair.curve() == EcdsaCurve::NistP256,
        // The enum is non-exhaustive: its crate may add to it.
        _ => false,
    };
    if !is_usable {
        return Err(UnfitKey::Kind(key.algorithm().to_string()));
    }
    // Signing once shows whether the two halves belong together.
    let proof = key.sign(NAMESPACE, HashAlg::Sha512, b"proof");
    match proof.and_then(|proof| key.public_key().verify(NAMESPACE, b"proof", &proof)) {
        Ok(()) => Ok(SigningKey(Arc::new(key))),
        Err(_) => Err(UnfitKey::NoKey),
    }
}
