//! The webhooks file: the receivers of events.
//!
//! ```yaml
//! # webhooks.yaml
//! - name: search                  # optional; default: the URL up to its query
//!   url: https://search.example.org/settings
//!   secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw    # Standard Webhooks: whsec_ and base64
//!   keys: ["blog-*"]              # optional; default: every key
//!   actions: [created, deleted]   # optional; default: created, updated and deleted
//!   since: 9fceb02                # optional; where a new receiver begins; default: now
//! ```
//!
//! The list may also be below `webhooks:`. It is read strictly: an unknown member is a fault.

use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;

use base64ct::{Base64, Base64Unpadded, Encoding as _};
use serde::Deserialize;

use crate::domain::KeyPattern;
use crate::format::Fault;

/// The prefix of a secret.
const SECRET_PREFIX: &str = "whsec_";

/// A receiver, and the events that it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// The unique name.
    pub name: String,
    /// The URL to which deliveries are sent.
    pub url: String,
    /// The secret that signs deliveries.
    pub secret: Secret,
    /// The keys whose events it gets; empty for all.
    pub keys: Vec<KeyPattern>,
    /// The actions whose events it gets; empty for all.
    pub actions: Vec<String>,
    /// Where a new receiver begins in the history; `None` for now.
    pub since: Option<String>,
}

/// A secret, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum File {
    List(Vec<serde_yaml::Value>),
    Named { webhooks: Vec<serde_yaml::Value> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a receiver with `url` and `secret`")]
struct Entry {
    name: Option<String>,
    url: String,
    secret: String,
    #[serde(default)]
    keys: Vec<String>,
    #[serde(default)]
    actions: Vec<String>,
    since: Option<String>,
}

/// Reads the receivers that a file lists.
///
/// # Errors
///
/// Returns the first fault; the message for an invalid receiver has its number.
pub fn read(bytes: &[u8]) -> Result<Vec<Receiver>, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::at_start("a file of webhooks is UTF-8 text"))?;
    let file: File = serde_yaml::from_str(text).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
        Fault { line, column, message: "write a list of receivers, each with `url` and `secret`".to_owned() }
    })?;
    let (File::List(entries) | File::Named { webhooks: entries }) = file;
    let mut names = HashSet::new();
    let mut receivers = Vec::new();
    for (number, entry) in entries.into_iter().enumerate() {
        let read = serde_yaml::from_value(entry).map_err(|error| error.to_string()).and_then(receiver);
        let receiver = read.map_err(|why| Fault::at_start(format!("receiver {}: {why}", number + 1)))?;
        if !names.insert(receiver.name.clone()) {
            return Err(Fault::at_start(format!(
                "receiver {}: there is another {:?}",
                number + 1,
                receiver.name
            )));
        }
        receivers.push(receiver);
    }
    Ok(receivers)
}

fn receiver(entry: Entry) -> Result<Receiver, String> {
    if !["http://", "https://"].iter().any(|scheme| entry.url.starts_with(scheme)) {
        return Err("`url` begins with https:// (or http://)".to_owned());
    }
    let authority = entry.url.split(['/', '?', '#']).nth(2).unwrap_or_default();
    if authority.is_empty() || authority.contains('@') {
        return Err("`url` has a host, and no user: deliveries are signed with the secret".to_owned());
    }
    // The query may contain a secret, and names are shown.
    let place = entry.url.split(['?', '#']).next().unwrap_or_default().to_owned();
    Ok(Receiver {
        name: entry.name.unwrap_or(place),
        secret: secret(&entry.secret)?,
        url: entry.url,
        keys: entry.keys.iter().map(|text| KeyPattern::parse(text)).collect::<Result<_, _>>()?,
        actions: entry.actions,
        since: entry.since,
    })
}

/// How many bytes a secret may have (Standard Webhooks, "Signature scheme").
const SECRET_BYTES: RangeInclusive<usize> = 24..=64;

/// Parses a secret in the form of Standard Webhooks; padding may be missing.
fn secret(text: &str) -> Result<Secret, String> {
    let wrong = || format!("`secret` is {SECRET_PREFIX} and 24 to 64 bytes of chance in base64");
    let encoded = text.strip_prefix(SECRET_PREFIX).ok_or_else(wrong)?;
    let decoded = Base64::decode_vec(encoded).or_else(|_| Base64Unpadded::decode_vec(encoded));
    decoded.ok().filter(|bytes| SECRET_BYTES.contains(&bytes.len())).map(Secret).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_list_may_stand_by_itself_or_below_its_name() {
        let item = format!(
            "- {{url: 'https://a.example/x?token=y', secret: {SECRET}, keys: ['blog-*'], since: 9fceb02}}\n"
        );
        let alone = read(item.as_bytes()).unwrap();
        assert_eq!((alone[0].name.as_str(), alone[0].secret.0.len()), ("https://a.example/x", 24));
        assert_eq!(read(format!("webhooks:\n{item}").as_bytes()).unwrap(), alone);
        assert_eq!(read(b"[]\n").unwrap(), []);
        let queried = format!("- {{url: 'https://a.example?to=me@b.example', secret: {SECRET}}}\n");
        assert_eq!(read(queried.as_bytes()).unwrap()[0].name, "https://a.example", "its host has no user");
        assert!(!format!("{alone:?}").contains("49"), "no byte of a secret is shown");
    }

    #[test]
    fn a_fault_is_told_with_its_receiver() {
        for (text, part) in [
            ("{}", "write a list"),
            ("webhooks: []\nwebhoks: []", "write a list"),
            ("- 1", "receiver 1: invalid type: integer `1`, expected a receiver with `url` and `secret`"),
            ("- {url: 'https://a.example'}", "receiver 1: missing field `secret`"),
            ("- {url: 'ftp://a.example', secret: whsec_AAAA}", "`url` begins with https://"),
            ("- {url: 'https://me:pw@a.example', secret: whsec_AAAA}", "no user"),
            ("- {url: 'https://', secret: whsec_AAAA}", "has a host"),
            ("- {url: 'https://?a=b', secret: whsec_AAAA}", "has a host"),
            ("- {url: 'https://a.example', secret: AAAA}", "`secret` is whsec_"),
            ("- {url: 'https://a.example', secret: whsec_}", "`secret` is whsec_"),
            ("- {url: 'https://a.example', secret: whsec_AAAA}", "24 to 64 bytes"),
            ("- {url: 'https://a.example', secret: whsec_AAAA, kyes: []}", "unknown field `kyes`"),
            ("- {url: 'https://a.example', secret: whsec_AAAA, keys: [a/b]}", "receiver 1"),
        ] {
            let fault = read(text.as_bytes()).unwrap_err();
            assert!(fault.message.contains(part), "{text}: {}", fault.message);
        }
        let twice = format!(
            "- {{name: a, url: 'http://a', secret: {SECRET}}}\n- {{name: a, url: 'http://b', secret: {SECRET}}}\n"
        );
        assert!(read(twice.as_bytes()).unwrap_err().message.contains("receiver 2: there is another"));
    }
}
