//! The shared secret with which git hosts and siblings sign their notices, each in its own way.

use std::fmt;

use chrono::{DateTime, Utc};
use hmac::Mac as _;
use sha2::{Digest as _, Sha256};
use warp::http::HeaderMap;

use crate::domain::unhex;
use crate::http::standard_webhooks::{self, hmac_sha256};

/// How far a sibling's timestamp may be from the current time (Standard Webhooks, `webhook-timestamp`).
const AGE_S_MAX: i64 = 300;

/// The signature headers of GitHub, Gitea, GitLab (which sends the secret itself) and a sibling.
const SIGNATURES: [&str; 4] =
    ["x-hub-signature-256", "x-gitea-signature", "x-gitlab-token", "webhook-signature"];

/// A secret shared with the senders of change notices.
#[derive(Clone)]
pub struct NoticeSecret {
    text: String,
    /// The Standard Webhooks signing key: the decoded text after `whsec_`, or else the secret as it is.
    key: Vec<u8>,
}

impl fmt::Debug for NoticeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoticeSecret(..)")
    }
}

impl NoticeSecret {
    /// Parses a secret.
    ///
    /// # Errors
    ///
    /// Returns why the text is not a secret.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.is_empty() {
            return Err("is empty");
        }
        Ok(Self { text: text.to_owned(), key: standard_webhooks::key(text)? })
    }

    /// Signs a notice as Standard Webhooks does and returns the headers to send with it.
    #[must_use]
    pub fn sign(&self, id: &str, at: DateTime<Utc>, body: &[u8]) -> [(&'static str, String); 3] {
        let seconds = at.timestamp().to_string();
        let signature = standard_webhooks::signature(&self.key, id, &seconds, body);
        [("webhook-id", id.to_owned()), ("webhook-timestamp", seconds), ("webhook-signature", signature)]
    }

    /// Whether a request carries a signature of any kind.
    pub(crate) fn is_claimed(headers: &HeaderMap) -> bool {
        SIGNATURES.iter().any(|name| headers.contains_key(*name))
    }

    /// Whether the request's signature was made with this secret.
    pub(crate) fn has_signed(&self, headers: &HeaderMap, body: &[u8], now: DateTime<Utc>) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let is_digest = |given: &str| {
            let given = unhex::<32>(given);
            given.is_some_and(|given| hmac_sha256(self.text.as_bytes(), &[body]).verify_slice(&given).is_ok())
        };
        let [of_github, of_gitea, of_gitlab, of_a_sibling] = SIGNATURES;
        if let Some(given) = text(of_github).and_then(|given| given.strip_prefix("sha256=")) {
            return is_digest(given);
        }
        if let Some(given) = text(of_gitea) {
            return is_digest(given);
        }
        if let Some(given) = text(of_gitlab) {
            // The digests are compared so that timing reveals nothing about the secret.
            return Sha256::digest(given) == Sha256::digest(&self.text);
        }
        let (Some(id), Some(seconds), Some(given)) =
            (text("webhook-id"), text("webhook-timestamp"), text(of_a_sibling))
        else {
            return false;
        };
        let is_recent =
            seconds.parse::<i64>().is_ok_and(|at| at.abs_diff(now.timestamp()) <= AGE_S_MAX.unsigned_abs());
        is_recent && standard_webhooks::is_signed(&self.key, id, seconds, body, given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, String)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn each_host_signs_in_its_own_way() {
        // The example of https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
        let secret = NoticeSecret::new("It's a Secret to Everybody\n").unwrap();
        let (body, now) = (b"Hello, World!", DateTime::UNIX_EPOCH);
        let digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let is_ours = |name, value: &str| secret.has_signed(&headers(&[(name, value.to_owned())]), body, now);
        assert!(is_ours("x-hub-signature-256", &format!("sha256={digest}")));
        assert!(is_ours("x-gitea-signature", digest));
        assert!(is_ours("x-gitlab-token", "It's a Secret to Everybody"));
        assert!(!is_ours("x-hub-signature-256", &format!("sha256={}", digest.replace('7', "8"))));
        assert!(!is_ours("x-hub-signature-256", digest));
        assert!(!is_ours("x-gitlab-token", "It's a Secret to Everybod"));
        assert!(!secret.has_signed(&HeaderMap::new(), body, now));
    }

    #[test]
    fn a_sibling_signs_with_the_decoded_secret_and_the_time() {
        // The example of https://github.com/standard-webhooks/standard-webhooks
        let secret = NoticeSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let now = DateTime::from_timestamp(1_614_265_330, 0).unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signed = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", now, body);
        assert_eq!(signed[2].1, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(secret.has_signed(&headers(&signed), body, now));
        let late = now + chrono::TimeDelta::seconds(AGE_S_MAX + 1);
        assert!(!secret.has_signed(&headers(&signed), body, late));
        assert!(!secret.has_signed(&headers(&signed), b"{}", now));
    }

    #[test]
    fn a_secret_that_says_it_is_encoded_is_so_or_none() {
        assert_eq!(NoticeSecret::new("whsec_AAEC\n").unwrap().key, [0, 1, 2]);
        assert_eq!(NoticeSecret::new("whsec_AAE").unwrap().key, [0, 1], "padding may be missing");
        assert_eq!(NoticeSecret::new("plain !!!").unwrap().key, b"plain !!!");
        for text in ["whsec_!!!", "whsec_", "whsec_A", "whsec_AAEC=", " \n"] {
            assert!(NoticeSecret::new(text).is_err(), "{text}");
        }
    }
}
