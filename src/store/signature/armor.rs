//! Checks the armor of a signature and returns the key that made it.

use base64ct::{Base64, Encoding as _};
use ssh_key::public::KeyData;
use ssh_key::{EcdsaCurve, Error, PublicKey, SshSig};

use crate::store::signature::{BadSignature, NAMESPACE, NotChecked, SignatureStatus};

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";

/// The first lines of formats that are not checked (gitformat-signature(5)).
const OTHERS: [(&str, NotChecked); 3] = [
    ("-----BEGIN PGP SIGNATURE-----", NotChecked::OpenPgp),
    ("-----BEGIN PGP MESSAGE-----", NotChecked::OpenPgp),
    ("-----BEGIN SIGNED MESSAGE-----", NotChecked::X509),
];

/// The line length of OpenSSH's armor; other programs may use other lengths.
const LINE_LEN: usize = 70;

/// The sizes, in bits, of RSA keys whose signatures are checked.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=4_096;

/// Returns the key that made a signature of `signed`, if the signature is valid.
pub(super) fn check(armor: &[u8], signed: &[u8]) -> Result<KeyData, SignatureStatus> {
    let signature = read(armor)?;
    let key = signature.public_key();
    if let Some(kind) = not_checked(key) {
        return Err(SignatureStatus::NotChecked(NotChecked::Algorithm(kind)));
    }
    match PublicKey::from(key.clone()).verify(NAMESPACE, signed, &signature) {
        Ok(()) => Ok(key.clone()),
        Err(Error::Namespace) => {
            Err(SignatureStatus::Bad(BadSignature::Namespace(signature.namespace().to_owned())))
        }
        Err(_) => Err(SignatureStatus::Bad(BadSignature::Content)),
    }
}

fn read(armor: &[u8]) -> Result<SshSig, SignatureStatus> {
    let malformed = |why: &str| SignatureStatus::Bad(BadSignature::Malformed(why.to_owned()));
    let text = String::from_utf8_lossy(armor);
    if let Some((_, why)) = OTHERS.into_iter().find(|(begin, _)| text.starts_with(begin)) {
        return Err(SignatureStatus::NotChecked(why));
    }
    let body = text.strip_prefix(BEGIN).ok_or_else(|| malformed("it is of no known format"))?;
    let (body, _) = body.split_once(END).ok_or_else(|| malformed("its end is missing"))?;
    let digits: String = body.split_ascii_whitespace().collect();
    let blob = Base64::decode_vec(&digits).map_err(|_| malformed("it is not base64"))?;
    if algorithm(&blob).is_some_and(|name| name.ends_with(b"-cert-v01@openssh.com")) {
        return Err(SignatureStatus::NotChecked(NotChecked::Certificate));
    }
    SshSig::from_pem(wrapped(&digits)).map_err(|error| malformed(&error.to_string()))
}

/// Returns the name of the key's algorithm: the key follows the magic word and the version, as a string that itself
/// begins with a string.
fn algorithm(blob: &[u8]) -> Option<&[u8]> {
    let key = string(blob.strip_prefix(b"SSHSIG")?.get(4..)?)?;
    string(key)
}

/// Reads a string, which begins with its length (RFC 4251 section 5).
fn string(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.get(..usize::try_from(u32::from_be_bytes(*len)).ok()?)
}

/// Wraps the armor as OpenSSH does.
fn wrapped(digits: &str) -> String {
    let mut armor = format!("{BEGIN}\n");
    for line in digits.as_bytes().chunks(LINE_LEN) {
        armor.extend(line.iter().map(|digit| char::from(*digit)));
        armor.push('\n');
    }
    armor + END + "\n"
}

/// Returns the kind of a key whose signatures are not checked.
fn not_checked(key: &KeyData) -> Option<String> {
    let is_checked = match key {
        KeyData::Ed25519(_) | KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_) => true,
        KeyData::Ecdsa(key) => key.curve() == EcdsaCurve::NistP256,
        KeyData::Rsa(key) => {
            let bits = key.n.as_positive_bytes().map_or(0, |bytes| bytes.len() * 8);
            if !RSA_BITS.contains(&bits) {
                return Some(format!("ssh-rsa of {bits} bits"));
            }
            true
        }
        // The enum is non-exhaustive: its crate may add to it.
        _ => false,
    };
    (!is_checked).then(|| key.algorithm().to_string())
}
