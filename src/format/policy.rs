//! The policy file: bearer tokens and what they grant.
//!
//! ```yaml
//! # policy.yaml
//! tokens:
//!   - name: Mara                   # the actor: author of the commits
//!     email: mara@example.org      # optional; Mara@localhost without it
//!     hash: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//!     may: [read, write, audit]
//!     keys: ["blog-*"]             # optional; every key without it
//! ```
//!
//! It is read strictly: an unknown member, permission or pattern is a fault, so that a typing
//! error never grants or takes anything in silence. Two tokens may share a name (one of them is
//! about to replace the other), but never a secret. It is written by hand, or by [`add`], which
//! leaves every byte that is there as it is.

mod shape;

use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::marker::PhantomData;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};

use super::Fault;
use crate::domain::{Actor, Grant, KeyPattern, Permission};

/// The most bytes a policy file has.
pub const POLICY_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    name: Checked<Name>,
    email: Option<Checked<Email>>,
    hash: Checked<SecretHash>,
    may: Vec<Checked<Permission>>,
    #[serde(default, deserialize_with = "some_keys")]
    keys: Option<Vec<Checked<KeyPattern>>>,
}

/// No member means every key; a member without a value must not mean the same.
fn some_keys<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Checked<KeyPattern>>>, D::Error> {
    let keys = Vec::deserialize(deserializer)?;
    if keys.is_empty() {
        return Err(D::Error::custom("the list of keys is empty; leave `keys` out for every key"));
    }
    Ok(Some(keys))
}

/// A text that was checked while it was read, so that a fault has the place of the text.
struct Checked<T>(T);

/// What a [`Checked`] text becomes.
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

struct SecretHash([u8; 32]);

impl Check for SecretHash {
    fn check(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64);
        digits
            .and_then(bytes)
            .map(Self)
            .ok_or_else(|| "write `sha256:` and 64 hexadecimal digits, the hash of the secret".into())
    }
}

fn bytes(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? * 16 + low?).ok()?;
    }
    Some(bytes)
}

impl Check for Permission {
    fn check(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        Self::parse(text).ok_or_else(|| format!("{text:?} is no permission; there are {}", known()))
    }
}

