//! The private key that signs every commit which the service makes, as git has them signed.
//!
//! It is an SSH signature in the namespace `git` (OpenSSH, `PROTOCOL.sshsig`), so `git log --show-signature`,
//! `git verify-commit` and `ssh-keygen -Y verify -n git` accept it. No other program is asked to make it.
//!
//! The key is read once and then lives in memory alone: what is logged or shown of it is its
//! algorithm and its fingerprint.
//!
//! Ed25519 and ECDSA on P-256 sign the same commit in the same way each time (RFC 8032, RFC 6979),
//! so what is decided again after a lost race has the same names. RSA keys are refused: they need
//! milliseconds where the others need microseconds, and the time that takes tells of the key
//! (RUSTSEC-2023-0071).

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

/// The most bytes that the file of a signing key has.
const KEY_FILE_BYTES_MAX: u64 = 64 * 1024;

/// A private key that signs commits.
#[derive(Clone)]
pub struct SigningKey(Arc<PrivateKey>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.to_string()).finish()
    }
}

/// Its algorithm and the fingerprint of its public half.
impl fmt::Display for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&KeyName::of(self.0.public_key().key_data()), f)
    }
}

/// Why a file is no key to sign with.
#[derive(Debug, thiserror::Error)]
#[error("cannot sign with {path}")]
pub struct SigningKeyError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub why: UnfitKey,
}

/// What keeps a file from being a key to sign with.
#[derive(Debug, thiserror::Error)]
pub enum UnfitKey {
    /// The system does not let us read it.
    #[error("it can't be read")]
    Unreadable(#[source] io::Error),
    /// It is a folder, a pipe or the like, or longer than any key.
    #[error("it is no file that holds a key")]
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
    /// There is a passphrase on it, and nobody to type it.
    #[error(
        "a passphrase protects it, and a service has nobody to type one; make a key for it alone: \
         ssh-keygen -t ed25519 -N '' -f FILE"
    )]
    Protected,
    /// It is a private key in a format that is not OpenSSH's own.
    #[error("its format is not that of OpenSSH; rewrite it with `ssh-keygen -p -f FILE`")]
    OtherFormat,
    /// It is a key of a kind that is not signed with.
    #[error("it is a key of the kind {0}, which is not signed with; take ssh-ed25519 or ecdsa-sha2-nistp256")]
    Kind(String),
    /// It is no key at all, or a damaged one.
    #[error("it holds no private key of OpenSSH, or a damaged one")]
    NoKey,
}

impl SigningKey {
    /// Reads the file of an unprotected private key, as `ssh-keygen -t ed25519 -N ''` makes it.
    ///
    /// Like `ssh`, this refuses a file of our own that anybody else may read (`sshkey_perm_ok` in
    /// OpenSSH's `authfile.c`). One that belongs to somebody else, as a mounted secret does, may be
    /// open to our group, but not to everybody.
    ///
    /// # Errors
    ///
    /// Says what keeps the file from being a key to sign with.
    pub fn read(path: &Path) -> Result<Self, SigningKeyError> {
        let unfit = |why| SigningKeyError { path: path.to_owned(), why };
        let key = read(path).and_then(|(text, mode)| match parse(&text) {
            // First: of a public key anybody may know.
            Err(UnfitKey::Public) => Err(UnfitKey::Public),
            _ if mode.is_exposed => Err(UnfitKey::Exposed { mode: mode.bits }),
            key => key,
        });
        key.map_err(unfit)
    }

    /// The public half as one line, ready to be put behind a principal in a file of allowed signers.
    #[must_use]
    pub fn public_key(&self) -> String {
        self.0.public_key().to_openssh().expect("a key that was read can be written")
    }

    /// The signature of a commit object, in its armor.
    pub(in crate::store) fn sign(&self, commit: &[u8]) -> Result<String, StoreError> {
        let signature = self.0.sign(NAMESPACE, HashAlg::Sha512, commit);
        signature.and_then(|signature| signature.to_pem(LineEnding::LF)).map_err(StoreError::Sign)
    }
}

/// Who may read a file.
struct Mode {
    bits: u32,
    is_exposed: bool,
}

/// The text of a file and who else may read it; of the same open file, so of the same moment.
fn read(path: &Path) -> Result<(String, Mode), UnfitKey> {
    // A pipe would be waited for.
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
        // The enum belongs to a crate that may add to it.
        _ => false,
    };
    if !is_usable {
        return Err(UnfitKey::Kind(key.algorithm().to_string()));
    }
    // Whether its two halves belong together shows when they are used.
    let proof = key.sign(NAMESPACE, HashAlg::Sha512, b"proof");
    match proof.and_then(|proof| key.public_key().verify(NAMESPACE, b"proof", &proof)) {
        Ok(()) => Ok(SigningKey(Arc::new(key))),
        Err(_) => Err(UnfitKey::NoKey),
    }
}
