//! The policy file: bearer tokens and what they grant.
//!
//! ```yaml
//! # policy.yaml
//! tokens:
//!   - name: Mara                   # the actor: author of the commits
//!     email: mara@example.org      # optional; default: Mara@localhost
//!     hash: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//!     created: 2026-11-22T09:30:00Z  # optional; when the token was made
//!     expires: 2027-03-01          # optional; to the end of that day, or a time: 2027-03-01T12:00:00Z
//!     may: [read, audit]           # read, write, audit, operate
//!     keys: ["*"]                  # for which keys; without it nothing is granted
//!     grants:                      # optional; further rights, each for its own keys
//!       - {may: [write], keys: ["blog-*"]}
//! ```
//!
//! The file is read strictly: an unknown member, right or pattern is a fault, so that a typing error
//! never grants or revokes anything silently. Omitted members grant nothing, so a file that is cut off
//! between two lines never grants more than the whole one. For the same reason, the expiry of a token
//! is written before its grants. A name may have several tokens (when one replaces another), but each
//! hash is in the file only once. The file is written by hand, or by [`add`] and [`revoke`], which keep
//! every byte of the other tokens.

mod edit;
mod entry;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use chrono::{DateTime, Utc};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};

use crate::domain::{Actor, Expiry, Grant, KeyPattern, Right, SecretHash, Token};
pub use crate::format::policy::edit::{add, revoke};
pub use crate::format::policy::entry::NewToken;
use crate::format::{Fault, diagnose};

/// Maximum size of a policy file, in bytes.
pub const POLICY_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping with the list `tokens`")]
struct File {
    tokens: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a token with `name`, `hash` and what it may do")]
struct Entry {
    name: Checked<Name>,
    email: Option<Checked<Email>>,
    hash: Checked<SecretHash>,
    created: Option<Checked<DateTime<Utc>>>,
    expires: Option<Checked<Expiry>>,
    #[serde(default)]
    may: Vec<Checked<Right>>,
    #[serde(default, deserialize_with = "some_keys")]
    keys: Vec<Checked<KeyPattern>>,
    #[serde(default)]
    grants: Vec<Granted>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a grant with `may` and `keys`")]
struct Granted {
    may: Vec<Checked<Right>>,
    #[serde(default, deserialize_with = "some_keys")]
    keys: Vec<Checked<KeyPattern>>,
}

/// Reads a list of keys. A missing list grants nothing; an empty one is a mistake.
fn some_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Checked<KeyPattern>>, D::Error> {
    let keys = Vec::deserialize(deserializer)?;
    if keys.is_empty() {
        return Err(D::Error::custom("the list of keys is empty; write `[\"*\"]` for every key"));
    }
    Ok(keys)
}

/// A text that was checked while it was read, so that a fault has the position of the text.
struct Checked<T>(T);

/// A type into which a [`Checked`] text is parsed.
trait Check: Sized {
    fn check(text: &str) -> Result<Self, String>;
}

impl<'de, T: Check> Deserialize<'de> for Checked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Checking(PhantomData))
    }
}

struct Checking<T>(PhantomData<T>);

impl<T: Check> Visitor<'_> for Checking<T> {
    type Value = Checked<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Checked<T>, E> {
        T::check(text).map(Checked).map_err(E::custom)
    }
}

/// The name of a person or a program, as git shows it.
struct Name(String);

impl Check for Name {
    fn check(text: &str) -> Result<Self, String> {
        Actor::check_name(text).map(|()| Self(text.to_owned()))
    }
}

/// The address of a person or a program, as git shows it.
struct Email(String);

impl Check for Email {
    fn check(text: &str) -> Result<Self, String> {
        Actor::check_email(text).map(|()| Self(text.to_owned()))
    }
}

impl Check for SecretHash {
    fn check(text: &str) -> Result<Self, String> {
        let wrong = || "write `sha256:` and 64 hexadecimal digits, the hash of the secret".to_owned();
        Self::parse(text).ok_or_else(wrong)
    }
}

impl Check for Right {
    fn check(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        Self::parse(text).ok_or_else(|| format!("{text:?} is no right; there are {}", known()))
    }
}

impl Check for KeyPattern {
    fn check(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

impl Check for Expiry {
    fn check(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

impl Check for DateTime<Utc> {
    fn check(text: &str) -> Result<Self, String> {
        let time = DateTime::parse_from_rfc3339(text);
        time.map(|time| time.to_utc())
            .map_err(|_| format!("{text:?} is no time; write it as 2027-03-01T12:00:00Z"))
    }
}

/// Reads a policy file, strictly.
///
/// # Errors
///
/// Returns the first fault, at the position of the value, or of the token if the value has none.
pub fn read(bytes: &[u8]) -> Result<Vec<Token>, Fault> {
    if bytes.len() > POLICY_BYTES_MAX {
        return Err(Fault::at_start(format!("a policy file has at most {POLICY_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::at_start("a policy file is UTF-8 text"))?;
    let file: File = serde_yaml::from_str(text)
        .map_err(|error| diagnose::first(text).unwrap_or_else(|| fault(text, &error)))?;
    let tokens: Vec<Token> = file.tokens.into_iter().map(Token::from).collect();
    let mut hashes = HashSet::new();
    match tokens.iter().find(|token| !hashes.insert(token.secret_hash)) {
        Some(twice) => {
            Err(Fault::at_start(format!("the token of {:?} has the hash of another one", twice.actor.name())))
        }
        None => Ok(tokens),
    }
}

fn fault(text: &str, error: &serde_yaml::Error) -> Fault {
    let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
    // A missing member may be reported after the last line, where no editor can go.
    let line = line.min(text.lines().count().max(1));
    let message = error.to_string();
    // The fault has the position already.
    let end = message.rfind(" at line ").unwrap_or(message.len());
    Fault { line, column, message: message[..end].to_owned() }
}

impl From<Entry> for Token {
    fn from(entry: Entry) -> Self {
        let own = Granted { may: entry.may, keys: entry.keys };
        let all = std::iter::once(own).filter(|own| !own.may.is_empty()).chain(entry.grants);
        Self {
            actor: entry::actor(&entry.name.0.0, entry.email.as_ref().map(|email| &*email.0.0)),
            secret_hash: entry.hash.0,
            grants: all.map(Grant::from).collect(),
            created: entry.created.map(|created| created.0),
            expires: entry.expires.map(|expires| expires.0),
        }
    }
}

impl From<Granted> for Grant {
    fn from(granted: Granted) -> Self {
        Self {
            rights: granted.may.into_iter().map(|right| right.0).collect(),
            keys: granted.keys.into_iter().map(|pattern| pattern.0).collect(),
        }
    }
}

/// Helpers for the tests here and of the command line.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A token to add; its hash depends on the length of the name.
    pub(crate) fn token(name: &str) -> NewToken {
        NewToken {
            name: name.into(),
            email: None,
            secret_hash: SecretHash::new([name.len() as u8; 32]),
            grants: vec![Grant {
                rights: vec![Right::Read, Right::Write],
                keys: vec![KeyPattern::parse("blog-*").unwrap()],
            }],
            created: None,
            expires: None,
        }
    }
}