impl Check for KeyPattern {
    fn check(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

/// Reads a policy file, strictly.
///
/// # Errors
///
/// Returns the first fault; its place is the value's, or the token's where the value has none.
pub fn read(bytes: &[u8]) -> Result<Vec<Grant>, Fault> {
    if bytes.len() > POLICY_BYTES_MAX {
        return Err(at_start(format!("a policy file has at most {POLICY_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| at_start("a policy file is UTF-8 text"))?;
    let file: File = serde_yaml::from_str(text).map_err(|error| fault(text, &error))?;
    let grants: Vec<Grant> = file.tokens.into_iter().map(Grant::from).collect();
    let mut hashes = HashSet::new();
    match grants.iter().find(|grant| !hashes.insert(grant.secret_hash)) {
        Some(twice) => {
            Err(at_start(format!("the token of {:?} has the hash of another one", twice.actor.name())))
        }
        None => Ok(grants),
    }
}

fn at_start(message: impl Into<String>) -> Fault {
    Fault { line: 1, column: 1, message: message.into() }
}

fn fault(text: &str, error: &serde_yaml::Error) -> Fault {
    let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
    // What is missing is missed behind the last line, where no editor goes.
    let line = line.min(text.lines().count().max(1));
    let message = error.to_string();
    // The place stands in the fault already.
    let end = message.rfind(" at line ").unwrap_or(message.len());
    Fault { line, column, message: message[..end].to_owned() }
}

impl From<Token> for Grant {
    fn from(token: Token) -> Self {
        Self {
            actor: actor(&token.name.0.0, token.email.as_ref().map(|email| &*email.0.0)),
            secret_hash: token.hash.0.0,
            may: token.may.into_iter().map(|may| may.0).collect(),
            keys: token.keys.map(|keys| keys.into_iter().map(|key| key.0).collect()),
        }
    }
}

/// The actor of a token; without an e-mail address it has one that leads nowhere.
fn actor(name: &str, email: Option<&str>) -> Actor {
    let local = || name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect::<String>();
    match email {
        Some(email) => Actor::new(name, email),
        None => Actor::new(name, &format!("{}@localhost", local())),
    }
}

/// A token to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The name of the actor.
    pub name: String,
    /// The e-mail address of the actor.
    pub email: Option<String>,
    /// The SHA-256 of the secret.
    pub secret_hash: [u8; 32],
    /// What it allows.
    pub may: Vec<Permission>,
    /// To which collections; `None` for all of them.
    pub keys: Option<Vec<KeyPattern>>,
}

/// Why a token was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// The file is broken as it is.
    #[error("{}:{}: {}", .0.line, .0.column, .0.message)]
    Broken(Fault),
    /// There is a token with this name.
    #[error("there is a token of {0:?} already; take another name, or remove that token first")]
    NameTaken(String),
    /// The name or the e-mail address can't be an author's.
    #[error("{0}")]
    Author(String),
    /// The list of tokens is written in a way that can't be added to at its end.
    #[error(
        "the list of tokens can't be added to as it is written; write it as `tokens:` and below it one `  - name: ...` a token, and try again"
    )]
    Shape,
}

/// The text of a policy file with one more token; every byte of `old` is kept, `None` makes a
/// new file.
///
/// # Errors
///
/// Refuses a broken file, a taken name, a name or address that git would alter, and a file that would not read as the old tokens and the
/// new one.
pub fn add(old: Option<&str>, token: &NewToken) -> Result<String, AddError> {
    Actor::check_name(&token.name).map_err(AddError::Author)?;
    token.email.as_deref().map_or(Ok(()), Actor::check_email).map_err(AddError::Author)?;
    let Some(old) = old else {
        return Ok(format!("{HEADING}tokens:\n{}", entry(token, "  ")));
    };
    if old.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        let line_end = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
        return Ok(format!("{old}{line_end}tokens:\n{}", entry(token, "  ")));
    }
    let before = read(old.as_bytes()).map_err(AddError::Broken)?;
    if before.iter().any(|grant| grant.actor.name() == token.name) {
        return Err(AddError::NameTaken(token.name.clone()));
    }
    // Whatever the file looks like, the proof is in the reading.
    let expected: Vec<Grant> = before.into_iter().chain([granted(token)]).collect();
    let is_right = |text: &String| read(text.as_bytes()).as_ref() == Ok(&expected);
    shape::candidates(old, token).find(is_right).ok_or(AddError::Shape)
}

const HEADING: &str = "\
# Who may do what in Collectory. What is not granted here is denied.
# The secret of a token is nowhere; `hash` is its SHA-256. Add one: collectory token NAME --policy FILE
";

/// The same as a value in braces, for a list in brackets.
fn flow_entry(token: &NewToken) -> String {
    let mut entry = serde_json::Map::new();
    entry.insert("name".to_owned(), token.name.as_str().into());
    entry.extend(token.email.as_deref().map(|email| ("email".to_owned(), email.into())));
    entry.insert("hash".to_owned(), hash(token).into());
    entry.insert("may".to_owned(), token.may.iter().map(|may| may.as_str()).collect());
    let keys = token.keys.as_ref().map(|keys| keys.iter().map(ToString::to_string).collect());
    entry.extend(keys.map(|keys| ("keys".to_owned(), keys)));
    serde_json::Value::Object(entry).to_string()
}

fn hash(token: &NewToken) -> String {
    let digits = token.secret_hash.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a string takes everything");
        digits
    });
    format!("sha256:{digits}")
}

fn entry(token: &NewToken, indent: &str) -> String {
    let mut text = format!("{indent}- name: {}\n", scalar(&token.name));
    let mut member = |name: &str, value: &str| {
        writeln!(text, "{indent}  {name}: {value}").expect("a string takes everything");
    };
    if let Some(email) = &token.email {
        member("email", &scalar(email));
    }
    member("hash", &hash(token));
    member("may", &format!("[{}]", token.may.iter().map(|may| may.as_str()).collect::<Vec<_>>().join(", ")));
    if let Some(keys) = &token.keys {
        member(
            "keys",
            &format!("[{}]", keys.iter().map(|key| format!("\"{key}\"")).collect::<Vec<_>>().join(", ")),
        );
    }
    text
}

