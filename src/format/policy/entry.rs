//! How a token is written into a policy file.

use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::domain::{Actor, Expiry, Grant, SecretHash, Token};

/// A token to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The name of the actor.
    pub name: String,
    /// The e-mail address of the actor.
    pub email: Option<String>,
    /// What is kept of the secret.
    pub secret_hash: SecretHash,
    /// What it allows; none of them is empty.
    pub grants: Vec<Grant>,
    /// When it was made, to the second.
    pub created: Option<DateTime<Utc>>,
    /// Until when it is good.
    pub expires: Option<Expiry>,
}

impl NewToken {
    /// What the file will be read as.
    pub(crate) fn granted(&self) -> Token {
        Token {
            actor: actor(&self.name, self.email.as_deref()),
            secret_hash: self.secret_hash,
            grants: self.grants.iter().cloned().collect(),
            created: self.created,
            expires: self.expires,
        }
    }

    /// The members and their values, each as YAML that is a line long; what ends a token stands
    /// before what it grants.
    fn members(&self) -> Vec<(&'static str, String)> {
        let mut members = vec![("name", scalar(&self.name))];
        members.extend(self.email.as_deref().map(|email| ("email", scalar(email))));
        members.push(("hash", self.secret_hash.to_string()));
        members.extend(self.created.map(|time| ("created", time.to_rfc3339_opts(SecondsFormat::Secs, true))));
        members.extend(self.expires.map(|expiry| ("expires", expiry.to_string())));
        members.extend(
            self.grants.first().into_iter().flat_map(|own| [("may", rights(own)), ("keys", keys(own))]),
        );
        members
    }

    /// An item of a list below `tokens:`.
    pub(crate) fn item(&self, indent: &str) -> String {
        let mut text = String::new();
        let mut mark = "- ";
        for (name, value) in self.members() {
            line(&mut text, &format!("{indent}{mark}{name}: {value}"));
            mark = "  ";
        }
        let further = self.grants.get(1..).unwrap_or_default();
        if !further.is_empty() {
            line(&mut text, &format!("{indent}  grants:"));
        }
        for grant in further {
            line(&mut text, &format!("{indent}    - {}", in_braces(grant)));
        }
        text
    }

    /// An item as a value in braces, for a list of tokens in brackets.
    pub(crate) fn flow_item(&self) -> String {
        let mut members = self.members();
        if let Some(further) = self.grants.get(1..).filter(|further| !further.is_empty()) {
            let further: Vec<_> = further.iter().map(in_braces).collect();
            members.push(("grants", format!("[{}]", further.join(", "))));
        }
        let members: Vec<_> = members.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        format!("{{{}}}", members.join(", "))
    }
}

/// The actor of a token; without an e-mail address it has one that leads nowhere.
pub(crate) fn actor(name: &str, email: Option<&str>) -> Actor {
    let local = || name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect::<String>();
    match email {
        Some(email) => Actor::new(name, email),
        None => Actor::new(name, &format!("{}@localhost", local())),
    }
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes everything");
}

fn in_braces(grant: &Grant) -> String {
    format!("{{may: {}, keys: {}}}", rights(grant), keys(grant))
}

fn rights(grant: &Grant) -> String {
    let rights: Vec<_> = grant.may.iter().map(|right| right.as_str()).collect();
    format!("[{}]", rights.join(", "))
}

fn keys(grant: &Grant) -> String {
    let keys: Vec<_> = grant.keys.iter().map(|pattern| format!("\"{pattern}\"")).collect();
    format!("[{}]", keys.join(", "))
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
