//! Signatures as Standard Webhooks defines them, for notices between siblings and for webhooks
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).

use base64ct::{Base64, Base64Unpadded, Encoding as _};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The prefix of a secret that is written in base64.
const SECRET_PREFIX: &str = "whsec_";

/// The prefix of a symmetric signature.
const SIGNATURE_PREFIX: &str = "v1,";

/// Returns the signing key of a secret: the decoded text after `whsec_`, or else the secret as it is.
///
/// # Errors
///
/// Returns what is wrong with the secret.
pub(crate) fn key(secret: &str) -> Result<Vec<u8>, &'static str> {
    match secret.strip_prefix(SECRET_PREFIX) {
        Some(encoded) => decoded(encoded).ok_or("begins with whsec_ and does not go on in base64"),
        None => Ok(secret.as_bytes().to_vec()),
    }
}

/// Returns the value of `webhook-signature`; `seconds` is that of `webhook-timestamp`.
pub(crate) fn signature(key: &[u8], id: &str, seconds: &str, body: &[u8]) -> String {
    let signature = signed(key, id, seconds, body).finalize();
    format!("{SIGNATURE_PREFIX}{}", Base64::encode_string(&signature.into_bytes()))
}

/// Reports whether one of the signatures in `webhook-signature` is of this key.
pub(crate) fn is_signed(key: &[u8], id: &str, seconds: &str, body: &[u8], signatures: &str) -> bool {
    let is_ours = |given: &str| {
        let given = Base64::decode_vec(given).unwrap_or_default();
        signed(key, id, seconds, body).verify_slice(&given).is_ok()
    };
    signatures.split(' ').filter_map(|each| each.strip_prefix(SIGNATURE_PREFIX)).any(is_ours)
}

fn signed(key: &[u8], id: &str, seconds: &str, body: &[u8]) -> Hmac<Sha256> {
    hmac_sha256(key, &[id.as_bytes(), b".", seconds.as_bytes(), b".", body])
}

/// Decodes base64; padding is optional.
fn decoded(encoded: &str) -> Option<Vec<u8>> {
    let decoded = Base64::decode_vec(encoded).or_else(|_| Base64Unpadded::decode_vec(encoded));
    decoded.ok().filter(|key| !key.is_empty())
}

/// HMAC-SHA256 (RFC 2104) of the parts of a message.
pub(crate) fn hmac_sha256(key: &[u8], message: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    message.iter().for_each(|part| mac.update(part));
    mac
}