fn granted(token: &NewToken) -> Grant {
    Grant {
        actor: actor(&token.name, token.email.as_deref()),
        secret_hash: token.secret_hash,
        may: token.may.clone(),
        keys: token.keys.clone(),
    }
}

/// Plain where no reader of YAML could take it for anything but a text, else in double quotes:
/// a string of JSON is one of YAML too.
fn scalar(text: &str) -> String {
    let is_word =
        |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '@' | '.' | '_'));
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let reserved = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let is_plain = begins_well
        && !reserved.contains(&text.to_ascii_lowercase().as_str())
        && text.split(' ').all(|word| !word.is_empty() && is_word(word));
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// What tests here and of the command line share.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A token to be added; its hash differs with the length of the name.
    pub(crate) fn token(name: &str) -> NewToken {
        NewToken {
            name: name.into(),
            email: None,
            secret_hash: [name.len() as u8; 32],
            may: vec![Permission::Read, Permission::Write],
            keys: Some(vec![KeyPattern::parse("blog-*").unwrap()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::token;
    use super::*;

    const TWO: &str = "\
# Ask Mara before changing this.
tokens:
  - name: Mara   # the editor
    email: mara@example.org
    hash: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    may: [read, write]
  - {name: \"The build\", hash: 'sha256:0000000000000000000000000000000000000000000000000000000000000000', may: [read], keys: [a, \"b-*\"]}
";

    #[test]
    fn a_policy_grants_what_it_says() {
        let grants = read(TWO.as_bytes()).unwrap();
        assert_eq!(grants[0].actor, Actor::new("Mara", "mara@example.org"));
        assert_eq!(grants[0].secret_hash[..3], [0x9f, 0x86, 0xd0]);
        assert!(grants[0].permits(Permission::Write) && grants[0].keys.is_none());
        assert_eq!(grants[1].actor, Actor::new("The build", "The-build@localhost"));
        assert!(!grants[1].permits(Permission::Write));
        assert_eq!(grants[1].keys.as_ref().unwrap().len(), 2);
        assert_eq!(read(b"tokens: []"), Ok(Vec::new()));
        assert_eq!(read(b"tokens:"), Ok(Vec::new()));
    }

    #[test]
    fn every_mistake_is_a_fault_with_its_line() {
        let with = |member: &str| {
            format!(
                "tokens:\n  - name: A\n    hash: sha256:{}\n    may: [read]\n    {member}\n",
                "0".repeat(64)
            )
        };
        for (text, line, part) in [
            (String::new(), 1, "tokens"),
            ("token: []".into(), 1, "unknown field"),
            (" ".into(), 1, ""),
            ("# nothing".into(), 1, ""),
            ("tokens: 5".into(), 1, "sequence"),
            ("tokens: [".into(), 1, ""),
            (with("key: [a]"), 5, "unknown field `key`"),
            (with("keys: a"), 5, "sequence"),
            (with("keys:"), 2, "the list of keys is empty"),
            (with("keys: []"), 2, "the list of keys is empty"),
            (with("keys: [\"a/b\"]"), 5, "no pattern of keys"),
            (with("may: [read]"), 2, "duplicate"),
            (with("email: []"), 5, "string"),
            (with("email: a<b"), 5, "e-mail"),
            ("tokens:\n  - name: A\n    hash: sha256:12\n    may: []\n".into(), 3, "64 hexadecimal digits"),
            ("tokens:\n  - name: A\n    hash: x\n    may: []\n".into(), 3, "sha256"),
            (with("keys: [a]").replace("[read]", "[raed]"), 4, "no permission; there are read, write, audit"),
            (with("keys: [a]").replace("name: A", "name: \"<\""), 2, "can't be the name"),
            ("tokens:\n  - name: A\n    may: []\n".into(), 2, "missing field `hash`"),
        ] {
            let fault = read(text.as_bytes()).expect_err(&text);
            assert!(fault.message.contains(part), "{text}: {fault:?}");
            assert_eq!(fault.line, line, "{text}: {fault:?}");
        }
        let twice = format!("{}{}", with("keys: [a]"), with("keys: [a]").replace("tokens:\n", ""));
        assert!(read(twice.as_bytes()).unwrap_err().message.contains("the hash of another one"));
    }

    #[test]
    fn a_token_is_added_below_what_is_there() {
        let new = add(Some(TWO), &token("Ann")).unwrap();
        let expected = format!(
            "{TWO}  - name: Ann\n    hash: sha256:{}\n    may: [read, write]\n    keys: [\"blog-*\"]\n",
            "03".repeat(32)
        );
        assert_eq!(new, expected);
    }

    #[test]
    fn a_token_is_added_to_every_shape_of_list_that_has_an_end() {
        let item = format!("- name: A\n  hash: sha256:{}\n  may: []", "0".repeat(64));
        for old in [
            "tokens:".to_owned(),
            "tokens: []\n".to_owned(),
            "tokens: [] # none yet\n# the end".to_owned(),
            format!("tokens:\n{item}"),
            format!("tokens:\n\n{item}\n\n# the end\n"),
            format!("---\ntokens:\n    {}\n", item.replace('\n', "\n    ")),
        ] {
            let new = add(Some(&old), &token("B")).unwrap();
            let count = read(new.as_bytes()).unwrap().len();
            assert_eq!(count, 1 + usize::from(old.contains("- name")), "{new}");
        }
    }

    #[test]
    fn a_token_is_added_to_lists_in_brackets_and_before_the_end_of_the_document() {
        let hash = format!("sha256:{}", "0".repeat(64));
        for old in [
            format!("tokens: [{{name: A, hash: \"{hash}\", may: [read]}}]\n"),
            format!("tokens: [\n  {{name: A, hash: \"{hash}\", may: []}}, # one\n] # [the end]\n"),
            format!("{{\"tokens\": [{{\"name\": \"A\", \"hash\": \"{hash}\", \"may\": [\"read\"]}}]}}"),
            "{tokens: [ ]}".to_owned(),
            format!("{TWO}...\n"),
            "# my policy".to_owned(),
            String::new(),
        ] {
            let before = read(old.as_bytes()).map_or(0, |grants| grants.len());
            let new = add(Some(&old), &token("B")).unwrap_or_else(|error| panic!("{error} in {old}"));
            let grants = read(new.as_bytes()).unwrap();
            assert_eq!((grants.len(), grants.last()), (before + 1, Some(&granted(&token("B")))), "{new}");
            assert!(!old.contains('#') || new.contains(&old[old.find('#').unwrap()..][..5]), "{new}");
        }
    }

    #[test]
    fn a_list_that_can_not_be_added_to_is_left_alone() {
        let old = format!("x: &x [{{name: A, hash: sha256:{}, may: []}}]\ntokens: *x\n", "0".repeat(64));
        assert!(add(Some(&old), &token("B")).is_err());
    }

    #[test]
    fn a_taken_or_impossible_name_is_refused() {
        assert_eq!(add(Some(TWO), &token("Mara")), Err(AddError::NameTaken("Mara".into())));
        assert!(matches!(add(None, &token("")), Err(AddError::Author(_))));
        let altered = NewToken { email: Some("not an email <".into()), ..token("B") };
        assert!(matches!(add(None, &altered), Err(AddError::Author(_))));
        assert!(matches!(add(Some("tokens: 5"), &token("B")), Err(AddError::Broken(_))));
    }

    #[test]
    fn any_name_and_address_reads_back() {
        for name in ["Mara", "no", "Zoë O'Neil", "a: b", "# x", "42", "x\"y\\z", "build-bot", "true"] {
            let new = NewToken { email: Some("o'neil+x@example.org".into()), ..token(name) };
            let text = add(None, &new).unwrap();
            assert_eq!(read(text.as_bytes()).unwrap(), [granted(&new)], "{text}");
        }
    }
}
